// The values of a window by sensor, stored after the rows in its file: a history query reads those of one sensor and not the
// rows of all. Sensors are in the order of the summary, in blocks of at least 32 KB. A block contains for each of its sensors
// the seconds between consecutive values, and then the values (NaN: none), all as 64 bit numbers, deflated.
//
// Errors: a damaged block is a BadWindow, like damaged rows. A window without series (written by an older version, or its
// rows were changed) is queried through its rows.
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { crc32c } from '../wire/crc'
import type { BucketRows, Buckets } from './history'
import { addNumber, noNumbers, valuesOf } from './numbers'
import type { SensorBlock, SensorSum } from './windowfile'

const BLOCK_BYTES = 32 * 1024
const NUMBER = 8
/** fast: the CPU of a board is needed elsewhere */
const DEFLATE = { level: 1 }
const FIRST_ROOM = 1024

/** Blocks in their stored form. */
export interface EncodedSeries {
  readonly blocks: readonly SensorBlock[]
  readonly bytes: Buffer
}

/** The values of the open window, in order of arrival. */
export class WindowSeries {
  #sensors = new Uint32Array(FIRST_ROOM)
  #times = new Float64Array(FIRST_ROOM)
  #values = new Float64Array(FIRST_ROOM)
  #length = 0
  #count = 0

  clear(): void {
    this.#length = 0
    this.#count = 0
  }

  /** The number for a new sensor. */
  sensor(): number {
    return this.#count++
  }

  /** `at`: UNIX seconds. */
  add(sensor: number, at: number, value: number | null): void {
    const n = this.#length++
    if (n === this.#times.length) this.#grow()
    this.#sensors[n] = sensor
    this.#times[n] = at
    this.#values[n] = value ?? Number.NaN
  }

  /** `order`: number and value count of every sensor, in the order of the summary. */
  encode(order: readonly { readonly index: number; readonly count: number }[]): EncodedSeries {
    const { places, starts } = this.#placed(order)
    const blocks: SensorBlock[] = []
    const parts: Buffer[] = []
    for (let first = 0; first < order.length; ) {
      let end = first
      let many = 0
      for (; end < order.length && many * 2 * NUMBER < BLOCK_BYTES; end++) many += order[end]!.count
      const numbers = new Float64Array(many * 2)
      let at = 0
      for (let k = first; k < end; k++) {
        const { count } = order[k]!
        let before = 0
        for (let row = 0; row < count; row++, at++) {
          const place = places[starts[k]! + row]!
          numbers[at] = this.#times[place]! - before
          numbers[at + count] = this.#values[place]!
          before = this.#times[place]!
        }
        at += count
      }
      const bytes = deflateRawSync(numbers, DEFLATE)
      blocks.push([first, bytes.length, crc32c(bytes)])
      parts.push(bytes)
      first = end
    }
    return { blocks, bytes: Buffer.concat(parts) }
  }

  /** The indexes of each sensor's values, in order of arrival, and where each sensor begins among those. */
  #placed(order: readonly { readonly index: number; readonly count: number }[]) {
    const starts = new Uint32Array(order.length)
    const next = new Uint32Array(order.length)
    let sum = 0
    for (const [k, { index, count }] of order.entries()) {
      starts[k] = sum
      next[index] = sum
      sum += count
    }
    const places = new Uint32Array(sum)
    for (let n = 0; n < this.#length; n++) places[next[this.#sensors[n]!]!++] = n
    return { places, starts }
  }

  #grow(): void {
    const room = Math.ceil(this.#length * 1.5)
    const larger = <T extends Uint32Array | Float64Array>(list: T, made: T): T => {
      made.set(list)
      return made
    }
    this.#sensors = larger(this.#sensors, new Uint32Array(room))
    this.#times = larger(this.#times, new Float64Array(room))
    this.#values = larger(this.#values, new Float64Array(room))
  }
}

/** Non-empty buckets of the sensor with index `place` in the summary, from a block that begins with the sensor `first`. */
export function bucketed(
  { first, block }: { readonly first: number; readonly block: Uint8Array },
  sensors: readonly SensorSum[],
  place: number,
  buckets: Buckets,
): BucketRows[] {
  let at = 0
  for (let k = first; k < place; k++) at += 2 * sensors[k]![2]
  const bytes = inflateRawSync(block)
  const numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / NUMBER)
  const count = sensors[place]![2]
  const units = sensors[place]!.slice(-2) as (string | null)[]
  const found: BucketRows[] = []
  let bucket = -1
  let sum = noNumbers()
  const end = (): void => {
    if (bucket >= 0) found.push({ bucket, values: valuesOf(sum), units })
    sum = noNumbers()
  }
  let seconds = 0
  for (let row = at; row < at + count; row++) {
    seconds += numbers[row]!
    if (seconds < buckets.since || seconds > buckets.until) continue
    const of = buckets.at(seconds)
    if (of !== bucket) {
      end()
      bucket = of
    }
    addNumber(sum, numbers[row + count]!)
  }
  end()
  return found
}
