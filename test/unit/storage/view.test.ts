import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { LogRecord } from '../../../src/log'
import { packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { SqlView } from '../../../src/storage/view'
import { loadSql, openSql } from './sealedworld'

before(loadSql)

const T0 = 1_710_000_000
const factOf = (k: number, more: Partial<Fact> = {}): Fact => ({
  id: `dev-${k % 3}`,
  state: k % 5 === 0 ? 'ALARM' : 'ONLINE',
  tRaw: T0 * 1000 + Math.floor(k / 2) * 1000 + 250,
  aid: 7,
  sensors: [
    { id: 'temp', status: 'OK', unit: 'K', value: k + 0.25 },
    { id: 'hum', status: k % 2 ? 'OK' : 'ERROR', unit: '%', value: k % 2 ? 50 : null },
  ],
  ...more,
})
const recordOf = (seq: number, fact: Fact, more: Partial<LogRecord> = {}): LogRecord => ({
  seq,
  boot: 1,
  kind: 'fact',
  monoMs: 0,
  wallMs: (T0 + 1000) * 1000 + 900,
  quality: 'synced',
  medium: 'UDP',
  fact,
  ...more,
})
const viewOf = (facts: number, limits = { maxPackets: 1e6, maxBytes: 1e9 }): SqlView => {
  const view = new SqlView(openSql(), limits)
  view.apply(Array.from({ length: facts }, (_, k) => recordOf(k + 1, factOf(k))))
  return view
}

test('a packet has exactly the fields of the specification', () => {
  const view = viewOf(0)
  const fact = factOf(4, { extras: { msg: 'hi', url: 'https://example.org' } })
  view.apply([recordOf(9, fact)])
  const uuid = uuidText(packetUuid(fact))
  const packet = {
    packet_uuid: uuid,
    device_id: 'dev-1',
    device_status: 'ONLINE',
    timestamp_raw: T0 + 2,
    payload_json: {
      id: 'dev-1',
      s: 'ONLINE',
      t: T0 + 2,
      t_raw: (T0 + 2) * 1000 + 250,
      s1_id: 'temp',
      s1_s: 'OK',
      s1_u: 'K',
      s1_v: 4.25,
      s2_id: 'hum',
      s2_s: 'ERROR',
      s2_u: '%',
      s2_v: null,
      msg: 'hi',
      url: 'https://example.org',
    },
    created_at: T0 + 1000,
  }
  const sensors = [
    { sensor_index: 1, sensor_id: 'temp', sensor_status: 'OK', normalized_value: 4.25, normalized_unit: 'K' },
    { sensor_index: 2, sensor_id: 'hum', sensor_status: 'ERROR', normalized_value: null, normalized_unit: '%' },
  ]
  assert.deepEqual(view.packets(), { ok: true, packets: [packet], total: 1, limit: 50, offset: 0 })
  assert.deepEqual(view.packet(uuid), { ok: true, packet, sensors })
  const joined = sensors.map(s => ({ packet_uuid: uuid, ...s, device_id: 'dev-1', timestamp_raw: T0 + 2 }))
  assert.deepEqual(view.sensors(), { ok: true, sensors: joined, total: 2, limit: 50, offset: 0 })
  assert.deepEqual(view.devices(), {
    ok: true,
    devices: [{ device_id: 'dev-1', last_seen: T0 + 2, packet_count: 1 }],
    total: 1,
    limit: 100,
    offset: 0,
  })
})

test('pages are ordered by time and then by arrival, newest first, without a gap or a repeat', () => {
  const view = viewOf(101)
  const values: number[] = []
  for (let offset = 0; offset < 101; offset += 20) {
    const page = view.packets({ limit: 20, offset })
    assert.equal(page.total, 101)
    values.push(...page.packets.map(p => p.payload_json['s1_v'] as number))
  }
  assert.deepEqual(
    values,
    Array.from({ length: 101 }, (_, k) => 100.25 - k),
  )
  const sensors = view.sensors({ limit: 500 }).sensors
  const keys = sensors.map(s => [-s.timestamp_raw, s.sensor_index])
  assert.deepEqual(
    keys,
    [...keys].sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!),
  )
  assert.deepEqual(
    view.devices().devices.map(d => [d.device_id, d.packet_count]),
    [
      ['dev-0', 33],
      ['dev-1', 34],
      ['dev-2', 34],
    ].map((_, k) => [['dev-1', 'dev-0', 'dev-2'][k], [34, 34, 33][k]]),
  )
})

