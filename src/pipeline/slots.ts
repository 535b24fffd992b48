// A receiver's state of one template (decision 0016): the slots after each of its last eight frames, in order of time, as numbers
// and shared descriptions of `state.unit`, so that decoding a DIFF copies a few numbers and makes no text.
import { decodeInteger, NO_VALUE, NO_VALUE_TEXT, parseBase62, readBase62 } from '../wire/base62'
import { stateName } from '../wire/symbols'
import type { Fact } from './fact'
import type { PackedReader, PackedWriter } from './packed-bytes'
import { hashText, LONG_META, type MetaInfo, type MetaOf } from './slot-meta-cache'
import {
  fromBase64,
  isPlainSignature,
  isPlainText,
  type SensorSegment,
  sensorOf,
  signatureHead,
  splitText,
} from './text'

/** states kept for each template (decision 0016) */
const KEPT_STATES = 8
const ZERO = 0x30
/** the row in which a late frame is decoded, never kept */
const SCRATCH = KEPT_STATES

/** The part of a template that no slot changes. */
export interface Shape {
  readonly id: string
  /** state name, not its token */
  readonly state: string
  readonly signature: string
  /** of C firmware: units are plain UCUM */
  readonly plain: boolean
  readonly sensorIds: readonly string[]
  readonly extras: Fact['extras']
  /** over id, state, sensor ids and extras */
  readonly hash: number
}

/** A parsed FULL text. */
export interface FullText {
  readonly id: string
  readonly stateToken: string
  /** of the time */
  readonly token: string
  readonly signature: string
  readonly sensors: readonly SensorSegment[]
  readonly segments: readonly string[]
}

/** Parses the text of a FULL, without `<aid>;`. `plain`: of C firmware. Throws BAD_TEXT. */
export function readFull(text: string, plain = false): FullText {
  const { id, state, token, segments } = splitText(text)
  const sensors: SensorSegment[] = []
  let signature = signatureHead(id, state, plain)
  for (const segment of segments) {
    const sensor = sensorOf(segment)
    if (sensor) sensors.push(sensor)
    signature += sensor ? `${sensor.id}>\x01:\x01|` : `${segment}|`
  }
  return { id, stateToken: state, token, signature, sensors, segments }
}

export function shapeOf({ id, stateToken, signature, sensors, segments }: FullText): Shape {
  const extras: Record<string, string> = {}
  for (const segment of segments) {
    if (segment.startsWith('&')) extras.geohash = segment.slice(1)
    else if (segment.startsWith('#')) extras.url = `https://${fromBase64(segment.slice(1))}`
    else if (segment.startsWith('@')) extras.msg = fromBase64(segment.slice(1))
  }
  const state = stateName(stateToken)
  const sensorIds = sensors.map(sensor => sensor.id)
  const some = Object.keys(extras).length > 0 ? extras : undefined
  const plain = isPlainSignature(signature)
  return { id, state, signature, plain, sensorIds, extras: some, hash: shapeHash(id, state, sensorIds, some) }
}

/** Hash over the part of a fact that no slot changes. */
export function shapeHash(id: string, state: string, sensorIds: readonly string[], extras: Fact['extras']): number {
  let hash = hashText(state, hashText(id))
  for (const sensorId of sensorIds) hash = hashText(sensorId, hash)
  return extras ? hashText(`${extras.geohash}|${extras.url}|${extras.msg}`, hash) : hash
}

/** The end of a value: C firmware may append a text after `!`, `#` or `@`. */
function valueEnd(body: Uint8Array, from: number, to: number): number {
  for (let k = from + 1; k < to; k++) if (body[k] === 0x21 || body[k] === 0x23 || body[k] === 0x40) return k
  return to
}

/** Whether that text is valid as the `state.unit` of a FULL. */
const isMetaText = (body: Uint8Array, from: number, to: number): boolean => {
  const text = Buffer.from(body.buffer, body.byteOffset + from, to - from).toString('utf8')
  return text.includes('.') && !text.includes('|') && isPlainText(text)
}

