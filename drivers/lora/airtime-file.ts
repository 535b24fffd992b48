// Stores the time on the air over a restart, so that the duty cycle limit is kept. A file in the data directory
// contains the usage of each band, by minutes. It is written in advance: it includes a twentieth of the budget that may
// be used before the next write, and after a crash that share counts as used. So flash is written at most about twenty
// times an hour.
//
// Errors: a missing file means a radio that never sent; an unreadable one counts as a complete budget used just now; a
// failed write is reported once, and sending continues. After the clock was set back, old transmissions look more
// recent, never older.
import { dirname } from 'node:path'
import { atomicWrite } from '../../src/lib/atomic'
import type { Clock } from '../../src/lib/clock'
import { asOsError, errno } from '../../src/lib/errors'
import type { Files } from '../../src/lib/files'
import type { Logger } from '../../src/lib/logger'
import type { DutyCycle, SpentAgo } from './duty'

interface BookParts {
  readonly path: string
  readonly band: string
  readonly duty: DutyCycle
  readonly budgetMs: number
  readonly clock: Clock
  readonly files: Files
  readonly logger: Logger
}

interface Page {
  /** UNIX ms of the write */
  at: number
  reserved_ms: number
  spent: SpentAgo[]
}
type Pages = Record<string, Page>

const MINUTE_MS = 60_000
const RESERVES = 20

export class DutyBook {
  readonly #parts: BookParts
  readonly #reserveMs: number
  /** ms that may be used before the next write */
  #left = 0
  #warned = false

  constructor(parts: BookParts) {
    this.#parts = parts
    this.#reserveMs = parts.budgetMs / RESERVES
  }

  /** Loads the usage of earlier runs; call it before anything is sent. */
  load(): void {
    const { duty, clock } = this.#parts
    duty.restore(this.#read(), clock.mono())
  }

  /** Records `ms` of time on the air; call it before sending. */
  spent(ms: number, now: number): void {
    this.#left -= ms
    if (this.#left >= 0) return
    this.#left = this.#reserveMs
    this.#write(now, this.#reserveMs)
  }

  /** Sending has ended: stores the exact usage. */
  close(now: number): void {
    if (this.#left === 0) return
    this.#left = 0
    this.#write(now, 0)
  }

  #pages(): Pages {
    return JSON.parse(this.#parts.files.read(this.#parts.path).toString('utf8')) as Pages
  }

  #read(): SpentAgo[] {
    const { path, band, clock, logger, budgetMs } = this.#parts
    try {
      const page = this.#pages()[band]
      if (!page) return []
      const elapsed = Math.max(0, clock.wall() - page.at)
      const spent = page.spent.map(({ ago_ms, ms }) => ({ ago_ms: ago_ms + elapsed, ms }))
      if (![...spent, { ago_ms: 0, ms: page.reserved_ms }].every(valid)) throw new Error('it contains no times')
      return [...spent, { ago_ms: 0, ms: page.reserved_ms }]
    } catch (error) {
      if (errno(error) === 'ENOENT') return []
      logger.warn(`${path} cannot be read (${asOsError(error).message}): the whole duty cycle counts as used`)
      return [{ ago_ms: 0, ms: budgetMs }]
    }
  }

  #write(now: number, reserved_ms: number): void {
    const { path, band, duty, files, clock, logger } = this.#parts
    const page: Page = { at: clock.wall(), reserved_ms, spent: byMinutes(duty.ago(now)) }
    let others: Pages = {}
    try {
      // the file has a page per band, and the radio may have used another band meanwhile
      others = this.#pages()
    } catch {
      // no file yet, or its error was reported when it was read
    }
    try {
      files.mkdir(dirname(path))
      atomicWrite(path, JSON.stringify({ ...others, [band]: page }), files)
    } catch (error) {
      if (!this.#warned)
        logger.warn(`${path} cannot be written; a restart loses the recorded airtime: ${asOsError(error).message}`)
      this.#warned = true
    }
  }
}

const valid = ({ ago_ms, ms }: SpentAgo): boolean => ago_ms >= 0 && ms >= 0 && Number.isFinite(ago_ms + ms)

/** The same in fewer entries: all of a minute counts as old as its most recent transmission. */
function byMinutes(spent: readonly SpentAgo[]): SpentAgo[] {
  const minutes = new Map<number, { ago_ms: number; ms: number }>()
  for (const { ago_ms, ms } of spent) {
    const key = Math.floor(ago_ms / MINUTE_MS)
    const minute = minutes.get(key)
    if (minute) {
      minute.ms += ms
      minute.ago_ms = Math.min(minute.ago_ms, ago_ms)
    } else minutes.set(key, { ago_ms, ms })
  }
  return [...minutes.values()].map(({ ago_ms, ms }) => ({ ago_ms: Math.floor(ago_ms), ms: Math.ceil(ms) }))
}
