// Files whose read can wait for hardware (sensor chips in sysfs, 1-Wire; the space on a disk): read on a separate
// thread, never in libuv's pool, which also syncs the log. One reader serves all requests of a file; a file that does
// not answer makes its reader stuck (native-thread.ts), so files that fail independently need separate readers.
import { type BusOptions, NativeThread } from './native-thread'

export class FileReader {
  readonly #bus: NativeThread

  /** `name` identifies the reader in messages. Throws E_NO_ADDON, BUS_STUCK. */
  constructor(
    readonly name: string,
    options: BusOptions = {},
  ) {
    this.#bus = new NativeThread(name, options)
  }

  get stuck(): boolean {
    return this.#bus.stuck
  }

  /**
   * Fills `into` with the beginning of the file and resolves with the number of bytes. `into` belongs to the call until
   * it is settled. Throws the error of the kernel, TIMEOUT, BUS_STUCK.
   */
  read(path: string, into: Uint8Array, deadlineMs: number): Promise<number> {
    const refusal = this.#bus.refusal()
    if (refusal) return Promise.reject(refusal)
    const job = this.#bus.addon.fileRead(this.#bus.handle, path, into.length)
    return this.#bus.finish(job, `read of ${path}`, deadlineMs, into)
  }

  /** Writes a short text into an existing file (a switch in sysfs). Throws like read(). */
  write(path: string, text: string, deadlineMs: number): Promise<number> {
    const refusal = this.#bus.refusal()
    if (refusal) return Promise.reject(refusal)
    return this.#bus.finish(this.#bus.addon.fileWrite(this.#bus.handle, path, text), `write of ${path}`, deadlineMs)
  }

  /**
   * Space of the file system of `path`: fills `into` with device number, total bytes, free, and free for users. Throws
   * like read().
   */
  space(path: string, into: Float64Array, deadlineMs: number): Promise<number> {
    const refusal = this.#bus.refusal()
    if (refusal) return Promise.reject(refusal)
    const job = this.#bus.addon.fileSpace(this.#bus.handle, path)
    return this.#bus.finish(job, `statfs of ${path}`, deadlineMs, new Uint8Array(into.buffer))
  }

  /** Safe to call twice, and while stuck. */
  close(): void {
    this.#bus.close()
  }
}
