// The receiver of frames: what a fact carries, late and duplicated frames, refused ones, and the limits of what it remembers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fusion } from '../../../src/pipeline/fuse'
import { nackReason } from '../../../src/protocol/nack'
import { deriveSessionKey } from '../../../src/wire/cipher'
import { sealFrame } from '../../../src/wire/frame'
import { ManualClock } from '../../lib/manual'
import { clock, code, diff, frame, full, heart, receiver, T0, value } from './receiver-world'
import { random, units } from './units'

test('a fact carries canonical units, milliseconds and all meta fields', () => {
  const r = receiver()
  const got = r.receive(frame(0x3f, 7, T0, '42;D.1.AY4j8UwA|i>K.mA:2Bi|f>E.100:00|g>E.100:0|&u33|#YQ|@aGk'))
  assert.ok(got.kind === 'fact')
  assert.deepEqual(got.fact, {
    id: 'D',
    state: 'ONLINE',
    tRaw: T0,
    aid: 42,
    sensors: [
      { id: 'i', status: 'OK', unit: 'A', value: 0.001 },
      { id: 'f', status: 'ERROR', unit: 'A', value: null },
      { id: 'g', status: 'ERROR', unit: 'A', value: 0 },
    ],
    extras: { geohash: 'u33', url: 'https://a', msg: 'hi' },
  })
  assert.deepEqual(got.meta, {
    cmd: 0x3f,
    base_cmd: 0x3f,
    secure: false,
    source_aid: 42,
    crc16_ok: true,
    crc8_ok: true,
    timestamp_raw: T0,
    tid: '07',
    template_learned: true,
    server_stamped: false,
  })
})

test('late frames: FULL is decoded from its own text and not learned, DIFF and HEART with the state before them', () => {
  const r = receiver()
  assert.equal(value(r.receive(full(T0 + 10, '10'))), 0.0062)
  assert.equal(value(r.receive(diff(T0 + 30, '30'))), 0.0186)
  const late = r.receive(full(T0 + 20, '20'))
  assert.equal(value(late), 0.0124)
  assert.deepEqual([late.meta.late, late.meta.template_learned], [true, false])
  assert.equal(value(r.receive(heart(T0 + 40))), 0.0186, 'the late FULL moved nothing')
  assert.equal(value(r.receive(heart(T0 + 15))), 0.0062, 'on the state of +10')
  assert.equal(value(r.receive(diff(T0 + 35, '35'))), 0.0191)
  assert.equal(value(r.receive(heart(T0 + 50))), 0.0186, 'nor did the late DIFF')
  const dropped = r.receive(diff(T0 + 5, '1'))
  assert.deepEqual([code(dropped), (dropped as { needFull: boolean }).needFull], ['LATE_DROPPED', true])
  assert.deepEqual([r.counters.late, r.counters.lateDropped], [3, 1])
})

test('a receiver keeps eight states of a template', () => {
  const r = receiver()
  r.receive(full(T0, '1'))
  for (let k = 1; k <= 8; k++) r.receive(diff(T0 + 10 * k, String(k)))
  assert.equal(code(r.receive(heart(T0 + 5))), 'LATE_DROPPED')
  assert.equal(value(r.receive(heart(T0 + 15))), 0.0001)
})

test('a duplicate frame gives the same fact, as FULL or as DIFF', () => {
  const r = receiver()
  r.receive(full(T0, '1'))
  const facts = [diff(T0 + 10, '5'), diff(T0 + 10, '5'), full(T0 + 10, '5')].map(packet => {
    const got = r.receive(packet)
    return got.kind === 'fact' ? got.fact : got.message
  })
  assert.deepEqual(facts[1], facts[0])
  assert.deepEqual(facts[2], facts[0])
})

