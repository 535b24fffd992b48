// Encodes records into a caller-owned buffer: at() sets position and time, the next call writes one record there and returns
// its length. The hot path of intake and receive: no allocation per record; ASCII strings are copied by a loop (faster than
// Buffer.write below about 20 characters). A record that does not fit returns 0 and the bytes written so far are invalid; the
// caller provides a larger or an emptier buffer.
import { OsError } from '../lib/errors'
import type { Fact, LinkMetadata } from '../pipeline/fact'
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
  KIND_BOOT,
  KIND_CLOCK,
  KIND_CURSOR,
  KIND_FACT,
  KIND_LOSS,
  KIND_PACKET,
  MARK,
  MARK_FUTURE,
  MARK_REBUILT,
  MEDIA,
  MEDIUM_NAMED,
  QUALITIES,
  REASONS,
  RECORD_HEADER,
  writeU64,
} from './format'
import type { BootInfo, ClockChange, LossRange, LossTotals, RecordTimeQuality } from './record'

const U48 = 2 ** 48 - 1
const MEDIUM_CODES = new Map(MEDIA.map((name, code) => [name, code]))

export class RecordEncoder {
  readonly boot: number
  #b: Buffer = Buffer.alloc(0)
  #start = 0
  #at = 0
  #limit = 0
  #seq = 0
  #monoMs = 0
  #wallMs = 0
  #quality: RecordTimeQuality = 'unknown'
  #full = false

  constructor(boot: number) {
    this.boot = boot
  }

  /** The next record begins at `at` in `into`. */
  at(into: Buffer, at: number, seq: number, monoMs: number, wallMs: number, quality: RecordTimeQuality): this {
    this.#b = into
    this.#start = at
    this.#at = at + RECORD_HEADER
    this.#limit = into.length - 4
    this.#full = this.#at > this.#limit
    this.#seq = seq
    this.#monoMs = monoMs
    this.#wallMs = wallMs
    this.#quality = quality
    return this
  }

  fact(fact: Fact, link: LinkMetadata, alarm = false): number {
    const medium = MEDIUM_CODES.get(link.medium) ?? MEDIUM_NAMED
    let flags = 0
    if (link.rssi !== undefined) flags |= FLAG_RSSI
    if (link.snr !== undefined) flags |= FLAG_SNR
    if (link.address !== undefined) flags |= FLAG_ADDRESS
    if (link.route !== undefined && link.route.length > 0) flags |= FLAG_ROUTE
    if (fact.extras !== undefined) flags |= FLAG_EXTRAS
    if (alarm) flags |= FLAG_ALARM
    if (link.frame !== undefined) flags |= FLAG_FRAME
    const marks = (link.future ? MARK_FUTURE : 0) | (link.template_rebuilt ? MARK_REBUILT : 0)
    if (marks !== 0) flags |= FLAG_MARKS
    if (medium === MEDIUM_NAMED) this.#text(link.medium)
    this.#u32(fact.aid)
    this.#f64(fact.tRaw)
    this.#text(fact.id)
    this.#text(fact.state)
    if (link.rssi !== undefined) this.#f64(link.rssi)
    if (link.snr !== undefined) this.#f64(link.snr)
    if (link.address !== undefined) this.#text(link.address)
    if (flags & FLAG_ROUTE) {
      const route = link.route!
      this.#u8(route.length)
      for (let k = 0; k < route.length; k++) this.#u32(route[k]!)
    }
    const sensors = fact.sensors
    this.#u16(sensors.length)
    for (let k = 0; k < sensors.length; k++) {
      const sensor = sensors[k]!
      this.#text(sensor.id)
      this.#text(sensor.status)
      this.#text(sensor.unit)
      if (sensor.value === null) this.#u8(0)
      else {
        this.#u8(1)
        this.#f64(sensor.value)
      }
    }
    if (fact.extras !== undefined) {
      const keys = Object.keys(fact.extras)
      this.#u8(keys.length)
      for (const key of keys) {
        this.#text(key)
        this.#text(fact.extras[key]!)
      }
    }
    if (link.frame !== undefined) {
      this.#u16(link.frame.length)
      this.#bytes(link.frame)
    }
    if (marks !== 0) this.#u8(marks)
    return this.#end(KIND_FACT, flags, medium)
  }

  bootRecord({ version, stop }: BootInfo): number {
    this.#text(version)
    return this.#end(KIND_BOOT, stop ? FLAG_STOP : 0)
  }

