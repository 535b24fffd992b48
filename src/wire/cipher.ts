// The specification's session cipher: a key from (AID, timestamp) and an XOR over the body. It is obfuscation, kept for
// compatibility with peers; the medium's TLS provides secrecy. Nothing here can fail.
import { createHash } from 'node:crypto'

const U64 = (1n << 64n) - 1n
const natural = (n: number | bigint | null | undefined): bigint => {
  const big = typeof n === 'bigint' ? n : Number.isFinite(n) ? BigInt(Math.trunc(n!)) : 0n
  return big < 0n ? 0n : big
}

/** SHA-256 of the decimal text of (aid × timestamp) mod 2^64; 32 bytes. Negative or missing inputs count as 0. */
export function deriveSessionKey(aid: number | bigint | null, timestamp: number | bigint | null): Buffer {
  return createHash('sha256')
    .update(String((natural(aid) * natural(timestamp)) & U64))
    .digest()
}

/** Encrypts or decrypts `bytes[start, end)` in place; the offset is the CRC-8 of the plaintext body. An empty key copies. */
export function xorRange(bytes: Uint8Array, start: number, end: number, key: Uint8Array, offset: number): void {
  if (key.length === 0) return
  const off = offset & 31
  for (let i = start, k = off % key.length; i < end; i++) {
    bytes[i] = bytes[i]! ^ key[k]! ^ off
    if (++k === key.length) k = 0
  }
}

/** The same on a copy. */
export function xorPayload(payload: Uint8Array, key: Uint8Array, offset: number): Buffer {
  const out = Buffer.from(payload)
  xorRange(out, 0, out.length, key, offset)
  return out
}
