// Whether a gateway does its work, for the trial of a new version.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { worksSince } from '../../../../src/gateway/guard/works'

type Status = ReturnType<Parameters<typeof worksSince>[0]>

test('a gateway works when an upstream accepted a fact since the start, its log is written, and it is not in safe mode', () => {
  const status = { log: { state: 'ok' }, forwarding: { cursor: 70 } } as unknown as {
    -readonly [K in keyof Status]: Status[K]
  }
  const works = worksSince(() => status)
  assert.equal(works(), false, 'nothing was sent since the start')
  assert.equal(works(), false)
  status.forwarding!.cursor = 71
  assert.equal(works(), true)
  status.safe_mode = 'five crashes'
  assert.equal(works(), false)
  delete status.safe_mode
  Object.assign(status.log, { state: 'degraded' })
  assert.equal(works(), false)
  Object.assign(status.log, { state: 'ok' })
  delete status.forwarding
  assert.equal(works(), true, 'a node without uplinks')
})
