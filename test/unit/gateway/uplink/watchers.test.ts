import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SentWatchers } from '../../../../src/gateway/uplink/watchers'

test('a watcher is notified of its own record only, of a packet in the exchange twice, and of nothing later', () => {
  const watchers = new SentWatchers()
  const told: string[] = []
  const every: string[] = []
  const packet = Uint8Array.of(1)
  for (const seq of [1, 2, 3, 4]) watchers.watch(seq, ({ state }) => told.push(`${seq} ${state}`))
  watchers.sent(1, packet, 'UDP', 'best_effort')
  watchers.every = (_, medium) => every.push(medium)
  watchers.sent(1, packet, 'UDP', 'best_effort')
  watchers.sent(2, packet, 'MQTT', 'medium')
  watchers.sent(9, packet, 'UDP', 'exchange')
  watchers.acknowledged(3)
  watchers.sent(3, packet, 'UDP', 'exchange')
  watchers.sent(4, packet, 'UDP', 'exchange')
  watchers.unwatch(4)
  for (const seq of [3, 3, 4, 9]) watchers.acknowledged(seq)
  assert.deepEqual(told, ['1 sent', '2 acknowledged', '3 awaited', '4 awaited', '3 acknowledged'])
  assert.deepEqual(every, ['UDP', 'MQTT', 'UDP', 'UDP', 'UDP'])
})
