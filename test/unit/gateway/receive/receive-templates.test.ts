// Templates at the receiver: a packet without its template is refused and requested, and a start restores the templates from the log.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KnownFrames, keeping, Replay } from '../../../../src/gateway/receive/template-recovery'
import { RESERVE } from '../../../../src/log'
import type { Fact, LinkMetadata } from '../../../../src/pipeline/fact'
import { Receiver } from '../../../../src/pipeline/receiver'
import { UplinkEncoder } from '../../../../src/pipeline/sender'
import { DuplicateFilter } from '../../../../src/protocol/duplicates'
import { ManualClock } from '../../../lib/manual'
import { data, FULL, fact, frame, HEART, T0, units, wall } from './receive-world'

test('a packet without its template is refused and requested, accepted as FULL, and acknowledged after the commit', async () => {
  const { receive, kept, replies, from, commit } = wall()
  const origin = from('a:1')
  receive.packet(frame(1, HEART), origin)
  assert.equal(kept.length, 0)
  assert.equal(receive.counters.refused, 1)
  assert.equal(replies[0]?.subarray(3).toString(), 'NEED_FULL;9;1;1710000000000;095d')

  receive.packet(frame(1, FULL), origin)
  assert.equal(kept.length, 1, 'the same number counts again')
  assert.equal(replies.length, 1, 'no answer before the commit')
  await commit()
  assert.equal(replies[1]?.readUInt32BE(7), 1, 'everything up to 1 is committed')

  receive.packet(frame(2, HEART), origin)
  assert.equal(kept.length, 1, 'the same content at the same time is one record')
  assert.equal(receive.counters.duplicates, 1)
})

test('a late frame without earlier state is refused and requested, and not acknowledged', async () => {
  const { receive, kept, replies, from, commit } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const early = sender.encode(fact(1, 1)).bytes
  const heart = sender.encode(fact(2, 1)).bytes
  const key = sender.encode(fact(3, 3), { full: true }).bytes
  receive.packet(frame(3, key), from('a:1'))
  receive.packet(frame(2, heart), from('a:1'))
  assert.deepEqual([receive.counters.late_dropped, receive.counters.refused], [1, 1])
  assert.match(replies[0]!.subarray(3).toString(), /^NEED_FULL;9;1;1710000000002;/)
  receive.packet(frame(1, early), from('a:1'))
  await commit()
  assert.deepEqual([replies.at(-1)!.readUInt32BE(7), replies.at(-1)!.readUInt32BE(11)], [1, 1], '1 and 3, but not 2')
  assert.deepEqual(kept, [fact(3, 3), fact(1, 1)], 'the late FULL is decoded from its own text')
})

test('two gateways with one AID never share templates: templates belong to the run, and both addresses are shown', () => {
  const { receive, kept, from } = wall()
  const one = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  const two = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  for (let k = 1; k <= 20; k++) {
    receive.packet(frame(k, one.encode(fact(10 * k, k)).bytes, 5), from('10.0.0.1:1'))
    receive.packet(frame(k, two.encode(fact(10 * k + 5, 1000 + k)).bytes, 6), from('10.0.0.2:1'))
  }
  assert.deepEqual(
    kept.map(({ sensors }) => sensors[0]!.value),
    Array.from({ length: 20 }, (_, k) => [k + 1, 1001 + k]).flat(),
  )
  assert.equal(receive.counters.moved, 1, 'counted once, not with every packet')
  assert.deepEqual(receive.addresses.several(), [{ aid: 9, addresses: ['10.0.0.1', '10.0.0.2'] }])
})

test('a bare FULL of another sender does not touch the templates of a run', () => {
  const { receive, kept, from } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  receive.packet(frame(1, sender.encode(fact(10, 1)).bytes), from('a:1'))
  const forged = new UplinkEncoder({ aid: 9, units }).encode({
    ...fact(11, 7),
    sensors: fact(11, 7).sensors.toReversed(),
  })
  receive.packet(forged.bytes, from('evil:1'))
  receive.packet(frame(2, sender.encode(fact(12, 2)).bytes), from('a:1'))
  assert.deepEqual(kept.at(-1), fact(12, 2))
  assert.equal(receive.counters.moved, 1)
})

