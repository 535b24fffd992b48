// Files whose reading can wait for hardware (sensor chips in sysfs, 1-Wire; the space on a disk): read on a thread of their own, never in libuv's
// pool, which also syncs the log. One reader serves all that wait for the same file; a file that does not answer makes the
// reader stuck (bus.ts), so files that fail apart have readers apart.
import { type BusOptions, NativeThread } from './native-thread'

export class FileReader {
  readonly #bus: NativeThread

  /** `name` tells readers apart in messages. Throws E_NO_ADDON, BUS_STUCK. */
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
   * Fills `into` with the file's beginning and resolves with how many bytes that are. `into` belongs to the call until it is
   * settled. Throws the error of the kernel, TIMEOUT, BUS_STUCK.
   */
  read(path: string, into: Uint8Array, deadlineMs: number): Promise<number> {
    const refusal = this.#bus.refusal()
    if (refusal) return Promise.reject(refusal)
    const job = this.#bus.addon.fileRead(this.#bus.handle, path, into.length)
    return this.#bus.finish(job, `read of ${path}`, deadlineMs, into)
  }

  /** Writes a short text into a file that is there (a switch in sysfs). Throws as read(). */
  write(path: string, text: string, deadlineMs: number): Promise<number> {
    const refusal = this.#bus.refusal()
    if (refusal) return Promise.reject(refusal)
    return this.#bus.finish(this.#bus.addon.fileWrite(this.#bus.handle, path, text), `write of ${path}`, deadlineMs)
  }

  /**
   * Space of the file system `path` is on: fills `into` with the number of its device, bytes in all, free, and free for users.
   * Throws as read().
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
