// Hot reload (R27): the file is read again, and what changed is taken over: links that changed are opened anew, the others
// and the log go on untouched. SIGHUP, `os-node reload`, POST /api/reload and every write over CLI or HTTP end up here.
//
// What fails: a file that is broken or not valid changes nothing; reload() throws its CONFIG_ error (path, line, reason),
// the log and `config_problem` of the status say it too. A link that cannot be made is a link that is down.

import type { Changed, Config, ConfigStore } from '../../config'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { SerialQueue } from '../../lib/serial-queue'
import { systemTimers, type Timers } from '../../lib/timers'
import type { Applied } from './apply'

/** What `os-node reload --json` prints and POST /api/reload answers. */
export interface ReloadReport {
  /** keys that have another value now */
  changed: string[]
  links: { sources: Applied; uplinks: Applied; receivers: Applied }
  /** keys that the gateway takes at its next start only: it runs with their old values */
  needs_restart: string[]
}

interface Reloadable {
  /** nothing is taken over before this settles */
  after?: Promise<unknown>
  /** throws CONFIG_INVALID when the links of a configuration could not be made; nothing was changed then */
  check?(next: Config): Promise<void>
  /** makes the running links those of the configuration */
  links(): Promise<ReloadReport['links']>
  /** takes over what needs no link */
  settings?(): void
  timers?: Timers
}

/** writes that follow each other closely are taken over together */
const SETTLE_MS = 100

export class Reloader {
  readonly #config: ConfigStore
  readonly #logger: Logger
  readonly #parts: Reloadable
  readonly #timers: Timers
  /** as the gateway started */
  readonly #first: Config
  /** what needsRestart() compared last, and what it found */
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

  /** Keys whose new value counts from the next start on. Each status wants them: a configuration is compared once. */
  needsRestart(): readonly string[] {
    const { config } = this.#config
    if (config === this.#compared) return this.#restart
    const changes = this.#config.changesSince(this.#first)
    this.#compared = config
    this.#restart = changes.filter(change => change.restart).map(change => change.key)
    return this.#restart
  }

  /** Reads the file and takes it over. Throws CONFIG_SYNTAX or CONFIG_INVALID, and nothing is changed then. */
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

  /** Takes over what is in force now, without reading the file. */
  apply(): Promise<ReloadReport> {
    return this.#turns.run(() => this.#apply([]))
  }

  /** Ends listening for changes; settles when a reload that runs is over. */
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
    this.#tell(report)
    return report
  }

  #tell({ changed, links, needs_restart }: ReloadReport): void {
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
