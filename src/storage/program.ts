// The SQL worker's program, unpacked from the bundle when a worker starts.
import { brotliDecompressSync } from 'node:zlib'
import packed from 'sql-worker'

export interface WorkerProgram {
  readonly script: string
  /** sql.js, compiled */
  readonly wasm: Uint8Array
}

export function workerProgram(): WorkerProgram {
  const bytes = brotliDecompressSync(Buffer.from(packed, 'base64'))
  const end = 4 + bytes.readUInt32LE(0)
  return { script: bytes.toString('utf8', 4, end), wasm: Uint8Array.from(bytes.subarray(end)) }
}
