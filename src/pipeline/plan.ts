// The hot path's plan: everything about a packet that stays the same between packets, prepared as bytes, for one (AID,
// device, state, sensor ids). A packet is made in two passes: load() converts the values to fixed-point numbers and may
// refuse, writeFrame() writes them and cannot fail. Hot path: one reading, DIFF, about 2 M packets/s on the design's
// machine; hence flat loops, typed arrays, no strings and no allocation while only values change.
import { EXACT, NO_VALUE, POW10, roundHalfEven, unscale, writeBase62Of } from '../wire/base62'
import { COMMAND, secureCommand } from '../wire/commands'
import { crc8, crc16 } from '../wire/crc'
import { HEADER_SIZE, sealFrame, tsHigh, writeHeaderWords, writeTimeToken } from '../wire/frame'
import { isGoodStatus } from '../wire/names'
import { stateToken } from '../wire/symbols'
import type { Engine } from './compress'
import type { Reading, SensorFact } from './fact'
import { standardNumber } from './standardize-attribute'
import { type DiffPolicy, type SendStore, type SendTemplate, TS } from './templates'
import { DECODED_DECIMALS, resolveUnit, type UnitResolver, type WireChoice, type WirePicker } from './wireunit'

/** canonical text of a number in a slot: a sign and 11 digits at most */
const VALUE_MAX = 12
/**
 * of a sensor: value × FACTOR + OFFSET is canonical; LOW ≤ magnitude < HIGH keeps the grid of PER_UNIT; × RATIO is the
 * wire unit
 */
const FACTOR = 0
const OFFSET = 1
const LOW = 2
const HIGH = 3
const PER_UNIT = 4
const RATIO = 5
const PARAMS = 6
const utf8 = (text: string): Buffer => Buffer.from(text, 'utf8')
const BAR = utf8('|')
const COLON = utf8(':')
/** cells of a text with its length */
const textCells = (bytes: number): number => (bytes + 11) >> 3

/** load(): all rows are loaded, a row belongs to another plan, or a row must be refused */
export const LOADED = 0
export const OTHER = 1
const REFUSED = 2
type Load = typeof LOADED | typeof OTHER | typeof REFUSED

export class PacketPlan {
  readonly count: number
  readonly signature: string
  readonly head: Uint8Array
  readonly idBytes: readonly Uint8Array[]
  readonly tail: Uint8Array
  readonly maskBytes: number
  /** numbers from load() for writeFrame() */
  readonly numbers: Float64Array
  readonly metaText: string[]
  readonly metaBytes: Uint8Array[]
  template: SendTemplate | null = null
  /** the store of the template */
  store: SendStore | null = null
  /** `times[TS]` and, for policies that read the clock, `times[NOW]` of the next frame */
  readonly times = new Float64Array(2)
  /** bytes of the largest frame with the current metas */
  maxSize = 0
  /** most cells of eight bytes that the native core needs for it */
  maxCells = 0
  /** a text of a sensor is too long for a DIFF */
  longMeta = false
  readonly aidWord: number
  /** the last row load() refused */
  refusedRow = -1
  readonly #pow: number
  /** dialect `attribute`: values are rounded to decimals before they are scaled, as in the reference's standardizer */
  readonly #rounded: boolean
  /** more decimals than decoders keep: they round to 8 decimals of the unit they read */
  readonly #overFine: boolean
  readonly #ids: readonly string[]
  readonly #statuses: string[]
  readonly #units: unknown[]
  readonly #failed: Uint8Array
  readonly #pickers: (WirePicker | null)[]
  /** for each sensor six adjacent numbers (FACTOR to RATIO), so that the hot loop uses one array */
  readonly #p: Float64Array
  /** the wire unit of each sensor: it stays while it can represent the grid (X35) */
  readonly #wire: (WireChoice | null)[]
  #pieces: Uint8Array[] | null = null
  #headerTid = -1
  readonly #headerCrc = new Uint16Array(2)
  readonly #fixedSize: number

