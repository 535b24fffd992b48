// Mutations of byte inputs, blind ones and ones that know text and numbers. All randomness comes from one seeded generator.

/** mulberry32 */
export class Random {
  #state: number
  constructor(seed: number) {
    this.#state = seed | 0
  }
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  /** 0 … n−1 */
  below(n: number): number {
    return Math.floor(this.next() * n)
  }
  chance(share: number): boolean {
    return this.next() < share
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }
}

const BYTES = [
  0, 1, 2, 3, 0x0a, 0x1f, 0x20, 0x22, 0x2c, 0x2e, 0x2f, 0x3a, 0x3b, 0x3e, 0x3f, 0x7c, 0x7f, 0x80, 0xaa, 0xfe, 0xff,
]
/** invalid UTF-8: truncated sequences, an overlong slash, a surrogate half, beyond U+10FFFF, a byte order mark */
const BROKEN = ['c3', 'e282', 'f09f98', 'c0af', 'eda080', 'f5808080', 'efbbbf', 'e280a8', 'cc81'].map(hex =>
  Buffer.from(hex, 'hex'),
)
const NUMBERS =
  '0 -0 1 -1 00 127 128 255 256 32767 65535 65536 2147483647 2147483648 4294967295 4294967296 281474976710655 281474976710656 9007199254740993 9223372036854775807 9223372036854775808 18446744073709551616 1e308 1e309 -1e309 1e-400 0.1 NaN Infinity null true []'.split(
    ' ',
  )

type Mutation = (
  input: Buffer,
  random: Random,
  pool: readonly Buffer[],
  words: readonly (string | Uint8Array)[],
) => Buffer

const cut = (input: Buffer, from: number, to: number, middle: Uint8Array): Buffer =>
  Buffer.concat([input.subarray(0, from), middle, input.subarray(to)])

function span(input: Buffer, random: Random): [number, number] {
  const from = random.below(input.length + 1)
  const most = random.chance(0.8) ? 12 : input.length
  return [from, Math.min(input.length, from + random.below(most + 1))]
}

const MUTATIONS: readonly Mutation[] = [
  (input, random) => {
    if (input.length > 0) input[random.below(input.length)]! ^= 1 << random.below(8)
    return input
  },
  (input, random) => {
    if (input.length > 0)
      input[random.below(input.length)] = random.chance(0.5) ? random.pick(BYTES) : random.below(256)
    return input
  },
  (input, random) => {
    const [from, to] = span(input, random)
    return cut(input, from, to, Buffer.alloc(0))
  },
  (input, random) => {
    const at = random.below(input.length + 1)
    return cut(input, at, at, Buffer.from(Array.from({ length: 1 + random.below(8) }, () => random.below(256))))
  },
  // a piece repeated
  (input, random) => {
    const [from, to] = span(input, random)
    const times = random.chance(0.95) ? 1 + random.below(4) : 1 + random.below(4000)
    return cut(input, to, to, Buffer.concat(new Array<Buffer>(times).fill(Buffer.from(input.subarray(from, to)))))
  },
  // a piece of another input
  (input, random, pool) => {
    const other = random.pick(pool)
    const [from, to] = span(other, random)
    const [at, end] = span(input, random)
    return cut(input, at, random.chance(0.5) ? at : end, other.subarray(from, to))
  },
  (input, random) => input.subarray(0, random.below(input.length + 1)),
  // a number at its limits, as bytes
  (input, random) => {
    const size = random.pick([1, 2, 4, 6, 8])
    if (input.length < size) return input
    const at = random.below(input.length - size + 1)
    const fill = random.pick([0, 0xff, 0x7f, 0x80])
    input.fill(fill === 0x7f ? 0xff : fill === 0x80 ? 0 : fill, at, at + size)
    if (fill === 0x7f || fill === 0x80) input[at] = fill
    if (random.chance(0.3)) input[at + size - 1]! ^= 1
    return input
  },
  // a number at its limits, as text, in place of digits where there are some
  (input, random) => {
    const number = Buffer.from(random.pick(NUMBERS))
    let from = random.below(input.length + 1)
    const digit = (k: number): boolean => input[k]! >= 0x30 && input[k]! <= 0x39
    while (from < input.length && !digit(from)) from++
    let to = from
    while (to < input.length && digit(to)) to++
    return cut(input, from, to, number)
  },
  (input, random) => {
    const at = random.below(input.length + 1)
    return cut(input, at, at, random.pick(BROKEN))
  },
  (input, random, _, words) => {
    if (words.length === 0) return input
    const [from, to] = span(input, random)
    return cut(input, from, random.chance(0.5) ? from : to, Buffer.from(random.pick(words) as string))
  },
]

/** One to six mutations of an input of the pool. */
export function mutate(
  pool: readonly Buffer[],
  random: Random,
  words: readonly (string | Uint8Array)[],
  most: number,
): Buffer {
  let input = Buffer.from(random.pick(pool))
  for (let k = random.pick([1, 1, 1, 2, 2, 3, 6]); k > 0; k--) {
    input = Buffer.from(random.pick(MUTATIONS)(input, random, pool, words))
    if (input.length > most) input = input.subarray(0, most)
  }
  return input
}

/** A text or piece repeated, up to n bytes. */
export const repeated = (piece: string, n: number): Buffer => {
  const one = Buffer.from(piece)
  return Buffer.alloc(Math.max(one.length, n - (n % one.length)), one)
}