test('filters apply to rows and total; both ends of a time range are included', () => {
  const view = viewOf(60)
  const facts = Array.from({ length: 60 }, (_, k) => factOf(k))
  const seconds = (f: Fact): number => Math.floor(f.tRaw / 1000)
  for (const query of [
    { device_id: 'dev-1' },
    { status: 'ALARM' },
    { since: T0 + 5 },
    { until: T0 + 5 },
    { since: T0 + 5, until: T0 + 5 },
    { device_id: 'dev-2', status: 'ONLINE', since: T0 + 3, until: T0 + 20 },
    { since: T0 + 9, until: T0 + 2 },
    { device_id: '' },
  ]) {
    const expected = facts.filter(
      f =>
        (query.device_id === undefined || f.id === query.device_id) &&
        (query.status === undefined || f.state === query.status) &&
        (query.since === undefined || seconds(f) >= query.since) &&
        (query.until === undefined || seconds(f) <= query.until),
    )
    const page = view.packets({ ...query, limit: 500 })
    assert.equal(page.total, expected.length)
    assert.deepEqual(
      page.packets.map(p => p.packet_uuid),
      expected.map(f => uuidText(packetUuid(f))).reverse(),
    )
    const { status: _status, ...rest } = query
    if (_status === undefined) assert.equal(view.sensors({ ...rest, sensor_id: 'hum' }).total, expected.length)
  }
})

test('limits and offsets are clamped, other values refused, and no text is ever run as SQL', () => {
  const view = viewOf(10)
  assert.equal(view.packets({ limit: 0 }).limit, 1)
  assert.equal(view.packets({ limit: 1e9, offset: -5 }).limit, 500)
  assert.equal(view.packets({ offset: -5 }).offset, 0)
  assert.equal(view.devices(-1).limit, 1)
  assert.deepEqual(view.packets({ offset: Number.MAX_VALUE }).packets, [])
  assert.deepEqual(view.packets({ since: -1e300, until: 1e300 }).total, 10)
  assert.throws(() => view.packets({ since: Number.NaN }), { code: 'BAD_REQUEST' })
  for (const text of ["' OR 1=1 --", '"; DROP TABLE os_packets', '\0', '\ud800', '%', 'é'.repeat(10_000)]) {
    assert.equal(view.packets({ device_id: text, status: text }).total, 0)
    assert.equal(view.sensors({ sensor_id: text }).total, 0)
    assert.equal(view.packet(text), null)
  }
  assert.equal(view.packets().total, 10)
})

test('the same packet twice is one row, with the sensors of the first', () => {
  const view = viewOf(10)
  view.apply([recordOf(50, factOf(3)), recordOf(51, factOf(3, { aid: 99 }))])
  assert.deepEqual(view.counts, { packets: 10, duplicates: 2, left: 0 })
  assert.equal(view.sensors().total, 20)
})

test('the window is limited by packets and by bytes: the oldest are removed and counted', () => {
  const view = viewOf(1000, { maxPackets: 500, maxBytes: 1e9 })
  assert.deepEqual([view.counts.packets, view.counts.left], [500, 500])
  assert.equal(view.packets({ limit: 1, offset: 499 }).packets[0]!.payload_json['s1_v'], 500.25)
  assert.equal(view.sensors().total, 1000)
  const small = viewOf(0, { maxPackets: 1e6, maxBytes: 200_000 })
  for (let k = 0; k < 5000; k += 100) {
    small.apply(Array.from({ length: 100 }, (_, j) => recordOf(k + j + 1, factOf(k + j))))
    assert.ok(small.bytes < 400_000)
  }
  assert.equal(small.counts.packets + small.counts.left, 5000)
  assert.ok(small.counts.packets > 500)
})

