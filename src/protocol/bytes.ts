// Big-endian integers in control packets, over bytes that belong to the caller. Reading beyond the end gives 0 bytes, as
// the caller has checked the length first; nothing here fails.

export const readU16 = (b: Uint8Array, at: number): number => ((b[at] ?? 0) << 8) | (b[at + 1] ?? 0)

export const readU32 = (b: Uint8Array, at: number): number => (readU16(b, at) * 0x10000 + readU16(b, at + 2)) >>> 0

/** u64 as a double: exact below 2^53, rounded above, which no time of this protocol reaches. */
export const readU64 = (b: Uint8Array, at: number): number => readU32(b, at) * 0x1_0000_0000 + readU32(b, at + 4)

export function writeU16(b: Uint8Array, at: number, value: number): void {
  b[at] = value >>> 8
  b[at + 1] = value
}

export function writeU32(b: Uint8Array, at: number, value: number): void {
  b[at] = value >>> 24
  b[at + 1] = value >>> 16
  b[at + 2] = value >>> 8
  b[at + 3] = value
}

/** Writes a non-negative integer as u64. */
export function writeU64(b: Uint8Array, at: number, value: number): void {
  const whole = Math.max(0, Math.floor(value))
  writeU32(b, at, Math.floor(whole / 0x1_0000_0000))
  writeU32(b, at + 4, whole % 0x1_0000_0000)
}

export const toHex = (b: Uint8Array): string => Buffer.from(b.buffer, b.byteOffset, b.byteLength).toString('hex')
