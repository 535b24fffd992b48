// The parts of a log alone, compared with log-parts-trace.txt: records in buffers of every size, records and headers with foreign
// bytes, the scan of damaged segments, the loss ledger, the bytes of a day, the lines of a repair.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { DayCounter } from '../../../src/log/daycounter'
import { checkRecord, decodeRecord } from '../../../src/log/decode'
import { RecordEncoder } from '../../../src/log/encode'
import { MARK, MAX_RECORD, REASONS } from '../../../src/log/format'
import { joinRange, Ledger, noLosses } from '../../../src/log/ledger'
import { settle } from '../../../src/log/log-options'
import type { LossRange } from '../../../src/log/record'
import { DamageRepair } from '../../../src/log/repair'
import { decodeHeader, encodeHeader, findRecord, scanSegment } from '../../../src/log/segment'
import { Tail, type TailChunk } from '../../../src/log/tail'
import { packetUuid } from '../../../src/log/uuid'
import type { Fact, LinkMetadata } from '../../../src/pipeline/fact'
import { crc32c } from '../../../src/wire/crc'
import { ManualClock } from '../../lib/manual'
import { dice, digest, outcome, Trace } from '../../lib/trace'
import { factOf } from './helpers'

const trace = new Trace('unit/log/log-parts-trace.txt')
const { say } = trace
const course = trace.course.bind(trace)
const { below, chance, pick } = dice(17)
const encoder = new RecordEncoder(7)
const DAY = 86_400_000

const sealed = (b: Buffer, at = 0, length = b.length): Buffer => {
  b.writeUInt32LE(crc32c(b, at, at + length - 4), at + length - 4)
  return b
}
/** A record with a correct CRC: `length` bytes, its body all `fill`. */
const bare = (seq: number, length: number, kind = 0, flags = 0, fill = 0): Buffer => {
  const b = Buffer.alloc(length, fill)
  b.fill(0, 0, 32)
  b[0] = MARK
  b.writeUIntLE(length, 1, 3)
  b.writeUInt32LE(9, 4)
  b.writeUInt32LE(seq, 8)
  b[16] = kind
  b[17] = flags
  return sealed(b)
}
const decoded = (b: Buffer): string => outcome(() => decodeRecord(b, 0))

type Write = (into: Buffer, at: number) => number
const TIMES = [5, 1234, 1_710_000_000_123] as const
const fact =
  (change: Partial<Fact>, link: LinkMetadata = { medium: 'UDP' }, alarm = false): Write =>
  (into, at) =>
    encoder.at(into, at, ...TIMES, 'synced').fact({ ...factOf(1), ...change }, link, alarm)
const range = { reason: 'dropped', from: 5, to: 9, records: 4 } as const
const nothing = { id: 's', status: '', unit: '', value: null }
const WRITES: Record<string, Write> = {
  fact: fact({}),
  alarm: fact({}, { medium: 'local' }, true),
  'no sensors': fact({ sensors: [] }),
  'no value': fact({ sensors: [nothing] }),
  'empty extras': fact({ extras: {} }),
  extras: fact({ extras: { a: 'b', long: 'é'.repeat(64) } }),
  'a text of 127': fact({ extras: { a: 'x'.repeat(127) } }),
  'a text of 128': fact({ extras: { a: 'x'.repeat(128) } }),
  'short, not ASCII': fact({ extras: { a: 'é'.repeat(63) } }),
  rssi: fact({ sensors: [] }, { medium: 'LoRa', rssi: -80 }),
  snr: fact({ sensors: [] }, { medium: 'LoRa', snr: 5 }),
  address: fact({ sensors: [] }, { medium: 'UDP', address: 'a:1' }),
  route: fact({ sensors: [] }, { medium: 'UDP', route: [1, 2 ** 32 - 1] }),
  'no route': fact({ sensors: [] }, { medium: 'UDP', route: [] }),
  packet: fact({ sensors: [] }, { medium: 'UDP', frame: Uint8Array.of(1, 2, 3) }),
  'empty packet': fact({ sensors: [] }, { medium: 'UDP', frame: new Uint8Array(0) }),
  future: fact({ sensors: [] }, { medium: 'Pigeon', future: true }),
  rebuilt: fact({ sensors: [] }, { medium: '', template_rebuilt: true }),
  boot: (into, at) => encoder.at(into, at, ...TIMES, 'unsynced').bootRecord({ stop: false, version: '1' }),
  stop: (into, at) => encoder.at(into, at, ...TIMES, 'unknown').bootRecord({ stop: true, version: '' }),
  clock: (into, at) => encoder.at(into, at, ...TIMES, 'synced').clock({ trueWallMs: 1, offsetMs: -2, source: 'ntp' }),
  cursor: (into, at) => encoder.at(into, at, ...TIMES, 'synced').cursor('up', 2 ** 40),
  counter: (into, at) => encoder.at(into, at, ...TIMES, 'synced').cursor('tid', 3, true),
  'no losses': (into, at) => encoder.at(into, at, ...TIMES, 'synced').loss({ ...noLosses(), torn: 2 }, []),
  losses: (into, at) => encoder.at(into, at, ...TIMES, 'synced').loss({ ...noLosses(), torn: 2 }, [range, range]),
}