test('frames left over from an old connection are not used as a base after a newer FULL; a late frame with a newer number is', () => {
  const EPOCH = 7
  for (const [again, cmd] of [
    ['a FULL like the one before', 0x3f],
    ['an encrypted FULL', 0x40],
  ] as const) {
    const key = deriveSessionKey(42, 1)
    const r = receiver({ inboundKey: () => key })
    const second = full(T0 + 40, '30')
    r.receive(full(T0, '10'), EPOCH, 1)
    r.receive(diff(T0 + 10, '11'), EPOCH, 2)
    r.receive(full(T0 + 15, '29'), EPOCH, 5)
    r.receive(cmd === 0x3f ? second : frame(cmd, 1, T0 + 40, second.subarray(13, -3), 42, key), EPOCH, 9)
    assert.equal(code(r.receive(diff(T0 + 20, '12'), EPOCH, 7)), 'LATE_DROPPED', again)
    assert.equal(code(r.receive(heart(T0 + 30), EPOCH, 8)), 'LATE_DROPPED', again)
    assert.equal(r.counters.lateDropped, 2)
    assert.equal(code(r.receive(heart(T0 + 30), EPOCH, 10)), 'fact', again)
    assert.equal(code(r.receive(heart(T0 + 50), EPOCH, 11)), 'fact', again)
  }
})

test('a missing template requests a FULL, and the NACK names the frame', () => {
  const r = receiver()
  const packet = heart(T0)
  const got = r.receive(packet)
  assert.ok(got.kind === 'error' && got.needFull)
  assert.equal(got.message, 'Template 01 missing for 0x7F')
  assert.equal(nackReason('NEED_FULL', packet), `NEED_FULL;42;1;${T0};${packet.toString('hex').slice(-4)}`)
  assert.equal(nackReason('NEED_FULL', Buffer.alloc(3)), null)
})

test('a DIFF that does not fit is refused and changes nothing', () => {
  const r = receiver()
  r.receive(full(T0, '1'))
  for (const body of [Buffer.of(2, 5, 49), Buffer.of(0x0a, 1, 50), Buffer.of(2, 1, 33), Buffer.of(2)])
    assert.equal(code(r.receive(frame(0xaa, 1, T0 + 1, body))), 'NEED_FULL')
  assert.equal(value(r.receive(heart(T0 + 2))), 0.0001)
})

test('a broken frame never leaves a wrong state behind', () => {
  const r = receiver()
  r.receive(full(T0, '1'))
  for (let k = 1; k <= 7; k++) r.receive(diff(T0 + 10 * k, String(k + 1)))
  assert.equal(value(r.receive(heart(T0 + 5))), 0.0001)
  assert.equal(code(r.receive(frame(0xaa, 1, T0 + 90, Buffer.of(0x0a, 1, 57)))), 'NEED_FULL')
  assert.equal(code(r.receive(heart(T0 + 5))), 'LATE_DROPPED', 'the oldest state gave its row to the broken frame')
  assert.equal(value(r.receive(heart(T0 + 15))), 0.0002)
})

test('a clock set back is accepted after eight late frames and a FULL', () => {
  const r = receiver()
  r.receive(full(T0, '1'))
  const back = T0 - 3_600_000
  for (let k = 0; k < 8; k++) r.receive(heart(back + k))
  assert.equal(r.receive(full(back + 10, '2')).meta.template_learned, true)
  assert.equal(value(r.receive(heart(back + 11))), 0.0002)
})

test('a zero time is stamped in milliseconds, small ones are seconds', () => {
  const r = receiver()
  const stamped = r.receive(full(0, '1'))
  assert.ok(stamped.kind === 'fact')
  assert.deepEqual([stamped.fact.tRaw, stamped.meta.server_stamped], [T0 + 500, true])
  const seconds = receiver().receive(frame(0x3f, 1, T0 / 1000, `NODE.ONLINE.${T0 / 1000}|t>K.A01:2Bi|`))
  assert.ok(seconds.kind === 'fact')
  assert.deepEqual([seconds.fact.id, seconds.fact.state, seconds.fact.tRaw], ['NODE', 'ONLINE', T0])
})

test('C firmware frames are decoded: one sensor without a head, several with decimal seconds and a DIFF after', () => {
  const r = receiver()
  const single = r.receive(frame(0x3f, 3, T0 / 1000, 'TEMP|K|2Bi'))
  assert.ok(single.kind === 'fact')
  assert.deepEqual(single.fact, {
    id: '42',
    state: 'ONLINE',
    tRaw: T0,
    aid: 42,
    sensors: [{ id: 'TEMP', status: 'OK', unit: 'K', value: 1 }],
  })
  r.receive(frame(0x3f, 4, T0 / 1000, `NODE.ONLINE.${T0 / 1000}|t>K.K:2Bi|`))
  assert.equal(value(r.receive(frame(0xaa, 4, T0 / 1000 + 1, Buffer.of(2, 1, 49)))), 0.0001)
})

