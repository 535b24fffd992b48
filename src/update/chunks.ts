// Splits bytes into chunks at positions determined by their content, so that data moved inside a file gives the same chunks:
// an update only transfers the chunks that the running slot does not have.
// Errors: a read of the file (the error of the system).
import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'

const MIN = 16 * 1024
const MAX = 256 * 1024
/** a cut where these bits of the rolling hash are zero: every 64 KiB on average, after MIN */
const MASK = 0xffff0000
const READ = 4 * 1024 * 1024

const GEAR = Int32Array.from({ length: 256 }, (_, byte) =>
  createHash('sha256')
    .update(Buffer.from([byte]))
    .digest()
    .readInt32LE(0),
)

/** The end of the chunk that begins at `from`, in `bytes` up to `end`. */
function cutAt(bytes: Uint8Array, from: number, end: number): number {
  const limit = Math.min(end, from + MAX)
  let hash = 0
  for (let at = from + MIN; at < limit; at++) {
    hash = ((hash << 1) + GEAR[bytes[at]!]!) | 0
    if ((hash & MASK) === 0) return at + 1
  }
  return limit
}

export interface Chunk {
  readonly sha256: Buffer
  /** bytes from the start of the part */
  readonly at: number
  readonly bytes: Buffer
}

/** The chunks of `size` bytes of a file from `start` on. `bytes` of a chunk is valid until the next one. */
export function* chunksOf(fd: number, start: number, size: number): Generator<Chunk> {
  const window = Buffer.allocUnsafe(READ + MAX)
  let kept = 0
  let at = 0
  for (let read = 0; read < size || kept > 0; ) {
    while (kept < MAX && read < size) {
      const got = readSync(fd, window, kept, Math.min(READ, window.length - kept, size - read), start + read)
      if (got === 0) throw new Error(`the file ends at ${start + read}, ${size - read} bytes early`)
      read += got
      kept += got
    }
    let from = 0
    while (kept - from >= MAX || (read === size && from < kept)) {
      const end = cutAt(window, from, kept)
      const bytes = window.subarray(from, end)
      yield { sha256: createHash('sha256').update(bytes).digest(), at, bytes }
      at += end - from
      from = end
    }
    window.copyWithin(0, from, kept)
    kept -= from
  }
}
