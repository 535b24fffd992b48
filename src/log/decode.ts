// Decodes bytes to a record. `checkRecord` verifies that the bytes at a position are a complete, intact record;
// `decodeRecord` is only called for those. A body of a later minor version with an unknown kind is reported as damaged, never
// guessed.
import { OsError } from '../lib/errors'
import type { Fact, LinkMetadata, SensorFact } from '../pipeline/fact'
import { crc32c } from '../wire/crc'
import {
  AT_BOOT,
  AT_FLAGS,
  AT_KIND,
  AT_MEDIUM,
  AT_MONO,
  AT_QUALITY,
  AT_SEQ,
  AT_WALL,
  FLAG_ADDRESS,
  FLAG_ALARM,
  FLAG_COUNTER,
  FLAG_EXTRAS,
  FLAG_FRAME,
  FLAG_FUTURE,
  FLAG_MARKS,
  FLAG_ROUTE,
  FLAG_RSSI,
  FLAG_SNR,
  FLAG_STOP,
  KINDS,
  MARK,
  MARK_FUTURE,
  MARK_REBUILT,
  MAX_RECORD,
  MEDIA,
  MEDIUM_NAMED,
  QUALITIES,
  REASONS,
  RECORD_HEADER,
  RECORD_OVERHEAD,
  readU64,
  recordLength,
} from './format'
import { noLosses } from './ledger'
import type { LogRecord, LossRange, LossTotals } from './record'

/** Length of the intact record at `at`, or 0. */
export function checkRecord(b: Buffer, at: number, end = b.length): number {
  if (at + RECORD_OVERHEAD > end || b[at] !== MARK) return 0
  const length = recordLength(b, at)
  if (length < RECORD_OVERHEAD || length > MAX_RECORD || at + length > end || b[at + AT_KIND]! >= KINDS.length) return 0
  return crc32c(b, at, at + length - 4) === b.readUInt32LE(at + length - 4) ? length : 0
}

export const recordSeq = (b: Buffer, at: number): number => readU64(b, at + AT_SEQ)

/** cache of short texts that are repeated in records: ids, units, states */
const TEXTS = new Array<string>(1024).fill('')
/** bytes; longer texts are rarely repeated */
const MAX_KEPT_TEXT = 32

/** The UTF-8 text of these bytes, from the cache if possible. */
function textOf(b: Buffer, at: number, end: number): string {
  const length = end - at
  if (length > MAX_KEPT_TEXT) return b.toString('utf8', at, end)
  let hash = length
  for (let k = at; k < end; k++) hash = Math.imul(hash, 31) + b[k]!
  const slot = (hash ^ (hash >>> 10)) & (TEXTS.length - 1)
  const text = TEXTS[slot]!
  let same = text.length === length
  // ASCII only: otherwise a char code differs from the byte
  for (let k = 0; same && k < length; k++) same = text.charCodeAt(k) === b[at + k] && b[at + k]! < 0x80
  return same ? text : (TEXTS[slot] = b.toString('utf8', at, end))
}

class Cursor {
  constructor(
    readonly b: Buffer,
    public at: number,
  ) {}
  u8(): number {
    return this.b.readUInt8(this.at++)
  }
  u16(): number {
    this.at += 2
    return this.b.readUInt16LE(this.at - 2)
  }
  u32(): number {
    this.at += 4
    return this.b.readUInt32LE(this.at - 4)
  }
  u64(): number {
    this.at += 8
    return readU64(this.b, this.at - 8)
  }
  f64(): number {
    this.at += 8
    return this.b.readDoubleLE(this.at - 8)
  }
  bytes(length: number): Uint8Array {
    this.at += length
    if (this.at > this.b.length) throw new RangeError('bytes go on behind the record')
    return Uint8Array.from(this.b.subarray(this.at - length, this.at))
  }
  text(): string {
    let length = this.u8()
    if (length & 0x80) length = ((length & 0x7f) << 8) | this.u8()
    this.at += length
    if (this.at > this.b.length) throw new RangeError('a text goes on behind the record')
    return textOf(this.b, this.at - length, this.at)
  }
}

/**
 * The record at `at`, already checked. Copies everything, since the buffer may be reused. Throws STORAGE if the CRC is
 * correct but the body was not written by the encoder: another program wrote it.
 */