  constructor(
    readonly engine: Engine,
    readonly resolver: UnitResolver | null,
    readonly aid: number,
    readonly device: string,
    readonly state: string,
    ids: readonly string[],
    readonly extras = '',
  ) {
    const n = ids.length
    this.count = n
    this.#ids = ids
    this.aidWord = aid | 0
    this.#pow = POW10[engine.precision]!
    this.#rounded = engine.unitDialect === 'attribute'
    this.#overFine = engine.precision > DECODED_DECIMALS
    const token = stateToken(state)
    this.signature = `${device}.${token}.{TS}|${ids.map(id => `${id}>\x01:\x01|`).join('')}${extras === '' || extras.endsWith('|') ? extras : extras + '|'}`
    this.head = utf8(`${aid};${device}.${token}.`)
    this.idBytes = ids.map(id => utf8(`${id}>`))
    this.tail = utf8(extras)
    this.maskBytes = (2 * n + 7) >> 3
    this.numbers = new Float64Array(n)
    this.metaText = new Array<string>(n).fill('')
    this.metaBytes = new Array<Uint8Array>(n).fill(new Uint8Array(0))
    this.#statuses = new Array<string>(n).fill('')
    this.#units = new Array<unknown>(n).fill(undefined)
    this.#failed = new Uint8Array(n)
    this.#pickers = new Array<WirePicker | null>(n).fill(null)
    this.#p = new Float64Array(PARAMS * n)
    for (let i = 0; i < n; i++) this.#p[PARAMS * i + LOW] = Number.POSITIVE_INFINITY
    this.#wire = new Array<WireChoice | null>(n).fill(null)
    this.#fixedSize =
      HEADER_SIZE +
      this.head.length +
      9 +
      this.tail.length +
      this.idBytes.reduce((sum, b) => sum + b.length + 2 + VALUE_MAX, 0) +
      3
    this.#measure()
  }

