import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkRecord, decodeRecord } from '../../../src/log/decode'
import { RecordEncoder } from '../../../src/log/encode'
import { packetUuid, uuidBytes, uuidText } from '../../../src/log/uuid'
import type { Fact, LinkMetadata } from '../../../src/pipeline/fact'
import { factOf, random } from './helpers'

const encoder = new RecordEncoder(3)
const write = (fact: Fact, link: LinkMetadata, into = Buffer.alloc(4096)): Buffer =>
  into.subarray(0, encoder.at(into, 0, 2 ** 40 + 5, 1234.9, 1_710_000_000_123.7, 'synced').fact(fact, link))

const FULL: Fact = {
  id: 'Gerät-7',
  state: 'ONLINE',
  tRaw: 1_710_000_000_123,
  aid: 4294967295,
  sensors: [
    { id: 'temp', status: 'OK', unit: 'K', value: 293.15 },
    { id: 'dead', status: 'ERROR', unit: 'Pa', value: null },
    { id: 'tiny', status: 'OK', unit: 'm/s', value: -5e-324 },
  ],
  extras: { geohash: 'u33d', msg: 'x'.repeat(300) },
}
const LINK: LinkMetadata = { medium: 'LoRa', address: '192.0.2.1:8080', rssi: -87.5, snr: 6.25, route: [9, 4294967295] }

test('a fact with all fields is decoded as it was encoded', () => {
  const record = decodeRecord(write(FULL, LINK), 0)
  assert.deepEqual(record.fact, FULL)
  assert.deepEqual(record.link, LINK)
  const { seq, boot, kind, monoMs, wallMs, quality, medium } = record
  assert.deepEqual(
    { seq, boot, kind, monoMs, wallMs, quality, medium },
    {
      seq: 2 ** 40 + 5,
      boot: 3,
      kind: 'fact',
      monoMs: 1234,
      wallMs: 1_710_000_000_123,
      quality: 'synced',
      medium: 'LoRa',
    },
  )
})

test('each mark of a fact is decoded alone, with the other mark and after a packet', () => {
  const marks = [{ future: true }, { template_rebuilt: true }, { future: true, template_rebuilt: true }] as const
  for (const mark of marks)
    for (const link of [
      { medium: 'UDP', ...mark },
      { ...LINK, frame: Uint8Array.of(1, 2, 3), ...mark },
    ])
      assert.deepEqual(decodeRecord(write(FULL, link), 0).link, link)
})

test('a medium without a code keeps its name', () => {
  const record = decodeRecord(write(factOf(1), { medium: 'Pigeon' }), 0)
  assert.equal(record.link!.medium, 'Pigeon')
  assert.deepEqual(record.fact, factOf(1))
})

test('the bytes of version 1 do not change', () => {
  assert.equal(write(factOf(1), { medium: 'UDP', address: '192.0.2.1:8080' }).toString('hex'), GOLDEN)
})
const GOLDEN =
  'c56100000300000005000000000100000004d204000000007b4cf1238e010202070000000010c0143fe27842056465762d31064f4e4c494e450e3139322e302e322e313a3830383001000474656d70024f4b014b01000000000000f83faac1d9a7'