test('secure frames need the key, and a wrong key is reported as such', () => {
  const key = deriveSessionKey(42, T0)
  const packet = frame(0x40, 1, T0, '42;D.1.AY4j8UwA|a>K.K:1|', 42, key)
  assert.equal(code(receiver().receive(packet)), 'NO_KEY')
  assert.equal(code(receiver({ inboundKey: () => deriveSessionKey(1, 1) }).receive(packet)), 'BAD_KEY')
  assert.equal(value(receiver({ inboundKey: () => key }).receive(packet)), 0.0001)
})

test('with several routes the source is the last, and the route is reported', () => {
  const plain = full(T0, '1')
  const routed = Buffer.concat([plain.subarray(0, 1), Buffer.of(2, 0, 0, 0, 5), plain.subarray(2)])
  sealFrame(routed, 0, 17, routed.length - 3)
  const got = receiver().receive(routed)
  assert.ok(got.kind === 'fact')
  assert.deepEqual([got.fact.aid, got.meta.routes], [42, [5, 42]])
})

test('the number of sources is limited: those not heard for longest are evicted', () => {
  const r = receiver({ maxSources: 100 })
  for (let aid = 1; aid <= 1000; aid++) {
    r.receive(frame(0x3f, 1, T0, `${aid};D.1.AY4j8UwA|a>K.K:1|`, aid))
    r.receive(frame(0x3f, 1, T0 + aid, '1;D.1.AY4j8UwA|a>K.K:1|', 1))
    assert.ok(r.sources <= 100)
  }
  assert.equal(code(r.receive(frame(0x7f, 1, T0 + 2000, '', 1))), 'fact')
  assert.equal(code(r.receive(frame(0x7f, 1, T0 + 2000, '', 2))), 'NEED_FULL')
})

test('DIFFs of unknown senders evict neither AIDs nor runs', () => {
  const r = receiver({ maxSources: 100 })
  r.receive(full(T0, '1'))
  r.receive(full(T0, '2'), 7)
  for (let k = 1; k <= 1000; k++) {
    assert.equal(code(r.receive(frame(0x7f, 1, T0, '', 1000 + k))), 'NEED_FULL')
    assert.equal(code(r.receive(heart(T0 + 1), 1000 + k)), 'NEED_FULL')
  }
  assert.equal(r.sources, 1)
  assert.deepEqual([value(r.receive(heart(T0 + 1))), value(r.receive(heart(T0 + 1), 7))], [0.0001, 0.0002])
})

test('mutated frames throw nothing, in the receiver and in fusion', () => {
  const next = random(77)
  const r = receiver({ inboundKey: () => Buffer.alloc(32, 1) })
  const fusion = new Fusion(null, { units, clock })
  const corpus = [
    full(T0, '1'),
    diff(T0 + 1, '22'),
    heart(T0 + 2),
    frame(0x3f, 9, T0, 'TEMP|K|2Bi'),
    frame(0x40, 1, T0, '42;x', 42, Buffer.alloc(32, 1)),
  ]
  for (let k = 0; k < 30000; k++) {
    let bytes = Buffer.from(corpus[(next() * corpus.length) | 0]!)
    for (let m = 0; m < 1 + next() * 3; m++) bytes[(next() * bytes.length) | 0] = next() * 256
    if (next() < 0.3) bytes = bytes.subarray(0, (next() * (bytes.length + 1)) | 0)
    // mostly with correct checksums, so that the inner code is reached
    if (next() < 0.8 && bytes.length >= 16)
      sealFrame(bytes, 0, Math.min(2 + 4 * bytes[1]! + 7, bytes.length - 3), bytes.length - 3)
    const got = r.receive(bytes)
    assert.ok(got.kind === 'fact' || got.code)
    fusion.decompress(bytes)
  }
})

