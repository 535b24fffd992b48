// CRC-32C (Castagnoli, reflected 0x82F63B78): the checksum of every record and segment header. Eight bytes a step, since
// recovery, readers and the SQL rebuild pass every stored byte through it (about 1 GB/s on a desktop core).

const TABLES: readonly Int32Array[] = (() => {
  const tables = Array.from({ length: 8 }, () => new Int32Array(256))
  const first = tables[0]!
  for (let n = 0; n < 256; n++) {
    let c = n
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1
    first[n] = c
  }
  for (let n = 0; n < 256; n++) {
    let c = first[n]!
    for (let k = 1; k < 8; k++) {
      c = first[c & 0xff]! ^ (c >>> 8)
      tables[k]![n] = c
    }
  }
  return tables
})()
const [T0, T1, T2, T3, T4, T5, T6, T7] = TABLES as [
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
  Int32Array,
]

/** CRC-32C of `bytes[start, end)`; `seed` is the CRC of what came before. */
export function crc32c(bytes: Uint8Array, start = 0, end = bytes.length, seed = 0): number {
  let c = ~seed
  let i = start
  for (const stop = end - 7; i < stop; i += 8) {
    c ^= bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
    c =
      T7[c & 0xff]! ^
      T6[(c >>> 8) & 0xff]! ^
      T5[(c >>> 16) & 0xff]! ^
      T4[c >>> 24]! ^
      T3[bytes[i + 4]!]! ^
      T2[bytes[i + 5]!]! ^
      T1[bytes[i + 6]!]! ^
      T0[bytes[i + 7]!]!
  }
  for (; i < end; i++) c = T0[(c ^ bytes[i]!) & 0xff]! ^ (c >>> 8)
  return ~c >>> 0
}
