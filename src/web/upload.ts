// A file that the page uploads in pieces, each in a request of its own, to a path of the gateway. An upload that cannot be
// written, or is too large, is removed.
// Errors: BAD_REQUEST (not the next piece, another number of bytes), BODY_TOO_LARGE, DISK_FULL, STORAGE.
import { dirname } from 'node:path'
import { asOsError, errno, OsError } from '../lib/errors'
import { realFiles } from '../lib/files'

export class Upload {
  readonly #path: string
  readonly #check: (bytes: number) => void
  #size = 0

  /** `check` throws for a file of more bytes than are allowed. */
  constructor(path: string, check: (bytes: number) => void) {
    this.#path = path
    this.#check = check
  }

  /** Appends `bytes` at `offset`; 0 starts again, and the last piece may come again. Returns the bytes so far. */
  piece(offset: number, bytes: Uint8Array): number {
    const size = offset + bytes.length
    if (offset > 0 && size === this.#size) return size
    if (offset !== 0 && offset !== this.#size)
      throw new OsError('BAD_REQUEST', `the next piece begins at ${this.#size}`)
    try {
      this.#check(size)
      realFiles.mkdir(dirname(this.#path))
      const fd = realFiles.open(this.#path, offset === 0 ? 'w' : 'a')
      try {
        realFiles.write(fd, bytes)
      } finally {
        realFiles.close(fd)
      }
    } catch (thrown) {
      this.remove()
      throw asOsError(thrown, errno(thrown) === 'ENOSPC' ? 'DISK_FULL' : 'STORAGE')
    }
    return (this.#size = size)
  }

  /** Throws BAD_REQUEST unless `size` bytes were uploaded. Another piece then starts a new file. */
  complete(size: number): void {
    if (size !== this.#size) throw new OsError('BAD_REQUEST', `${this.#size} bytes were uploaded, not ${size}`)
    this.#size = 0
  }

  /** Removes what is not complete yet. */
  abandon(): void {
    if (this.#size > 0) this.remove()
  }

  remove(): void {
    this.#size = 0
    realFiles.remove(this.#path)
  }
}
