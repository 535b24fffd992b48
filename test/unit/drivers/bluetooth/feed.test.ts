// The newest values of one device from its advertisements: what is counted, kept, reported and dropped.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Adapter, AdapterUser } from '../../../../drivers/bluetooth/adapter'
import type { Verdict } from '../../../../drivers/bluetooth/codec'
import { AdvertisementFeed } from '../../../../drivers/bluetooth/feed'
import type { Report } from '../../../../drivers/bluetooth/radio'
import { ManualClock, ManualTimers } from '../../../lib/manual'

const ADDRESS = '54:48:e6:8f:80:a5'

async function world(keys: readonly string[] = ['temperature', 'rssi', 'presence']) {
  const timers = new ManualTimers(new ManualClock())
  const left: AdapterUser[] = []
  let hear: ((report: Report) => void) | undefined
  let join = async (): Promise<void> => undefined
  const adapter = {
    detail: { advertisements: 3 },
    join: (_user: AdapterUser) => join(),
    leave: async (user: AdapterUser) => void left.push(user),
    listen: (_address: string | null, to: (report: Report) => void) => {
      hear = to
      return () => {
        hear = undefined
      }
    },
  } as unknown as Adapter
  const said: { verdict: Verdict; values: [string, number | null][] } = { verdict: '', values: [] }
  const feed = new AdvertisementFeed({
    ...{ adapter, address: ADDRESS, keys, awayMs: 1000, silenceMs: 5000, timers, clock: timers.clock },
    decoder: () => ({
      decode: (_data, _address, _rssi, _now, emit) => {
        for (const [key, value] of said.values) emit(key, value)
        return said.verdict
      },
    }),
  })
  const taken: [number, number | null][] = []
  const open = (): Promise<void> =>
    feed.open({ lost: () => undefined, degraded: () => undefined } as never, (k, value) => taken.push([k, value]))
  await open()
  return {
    ...{ feed, timers, left, open, listens: () => hear !== undefined },
    joins: (with_: () => Promise<void>) => {
      join = with_
    },
    /** what it read from one advertisement */
    hear(verdict: Verdict, values: [string, number | null][] = [], rssi: number | null = -60) {
      Object.assign(said, { verdict, values })
      hear?.({ data: Uint8Array.of(1, 0xab), address: ADDRESS, rssi } as Report)
      return taken.splice(0)
    },
    taken,
  }
}

test('an advertisement is counted as used, or as refused with its reason; one of another kind is not counted', async () => {
  const { feed, hear } = await world()
  let heard = 0
  feed.onHeard(() => heard++)
  assert.deepEqual(hear('', [['temperature', 21]]), [
    [0, 21],
    [1, -60],
    [2, 1],
  ])
  assert.deepEqual(feed.detail, { frames: 1, refused: 0, advertisements: 3 })
  assert.deepEqual(
    hear('cut short'),
    [
      [1, -60],
      [2, 1],
    ],
    'it is here all the same',
  )
  assert.deepEqual(hear('replayed', [], null), [[2, 1]], 'a radio that tells no strength')
  assert.deepEqual([feed.detail, feed.refusal], [{ frames: 1, refused: 2, advertisements: 3 }, 'replayed'])
  assert.deepEqual(hear(null, []), [])
  assert.deepEqual([feed.detail.frames, feed.detail.refused, feed.refusal, heard], [1, 2, 'replayed', 3])
  hear('')
  assert.equal(feed.refusal, '')
  assert.deepEqual([feed.raw(0), feed.raw(2)], ['01ab', '01ab'])
})

test('when names keep changing, 64 are kept; a known one is still updated, and a channel still gets its value', async () => {
  const { feed, hear } = await world(['last'])
  hear('', [['known', 1], ...Array.from({ length: 80 }, (_, k): [string, number] => [`name${k}`, k])], null)
  assert.equal(feed.heard.size, 64)
  assert.deepEqual(
    hear('', [
      ['known', 2],
      ['last', 7],
    ]),
    [[0, 7]],
  )
  assert.deepEqual([feed.heard.get('known')?.value, feed.heard.has('last')], [2, false])
})

test('a device that is not heard is reported away repeatedly until it is heard; after close nothing is reported', async () => {
  const { feed, hear, timers, taken } = await world(['presence'])
  await timers.advance(999)
  assert.deepEqual(hear(''), [[0, 1]])
  await timers.advance(999)
  assert.deepEqual(taken, [])
  await timers.advance(1)
  assert.deepEqual([taken.splice(0), feed.raw(0)], [[[0, 0]], ''])
  await timers.advance(2000)
  assert.deepEqual(taken.splice(0), [
    [0, 0],
    [0, 0],
  ])
  await feed.close()
  assert.equal(timers.pending, 0)
  const { timers: none } = await world(['temperature'])
  assert.equal(none.pending, 0, 'no channel asks for it')
})

test('close releases the adapter once; a close during the opening leaves no listener', async () => {
  const { feed, hear, left, listens, open, joins } = await world()
  hear('cut short', [['temperature', 1]])
  await feed.close()
  await feed.close()
  assert.deepEqual([left.length, listens()], [1, false])
  let joined = (): void => undefined
  joins(() => new Promise(resolve => (joined = resolve)))
  const opening = open()
  assert.deepEqual([feed.heard.size, feed.refusal], [0, ''], 'an opening begins anew')
  await feed.close()
  joined()
  await opening
  assert.deepEqual([left.length, listens()], [3, false])
})
