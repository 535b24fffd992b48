// Decodes numbers from registers: every type and word order in use. Pure. Registers are 16 bits, high byte first
// (V1.1b3, 4.2); the standard does not define how two or four of them form one number, so each manufacturer chose an
// order. Orders are named after the bytes of 0xAABBCCDD in transmission order.

export const TYPES = ['u16', 'i16', 'u32', 'i32', 'u64', 'i64', 'f32', 'f64', 'bcd16', 'bcd32', 'bit'] as const
export type NumberType = (typeof TYPES)[number]

/** ABCD big-endian; CDAB low word first; BADC bytes of each word swapped; DCBA little-endian */
export const WORD_ORDERS = ['ABCD', 'CDAB', 'BADC', 'DCBA'] as const
export type WordOrder = (typeof WORD_ORDERS)[number]

/** Registers that a value takes. */
export const widthOf = (type: NumberType): number => (type.endsWith('64') ? 4 : type.endsWith('32') ? 2 : 1)

const scratch = new Uint8Array(8)
const view = new DataView(scratch.buffer)

/**
 * The number in `bytes` from byte `at` on; null if it is invalid (a BCD digit above 9). u64 and i64 beyond 2^53 lose
 * precision. `bit` is the number of the bit in a register, 0 the lowest.
 */
export function numberAt(bytes: Uint8Array, at: number, type: NumberType, order: WordOrder, bit = 0): number | null {
  const size = widthOf(type) * 2
  // DCBA: word order and byte order are both reversed
  const words = order === 'CDAB' || order === 'DCBA'
  const swap = order === 'BADC' || order === 'DCBA' ? 1 : 0
  for (let k = 0; k < size; k++) {
    const word = words ? size - 2 - (k & ~1) : k & ~1
    scratch[k] = bytes[at + word + ((k & 1) ^ swap)]!
  }
  switch (type) {
    case 'u16':
      return view.getUint16(0)
    case 'i16':
      return view.getInt16(0)
    case 'u32':
      return view.getUint32(0)
    case 'i32':
      return view.getInt32(0)
    case 'u64':
      return Number(view.getBigUint64(0))
    case 'i64':
      return Number(view.getBigInt64(0))
    case 'f32':
      return view.getFloat32(0)
    case 'f64':
      return view.getFloat64(0)
    case 'bit':
      return (view.getUint16(0) >> bit) & 1
    default:
      return bcd(size)
  }
}

function bcd(size: number): number | null {
  let value = 0
  for (let k = 0; k < size; k++) {
    const high = scratch[k]! >> 4
    const low = scratch[k]! & 15
    if (high > 9 || low > 9) return null
    value = value * 100 + high * 10 + low
  }
  return value
}

/** Coil or discrete input number `index` of an answer's data: bit 0 of the first byte is number 0. */
export const coilAt = (bytes: Uint8Array, at: number, index: number): number =>
  (bytes[at + (index >> 3)]! >> (index & 7)) & 1
