import assert from 'node:assert/strict'
import { test } from 'node:test'
import { queueName } from '../../../../src/gateway/uplink/migrate'
import { MemLog } from '../../../lib/memlog'

test('of old cursors the lowest of the configured uplinks counts, once; without those the lowest of all; the local upstream keeps its own', () => {
  const log = new MemLog()
  const list = [{ name: 'a' }, { name: 'b' }]
  const cursors = (): [string, number][] => [...log.cursors]
  assert.equal(queueName(log, false, list), 'uplinks')
  assert.deepEqual(cursors(), [])
  for (const [name, seq] of Object.entries({ a: 9, b: 7, gone: 5, loopback: 3 }))
    log.appendCursor(`uplink:${name}`, seq)
  assert.equal(queueName(log, true, []), 'uplink:loopback')
  assert.equal(log.cursors.size, 4)
  assert.equal(queueName(log, false, list), 'uplinks')
  assert.deepEqual(cursors(), [
    ['uplink:loopback', 3],
    ['uplinks', 7],
  ])
  log.appendCursor('uplink:a', 2)
  queueName(log, false, list)
  assert.deepEqual(
    cursors(),
    [
      ['uplink:loopback', 3],
      ['uplinks', 7],
    ],
    'a shared one is never moved back',
  )
  log.appendCursor('uplinks', 0)
  for (const [name, seq] of Object.entries({ gone: 6, old: 5 })) log.appendCursor(`uplink:${name}`, seq)
  queueName(log, false, list)
  assert.deepEqual(cursors(), [
    ['uplink:loopback', 3],
    ['uplinks', 5],
  ])
})
