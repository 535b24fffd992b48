// Extracts numbers from the bits of a frame, in both byte orders, without heap allocation: this runs for every signal
// of every frame, some ten thousand times per second on a busy bus. The caller checks that the frame is long enough.

const POWERS = Float64Array.from({ length: 65 }, (_, k) => 2 ** k)
const TWO_32 = POWERS[32]!

/** `count` bits (at most 53) starting at bit `from`, least significant first: bit 0 is the least significant of byte 0. */
function little(data: Uint8Array, from: number, count: number): number {
  let at = from >>> 3
  let shift = from & 7
  let value = 0
  for (let got = 0; got < count; at++) {
    const take = Math.min(8 - shift, count - got)
    value += ((data[at]! >>> shift) & (POWERS[take]! - 1)) * POWERS[got]!
    got += take
    shift = 0
  }
  return value
}

/** `count` bits (at most 53) starting at bit `from`, most significant first: bit 0 is the most significant of byte 0. */
function big(data: Uint8Array, from: number, count: number): number {
  let at = from >>> 3
  let skip = from & 7
  let value = 0
  for (let got = 0; got < count; at++) {
    const take = Math.min(8 - skip, count - got)
    value = value * POWERS[take]! + ((data[at]! >>> (8 - skip - take)) & (POWERS[take]! - 1))
    got += take
    skip = 0
  }
  return value
}

/** Position of a signal: `from` is counted as in `little` or `big`. */
export interface BitField {
  readonly from: number
  readonly bits: number
  readonly bigEndian: boolean
}

/**
 * A signal's position as written in a DBC file: for a big-endian signal, `start` is its most significant bit, counted
 * from the least significant bit of each byte.
 */
export const field = (start: number, bits: number, bigEndian: boolean): BitField => ({
  from: bigEndian ? (start & ~7) + 7 - (start & 7) : start,
  bits,
  bigEndian,
})

/** Bytes a frame needs to contain the field. */
export const bytesOf = ({ from, bits }: BitField): number => (from + bits + 7) >>> 3

/** The upper bits of a field, above the lower 32; 0 for a short one. */
function upper(data: Uint8Array, { from, bits, bigEndian }: BitField): number {
  if (bits <= 32) return 0
  return bigEndian ? big(data, from, bits - 32) : little(data, from + 32, bits - 32)
}

/** The lower 32 bits of a field, or all of a shorter one. */
function lower(data: Uint8Array, { from, bits, bigEndian }: BitField): number {
  const count = Math.min(bits, 32)
  return bigEndian ? big(data, from + bits - count, count) : little(data, from, count)
}

/** The bits of a field as a number; above 2^53 the nearest double. */
export const unsigned = (data: Uint8Array, field: BitField): number => upper(data, field) * TWO_32 + lower(data, field)

/** The same in two's complement: the sign is applied to the upper half, so that only one rounding happens. */
export function signed(data: Uint8Array, field: BitField): number {
  const { bits } = field
  const low = lower(data, field)
  if (bits <= 32) return low >= POWERS[bits - 1]! ? low - POWERS[bits]! : low
  const high = upper(data, field)
  return (high >= POWERS[bits - 33]! ? high - POWERS[bits - 32]! : high) * TWO_32 + low
}

const scratch = new DataView(new ArrayBuffer(8))

/** 32 bits as an IEEE 754 number. */
export function float32(data: Uint8Array, field: BitField): number {
  scratch.setUint32(0, lower(data, field))
  return scratch.getFloat32(0)
}

/** 64 bits as an IEEE 754 number. */
export function float64(data: Uint8Array, field: BitField): number {
  scratch.setUint32(0, upper(data, field))
  scratch.setUint32(4, lower(data, field))
  return scratch.getFloat64(0)
}
