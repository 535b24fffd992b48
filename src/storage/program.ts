// The programs of SQL workers: that of the view is unpacked from the bundle when a worker starts; that of database servers is
// a file next to the bundle, read only if one is used. If that file is missing, E_SQL_MISSING is thrown.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import packed from 'sql-worker'
import { OsError } from '../lib/errors'

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

/** The file of a database server's worker. Throws E_SQL_MISSING. */
export function serverProgram(path = join(__dirname, 'os-node-sql.js')): string {
  if (existsSync(path)) return path
  throw new OsError('E_SQL_MISSING', `a database server needs ${path}, which does not exist`)
}