test('after a late FULL with other sensors under a known TID no frame builds on either meaning', () => {
  const r = receiver()
  r.receive(full(T0 + 100, '1'))
  assert.equal(value(r.receive(full(T0, '7', 'other'))), 0.0007)
  assert.equal(code(r.receive(diff(T0 + 200, '9'))), 'NEED_FULL')
  assert.equal(value(r.receive(full(T0 + 300, '2', 'other'))), 0.0002)
  assert.equal(value(r.receive(diff(T0 + 400, '9'))), 0.0009)
})

test('with two meanings of a TID, and a duplicate of the older one, still no frame builds on it', () => {
  const r = receiver()
  r.receive(full(T0 + 100, '1'))
  for (let k = 0; k < 2; k++) {
    assert.equal(r.receive(full(T0, '7', 'other')).meta.template_learned, false)
    assert.equal(code(r.receive(diff(T0 + 200, '9'))), 'NEED_FULL')
  }
  assert.equal(value(r.receive(full(T0 + 300, '2'))), 0.0002)
  assert.equal(value(r.receive(diff(T0 + 400, '9'))), 0.0009)
})

test('whole seconds: a frame with the time of the one before is not late and builds on it', () => {
  const r = receiver()
  const s = T0 / 1000
  const body = (a: string, b: string): Buffer =>
    Buffer.concat([Buffer.of(0x0a, 1), Buffer.from(a), Buffer.of(1), Buffer.from(b)])
  r.receive(frame(0x3f, 1, s, '42;D.1.AY4j8UwA|a>K.K:1|b>K.K:1|'))
  for (const [ts, packet, a, b] of [
    [s, frame(0xaa, 1, s, body('2', '2')), 0.0002, 0.0002],
    [s, diff(s, '3'), 0.0003, 0.0002],
    [s, heart(s), 0.0003, 0.0002],
    [s + 1, diff(s + 1, '4'), 0.0004, 0.0002],
    [s, heart(s), 0.0003, 0.0002],
  ] as const) {
    const got = r.receive(packet)
    assert.ok(got.kind === 'fact')
    assert.deepEqual(
      got.fact.sensors.map(sensor => sensor.value),
      [a, b],
    )
    assert.equal(got.fact.tRaw, ts * 1000)
  }
  assert.equal(r.counters.late, 1, 'only the one that came after a newer second')
})

test('frames without a time follow the last received one, whatever the clocks are, and make nothing late', () => {
  const own = new ManualClock(T0 + 500)
  const r = receiver({ clock: own })
  r.receive(full(T0 + 1_000_000, '1'))
  assert.equal(value(r.receive(diff(0, '2'))), 0.0002)
  own.wallMs -= 100_000
  const got = r.receive(heart(0))
  assert.equal(value(got), 0.0002)
  assert.deepEqual([got.meta.timestamp_raw, got.meta.late], [T0 + 501, undefined])
  const timed = r.receive(diff(T0 + 1_000_000, '3'))
  assert.deepEqual([value(timed), timed.meta.late], [0.0003, undefined])
})

test('each run of the delivery exchange has its own templates, limited for each AID', () => {
  const own = new ManualClock(T0)
  const r = receiver({ clock: own })
  r.receive(full(T0, '1'))
  r.receive(full(T0, '2'), 1)
  r.receive(full(T0, '3', 'other'), 2)
  assert.deepEqual(
    [undefined, 1, 2].map(epoch => value(r.receive(heart(T0 + 1), epoch))),
    [0.0001, 0.0002, 0.0003],
  )
  for (let epoch = 10; epoch < 30; epoch++) {
    own.advance(1)
    r.receive(full(T0 + 2, '4'), epoch)
    assert.equal(value(r.receive(heart(T0 + 3))), 0.0001)
  }
  assert.equal(code(r.receive(heart(T0 + 4), 1)), 'NEED_FULL', 'the run heard longest ago went')
  assert.equal(code(r.receive(heart(T0 + 4), 29)), 'fact')
  own.advance(3_600_000)
  r.receive(full(T0 + 5, '5'), 30)
  assert.equal(code(r.receive(heart(T0 + 6), 29)), 'NEED_FULL', 'silent for an hour')
  assert.equal(code(r.receive(heart(T0 + 6))), 'fact', 'bare templates stay')
})