test('NEED_FULL repeats the TS field of the frame: zero, seconds or milliseconds', () => {
  const { receive, replies, from } = wall()
  for (const ts of [0, T0 / 1000, T0]) receive.packet(data(0x7f, ts), from('a:1'))
  assert.deepEqual(
    replies.map(reply => reply.subarray(3).toString().split(';').slice(0, 4).join(';')),
    ['NEED_FULL;9;1;0', 'NEED_FULL;9;1;1710000000', 'NEED_FULL;9;1;1710000000000'],
  )
})

test('a duplicate FULL still teaches its template', () => {
  const duplicates = new DuplicateFilter()
  const sender = new UplinkEncoder({ aid: 9, units })
  const full = sender.encode(fact(1, 1)).bytes
  wall({ duplicates }).receive.packet(full, { medium: 'UDP', address: 'a:1', reply: async () => true })
  const { receive, kept, from } = wall({ duplicates })
  receive.packet(full, from('a:1'))
  assert.deepEqual([kept.length, receive.counters.duplicates], [0, 1])
  receive.packet(sender.encode(fact(2, 2)).bytes, from('a:1'))
  assert.deepEqual(kept, [fact(2, 2)])
})

test('a template from before an unclean stop: the facts it decodes are kept and marked, its FULL is requested, and recognized when it is resent', async () => {
  const receiver = new Receiver({ units })
  const { receive, kept, links, replies, from, commit } = wall({ receiver })
  const sender = new UplinkEncoder({ aid: 9, units, diffBase: 'last', clock: new ManualClock() })
  const full = sender.encode(fact(0, 1)).bytes.slice()
  const diff = sender.encode(fact(1, 2)).bytes.slice()
  receiver.replay(full, 9)
  receiver.rebuild(9)
  const settled: boolean[] = []
  const origin = { ...from('a:1'), settle: (taken: boolean) => void settled.push(taken) }
  receive.packet(diff, origin)
  assert.deepEqual(
    kept[0]?.sensors.map(({ value }) => value),
    [2],
    'only what it carries',
  )
  assert.deepEqual([kept.length, receive.counters.template_rebuilt, links[0]?.template_rebuilt], [1, 1, true])
  assert.match(replies[0]!.subarray(3).toString(), /^NEED_FULL;9;1;1710000000001;/)
  await commit()
  receive.packet(diff, origin)
  await commit()
  assert.deepEqual([receive.counters.duplicates, receive.counters.template_rebuilt, replies.length], [1, 1, 1])
  assert.deepEqual(settled, [true, true])
  receive.packet(full, from('a:1'))
  assert.equal(kept.length, 2)
  assert.ok(!('template_rebuilt' in links[1]!))
})

test('only a bare packet that changes its template is kept with its record', () => {
  const { receive, links, from } = wall()
  const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
  receive.packet(frame(1, sender.encode(fact(1, 1)).bytes), from('a:1'))
  const bare = new UplinkEncoder({ aid: 10, units })
  for (const k of [1, 2]) receive.packet(bare.encode(fact(k, k, 10)).bytes, from('b:1'))
  const late = new UplinkEncoder({ aid: 10, units, frames: 'full' }).encode({ ...fact(0, 5, 10), sensors: [] })
  receive.packet(late.bytes, from('b:1'))
  assert.deepEqual(
    links.map(link => link.frame !== undefined),
    [false, true, false, false],
  )
})

const kept = (link: LinkMetadata, packet: Uint8Array, received: object, how: object): LinkMetadata =>
  keeping(link, packet, { fact: { aid: 9 }, meta: {}, ...received } as never, how as never)
const framed = (link: LinkMetadata, packet: Uint8Array, meta: object): LinkMetadata =>
  kept(link, packet, { meta }, { acknowledges: true })
const shaped = (link: LinkMetadata, packet: Uint8Array): LinkMetadata => kept(link, packet, { reshaped: true }, {})

test('what a record keeps of its packet: nothing without a need; that it changed no bare template, where there are such', () => {
  const link: LinkMetadata = { medium: 'UDP' }
  const receiver = { hasBare: (aid: number) => aid === 9 }
  assert.deepEqual(kept(link, FULL, { reshaped: true }, { peer: {}, receiver }).frame?.length, 0)
  assert.equal(kept(link, FULL, { fact: { aid: 8 }, reshaped: true }, { peer: {}, receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: false }, { receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: true, meta: { late: true } }, { receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: true, meta: { future: true } }, { receiver }), link)
  assert.equal(kept(link, FULL, { reshaped: true }, { receiver }).frame?.length, FULL.length + 1)
})

