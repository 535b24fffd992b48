// Unpacks data that the build packs into the program: JSON, Brotli, base64.
import { brotliDecompressSync } from 'node:zlib'

export const unpack = (packed: string): unknown =>
  JSON.parse(brotliDecompressSync(Buffer.from(packed, 'base64')).toString('utf8'))
