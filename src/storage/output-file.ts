// An output file of an export, written sequentially in blocks.
//
// Errors: a full disk is DISK_FULL, any other error of the system STORAGE, with the path and the reason.
import { errno, OsError } from '../lib/errors'
import type { Files } from '../lib/files'

/** size of one write */
export const BLOCK = 256 * 1024

export class OutFile {
  readonly path: string
  readonly #files: Files
  readonly #block = Buffer.allocUnsafe(BLOCK)
  #used = 0
  #fd: number | undefined

  constructor(files: Files, path: string) {
    this.path = path
    this.#files = files
    this.#fd = this.#report(() => files.open(path, 'w'))
  }

  /** At most one block per call. */
  write(bytes: Uint8Array): void {
    if (this.#used + bytes.length > BLOCK) this.flush()
    this.#block.set(bytes, this.#used)
    this.#used += bytes.length
  }

  flush(): void {
    this.#report(() => this.#files.write(this.#fd!, this.#block, 0, this.#used))
    this.#used = 0
  }

  /** Writes everything to the medium, then `first` over the start of the file. */
  finish(first: Uint8Array): void {
    this.flush()
    this.#report(() => this.#files.syncNow(this.#fd!))
    this.close()
    this.#fd = this.#report(() => this.#files.open(this.path, 'r+'))
    this.#report(() => {
      this.#files.write(this.#fd!, first)
      this.#files.syncNow(this.#fd!)
    })
    this.close()
  }

  /** Discards what was not flushed. */
  close(): void {
    if (this.#fd === undefined) return
    const fd = this.#fd
    this.#fd = undefined
    this.#report(() => this.#files.close(fd))
  }

  #report<T>(run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw cannotWrite(this.path, error)
    }
  }
}

export function cannotWrite(path: string, cause: unknown): OsError {
  const code = errno(cause)
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  const why = cause instanceof Error ? cause.message : String(cause)
  return full
    ? new OsError('DISK_FULL', `${path} cannot be written: the disk is full`, {
        cause,
        hint: 'free space there, or name a file on another disk',
      })
    : new OsError('STORAGE', `${path} cannot be written: ${why}`, {
        cause,
        hint: 'check the path: the folder must exist and be writable',
      })
}