export function decodeRecord(b: Buffer, at: number): LogRecord {
  try {
    return readRecord(b, at)
  } catch (cause) {
    throw new OsError('STORAGE', `record ${recordSeq(b, at)} of the log is of another version`, { cause })
  }
}

type Building<T> = { -readonly [K in keyof T]: T[K] }

/** Assigns members one by one: object spread took two thirds of the decoding time. */
function readRecord(b: Buffer, at: number): LogRecord {
  const kind = KINDS[b[at + AT_KIND]!]!
  const flags = b[at + AT_FLAGS]!
  const code = b[at + AT_MEDIUM]!
  const c = new Cursor(b, at + RECORD_HEADER)
  const record: Building<LogRecord> = {
    seq: recordSeq(b, at),
    boot: b.readUInt32LE(at + AT_BOOT),
    kind,
    monoMs: b.readUInt32LE(at + AT_MONO) + b.readUInt16LE(at + AT_MONO + 4) * 4294967296,
    wallMs: b.readUInt32LE(at + AT_WALL) + b.readUInt16LE(at + AT_WALL + 4) * 4294967296,
    quality: QUALITIES[b[at + AT_QUALITY]!] ?? 'unknown',
    medium: code === MEDIUM_NAMED ? c.text() : (MEDIA[code] ?? ''),
  }
  switch (kind) {
    case 'fact':
      readFact(c, flags, record)
      if (flags & FLAG_ALARM) record.alarm = true
      break
    case 'boot':
      record.bootInfo = { stop: (flags & FLAG_STOP) !== 0, version: c.text() }
      break
    case 'clock':
      record.clock = { trueWallMs: c.f64(), offsetMs: c.f64(), source: c.text() }
      break
    case 'cursor':
      if (flags & FLAG_COUNTER) record.counter = { name: c.text(), value: c.u64() }
      else record.cursor = { name: c.text(), seq: c.u64() }
      break
    case 'loss':
      record.loss = readLoss(c)
      break
    case 'packet': {
      const bytes = c.bytes(recordLength(b, at) - RECORD_OVERHEAD)
      record.packet = { bytes, future: (flags & FLAG_FUTURE) !== 0 }
    }
  }
  return record
}

/** Reads the fact of a record and its link metadata. */
function readFact(c: Cursor, flags: number, record: Building<LogRecord>): void {
  const aid = c.u32()
  const tRaw = c.f64()
  const id = c.text()
  const state = c.text()
  const link: Building<LinkMetadata> = { medium: record.medium }
  if (flags & FLAG_RSSI) link.rssi = c.f64()
  if (flags & FLAG_SNR) link.snr = c.f64()
  if (flags & FLAG_ADDRESS) link.address = c.text()
  if (flags & FLAG_ROUTE) {
    const route: number[] = []
    for (let n = c.u8(); n > 0; n--) route.push(c.u32())
    link.route = route
  }
  const sensors: SensorFact[] = []
  for (let n = c.u16(); n > 0; n--) {
    const sensor = { id: c.text(), status: c.text(), unit: c.text(), value: null as number | null }
    if (c.u8() === 1) sensor.value = c.f64()
    sensors.push(sensor)
  }
  const fact: Fact = { id, state, tRaw, aid, sensors }
  if (flags & FLAG_EXTRAS) {
    fact.extras = {}
    for (let n = c.u8(); n > 0; n--) {
      const key = c.text()
      fact.extras[key] = c.text()
    }
  }
  if (flags & FLAG_FRAME) link.frame = c.bytes(c.u16())
  if (flags & FLAG_MARKS) {
    const marks = c.u8()
    if (marks & MARK_FUTURE) link.future = true
    if (marks & MARK_REBUILT) link.template_rebuilt = true
  }
  record.fact = fact
  record.link = link
}

function readLoss(c: Cursor): { totals: LossTotals; ranges: LossRange[] } {
  const totals = noLosses()
  for (const reason of REASONS) totals[reason] = c.u64()
  const ranges: LossRange[] = []
  for (let n = c.u16(); n > 0; n--) {
    ranges.push({ reason: REASONS[c.u8()] ?? 'damaged', from: c.u64(), to: c.u64(), records: c.u32() })
  }
  return { totals, ranges }
}
