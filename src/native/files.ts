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
    return this.#bus.call((addon, bus) => addon.fileRead(bus, path, into.length), `read of ${path}`, deadlineMs, into)
  }

  /** Writes a short text into an existing file (a switch in sysfs). Throws like read(). */
  write(path: string, text: string, deadlineMs: number): Promise<number> {
    return this.#bus.call((addon, bus) => addon.fileWrite(bus, path, text), `write of ${path}`, deadlineMs)
  }

  /**
   * Space of the file system of `path`: fills `into` with device number, total bytes, free, and free for users. Throws
   * like read().
   */
  space(path: string, into: Float64Array, deadlineMs: number): Promise<number> {
    const answer = new Uint8Array(into.buffer)
    return this.#bus.call((addon, bus) => addon.fileSpace(bus, path), `statfs of ${path}`, deadlineMs, answer)
  }

  /** Safe to call twice, and while stuck. */
  close(): void {
    this.#bus.close()
  }
}