test('setting the clock corrects the unsynced rows of that boot once and keeps their uuids', () => {
  const view = viewOf(0)
  const unsynced = { quality: 'unsynced' as const, medium: 'local' }
  view.apply([
    recordOf(1, factOf(0), { ...unsynced, boot: 1 }),
    recordOf(2, factOf(2), { ...unsynced, boot: 2 }),
    recordOf(3, factOf(4), { boot: 2 }),
  ])
  const before = view.packets().packets
  const clock = { trueWallMs: 0, offsetMs: 5_000_900, source: 'x' }
  const { fact: _fact, ...sync } = recordOf(4, factOf(0), { kind: 'clock', boot: 2, clock })
  view.apply([sync, { ...sync, seq: 5 }, recordOf(6, factOf(6), { ...unsynced, boot: 2 })])
  const after = view.packets({ limit: 10 }).packets
  const byId = (uuid: string): (typeof after)[0] => after.find(p => p.packet_uuid === uuid)!
  const [synced, moved, other] = before.map(p => byId(p.packet_uuid))
  assert.equal(synced!.timestamp_raw, T0 + 2)
  assert.equal(other!.timestamp_raw, T0)
  assert.equal(moved!.timestamp_raw, T0 + 1 + 5001)
  assert.equal(moved!.payload_json.t_raw, (T0 + 1) * 1000 + 250 + 5_000_900)
  assert.equal(after.find(p => p.payload_json['s1_v'] === 6.25)!.timestamp_raw, T0 + 3)
})

test('a jump moves unsynced rows with it, the sync corrects them, and the order of the readings stays', () => {
  const view = viewOf(0)
  const of = (seq: number, k: number) => recordOf(seq, factOf(k), { quality: 'unsynced', medium: 'local', boot: 3 })
  const step = (seq: number, offsetMs: number, quality: 'synced' | 'unsynced') => {
    const { fact: _fact, ...record } = recordOf(seq, factOf(0), { kind: 'clock', boot: 3, quality })
    return { ...record, clock: { trueWallMs: 0, offsetMs, source: 'x' } }
  }
  // row 2 was stamped after a jump of 1000 s forward, then the time became right: 400 s back
  const records = [
    of(1, 0),
    step(2, 1_000_000, 'unsynced'),
    of(3, 2002),
    step(4, -400_000, 'synced'),
    step(5, 7000, 'synced'),
  ]
  for (const batch of [records, records.slice(0, 0)]) view.apply(batch)
  assert.deepEqual(
    view.packets().packets.map(p => p.timestamp_raw),
    [T0 + 601, T0 + 600],
  )
})

test('a failed batch leaves nothing behind', () => {
  const view = viewOf(10)
  const without = { ...factOf(12), id: null as unknown as string }
  assert.throws(() => view.apply([recordOf(11, factOf(11)), recordOf(12, without)]), TypeError)
  assert.deepEqual([view.packets().total, view.counts.packets], [10, 10])
  view.apply([recordOf(11, factOf(11))])
  assert.equal(view.packets().total, 11)
})

test('last_seen ignores a fact too far ahead; a device with no other fact was last seen when it arrived (X36)', () => {
  const view = viewOf(0)
  const far = { tRaw: 2 ** 48 - 1 }
  const link = { medium: 'UDP', future: true } as NonNullable<LogRecord['link']>
  view.apply([recordOf(1, factOf(0)), recordOf(2, factOf(0, far), { link }), recordOf(3, factOf(1, far), { link })])
  assert.deepEqual(
    view.devices().devices.map(({ device_id, last_seen, packet_count }) => [device_id, last_seen, packet_count]),
    [
      ['dev-1', T0 + 1000, 1],
      ['dev-0', T0, 2],
    ],
  )
  assert.equal(
    view.packets().packets[0]!.timestamp_raw,
    Math.floor(far.tRaw / 1000),
    'kept, in the order of the papers',
  )
})
