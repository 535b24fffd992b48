// State that is only in RAM because the disk refuses writes (R30): the lock, the identity, a first token and others. Each
// write is retried with a delay until it succeeds; the status lists them with the reason. The log has its own state and
// retries itself.
import { asOsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import { systemTimers, type Timers } from '../lib/timers'
import { diskFault, mendDisk } from '../lib/writable'
import type { DataLock } from './lock'
import type { DiskReport } from './status'

/** Resolves or returns when it is written; throws while that is not possible. */
export type Write = () => void | Promise<void>

/** Takes over a failed write. */
export type KeepLater = (name: string, write: Write, error: unknown) => void

const FIRST_MS = 2000
const LONGEST_MS = 10_000

export class Unkept {
  readonly #logger: Logger
  readonly #timers: Timers
  readonly #writes = new Map<string, Write>()
  readonly #wall: () => number
  #reason = ''
  #since = 0
  #delayMs = FIRST_MS
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(
    logger: Logger,
    { timers = systemTimers, wall = Date.now }: { timers?: Timers; wall?: () => number } = {},
  ) {
    this.#logger = logger
    this.#timers = timers
    this.#wall = wall
  }

  /** Adds a write to retry; the newest write of a name replaces earlier ones. */
  readonly add: KeepLater = (name, write, error) => {
    const reason = diskFault(error) ?? asOsError(error).message
    if (this.#writes.size === 0) {
      this.#since = this.#wall()
      this.#delayMs = FIRST_MS
    }
    this.#reason = reason
    if (!this.#writes.has(name)) this.#logger.warn(`${name} is in RAM only: ${reason}; ${mendDisk}`)
    this.#writes.set(name, write)
    if (!this.#cancel && !this.#stopped) this.#plan()
  }

  /** Writes now, or later if the disk refuses. Throws errors that are not the disk's. */
  write(name: string, write: () => void): void {
    try {
      write()
    } catch (error) {
      if (!diskFault(error)) throw error
      this.add(name, write, error)
    }
  }

  /** Converts a socket lock to a file once that can be written. */
  watch(lock: DataLock): DataLock {
    if (lock.fault) this.add('the lock', () => lock.toFile(), new Error(lock.fault))
    return lock
  }

  /** undefined: everything is stored. */
  report(): DiskReport | undefined {
    if (this.#writes.size === 0) return undefined
    return {
      state: 'degraded',
      reason: this.#reason,
      since: this.#since,
      in_ram: [...this.#writes.keys()],
      hint: mendDisk,
    }
  }

  /** One round of retries; called by the timer. */
  async retry(): Promise<void> {
    for (const [name, write] of [...this.#writes]) {
      try {
        await write()
        if (this.#writes.get(name) === write) this.#writes.delete(name)
        this.#logger.info(`${name} is on flash now`)
      } catch (error) {
        this.#reason = diskFault(error) ?? asOsError(error).message
      }
    }
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
  }

  #plan(): void {
    this.#cancel = this.#timers.after(this.#delayMs, () => {
      this.#cancel = undefined
      this.#delayMs = Math.min(2 * this.#delayMs, LONGEST_MS)
      void this.retry().then(() => {
        if (this.#writes.size > 0 && !this.#stopped && !this.#cancel) this.#plan()
      })
    })
  }
}