test('records, headers, scans and ledgers are as log-parts-trace.txt has them', () => {
  say('# records in buffers of every size: only those that hold it get it, and nothing behind its place is touched')
  for (const [name, write] of Object.entries(WRITES)) {
    const whole = Buffer.alloc(600, 0xee)
    const length = write(whole, 3)
    say(name, [length, checkRecord(whole, 3), whole.toString('hex', 3, 3 + length)])
    trace.lines.push(`  ${outcome(() => decodeRecord(whole, 3))}`)
    assert.ok(
      whole.subarray(3 + length).every(byte => byte === 0xee),
      name,
    )
    const fits = Array.from({ length: length + 6 }, (_, size) => {
      const buffer = Buffer.alloc(700, 0xee)
      const written = write(buffer.subarray(0, size), 3)
      assert.ok(
        buffer.subarray(size).every(byte => byte === 0xee),
        `${name} in ${size}`,
      )
      return written === length ? 1 : written
    })
    assert.deepEqual(fits, [...new Array(length + 3).fill(0), 1, 1, 1], name)
  }

  say('# records of foreign bytes')
  for (const length of [36, 37, MAX_RECORD - 1, MAX_RECORD, MAX_RECORD + 1, 256 * 1025])
    say(`${length} bytes`, [checkRecord(bare(1, length), 0), checkRecord(bare(1, length), 0, length - 1)])
  const other = bare(1, 40)
  other[0] = MARK + 1
  say('another mark', checkRecord(sealed(other), 0))
  for (let kind = 0; kind < 7; kind++) {
    say(`kind ${kind}`, checkRecord(bare(1, 60, kind), 0))
    if (kind > 4) continue
    for (const flags of [0, 1, 2, 4, 8, 16, 32, 64, 128, 255])
      for (const [fill, size] of [
        [0, 60],
        [0, 100],
        [1, 90],
        [3, 300],
        [255, 80],
      ] as const)
        trace.lines.push(`  ${flags} ${fill} ${size}: ${decoded(bare(1, size, kind, flags, fill)).slice(0, 400)}`)
  }

  say('# headers')
  const snapshot = { cursors: { up: 4 }, totals: noLosses(), ranges: [], segments: [[1, 2, 3, 4, 5] as const] }
  const header = encodeHeader({ boot: 3, base: 17, previousLast: 16, created: 1_710_000_000_123.9, snapshot })
  say('bytes', header.toString('hex'))
  say('read', decodeHeader(Buffer.concat([header, Buffer.alloc(5)])))
  const early = encodeHeader({ boot: 3, base: 17, previousLast: 16, created: -1, snapshot: {} as never })
  say('the shortest', [early.length, decodeHeader(early)])
  for (const length of [0, 1, 8, 11, 12, 56, 60, 61, 62, 63, early.length - 1])
    say(`cut to ${length}`, decodeHeader(early.subarray(0, length)) ?? null)
  for (const [at, value] of [
    [0, 1],
    [7, 1],
    [8, 60],
    [8, 61],
    [8, 63],
    [8, 255],
    [11, 1],
    [20, 1],
    [61, 1],
  ] as const) {
    const copy = Buffer.from(early)
    copy[at] = value
    say(`${value} at ${at}`, decodeHeader(copy) ?? null)
  }
  for (const json of ['', '1', '[]']) {
    const b = Buffer.alloc(60 + json.length)
    early.copy(b, 0, 0, 56)
    b.writeUInt32LE(b.length, 8)
    b.write(json, 56)
    say(
      `JSON ${json}`,
      outcome(() => decodeHeader(sealed(b)) ?? null),
    )
  }

  say('# the search for a record')
  const marks = Buffer.concat([Buffer.of(MARK, MARK), bare(4, 36), Buffer.of(MARK), bare(6, 36)])
  for (const from of [0, 1, 2, 3, 38, 39, 40])
    say(`from ${from}`, [findRecord(marks, from, 4, 7), findRecord(marks, from, 5, 6), findRecord(marks, from, 4, 6)])
  say('cut', findRecord(marks.subarray(0, -1), 3, 0, 9))

  say('# scans of damaged segments')
  course(
    'scan',
    1200,
    40,
    () => scanOnce(),
    () => scanOnce(),
  )

  say('# the ledger')
  const ledger = new Ledger()
  const states = (): unknown => [ledger.totals, ledger.ranges.length, REASONS.map(reason => ledger.newest(reason))]
  let top = 0
  course('ledger', 1500, 100, k => ledgerOnce(ledger, k, (top += below(4))), states)
  const list: LossRange[] = []
  for (const [from, to] of [
    [1, 2],
    [3, 3],
    [5, 6],
    [6, 7],
    [8, 8],
  ] as const)
    joinRange(list, { reason: 'torn', from, to, records: to - from + 1 })
  say('joined', list)

  say('# the bytes of a day')
  const clock = new ManualClock()
  let written = 0
  const today = 19_800 * DAY
  clock.wallMs = today + DAY - 1
  const made = [today - 1, today, today + DAY - 1, today + DAY].map((created, k) => ({ created, size: 10 ** k }))
  const day = new DayCounter(clock, () => written, made)
  const bytes: number[] = [day.bytes]
  for (const ms of [0, 1, DAY - 1, 1]) {
    clock.advance(ms)
    written += 1000
    bytes.push(day.bytes)
    written += 5
    bytes.push(day.bytes)
  }
  say('bytes', bytes)

  say('# chunks in RAM')
  chunks()

  say('# sizes')
  const sizes = [{}, { maxBytes: 1 }, { maxBytes: 1 << 30 }, { segmentBytes: 1 }, { bufferBytes: 1, maxAgeS: 2 }]
  for (const o of [...sizes, { segmentBytes: 4 << 20, commitBytes: 9 << 20, maxBytes: 64 << 20 }])
    say(JSON.stringify(o), settle({ dir: '/log', ...o }))

  say('# the line of a repair')
  for (const count of [0, 1, 9, 10, 11, 12]) {
    const said: string[] = []
    const repair = new DamageRepair({ logger: { warn: (text: string) => said.push(text) } } as never)
    repair.warn([
      { reason: 'torn', from: 900, to: 901, records: 2 },
      ...Array.from(
        { length: count },
        (_, k) => ({ reason: 'damaged', from: 10 * k, to: 10 * k + (k % 2), records: 1 }) as const,
      ),
    ])
    say(`${count}`, said)
  }
  trace.compare()
})

