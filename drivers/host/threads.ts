// Files that may block, read in threads of the addon: one thread for all files, and another as soon as that one is
// stuck, so that a hanging chip affects only its own value. Errors: the deadline passes (TIMEOUT); the file's last read
// is still pending (immediate TIMEOUT, no second thread); too many stuck threads (TIMEOUT); else the system's error.
import { asOsError, OsError } from '../../src/lib/errors'
import { FileReader } from '../../src/native/files'
import { stuckThreads } from '../../src/native/native-thread'

/** attributes are at most one page; w1 and hwmon need far less */
const ATTRIBUTE_BYTES = 4096
/** chips that hang at the same time; a stuck thread costs some kilobytes */
const MOST_STUCK = 16

export class ThreadFiles {
  #reader: FileReader | null = null
  #made = 0
  /** file → the reader that hangs on it */
  readonly #stuck = new Map<string, string>()

  constructor(readonly deadlineMs: number) {}

  /** files whose read is overdue */
  get stuck(): number {
    for (const [path, reader] of this.#stuck) if (stuckThreads(reader) === 0) this.#stuck.delete(path)
    return this.#stuck.size
  }

  async text(path: string): Promise<string> {
    const into = Buffer.alloc(ATTRIBUTE_BYTES)
    return into.toString('latin1', 0, await this.#ask(path, reader => reader.read(path, into, this.deadlineMs)))
  }

  /** Device number, total bytes, free bytes, bytes free for users. */
  async space(path: string): Promise<Float64Array> {
    const into = new Float64Array(4)
    await this.#ask(path, reader => reader.space(path, into, this.deadlineMs))
    return into
  }

  async #ask(path: string, ask: (reader: FileReader) => Promise<number>): Promise<number> {
    if (this.stuck >= MOST_STUCK || this.#stuck.has(path))
      throw new OsError('TIMEOUT', `${path} was not read: an earlier read hangs`)
    for (;;) {
      const reader = this.#free()
      try {
        return await ask(reader)
      } catch (error) {
        const { code, cause } = asOsError(error)
        // it was queued behind a read that hangs: retry on the next thread
        if (code === 'BUS_STUCK' || (code === 'LINK_DOWN' && reader !== this.#reader)) continue
        if (code === 'TIMEOUT' && reader.stuck) this.#leave(path, reader)
        throw cause ?? error // the system's error, like readFile
      }
    }
  }

  #free(): FileReader {
    if (!this.#reader || this.#reader.stuck) this.#reader = new FileReader(`files ${++this.#made}`)
    return this.#reader
  }

  #leave(path: string, reader: FileReader): void {
    reader.close()
    this.#stuck.set(path, reader.name)
    if (this.#reader === reader) this.#reader = null
  }
}