test('a late FULL that is new: a later DIFF, which may build on it, waits for a FULL; a late duplicate changes nothing', () => {
  for (const fresh of [true, false]) {
    const { receive, kept, replies, from } = wall()
    const before = new UplinkEncoder({ aid: 9, units, acknowledged: true })
    const origin = from('mqtt://broker/os/9')
    const early = before.encode(fact(1, 1)).bytes
    if (!fresh) receive.packet(early, origin)
    receive.packet(before.encode(fact(50, 5), { full: true }).bytes, origin)
    // another run of the sender, whose clock is behind for a moment
    const sender = new UplinkEncoder({ aid: 9, units, acknowledged: true })
    receive.packet(fresh ? sender.encode(fact(2, 7)).bytes : early, origin)
    const { length } = kept
    receive.packet((fresh ? sender : before).encode(fact(60, 8)).bytes, origin)
    assert.equal(kept.length, fresh ? length : length + 1)
    if (fresh) assert.match(replies.at(-1)!.subarray(3).toString(), /^NEED_FULL;9;1;1710000000060;/)
  }
})

test('a start replays the packets of the log: complete ones, templates only, and none before a template change that was not seen', () => {
  const calls: unknown[][] = []
  const receiver = {
    replay: (packet: Uint8Array, ...rest: unknown[]) => void calls.push(['replay', packet[0], ...rest]),
    rebuild: (aid: number) => void calls.push(['rebuild', aid]),
  }
  const frames = new KnownFrames()
  const losses = [
    { reason: 'damaged', from: 13, to: 14, records: 2 },
    { reason: 'torn', from: 20, to: 21, records: 2 },
  ]
  const replay = new Replay({ counter: () => 10, losses } as never, receiver as never, frames)
  const link: LinkMetadata = { medium: 'MQTT' }
  const meta = { source_aid: 9, timestamp_raw: T0 + 1 }
  const take = (seq: number, of: LinkMetadata | undefined, one: Fact | undefined = fact(1, 1)): unknown[][] => {
    calls.length = 0
    replay.take({ seq, fact: one, link: of } as never)
    return [...calls]
  }
  assert.equal(frames.has(FULL, meta as never), false)
  assert.deepEqual(take(10, framed(link, FULL, {} as never)), [], 'before the mark')
  assert.equal(frames.has(FULL, meta as never), true, 'but known')
  frames.forget(FULL, fact(1, 1))
  assert.equal(frames.has(FULL, meta as never), false)
  assert.deepEqual(take(11, framed(link, FULL, {} as never)), [['replay', 0x3f, 9, false]])
  assert.deepEqual(take(11, framed({ ...link, future: true }, FULL, {} as never)), [['replay', 0x3f, 9, true]])
  assert.deepEqual(take(11, framed(link, FULL, { late: true } as never)), [])
  assert.deepEqual(
    take(11, kept(link, FULL, {}, { peer: {}, receiver: { hasBare: () => true } })),
    [],
    'in the exchange',
  )
  const shape = [
    ['replay', 0x7f, 9],
    ['rebuild', 9],
  ]
  assert.deepEqual(take(11, shaped(link, HEART)), shape)
  assert.equal(frames.has(HEART, meta as never), false, 'nothing acknowledged it')
  assert.deepEqual(take(11, link), [['rebuild', 9]])
  assert.deepEqual(take(11, link, null as never), [], 'no fact')
  frames.forget(FULL, fact(1, 1))
  assert.deepEqual(take(22, framed(link, FULL, {} as never)), [], 'after a torn range of its run')
  assert.equal(frames.has(FULL, meta as never), true, 'but known')
  const packet = (seq: number): unknown[][] => {
    calls.length = 0
    replay.take({ seq, packet: { bytes: FULL, future: false } } as never)
    return [...calls]
  }
  assert.deepEqual([packet(15), packet(22)], [[['replay', 0x3f, 9, false]], []])
  assert.deepEqual(take(22, shaped(link, HEART)), shape, 'nobody repeats it')
  assert.deepEqual(take(22, link), [['rebuild', 9]])
  for (const seq of [19, 20 + RESERVE])
    assert.equal(take(seq, framed(link, FULL, {} as never)).length, 1, 'another run')
})