test('records of every kind are decoded as they were encoded', () => {
  const b = Buffer.alloc(4096)
  const round = (length: number): ReturnType<typeof decodeRecord> => {
    assert.equal(checkRecord(b, 0), length)
    return decodeRecord(b, 0)
  }
  assert.deepEqual(round(encoder.at(b, 0, 1, 0, 0, 'unsynced').bootRecord({ stop: true, version: '0.1.0' })).bootInfo, {
    stop: true,
    version: '0.1.0',
  })
  const change = { trueWallMs: 1_710_000_000_000.5, offsetMs: -12.25, source: '192.0.2.9' }
  assert.deepEqual(round(encoder.at(b, 0, 1, 0, 0, 'synced').clock(change)).clock, change)
  assert.deepEqual(round(encoder.at(b, 0, 1, 0, 0, 'synced').cursor('main', 2 ** 50)).cursor, {
    name: 'main',
    seq: 2 ** 50,
  })
  assert.deepEqual(round(encoder.at(b, 0, 1, 0, 0, 'synced').cursor('tid', 7, true)).counter, { name: 'tid', value: 7 })
  for (const future of [false, true]) {
    const packet = { bytes: Uint8Array.of(0x3f, 0, 255), future }
    assert.deepEqual(round(encoder.at(b, 0, 1, 0, 0, 'synced').packet(packet.bytes, future)).packet, packet)
  }
  const totals = { damaged: 1, torn: 2, dropped: 3, overflow: 2 ** 41 }
  const ranges = [{ reason: 'overflow' as const, from: 5, to: 2 ** 40, records: 9 }]
  assert.deepEqual(round(encoder.at(b, 0, 1, 0, 0, 'synced').loss(totals, ranges)).loss, { totals, ranges })
})

test('a record that does not fit leaves no valid bytes, at any buffer size', () => {
  const whole = write(FULL, LINK)
  for (let size = 0; size < whole.length; size++) {
    assert.equal(write(FULL, LINK, Buffer.alloc(size)).length, 0)
  }
  // the last field: a short text, the longest short one, a long one, a number
  const last = ['m', 'm'.repeat(127), 'm'.repeat(128)].map(msg => ({ ...FULL, extras: { msg } }))
  for (const fact of [...last, { ...FULL, extras: undefined } as never]) {
    const { length } = write(fact, { medium: 'UDP' })
    assert.equal(write(fact, { medium: 'UDP' }, Buffer.alloc(length)).length, length)
    assert.equal(write(fact, { medium: 'UDP' }, Buffer.alloc(length - 1)).length, 0)
  }
})

test('any flipped bit is detected', () => {
  const whole = Buffer.from(write(FULL, LINK))
  for (let bit = 0; bit < whole.length * 8; bit++) {
    whole[bit >> 3]! ^= 1 << (bit & 7)
    assert.equal(checkRecord(whole, 0), 0)
    whole[bit >> 3]! ^= 1 << (bit & 7)
  }
  assert.equal(checkRecord(whole, 0), whole.length)
})

test('random facts are decoded as they were encoded', () => {
  const next = random(7)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!
  const text = (): string =>
    pick(['', 'a', 'Ω', '🙂', 'x'.repeat(127), 'é'.repeat(64), 'y'.repeat(128), 'z'.repeat(3000)])
  for (let k = 0; k < 500; k++) {
    const fact: Fact = {
      id: text(),
      state: text(),
      tRaw: pick([0, 1, 1.5, -3, 1e18]),
      aid: Math.floor(next() * 2 ** 32),
      sensors: Array.from({ length: Math.floor(next() * 6) }, () => ({
        id: text(),
        status: text(),
        unit: text(),
        value: pick([null, 0, -0, 1.1, Number.MAX_VALUE]),
      })),
    }
    const record = decodeRecord(write(fact, { medium: text() }, Buffer.alloc(256 * 1024)), 0)
    assert.deepEqual(record.fact, fact)
  }
})

