// CRC-16/CCITT of the delivery exchange: polynomial 0x1021, init 0xFFFF, no reflection, no final xor (PROTOCOL §2).
// Pure; cannot fail.

const TABLE = new Uint16Array(256)
for (let byte = 0; byte < 256; byte++) {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  TABLE[byte] = crc
}

/** CRC-16 over `bytes[start, end)`. */
export function crc16(bytes: Uint8Array, start = 0, end = bytes.length): number {
  let crc = 0xffff
  for (let k = start; k < end; k++) crc = ((crc << 8) & 0xffff) ^ TABLE[(crc >>> 8) ^ bytes[k]!]!
  return crc
}