  clock(c: ClockChange): number {
    this.#f64(c.trueWallMs)
    this.#f64(c.offsetMs)
    this.#text(c.source)
    return this.#end(KIND_CLOCK)
  }

  cursor(name: string, position: number, counter = false): number {
    this.#text(name)
    this.#u64(position)
    return this.#end(KIND_CURSOR, counter ? FLAG_COUNTER : 0)
  }

  packet(bytes: Uint8Array, future: boolean): number {
    this.#bytes(bytes)
    return this.#end(KIND_PACKET, future ? FLAG_FUTURE : 0)
  }

  loss(totals: LossTotals, ranges: readonly LossRange[]): number {
    for (const reason of REASONS) this.#u64(totals[reason])
    this.#u16(ranges.length)
    for (const range of ranges) {
      this.#u8(REASONS.indexOf(range.reason))
      this.#u64(range.from)
      this.#u64(range.to)
      this.#u32(range.records)
    }
    return this.#end(KIND_LOSS)
  }

  #end(kind: number, flags = 0, medium = 0): number {
    if (this.#full) return 0
    const b = this.#b
    const start = this.#start
    const length = this.#at - start + 4
    b[start] = MARK
    b[start + 1] = length & 0xff
    b[start + 2] = (length >>> 8) & 0xff
    b[start + 3] = length >>> 16
    b.writeUInt32LE(this.boot, start + AT_BOOT)
    writeU64(b, this.#seq, start + AT_SEQ)
    b[start + AT_KIND] = kind
    b[start + AT_FLAGS] = flags
    const mono = clampMs(this.#monoMs)
    b.writeUInt32LE(mono % 4294967296, start + AT_MONO)
    b.writeUInt16LE(Math.floor(mono / 4294967296), start + AT_MONO + 4)
    const wall = clampMs(this.#wallMs)
    b.writeUInt32LE(wall % 4294967296, start + AT_WALL)
    b.writeUInt16LE(Math.floor(wall / 4294967296), start + AT_WALL + 4)
    b[start + AT_QUALITY] = QUALITIES.indexOf(this.#quality)
    b[start + AT_MEDIUM] = medium
    b.writeUInt32LE(crc32c(b, start, this.#at), this.#at)
    return length
  }

  #room(bytes: number): boolean {
    if (this.#at + bytes > this.#limit) this.#full = true
    return !this.#full
  }

  #u8(value: number): void {
    if (value > 0xff) throw tooLarge(`a count of ${value}`)
    if (this.#room(1)) this.#b[this.#at++] = value
  }

  #u16(value: number): void {
    if (value > 0xffff) throw tooLarge(`a count of ${value}`)
    if (this.#room(2)) this.#at = this.#b.writeUInt16LE(value, this.#at)
  }

  #u32(value: number): void {
    if (this.#room(4)) this.#at = this.#b.writeUInt32LE(value, this.#at)
  }

  #u64(value: number): void {
    if (!this.#room(8)) return
    writeU64(this.#b, value, this.#at)
    this.#at += 8
  }

  #bytes(bytes: Uint8Array): void {
    if (!this.#room(bytes.length)) return
    this.#b.set(bytes, this.#at)
    this.#at += bytes.length
  }

  #f64(value: number): void {
    if (this.#room(8)) this.#at = this.#b.writeDoubleLE(value, this.#at)
  }

  #text(text: string): void {
    const b = this.#b
    const size = text.length
    if (size < 0x80) {
      if (!this.#room(size + 1)) return
      const start = this.#at + 1
      let k = 0
      for (; k < size; k++) {
        const c = text.charCodeAt(k)
        if (c >= 0x80) break
        b[start + k] = c
      }
      if (k === size) {
        b[this.#at] = size
        this.#at = start + size
        return
      }
    }
    const length = Buffer.byteLength(text)
    if (length > 0x7fff) throw tooLarge(`a text of ${length} bytes`)
    if (!this.#room(length + (length < 0x80 ? 1 : 2))) return
    if (length < 0x80) b[this.#at++] = length
    else {
      b[this.#at++] = 0x80 | (length >>> 8)
      b[this.#at++] = length & 0xff
    }
    this.#at += b.write(text, this.#at, 'utf8')
  }
}

const clampMs = (ms: number): number => (ms > 0 ? Math.min(Math.floor(ms), U48) : 0)

const tooLarge = (what: string): OsError => new OsError('PACKET_TOO_LARGE', `the log cannot hold ${what} in one record`)