/** A value's text as a number; throws BAD_TEXT. */
function numberOf(text: string): number {
  if (text === '') return 0
  if (text === NO_VALUE_TEXT) return NO_VALUE
  if (text.length > 9) return Number(decodeInteger(text))
  const n = parseBase62(text)
  return Number.isNaN(n) ? Number(decodeInteger(text)) : n
}

/**
 * How a DIFF body is read. LAX: as far as it goes, as in the reference. EXACT: it must end with its last slot. WARY: it
 * may be noise, decrypted with a wrong key whose checksum matches by chance, and is checked closely.
 */
export const LAX = 0
export const EXACT = 1
export const WARY = 2
/** The same as MetaOf, for the bytes of a text. */
export type MetaOfBytes = (bytes: Uint8Array, from: number, to: number, plain: boolean) => MetaInfo
type BodyReading = typeof LAX | typeof EXACT | typeof WARY

export class SlotHistory {
  readonly count: number
  readonly maskBytes: number
  readonly ids: readonly string[]
  readonly #ts = new Float64Array(KEPT_STATES).fill(-1)
  readonly #numbers: Float64Array
  readonly #metas: (MetaInfo | null)[]
  #head = -1
  #newest = -1
  #work = SCRATCH
  /** approximate bytes in memory; never decreases */
  weight = 0
  /** late frames since the last one in order */
  lateRun = 0
  /** number of the newest FULL in the exchange; 0 outside of it */
  fullSeq = 0
  /** highest number of a frame in its run */
  seq = 0
  /** only shape, states and units are known, from before an unclean stop: a DIFF gives only its own values, until a FULL (X33) */
  rebuilt = false
  /** whether the current frame changed a `state.unit`, and whether it changed a unit */
  reshaped = false
  unitChanged = false
  /** for a DIFF on a rebuilt template: 1 for each sensor with a value in it; else null */
  #touched: Uint8Array | null = null

  constructor(readonly shape: Shape) {
    this.count = shape.sensorIds.length
    this.ids = shape.sensorIds
    this.maskBytes = (2 * this.count + 7) >> 3
    this.#numbers = new Float64Array((KEPT_STATES + 1) * this.count)
    this.#metas = new Array<MetaInfo | null>((KEPT_STATES + 1) * this.count).fill(null)
  }

  /** the newest state, -1 if there is none */
  get head(): number {
    return this.#head
  }

  /** TS of the newest frame, -1 if there was none */
  get newest(): number {
    return this.#newest
  }

  /** false: there is no state as a base for a DIFF */
  get known(): boolean {
    return this.#head >= 0
  }

  /** Whether a frame of `ts` builds on the newest state, as nearly all do. */
  follows(ts: number): boolean {
    return this.#head >= 0 && ts >= this.#newest && !this.rebuilt && this.count > 0
  }

