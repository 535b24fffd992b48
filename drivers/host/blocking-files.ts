// Reads sysfs files that may block: a read of a hwmon or IIO file can wait for a slow or stuck bus. So each read has a
// deadline, a file with a pending read is not read again, and no read starts while too many are pending. Such a sensor
// has no value this time. The same applies to the space of a disk or a network file system. With the addon, reads run
// in separate threads; without it, in two of libuv's four threads, which also sync the log: the other two always stay
// free.
import { readFile, stat, statfs } from 'node:fs/promises'
import { within } from '../../src/lib/deadline'
import { errno, OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import { nativeOrNull } from '../../src/native'
import { ThreadFiles } from './threads'

export interface Space {
  /** device number of the file system, to detect one that is named twice */
  device: number
  totalBytes: number
  freeBytes: number
  /** bytes an ordinary user can still write; less than free if blocks are reserved */
  availableBytes: number
}

interface BlockingFilesOptions {
  read?: (path: string) => Promise<string>
  timers?: Timers
  /** a healthy chip answers within tens of milliseconds, a DHT22 within two seconds */
  deadlineMs?: number
  /** of the four threads of libuv's pool */
  mostStuck?: number
}

export class BlockingFiles {
  readonly #read: (path: string) => Promise<string>
  readonly #timers: Timers
  readonly #deadlineMs: number
  readonly #mostStuck: number
  readonly #stuck = new Set<string>()
  /** undefined: not yet known whether the addon exists */
  #threads: ThreadFiles | null | undefined

  constructor({ read, timers = systemTimers, deadlineMs = 2500, mostStuck = 2 }: BlockingFilesOptions = {}) {
    this.#read = read ?? (path => readFile(path, 'latin1'))
    if (read) this.#threads = null
    this.#timers = timers
    this.#deadlineMs = deadlineMs
    this.#mostStuck = mostStuck
  }

  /** files whose read is overdue */
  get stuck(): number {
    return this.#stuck.size + (this.#threads?.stuck ?? 0)
  }

  /** The text of a file. Throws TIMEOUT when it or too many others hang, else the system's error. */
  text(path: string): Promise<string> {
    return this.#own()?.text(path) ?? this.#guard(path, () => this.#read(path))
  }

  /** Space of the file system that contains a path. Throws like text(). */
  async space(path: string): Promise<Space> {
    const [device, totalBytes, freeBytes, availableBytes] = await (this.#own()?.space(path) ??
      this.#guard(path, async () => {
        const { dev } = await stat(path)
        const { bsize, blocks, bfree, bavail } = await statfs(path)
        return [dev, blocks * bsize, bfree * bsize, bavail * bsize]
      }))
    return { device: device!, totalBytes: totalBytes!, freeBytes: freeBytes!, availableBytes: availableBytes! }
  }

  /** The addon's threads; null: no addon. */
  #own(): ThreadFiles | null {
    if (this.#threads === undefined) this.#threads = nativeOrNull() ? new ThreadFiles(this.#deadlineMs) : null
    return this.#threads
  }

  /** Runs a job on `path` that occupies a thread of libuv's pool. */
  async #guard<T>(path: string, job: () => Promise<T>): Promise<T> {
    if (this.#stuck.has(path) || this.#stuck.size >= this.#mostStuck)
      throw new OsError('TIMEOUT', `${path} was not read: an earlier read hangs`)
    const working = job()
    const settled = (): void => void this.#stuck.delete(path)
    working.then(settled, settled)
    return within(this.#timers, this.#deadlineMs, working, () => {
      this.#stuck.add(path)
      throw new OsError('TIMEOUT', `${path} takes longer than ${this.#deadlineMs} ms`)
    })
  }
}

/** One instance for all sources of the process, because they share the threads. */
export const blockingFiles = new BlockingFiles()

/** The file or its device has been removed. */
export const isGone = (error: unknown): boolean => ['ENOENT', 'ENODEV', 'ENXIO'].includes(errno(error) ?? '')
