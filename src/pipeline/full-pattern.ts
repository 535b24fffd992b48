// The previous body of a FULL: everything except the time and the values. The next body of a template is nearly always
// the same there, and is then compared instead of parsed. A body that differs in any byte is no match and is parsed
// normally; no errors.
import { NO_VALUE, parseBase62, readBase62 } from '../wire/base62'
import type { MetaInfo } from './slot-meta-cache'
import type { SlotHistory } from './slots'
import { sensorOf } from './text'

const BAR = 124
const ZERO = 48
const TOKEN = 8
/** longest body for which this is worthwhile, and most patterns */
const LONGEST = 2048
const MOST = 1024

/** characters of a time token */
const IN_TOKEN = new Uint8Array(256)
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_') IN_TOKEN[char.charCodeAt(0)] = 1

class FullPattern {
  readonly #numbers: Float64Array

  constructor(
    /** the bytes before the time, before each value, and after the last one, without gaps */
    readonly fixed: Uint8Array,
    /** the end of each of them */
    readonly ends: readonly number[],
    readonly metas: readonly MetaInfo[],
  ) {
    this.#numbers = new Float64Array(metas.length)
  }

  /** Reads a body into a new row of `history`. False: no match, and nothing was changed. */
  read(bytes: Uint8Array, from: number, to: number, history: SlotHistory): boolean {
    const { fixed, ends, metas } = this
    const count = metas.length
    const numbers = this.#numbers
    let p = from
    let k = 0
    for (const end = ends[0]!; k < end; ) if (bytes[p++] !== fixed[k++]) return false
    const token = p + TOKEN
    while (p < token) if (IN_TOKEN[bytes[p++]!] !== 1) return false
    for (let i = 0; i < count; i++) {
      for (const end = ends[i + 1]!; k < end; ) if (bytes[p++] !== fixed[k++]) return false
      const first = p
      while (p < to && bytes[p] !== BAR) p++
      // the normal parser handles unusual numbers
      if (p === first || p - first > 9) return false
      if (!readBase62(bytes, first, p, numbers, i)) return false
      if (numbers[i] === 0 && p - first === 2 && bytes[first] === ZERO) numbers[i] = NO_VALUE
    }
    for (const end = fixed.length; k < end; ) if (bytes[p++] !== fixed[k++]) return false
    if (p !== to) return false
    history.begin(-1, false)
    history.fillParsed(metas, numbers)
    return true
  }
}

/** The pattern of a body that was just read into `history`; null for another form. */
function patternOf(body: string, aid: number, history: SlotHistory): FullPattern | null {
  if (!body.startsWith(`${aid};`)) return null
  const state = body.indexOf('.')
  const time = body.indexOf('.', state + 1) + 1
  const first = time + TOKEN
  if (state < 0 || time === 0 || body[first] !== '|') return null
  const pieces = [body.slice(0, time)]
  let piece = ''
  for (const [k, segment] of body.slice(first).split('|').entries()) {
    if (k > 0) piece += '|'
    const sensor = sensorOf(segment)
    if (sensor && Number.isNaN(parseBase62(sensor.value))) return null
    if (sensor) {
      pieces.push(`${piece}${segment.slice(0, segment.length - sensor.value.length)}`)
      piece = ''
    } else piece += segment
  }
  const { count } = history
  if (pieces.length !== count + 1) return null
  pieces.push(piece)
  let end = 0
  const ends = pieces.map(text => (end += text.length))
  const metas = Array.from({ length: count }, (_, i) => history.meta(i))
  return new FullPattern(Uint8Array.from(Buffer.from(pieces.join(''), 'latin1')), ends, metas)
}

/** The patterns of a receiver: bounded, and all dropped when there are too many. */
export class FullPatterns {
  readonly #patterns = new Map<SlotHistory, FullPattern>()

  /** Reads a body into a new row of `history`. False: it must be parsed normally. */
  read(history: SlotHistory, bytes: Uint8Array, from: number, to: number): boolean {
    const pattern = this.#patterns.get(history)
    return pattern ? pattern.read(bytes, from, to, history) : false
  }

  /** Stores the pattern of the body that was just read into `history`. */
  note(history: SlotHistory, bytes: Uint8Array, from: number, to: number, aid: number): void {
    if (to - from > LONGEST) return
    if (this.#patterns.size >= MOST) this.#patterns.clear()
    // one character per byte, so that text offsets are body offsets
    const body = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('latin1')
    const pattern = patternOf(body, aid, history)
    if (pattern) this.#patterns.set(history, pattern)
    else this.#patterns.delete(history)
  }
}
