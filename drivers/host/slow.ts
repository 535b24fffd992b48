// Sysfs files that may block: a read of a hwmon or IIO file can wait on a slow or stuck bus. So a read has a deadline, a file
// whose read is still out is not read again, and when too many reads are out no other is begun. Such a sensor has no value
// this time. The same for the space of a disk or a network file system. With the addon the reads wait in threads of their own;
// without it in two of the four threads that also sync the log: the other two stay free whatever the chips do.
import { readFile, stat, statfs } from 'node:fs/promises'
import { errno, OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import { nativeOrNull } from '../../src/native'
import { ThreadFiles } from './threads'

export interface Space {
  /** the device number of the file system, to know one that is named twice */
  device: number
  totalBytes: number
  freeBytes: number
  /** what an ordinary user may still write; less than free where blocks are reserved */
  availableBytes: number
}

interface SlowFilesOptions {
  read?: (path: string) => Promise<string>
  timers?: Timers
  /** a healthy chip answers within some ten milliseconds, a DHT22 within two seconds */
  deadlineMs?: number
  /** of the four threads of the pool */
  mostStuck?: number
}

export class SlowFiles {
  readonly #read: (path: string) => Promise<string>
  readonly #timers: Timers
  readonly #deadlineMs: number
  readonly #mostStuck: number
  readonly #stuck = new Set<string>()
  /** undefined: not looked up yet whether there is an addon */
  #threads: ThreadFiles | null | undefined

  constructor({ read, timers = systemTimers, deadlineMs = 2500, mostStuck = 2 }: SlowFilesOptions = {}) {
    this.#read = read ?? (path => readFile(path, 'latin1'))
    if (read) this.#threads = null
    this.#timers = timers
    this.#deadlineMs = deadlineMs
    this.#mostStuck = mostStuck
  }

  /** files whose read has not come back in time */
  get stuck(): number {
    return this.#stuck.size + (this.#threads?.stuck ?? 0)
  }

  /** The text of a file. Throws TIMEOUT when it hangs or too many others do, else the system's error. */
  text(path: string): Promise<string> {
    return this.#own()?.text(path) ?? this.#guard(path, () => this.#read(path))
  }

  /** Space of the file system a path is on. Throws as text(). */
  async space(path: string): Promise<Space> {
    const [device, totalBytes, freeBytes, availableBytes] = await (this.#own()?.space(path) ??
      this.#guard(path, async () => {
        const { dev } = await stat(path)
        const { bsize, blocks, bfree, bavail } = await statfs(path)
        return [dev, blocks * bsize, bfree * bsize, bavail * bsize]
      }))
    return { device: device!, totalBytes: totalBytes!, freeBytes: freeBytes!, availableBytes: availableBytes! }
  }

  /** Threads for the reads, null: none are to be had. */
  #own(): ThreadFiles | null {
    if (this.#threads === undefined) this.#threads = nativeOrNull() ? new ThreadFiles(this.#deadlineMs) : null
    return this.#threads
  }

  /** A job on `path` that sits in a thread of the pool. */
  async #guard<T>(path: string, job: () => Promise<T>): Promise<T> {
    if (this.#stuck.has(path) || this.#stuck.size >= this.#mostStuck)
      throw new OsError('TIMEOUT', `${path} is not read while a read hangs`)
    let cancel = (): void => undefined
    const late = new Promise<never>((_, reject) => {
      cancel = this.#timers.after(this.#deadlineMs, () => {
        this.#stuck.add(path)
        reject(new OsError('TIMEOUT', `${path} takes longer than ${this.#deadlineMs} ms`))
      })
    })
    const working = job()
    const settled = (): void => {
      cancel()
      this.#stuck.delete(path)
    }
    working.then(settled, settled)
    return Promise.race([working, late])
  }
}

/** One gate for all sources of the process, since they share the threads. */
export const slowFiles = new SlowFiles()

/** The file or its device is not there any more. */
export const isGone = (error: unknown): boolean => ['ENOENT', 'ENODEV', 'ENXIO'].includes(errno(error) ?? '')