/** Records are appended, written and synced, in order; sometimes the oldest ones are dropped. */
function chunks(): void {
  const tail = new Tail(400, 1500)
  const ids = new Map<TailChunk, number>()
  let seq = 0
  const list = (): TailChunk[] => {
    const found: TailChunk[] = []
    for (let chunk = tail.head; chunk; chunk = chunk.next) found.push(chunk)
    return found
  }
  const state = (): unknown => [
    [tail.pending, tail.firstSeq, tail.factsAfter(seq - 9), seq],
    list().map(chunk => {
      if (!ids.has(chunk)) ids.set(chunk, ids.size)
      return [ids.get(chunk), chunk.generation, chunk.used, chunk.written, chunk.synced, chunk.firstSeq, chunk.lastSeq]
    }),
  ]
  const add = (): void => {
    const record = bare(++seq, chance(0.05) ? 500 : 60 + below(60), below(2))
    let chunk = tail.room()
    if (chunk.used + record.length > chunk.bytes.length) chunk = tail.room(record.length)
    record.copy(chunk.bytes, chunk.used)
    tail.added(chunk, seq, record.length)
  }
  const move = (): void => {
    for (const chunk of list().slice(0, 1 + below(4))) {
      if (chance(0.7)) chunk.written = chunk.used
      if (chance(0.7)) {
        tail.pending -= chunk.written - chunk.synced
        chunk.synced = chunk.written
      }
      chunk.busy = chance(0.2)
      if (chunk.synced < chunk.used) break
    }
  }
  course(
    'chunks',
    2000,
    100,
    () => {
      for (let k = below(6); k > 0; k--) add()
      if (chance(0.4)) move()
      if (chance(0.3)) tail.trim()
      return [chance(0.2) && tail.dropOldest(), state()]
    },
    state,
  )
}