  /** The newest kept state not newer than `ts`; of several with the same TS the last one received; -1 if there is none. */
  stateFor(ts: number): number {
    for (let k = 0; k < KEPT_STATES && this.#head >= 0; k++) {
      const row = (this.#head + KEPT_STATES - k) % KEPT_STATES
      const kept = this.#ts[row]!
      if (kept >= 0 && kept <= ts) return row
    }
    return -1
  }

  /** Its values may be out of date: only shape, states and units of its newest state are used. */
  rebuild(): void {
    if (this.#head >= 0) this.rebuilt = true
  }

  /** Starts a row on the newest state of a rebuilt template. */
  beginRebuilt(): void {
    this.begin(this.#head, false)
    this.#touched = new Uint8Array(this.count)
  }

  /** Whether the current frame had the value of a sensor; in a template that is not rebuilt every value is known. */
  knows(i: number): boolean {
    return this.#touched === null || this.#touched[i] === 1
  }

  /** Drops every state, but keeps the time of the newest: older FULLs are still not learned. */
  invalidate(): void {
    this.#ts.fill(-1)
    this.#head = -1
    this.rebuilt = false
  }

  /** Drops everything: the sender's clock was set back. */
  clear(): void {
    this.invalidate()
    this.#newest = -1
    this.lateRun = 0
  }

  /** Starts a new row from a kept state (or empty for -1); `late` rows are decoded in a separate row. */
  begin(from: number, late: boolean): void {
    const { count } = this
    this.reshaped = false
    this.unitChanged = false
    this.#touched = null
    this.#work = late ? SCRATCH : (this.#head + 1) % KEPT_STATES
    // the row replaces the oldest state; if the frame is broken, nothing may build on the remains
    if (!late) this.#ts[this.#work] = -1
    if (from < 0) return
    const source = from * count
    const target = this.#work * count
    for (let i = 0; i < count; i++) {
      this.#numbers[target + i] = this.#numbers[source + i]!
      this.#metas[target + i] = this.#metas[source + i]!
    }
  }

  /** Applies a DIFF body to the row. False if the body does not match; then do not keep the row, unless it was read LAX. */
  apply(body: Uint8Array, start: number, end: number, metaOf: MetaOfBytes, reading: BodyReading = EXACT): boolean {
    const wary = reading === WARY
    const size = Math.min(this.maskBytes, end - start)
    const maskEnd = start + size - 1
    // a body without texts matches any key: an empty body always, a mask with empty texts once in several thousand
    if (wary && (end - start <= this.maskBytes || body[start]! >>> (2 * this.count - 8 * (size - 1)) !== 0))
      return false
    const row = this.#work * this.count
    const slots = Math.min(2 * this.count, 8 * size)
    const touched = this.#touched
    const numbers = this.#numbers
    let p = start + this.maskBytes
    for (let slot = 0; slot < slots; slot++) {
      if (((body[maskEnd - (slot >> 3)]! >> (slot & 7)) & 1) === 0) continue
      if (p >= end) return false
      const from = p + 1
      const to = reading === LAX ? Math.min(end, from + body[p]!) : from + body[p]!
      if (to > end || (wary && from === to)) return false
      if (slot & 1) {
        let last = to
        const at = row + (slot >> 1)
        if (!readBase62(body, from, to, numbers, at)) {
          last = valueEnd(body, from, to)
          if (!readBase62(body, from, last, numbers, at)) return false
        }
        if (numbers[at] === 0 && last - from === 2 && body[from] === ZERO) numbers[at] = NO_VALUE
        if (touched !== null) touched[slot >> 1] = 1
      } else if (wary && !isMetaText(body, from, to)) return false
      else this.#setMeta(row + (slot >> 1), metaOf(body, from, to, this.shape.plain), row + (slot >> 1))
      p = to
    }
    // bytes after the last slot: the sender's mask has another size, so this is not its template
    return p === end || end <= start + this.maskBytes || reading === LAX
  }

  #setMeta(at: number, info: MetaInfo, before: number): void {
    const known = before < 0 ? null : this.#metas[before]!
    if (known !== info) {
      this.reshaped = true
      this.unitChanged ||= known?.unit !== info.unit || known.factor !== info.factor || known.offset !== info.offset
    }
    this.#metas[at] = info
  }

  /** Fills the row from a FULL text; throws BAD_TEXT. */
  fill(sensors: readonly SensorSegment[], metaOf: MetaOf): void {
    const row = this.#work * this.count
    let long = 0
    sensors.forEach((sensor, i) => {
      this.#setMeta(row + i, metaOf(sensor.meta, this.shape.plain), this.#head * this.count + i)
      this.#numbers[row + i] = numberOf(sensor.value)
      // descriptions of long texts are not shared
      if (sensor.meta.length > LONG_META) long += sensor.meta.length
    })
    const { signature } = this.shape
    // measured: maps, arrays and texts of a template of one source take 1.4 KiB in addition to its rows
    const weight = 1500 + 4 * signature.length + 16 * (KEPT_STATES + 1) * this.count + 4 * (KEPT_STATES + 1) * long
    if (weight > this.weight) this.weight = weight
  }

  /** The same for sensors whose texts are known already. */
  fillParsed(metas: readonly MetaInfo[], numbers: Float64Array): void {
    const row = this.#work * this.count
    const newest = this.#head * this.count
    for (let i = 0; i < this.count; i++) {
      this.#setMeta(row + i, metas[i]!, newest < 0 ? -1 : newest + i)
      this.#numbers[row + i] = numbers[i]!
    }
  }

  /** Keeps the row as the state after the frame of `ts`. */
  keep(ts: number): void {
    this.#head = this.#work
    this.#ts[this.#head] = ts
    this.#newest = ts
    this.lateRun = 0
  }

  /** A separate history that starts with the newest state. */
  branch(): SlotHistory {
    const made = new SlotHistory(this.shape)
    made.weight = this.weight
    for (let i = 0; i < this.count; i++) {
      const { meta, n } = this.newestSlot(i)
      made.#numbers[i] = n
      made.#metas[i] = meta
    }
    made.rebuilt = this.rebuilt
    made.#head = 0
    made.#ts[0] = made.#newest = this.#newest
    return made
  }

  /** Writes everything except its shape. */
  pack(out: PackedWriter): void {
    out.count(this.weight)
    out.count(2 * this.lateRun + (this.rebuilt ? 1 : 0))
    out.float(this.#newest)
    out.count(this.seq)
    const rows: number[] = []
    for (let k = 1; k <= KEPT_STATES && this.#head >= 0; k++) {
      const row = (this.#head + k) % KEPT_STATES
      if (this.#ts[row]! >= 0) rows.push(row)
    }
    out.count(rows.length)
    let before = -1
    for (const row of rows) {
      const at = row * this.count
      out.near(this.#ts[row]!, before < 0 ? this.#newest : this.#ts[before]!)
      let same = before >= 0
      for (let i = 0; same && i < this.count; i++) same = this.#metas[at + i] === this.#metas[before * this.count + i]
      out.count(same ? 1 : 0)
      for (let i = 0; !same && i < this.count; i++) out.text(this.#metas[at + i]!.text)
      for (let i = 0; i < this.count; i++)
        out.near(this.#numbers[at + i]!, before < 0 ? 0 : this.#numbers[before * this.count + i]!)
      before = row
    }
  }

  /** Reverses pack(), into an empty history of the same shape. */
  unpack(from: PackedReader, metaOf: MetaOf): void {
    this.weight = from.count()
    const runs = from.count()
    this.lateRun = runs >> 1
    this.rebuilt = runs % 2 === 1
    this.#newest = from.float()
    this.seq = from.count()
    const rows = from.count()
    if (rows > KEPT_STATES) throw new RangeError('more states than are kept')
    for (let row = 0; row < rows; row++) {
      const at = row * this.count
      this.#ts[row] = from.near(row === 0 ? this.#newest : this.#ts[row - 1]!)
      const same = from.count() === 1 && row > 0
      for (let i = 0; i < this.count; i++)
        this.#metas[at + i] = same ? this.#metas[at - this.count + i]! : metaOf(from.text(), this.shape.plain)
      for (let i = 0; i < this.count; i++)
        this.#numbers[at + i] = from.near(row === 0 ? 0 : this.#numbers[at - this.count + i]!)
    }
    this.#head = rows - 1
  }

  number(i: number): number {
    return this.#numbers[this.#work * this.count + i]!
  }

  meta(i: number): MetaInfo {
    return this.#metas[this.#work * this.count + i]!
  }

  /** meta and fixed-point number of the newest state */
  newestSlot(i: number): { meta: MetaInfo; n: number } {
    const at = this.#head * this.count + i
    return { meta: this.#metas[at]!, n: this.#numbers[at]! }
  }
}
