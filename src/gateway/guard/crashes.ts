// Counts consecutive crashes (R25). Each start writes one small file; a clean stop and a healthy period write it again. A
// start that finds the mark of a run that neither stopped nor was healthy counts a crash. From `limit` crashes on the gateway
// starts in safe mode: web page and CLI up, log readable, links off.
//
// Not counted as a crash: a clean stop, a start that reported an error on its terminal (a port in use), and a run that ended
// because the machine did (the boot id differs): a power cut is not a fault of this program. A changed configuration or
// another version gets one more try. A file that is damaged or cannot be written counts as no crash.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { counted } from '../../lib/counted'
import { asOsError, errno, orElse } from '../../lib/errors'
import { type Files, realFiles } from '../../lib/files'
import { type Logger, silentLogger } from '../../lib/logger'

interface CrashesParts {
  readonly dataDir: string
  /** what may cause the crash: configuration text and version */
  readonly fingerprint: string
  /** consecutive crashes that lead to safe mode; 0: never */
  readonly limit: number
  readonly files?: Files
  readonly logger?: Logger
  /** the boot id; null if the system has none */
  readonly boot?: string | null
  /** UNIX ms */
  readonly now?: () => number
}

interface Mark {
  readonly crashes: number
  /** the run has not ended yet */
  readonly running: boolean
  readonly boot: string | null
  readonly fingerprint: string
  /** why the last run ended, if it was able to record it */
  readonly reason?: string
  /** UNIX ms of the last write */
  readonly at: number
}

export interface SafeModeReport {
  active: boolean
  reason?: string
  crashes: number
}

const marksPath = (dataDir: string): string => join(dataDir, 'starts.json')

export const fingerprintOf = (...parts: readonly string[]): string =>
  createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 16)

/** null: not Linux; there every end without a mark counts */
export const bootId = (): string | null =>
  orElse(null, () => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())

export class Crashes {
  readonly #parts: CrashesParts
  readonly #files: Files
  readonly #logger: Logger
  readonly #boot: string | null
  readonly #now: () => number
  #mark: Mark
  #before: Mark

  constructor(parts: CrashesParts) {
    this.#parts = parts
    this.#files = parts.files ?? realFiles
    this.#logger = parts.logger ?? silentLogger
    this.#boot = parts.boot === undefined ? bootId() : parts.boot
    this.#now = parts.now ?? Date.now
    this.#before = this.#read()
    this.#mark = this.#before
  }

  get count(): number {
    return this.#mark.crashes
  }

  /**
   * Records the start of a run. Returns the reason for safe mode, or undefined. `force`: 'on' and 'off' overrule the count.
   * `why`: how the last run ended, if that run could not record it itself.
   */
  begin(force?: string, why?: string): string | undefined {
    const { limit, fingerprint } = this.#parts
    const last = this.#before
    const crashed = last.running && (last.boot === null || last.boot === this.#boot)
    let crashes = last.crashes + (crashed ? 1 : 0)
    const reason = crashed ? (why ?? last.reason) : undefined
    // configuration or version changed: one try, one more crash leads back to safe mode
    if (limit > 0 && crashes >= limit && last.fingerprint !== fingerprint) crashes = limit - 1
    this.#write({ crashes, running: true, boot: this.#boot, fingerprint, ...(reason && { reason }) })
    if (force === 'off') return undefined
    if (force === 'on') return 'requested by OS_NODE_SAFE_MODE'
    if (limit === 0 || crashes < limit) return undefined
    return `${counted(crashes, 'crash')} in a row${reason ? `, the last: ${reason}` : ''}`
  }

  /** Without a running gateway: what the next start will do; `leave`: resets the count. */
  look(leave: boolean): SafeModeReport {
    if (leave) this.#write({ ...this.#mark, crashes: 0, running: false })
    const { crashes, running, boot, reason } = this.#mark
    const count = crashes + (running && (boot === null || boot === this.#boot) ? 1 : 0)
    const active = this.#parts.limit > 0 && count >= this.#parts.limit
    return { active, crashes: count, ...(active && { reason: reason ?? `${counted(count, 'crash')} in a row` }) }
  }

  /** Records that the run crashes with this reason; the next start counts it. */
  crashed(reason: string): void {
    this.#write({ ...this.#mark, reason: reason.slice(0, 300) })
  }

  /** The run was healthy for a while, or safe mode was left: resets the count. */
  healthy(): void {
    if (this.#mark.crashes > 0 || this.#mark.reason) {
      const { reason: _, ...mark } = this.#mark
      this.#write({ ...mark, crashes: 0 })
    }
  }

  /** A clean stop. In safe mode the count stays, so that the next start enters safe mode again. */
  stopped(inSafeMode = false): void {
    const { reason, ...mark } = this.#mark
    // undo() has already removed the mark
    if (!mark.running) return
    this.#write({ ...mark, running: false, ...(inSafeMode ? reason && { reason } : { crashes: 0 }) })
  }

  /** The start itself failed with a reported error: it does not count as a start. */
  undo(): void {
    this.#write({ ...this.#mark, running: false })
  }

  #read(): Mark {
    const none: Mark = { crashes: 0, running: false, boot: null, fingerprint: '', at: 0 }
    try {
      const mark = JSON.parse(this.#files.read(marksPath(this.#parts.dataDir)).toString('utf8')) as Partial<Mark>
      const { crashes, running } = mark
      if (!Number.isSafeInteger(crashes) || crashes! < 0 || typeof running !== 'boolean')
        throw new TypeError('it contains no crash count')
      return { ...none, ...(mark as Mark) }
    } catch (error) {
      if (errno(error) !== 'ENOENT')
        this.#logger.warn(
          `${marksPath(this.#parts.dataDir)} cannot be read, the crash count is reset: ${asOsError(error).message}`,
        )
      return none
    }
  }

  #write(mark: Omit<Mark, 'at'>): void {
    this.#mark = { ...mark, at: this.#now() }
    try {
      atomicWrite(marksPath(this.#parts.dataDir), JSON.stringify(this.#mark), this.#files)
    } catch (error) {
      this.#logger.warn(`the crash count cannot be written: ${asOsError(error).message}`)
    }
  }
}
