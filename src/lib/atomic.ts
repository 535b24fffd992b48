// Replaces a file so that after any crash either the old or the new content exists, never a mixture and never nothing:
// write a temporary file, sync, rename, sync the folder (R6). The old file stays when any step fails; the error is the
// system's. Two processes that replace the same file use different temporary names; the later rename wins.
import { dirname } from 'node:path'
import { type Files, MOST_BYTES, realFiles } from './files'

export function atomicWrite(path: string, content: string | Uint8Array, files: Files = realFiles): void {
  const data = typeof content === 'string' ? Buffer.from(content, 'utf8') : content
  const temporary = `${path}.${process.pid}.tmp`
  const fd = files.open(temporary, 'w')
  try {
    try {
      files.write(fd, data)
      files.syncNow(fd)
    } finally {
      files.close(fd)
    }
    files.rename(temporary, path)
  } catch (error) {
    files.remove(temporary)
    throw error
  }
  files.syncDir(dirname(path))
}

const PIECE = 1 << 18

/**
 * Writes the first `size` bytes of a file again, in place, and syncs them; returns how many. For what a killed process left: if its last sync failed, the
 * kernel takes those pages for clean, and a sync alone succeeds without writing them. A crash meanwhile leaves the bytes as they were.
 */
export async function writeAgain(path: string, files: Files, size = MOST_BYTES): Promise<number> {
  const fd = files.open(path, 'r+')
  let at = 0
  try {
    while (at < size) {
      const piece = files.readAt(path, at, Math.min(PIECE, size - at))
      if (piece.length === 0) break
      files.write(fd, piece)
      at += piece.length
    }
    await files.sync(fd)
  } finally {
    files.close(fd)
  }
  return at
}