test('the uuid depends on device, time and content only', () => {
  const uuid = uuidText(packetUuid(FULL))
  assert.equal(uuid, 'bc72b60b-bf33-83e4-af68-6d3f46825819')
  assert.equal(uuid, uuidText(packetUuid({ ...FULL, aid: 1, extras: { msg: FULL.extras!.msg!, geohash: 'u33d' } })))
  assert.match(uuid, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  const others = [
    { ...FULL, id: 'Gerät-8' },
    { ...FULL, tRaw: FULL.tRaw + 1 },
    { ...FULL, state: 'OFFLINE' },
    { ...FULL, extras: undefined },
    { ...FULL, sensors: FULL.sensors.slice(1) },
    { ...FULL, sensors: FULL.sensors.map(s => ({ ...s, value: s.value ?? 0 })) },
  ] as Fact[]
  assert.equal(new Set([uuid, ...others.map(f => uuidText(packetUuid(f)))]).size, 7)
  const many = Array.from({ length: 64 }, (_, k) => packetUuid({ ...FULL, tRaw: k }))
  const [all, any] = [
    many.reduce((a, b) => a.map((x, k) => x & b[k]!)),
    many.reduce((a, b) => a.map((x, k) => x | b[k]!)),
  ]
  // except for the version and the variant every bit is from the hash
  const [least, most] = [new Array(16).fill(0), new Array(16).fill(0xff)]
  Object.assign(least, { 6: 0x80, 8: 0x80 })
  Object.assign(most, { 6: 0x8f, 8: 0xbf })
  assert.deepEqual([[...all], [...any]], [least, most])
  assert.deepEqual(Buffer.from(uuidBytes(uuid.toUpperCase())!), Buffer.from(packetUuid(FULL)))
  assert.equal(uuidBytes("x' OR 1=1 --"), undefined)
})

test('counts of 255 fit and 256 are refused; times are whole milliseconds of 48 bits', () => {
  const extras = (count: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, k) => [`k${k}`, '']))
  const big = Buffer.alloc(1 << 20)
  const round = (fact: Fact, link: LinkMetadata = { medium: 'UDP' }) => decodeRecord(write(fact, link, big), 0)
  const fact = factOf(1)
  assert.deepEqual(round({ ...fact, extras: extras(255) }).fact!.extras, extras(255))
  assert.throws(() => round({ ...fact, extras: extras(256) }), { code: 'PACKET_TOO_LARGE', message: /a count of 256/ })
  const [sensor] = fact.sensors
  const sensors = (count: number) => Array.from({ length: count }, () => ({ ...sensor!, id: '', status: '', unit: '' }))
  assert.equal(round({ ...fact, sensors: sensors(0xffff) }).fact!.sensors.length, 0xffff)
  assert.throws(() => write({ ...fact, sensors: sensors(0x10000) }, LINK, big), { message: /a count of 65536/ })
  assert.equal(round({ ...fact, id: 'i'.repeat(0x7fff) }).fact!.id.length, 0x7fff)
  assert.throws(() => round({ ...fact, id: 'i'.repeat(0x8000) }), { message: /a text of 32768 bytes/ })
  const at = (mono: number, wall: number): number[] => {
    encoder.at(big, 0, 1, mono, wall, 'synced').fact(fact, LINK)
    const { monoMs, wallMs } = decodeRecord(big, 0)
    return [monoMs, wallMs]
  }
  assert.deepEqual(at(2 ** 48 + 5, 2 ** 48), [2 ** 48 - 1, 2 ** 48 - 1])
  assert.deepEqual(at(-1, Number.NaN), [0, 0])
  assert.deepEqual(at(1.9, 2 ** 32 + 0.5), [1, 2 ** 32])
})

test('the uuid does not depend on the order of the extras', () => {
  const orders = ['abc', 'acb', 'bac', 'bca', 'cab', 'cba'].map(keys => [...keys].map(key => [key, key] as const))
  const uuids = orders.map(entries => uuidText(packetUuid({ ...FULL, extras: Object.fromEntries(entries) })))
  assert.equal(new Set(uuids).size, 1)
})

test('a text is never confused with another one read before it', () => {
  const chars = Array.from({ length: 0x800 - 0x80 }, (_, k) => String.fromCharCode(k + 0x80))
  // the bytes of one character as two characters, and many texts of one length
  const texts = chars.flatMap((char, k) => [String.fromCharCode(...Buffer.from(char)), char, `s${k}`, String(k)])
  for (const text of [...texts, ...texts.reverse()]) {
    const { fact } = decodeRecord(write({ ...FULL, id: text, extras: { [text]: text } }, LINK), 0)
    assert.deepEqual([fact?.id, fact?.extras], [text, { [text]: text }])
  }
})