/** What a scan reports for a segment of a few records with a fault in it. */
function scanOnce(): unknown {
  const base = pick([1, 100, 2 ** 33])
  const parts: Buffer[] = []
  const full = { cursors: {}, totals: noLosses(), ranges: [], segments: [] }
  if (chance(0.8)) parts.push(encodeHeader({ boot: 2, base, previousLast: base - 1, created: 5, snapshot: full }))
  let seq = base
  const count = below(6)
  for (let k = 0; k < count; k++) {
    const b = Buffer.alloc(300)
    const length = pick([WRITES['fact']!, WRITES['cursor']!, WRITES['losses']!])(b, 0)
    b.writeUInt32LE(seq >>> 0, 8)
    b.writeUInt32LE(Math.floor(seq / 2 ** 32), 12)
    parts.push(sealed(b, 0, length).subarray(0, length))
    seq += pick([1, 1, 1, 2, 0, -1, 2 ** 24])
  }
  let b = Buffer.concat(parts)
  for (let harm = below(3); harm > 0 && b.length > 0; harm--) {
    const at = below(b.length)
    const how = below(6)
    if (how === 0) b = b.subarray(0, at)
    else if (how === 1) b.fill(0, at)
    else if (how === 2) b = Buffer.concat([b.subarray(0, at), Buffer.alloc(below(80), MARK), b.subarray(at)])
    else if (how === 3) b = Buffer.concat([b, Buffer.alloc(below(200), pick([0, MARK, 1]))])
    else if (how === 4) b[at] = b[at]! ^ (1 << below(8))
    else b.fill(0, at, at + below(60))
  }
  const bounds = {
    base,
    ...(chance(0.4) && { limit: base + below(8) }),
    ...(chance(0.4) && { knownLast: base - 1 + below(8) }),
    headed: chance(0.4),
  }
  const seen: number[] = []
  const { header, ...scan } = scanSegment(b, bounds, (at, length) => seen.push(at, length))
  return [bounds, b.length, header?.base, scan, seen]
}

function ledgerOnce(ledger: Ledger, k: number, top: number): unknown {
  const reason = pick(REASONS)
  const from = chance(0.8) ? top + 1 : 1 + below(top + 5)
  const to = from + pick([0, 0, 1, 2, 6, 20])
  if (k % 9 === 8) {
    const totals = { ...noLosses(), [reason]: below(3000) }
    return ledger.merge(totals, [{ reason, from, to, records: below(to - from + 2) }])
  }
  const fresh = chance(0.3) ? ledger.add(reason, from, to, 1 + below(to - from + 1)) : ledger.add(reason, from, to)
  return [fresh, ledger.covers(from - 1), ledger.covers(to, ['torn']), ledger.covers(to + 1)]
}

/** The uuid by its definition at the head of uuid.ts, in pieces. */
function slowUuid(fact: Fact): string {
  const hash = createHash('sha256').update('os-node packet 1')
  const u32 = (n: number): void => void hash.update(Buffer.from([n >>> 24, n >>> 16, n >>> 8, n]))
  const text = (t: string): void => {
    u32(Buffer.byteLength(t))
    hash.update(t)
  }
  const number = (n: number): void => {
    const b = Buffer.alloc(8)
    b.writeDoubleBE(n)
    hash.update(b)
  }
  text(fact.id)
  number(fact.tRaw)
  text(fact.state)
  u32(fact.sensors.length)
  for (const sensor of fact.sensors) {
    for (const part of [sensor.id, sensor.status, sensor.unit]) text(part)
    hash.update(Buffer.of(sensor.value === null ? 0 : 1))
    if (sensor.value !== null) number(sensor.value)
  }
  const extras = Object.entries(fact.extras ?? {})
  u32(extras.length)
  for (const pair of extras) for (const part of pair) text(part)
  const b = hash.digest().subarray(0, 16)
  b[6] = (b[6]! & 15) | 0x80
  b[8] = (b[8]! & 63) | 0x80
  return b.toString('hex')
}

test('the uuid matches its definition, whichever field is the first that exceeds the buffer', () => {
  // 4096 bytes, doubled each time: the fields before the tested one fill it to the byte
  let room = 4096
  const rest = { id: '', tRaw: 1, aid: 1, state: '', sensors: [] }
  const filled = (less: number): string => 'x'.repeat(room - 16 - less)
  const forms: (() => Fact)[] = [
    () => ({ ...rest, id: filled(4) }),
    () => ({ ...rest, state: filled(4 + 8 + 4) }),
    () => ({ ...rest, sensors: [{ ...nothing, id: '', unit: filled(4 + 8 + 4 + 4 + 12) }] }),
    () => ({ ...rest, sensors: [{ ...nothing, id: '', unit: filled(4 + 8 + 4 + 4 + 12 + 1), value: 2 }] }),
    () => ({ ...rest, sensors: [{ ...nothing, id: '', unit: filled(4 + 8 + 4 + 4 + 12 + 1) }], extras: { a: 'b' } }),
    () => ({ ...rest, extras: { ['k'.repeat(9)]: filled(40) } }),
  ]
  let seen = 0
  for (const form of forms)
    for (const fact of [rest, form()]) {
      const uuid = Buffer.from(packetUuid(fact))
      assert.equal(uuid.toString('hex'), slowUuid(fact))
      seen = digest(seen, uuid)
      if (fact !== rest) while (room < 3 * JSON.stringify(fact).length) room *= 2
    }
  assert.ok(seen > 0)
})
