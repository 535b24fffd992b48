// The last time known to be correct, `<data>/last_time.json`: the start value of a board without an RTC (decision 0044). Written once
// an hour and at a stop, and only while a time source confirms the time.
// Errors: a file that cannot be read counts as missing. One that cannot be written only costs the better start value; the
// newest log records give nearly the same time.
import { join } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { asOsError } from '../../lib/errors'
import type { Files } from '../../lib/files'
import type { Logger } from '../../lib/logger'

export class SavedTime {
  readonly #path: string
  readonly #files: Files
  readonly #logger: Logger

  constructor(dataDir: string, files: Files, logger: Logger) {
    this.#path = join(dataDir, 'last_time.json')
    this.#files = files
    this.#logger = logger
  }

  /** UNIX ms, null if none is stored */
  read(): number | null {
    try {
      if (!this.#files.exists(this.#path)) return null
      const { time_ms } = JSON.parse(this.#files.read(this.#path).toString('utf8')) as { time_ms?: unknown }
      if (typeof time_ms !== 'number' || !Number.isFinite(time_ms)) throw new TypeError('it contains no time')
      return time_ms
    } catch (error) {
      this.#logger.warn(`${this.#path} is not used: ${asOsError(error).message}`)
      return null
    }
  }

  write(timeMs: number): void {
    try {
      atomicWrite(this.#path, JSON.stringify({ time_ms: timeMs }), this.#files)
    } catch (error) {
      this.#logger.warn(`the time could not be saved: ${asOsError(error).message}`)
    }
  }
}
