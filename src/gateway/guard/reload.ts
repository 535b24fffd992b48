// Hot reload (R27): reads the file again and applies what changed. Changed links are reopened; the other links and the log
// stay open. SIGHUP, `os-node reload`, POST /api/reload and every write over CLI or HTTP use this.
//
// Errors: a broken or invalid file changes nothing; reload() throws its CONFIG_ error (path, line, reason), which is also in
// the log and in `config_problem` of the status. A link that cannot be created is a link that is down.

import type { Changed, Config, ConfigStore } from '../../config'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { SerialQueue } from '../../lib/serial-queue'
import { systemTimers, type Timers } from '../../lib/timers'
import type { Applied } from './apply'

/** What `os-node reload --json` prints and POST /api/reload answers. */
export interface ReloadReport {
  /** keys whose value changed */
  changed: string[]
  links: { sources: Applied; uplinks: Applied; receivers: Applied }
  /** keys that take effect at the next start only: the gateway runs with their old values */
  needs_restart: string[]
}

interface Reloadable {
  /** nothing is applied before this settles */
  after?: Promise<unknown>
  /** throws CONFIG_INVALID if the links of a configuration cannot be created; nothing is changed then */
  check?(next: Config): Promise<void>
  /** creates the configured links */
  links(): Promise<ReloadReport['links']>
  /** applies settings that need no link */
  settings?(): void
  timers?: Timers
}

/** writes in quick succession are applied together */
const SETTLE_MS = 100

export class Reloader {
  readonly #config: ConfigStore
  readonly #logger: Logger
  readonly #parts: Reloadable
  readonly #timers: Timers
  /** the configuration at the start */
  readonly #first: Config
  /** what needsRestart() compared last, and its result */
  #compared: Config
  #restart: readonly string[] = []
  readonly #unlisten: () => void
  readonly #turns: SerialQueue
  #cancel: (() => void) | undefined
  #reading = false
  #stopped = false

  constructor(config: ConfigStore, logger: Logger, parts: Reloadable) {
    this.#config = config
    this.#logger = logger
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
    this.#turns = new SerialQueue(parts.after)
    this.#first = config.config
    this.#compared = this.#first
    this.#unlisten = config.onChange(() => this.#written())
    config.approve = async next => this.#parts.check?.(next)
  }

  /**
   * Keys whose new value takes effect at the next start. Every status needs them, so a configuration is compared only once.
   */
  needsRestart(): readonly string[] {
    const { config } = this.#config
    if (config === this.#compared) return this.#restart
    const changes = this.#config.changesSince(this.#first)
    this.#compared = config
    this.#restart = changes.filter(change => change.restart).map(change => change.key)
    return this.#restart
  }

  /** Reads the file and applies it. Throws CONFIG_SYNTAX or CONFIG_INVALID, and changes nothing then. */
  reload(): Promise<ReloadReport> {
    this.#cancel?.()
    return this.#turns.run(async () => {
      await this.#check(this.#config.read())
      this.#reading = true
      let changes: Changed[]
      try {
        changes = this.#config.reload()
      } finally {
        this.#reading = false
      }
      if (this.#config.problem) throw this.#config.problem
      return await this.#apply(changes)
    })
  }

  /** Applies the current configuration without reading the file. */
  apply(): Promise<ReloadReport> {
    return this.#turns.run(() => this.#apply([]))
  }

  /** Unsubscribes from changes; settles after a running reload has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    this.#unlisten()
    await this.#turns.idle
  }

  async #check(next: Config): Promise<void> {
    try {
      await this.#parts.check?.(next)
    } catch (thrown) {
      const problem = asOsError(thrown)
      this.#config.refuse(problem)
      throw problem
    }
  }

  #written(): void {
    if (this.#reading || this.#stopped) return
    this.#cancel?.()
    this.#cancel = this.#timers.after(SETTLE_MS, () => {
      this.#turns.run(() => this.#apply([])).catch(error => this.#logger.error(`reload: ${asOsError(error).message}`))
    })
  }

  async #apply(changes: readonly Changed[]): Promise<ReloadReport> {
    this.#parts.settings?.()
    const links = await this.#parts.links()
    const report = { changed: changes.map(change => change.key), links, needs_restart: [...this.needsRestart()] }
    this.#report(report)
    return report
  }

  #report({ changed, links, needs_restart }: ReloadReport): void {
    const said = Object.entries(links).flatMap(([kind, applied]) =>
      (['added', 'removed', 'changed'] as const)
        .filter(what => applied[what].length > 0)
        .map(what => `${kind} ${what}: ${applied[what].join(', ')}`),
    )
    if (said.length > 0 || changed.length > 0)
      this.#logger.info(`configuration read again; ${said.join('; ') || 'no link changed'}`)
    if (needs_restart.length > 0) this.#logger.warn(`effective at the next start: ${needs_restart.join(', ')}`)
  }
}
