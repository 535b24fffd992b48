import assert from 'node:assert/strict'
import { test } from 'node:test'
import { queueName } from '../../../../src/gateway/uplink/migrate'
import { MemLog } from '../../../lib/memlog'
import { logOfCorpus, openLog } from '../../log/helpers'

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

test('a log with cursors per uplink, written by the code of that day, is sent from the lowest one on, and keeps the shared cursor', async () => {
  const files = logOfCorpus('2026-11-21-per-uplink')
  const { log } = await openLog({ files })
  // office had 9 of 16 facts, broker 7, gone 4, the local upstream 14
  const cursors = { 'uplink:office': 13, 'uplink:broker': 8, 'uplink:gone': 5, 'uplink:loopback': 18 }
  assert.deepEqual(log.cursorNames().sort(), Object.keys(cursors).sort())
  for (const [name, seq] of Object.entries(cursors)) assert.equal(log.cursor(name), seq, name)
  assert.equal(queueName(log, false, [{ name: 'office' }, { name: 'broker' }]), 'uplinks')
  const next = [...log.read(log.cursor('uplinks')! + 1, { kinds: ['fact'], limit: 1 })]
  assert.deepEqual(
    next.map(({ fact }) => fact?.tRaw),
    [1_710_000_008_000],
  )
  await log.close()
  const again = (await openLog({ files })).log
  assert.deepEqual(
    again.cursorNames().map(name => [name, again.cursor(name)]),
    [
      ['uplink:loopback', 18],
      ['uplinks', 8],
    ],
  )
})
