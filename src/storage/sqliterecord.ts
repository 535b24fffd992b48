// A row or a key in SQLite's format: the types of its values, then the values.

/** Most significant seven bits first; `value` is an integer from 0 to 2^53. */
export function varint(value: number): Buffer {
  const bytes = [value % 128]
  for (let left = Math.floor(value / 128); left > 0; left = Math.floor(left / 128)) bytes.unshift(128 + (left % 128))
  return Buffer.from(bytes)
}

/** bytes of an integer → its type */
const WHOLE = [
  [1, 1],
  [2, 2],
  [3, 3],
  [4, 4],
  [6, 5],
] as const

function encodeNumber(value: number): readonly [type: number, bytes: Buffer] {
  if (Number.isNaN(value)) return [0, Buffer.alloc(0)]
  // as SQLite does: a column of real numbers stores integers compactly
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    if (value === 0 || value === 1) return [8 + value, Buffer.alloc(0)]
    for (const [size, type] of WHOLE) {
      const limit = 2 ** (8 * size - 1)
      if (value < -limit || value >= limit) continue
      const bytes = Buffer.alloc(size)
      bytes.writeIntBE(value, 0, size)
      return [type, bytes]
    }
  }
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  return [7, bytes]
}

export function encodeRecord(values: readonly (string | number | null)[]): Buffer {
  const types: Buffer[] = []
  const bodies: Buffer[] = []
  for (const value of values) {
    if (value === null) types.push(varint(0))
    else if (typeof value === 'string') {
      const text = Buffer.from(value, 'utf8')
      types.push(varint(13 + 2 * text.length))
      bodies.push(text)
    } else {
      const [type, bytes] = encodeNumber(value)
      types.push(varint(type))
      bodies.push(bytes)
    }
  }
  const length = types.reduce((sum, type) => sum + type.length, 0)
  // the header includes its own length, which may need a second byte
  const head = length + 1 < 128 ? varint(length + 1) : varint(length + 2)
  return Buffer.concat([head, ...types, ...bodies])
}
