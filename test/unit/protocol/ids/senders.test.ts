// What the quotas store about senders: bytes a second.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Allowance } from '../../../../src/protocol/ids/senders'

test('an allowance starts with one second of bytes, gains a thousandth of that each millisecond, and never exceeds it', () => {
  const allowance = new Allowance(1000, 0)
  assert.ok(allowance.has(1000, 0) && !allowance.has(1001, 0))
  allowance.take(1000)
  assert.ok(!allowance.has(1, 0))
  assert.ok(allowance.has(1, 1) && !allowance.has(2, 1))
  assert.ok(allowance.has(500, 500))
  assert.ok(allowance.has(1000, 90_000) && !allowance.has(1001, 90_000))
})