  /** Readings → numbers. A row whose status or unit changed is bound again. */
  load(rows: readonly Reading[]): Load {
    const pow = this.#pow
    const p = this.#p
    const ids = this.#ids
    const units = this.#units
    const statuses = this.#statuses
    const plain = !this.#rounded && !this.#overFine
    const numbers = this.numbers
    for (let i = 0, k = 0; i < rows.length; i++, k += PARAMS) {
      const row = rows[i]!
      if (row?.length !== 4 || row[0] !== ids[i]) return OTHER
      const value = row[2]
      if ((row[3] !== units[i] || row[1] !== statuses[i]) && !this.#bindReading(i, row)) return this.#refuse(i)
      if (typeof value !== 'number') return this.#refuse(i)
      const x = value * p[k + FACTOR]! + p[k + OFFSET]!
      const size = x < 0 ? -x : x
      if (!(size >= p[k + LOW]! && size < p[k + HIGH]!) && !this.#choose(i, x)) return this.#refuse(i)
      if (plain) numbers[i] = roundHalfEven(x * p[k + PER_UNIT]! * pow) * p[k + RATIO]!
      else if (this.#rounded) numbers[i] = standardNumber(x, this.engine.precision)
      else numbers[i] = this.#decoded(i, roundHalfEven(x * p[k + PER_UNIT]! * pow)) * p[k + RATIO]!
    }
    return LOADED
  }

  /** The same for the sensors of a fact: canonical units, null = failed, which is state `E` and value text `00` (X34). */
  loadFact(sensors: readonly SensorFact[]): Load {
    const pow = this.#pow
    const p = this.#p
    const numbers = this.numbers
    for (let i = 0, k = 0; i < sensors.length; i++, k += PARAMS) {
      const sensor = sensors[i]!
      if (sensor.id !== this.#ids[i]) return OTHER
      const value = sensor.value
      const failed = value === null ? 1 : 0
      if (sensor.unit !== this.#units[i] || sensor.status !== this.#statuses[i] || this.#failed[i] !== failed) {
        if (!isGoodStatus(sensor.status)) return this.#refuse(i)
        this.#bind(i, sensor.status, sensor.unit, sensor.unit, 1, 0, failed)
      }
      if (value === null) {
        numbers[i] = NO_VALUE
        continue
      }
      const size = value < 0 ? -value : value
      if (!(size >= p[k + LOW]! && size < p[k + HIGH]!) && !this.#choose(i, value)) return this.#refuse(i)
      const r = roundHalfEven(value * p[k + PER_UNIT]! * pow)
      numbers[i] = (this.#overFine ? this.#decoded(i, r) : r) * p[k + RATIO]!
    }
    return LOADED
  }

  #refuse(i: number): Load {
    this.refusedRow = i
    return REFUSED
  }

  #bindReading(i: number, row: Reading): boolean {
    const conversion = this.resolver && isGoodStatus(row[1]) ? resolveUnit(this.resolver, row[3]) : null
    if (!conversion) return false
    this.#bind(i, row[1], row[3], conversion.canonical, conversion.factor, conversion.offset, 0)
    return true
  }

  #bind(
    i: number,
    status: string,
    unit: Reading[3],
    canonical: string,
    factor: number,
    offset: number,
    failed: number,
  ): void {
    this.#statuses[i] = status
    this.#units[i] = unit
    this.#failed[i] = failed
    const k = PARAMS * i
    this.#p[k + FACTOR] = factor
    this.#p[k + OFFSET] = offset
    this.#p[k + LOW] = Number.POSITIVE_INFINITY
    const token = this.engine.encodeUnitToken(canonical)
    if (this.engine.unitDialect === 'ucum') {
      if (this.#pickers[i]?.unit !== canonical) this.#wire[i] = null
      this.#pickers[i] = this.engine.pickers.get(canonical)
    } else this.#take(i, { token, perUnit: 1, low: 0, high: 2 ** 63 / this.#pow })
    if (failed) this.#setMeta(i, `E.${this.#wire[i]?.token ?? token}`)
  }

  /** The value left the range of its grid: selects the right one, and another wire unit only if necessary. False: none fits. */
  #choose(i: number, x: number): boolean {
    const grid = this.#pickers[i]?.pick(x) ?? null
    if (!grid || !Number.isFinite(x)) return false
    const wire = this.#wire[i]
    if (!wire) this.#take(i, grid)
    else if (x === 0) this.#setMeta(i, this.#metaOf(i, wire))
    else {
      const ratio = wire.perUnit / grid.perUnit
      // beyond this, a number of the wire unit is no longer exactly on the grid
      const high = ratio === 1 ? grid.high : Math.min(grid.high, EXACT / (wire.perUnit * this.#pow))
      if (ratio === 1 || (Number.isInteger(ratio) && Math.abs(x) < high)) this.#take(i, wire, grid, ratio, high)
      else this.#take(i, grid)
    }
    return true
  }

  #take(i: number, wire: WireChoice, grid = wire, ratio = 1, high = grid.high): void {
    this.#wire[i] = wire
    const k = PARAMS * i
    this.#p[k + PER_UNIT] = grid.perUnit
    this.#p[k + RATIO] = ratio
    this.#p[k + LOW] = grid.low
    this.#p[k + HIGH] = high
    this.#setMeta(i, this.#metaOf(i, wire))
  }

  /** The decoder's result on the grid, if the wire unit is finer: it must be the same value. */
  #decoded(i: number, r: number): number {
    if (this.#p[PARAMS * i + RATIO] === 1) return r
    return (
      Math.round(unscale(r, this.engine.precision) * POW10[DECODED_DECIMALS]!) * (this.#pow / POW10[DECODED_DECIMALS]!)
    )
  }

  #metaOf(i: number, { token }: WireChoice): string {
    return `${stateToken(this.#statuses[i]!)}.${token}`
  }

  #setMeta(i: number, text: string): void {
    if (text === this.metaText[i]) return
    this.metaText[i] = text
    this.metaBytes[i] = utf8(text)
    this.#measure()
  }

  #measure(): void {
    let metas = 0
    this.longMeta = false
    this.#pieces = null
    this.maxCells = 2 + textCells(this.head.length) + textCells(this.tail.length + 1) + ((this.count + 15) >> 4)
    for (let i = 0; i < this.count; i++) {
      const { length } = this.metaBytes[i]!
      metas += length
      if (length > 255) this.longMeta = true
      this.maxCells += textCells(this.idBytes[i]!.length + length + 2) + 1
    }
    // a DIFF has a mask and a length byte per slot instead of the separators
    this.maxSize = this.#fixedSize + metas + this.maskBytes
  }

  /** The text of a FULL after its time, split at the numbers. */
  pieces(): readonly Uint8Array[] {
    this.#pieces ??= [
      ...this.idBytes.map((id, i) => Buffer.concat([BAR, id, this.metaBytes[i]!, COLON])),
      Buffer.concat([BAR, this.tail]),
    ]
    return this.#pieces
  }

  /**
   * Writes the frame of the loaded numbers and times at `at`, records it in the template and returns its end. `out`
   * must have space for maxSize bytes. Cannot fail. FULL if requested, or if the template requires it.
   */
  writeFrame(out: Uint8Array, at: number, full: boolean, policy: DiffPolicy, key: Uint8Array | null): number {
    const template = this.template!
    const times = this.times
    const high = tsHigh(times[TS]!)
    const low = times[TS]! | 0
    const isFull = full || this.longMeta || template.fullDue(policy, times)
    const base = template.base(policy, times)
    const ordinal = template.ordinal + 1
    const start = at + HEADER_SIZE
    let p = start
    let cmd: number
    if (isFull) {
      p = this.#full(out, p, high, low, ordinal, template)
      cmd = COMMAND.DATA_FULL
    } else {
      p = this.#diff(out, p, base, ordinal, template)
      cmd = p === start ? COMMAND.DATA_HEART : COMMAND.DATA_DIFF
    }
    template.sent(isFull, times)
    writeHeaderWords(out, at, key ? secureCommand(cmd) : cmd, this.aidWord, template.tid, high, low)
    if (key || isFull) return sealFrame(out, at, start, p, key)
    out[p] = crc8(out, start, p)
    p++
    const crc = crc16(out, at + 7, p, this.#prefixCrc(out, at, template.tid, cmd))
    out[p] = crc >> 8
    out[p + 1] = crc
    return p + 2
  }

  /** The CRC-16 of command, route and TID is the same in every DIFF (and every HEART) of a template. */
  #prefixCrc(out: Uint8Array, at: number, tid: number, cmd: number): number {
    if (this.#headerTid !== tid) {
      this.#headerTid = tid
      this.#headerCrc.fill(0)
    }
    const k = cmd === COMMAND.DATA_DIFF ? 0 : 1
    const known = this.#headerCrc[k]!
    if (known !== 0) return known
    return (this.#headerCrc[k] = crc16(out, at, at + 7))
  }

  #diff(out: Uint8Array, start: number, base: number, ordinal: number, template: SendTemplate): number {
    const { count, maskBytes, numbers, metaText } = this
    const { metas, numbers: last, metaOrdinals, valueOrdinals } = template
    const maskEnd = start + maskBytes - 1
    for (let i = 0; i < maskBytes; i++) out[start + i] = 0
    const first = start + maskBytes
    let p = first
    for (let i = 0; i < count; i++) {
      const text = metaText[i]!
      if (text !== metas[i]) {
        metas[i] = text
        metaOrdinals[i] = ordinal
      }
      if (metaOrdinals[i]! > base) {
        const slot = 2 * i
        out[maskEnd - (slot >> 3)]! |= 1 << (slot & 7)
        const bytes = this.metaBytes[i]!
        out[p++] = bytes.length
        for (let k = 0; k < bytes.length; k++) out[p++] = bytes[k]!
      }
      const n = numbers[i]!
      if (n !== last[i]) {
        last[i] = n
        valueOrdinals[i] = ordinal
      }
      if (valueOrdinals[i]! > base) {
        const slot = 2 * i + 1
        out[maskEnd - (slot >> 3)]! |= 1 << (slot & 7)
        const end = writeBase62Of(out, p + 1, numbers, i)
        out[p] = end - p - 1
        p = end
      }
    }
    return p === first ? start : p
  }

  #full(out: Uint8Array, start: number, high: number, low: number, ordinal: number, template: SendTemplate): number {
    let p = copy(out, start, this.head)
    p = writeTimeToken(out, p, high, low)
    out[p++] = 124
    for (let i = 0; i < this.count; i++) {
      p = copy(out, p, this.idBytes[i]!)
      p = copy(out, p, this.metaBytes[i]!)
      out[p++] = 58
      p = writeBase62Of(out, p, this.numbers, i)
      out[p++] = 124
    }
    template.book(this.metaText, this.numbers, ordinal)
    return copy(out, p, this.tail)
  }
}

/** a loop, because set() is slower for a few bytes */
function copy(out: Uint8Array, at: number, bytes: Uint8Array): number {
  for (let k = 0; k < bytes.length; k++) out[at++] = bytes[k]!
  return at
}
