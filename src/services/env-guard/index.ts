// The plugin env_guard: lists what is missing on this machine (devices, permissions, packages), with the remedy and whether
// it is resolved. It checks a second after its start or a link change, and at an interval, and never runs anything.
import { join } from 'node:path'
import { addonProblem } from '../../checks/devices'
import { readRemedies, remediesFile, writeRemedies } from '../../checks/remedies'
import { asOsError, OsError } from '../../lib/errors'
import { systemTimers, type Timers } from '../../lib/timers'
import type { CliHandler, PluginDefinition, PluginHost, Section, Service } from '../contract'
import { problemsOf } from '../dependencies/manifest-parts'
import { type Issue, IssueBook, type IssueStatus, STATUSES } from './issues'
import { findIssues, type ProbeParts } from './probes'

/** delay: many links change at a start, and a check would slow them down */
const SETTLE_MS = 1000

export interface EnvGuardParts extends Partial<Pick<ProbeParts, 'parts' | 'addon' | 'look'>> {
  readonly timers?: Timers
}

export class EnvGuardService implements Service {
  readonly #host: PluginHost
  readonly #parts: EnvGuardParts
  readonly #timers: Timers
  readonly #resources: string
  readonly #statusFile: string
  readonly #sections: readonly Section[]
  #book: IssueBook | undefined
  #checkedAt: number | null = null
  #running = false
  #undo: (() => void)[] = []
  #cancel = (): void => undefined
  #soon = false

  constructor(host: PluginHost, parts: EnvGuardParts = {}) {
    this.#host = host
    this.#parts = parts
    this.#timers = parts.timers ?? systemTimers
    this.#resources = remediesFile(host.dataDir)
    this.#statusFile = join(host.dataDir, 'env_guard', 'status.json')
    this.#sections = [
      {
        plugin_name: host.name,
        section_id: 'status',
        display_name: 'Environment',
        priority: 55,
        refresh_interval_s: 10,
        data: () => this.status(),
      },
    ]
  }

  autoLoad(): void {
    const { files, logger } = this.#host
    this.#book = new IssueBook(this.#statusFile, { files, logger, max: Number(this.#host.settings().max_history) })
  }

  start(): void {
    if (this.#running) return
    this.#running = true
    const { gateway } = this.#host
    if (gateway) this.#undo.push(gateway.onLink(() => this.#lookSoon()))
    this.#lookSoon()
  }

  stop(): void {
    this.#running = false
    this.#cancel()
    for (const undo of this.#undo.splice(0)) undo()
  }

  /** Checks now and returns every issue. `save` false: the file is not written. */
  check(save = true): Issue[] {
    const { config, gateway, logger, clock, files } = this.#host
    const { parts = problemsOf, addon = addonProblem, look } = this.#parts
    const findings = findIssues({
      config,
      remedies: readRemedies(this.#resources, files, logger),
      ...(gateway && { links: gateway.links() }),
      parts,
      addon,
      ...(look && { look }),
    })
    for (const { message, remedy } of this.#issues.take(findings, clock.wall(), save))
      logger.warn(`${message}: ${remedy}`)
    this.#checkedAt = clock.wall()
    return this.#issues.list()
  }

  status(): Record<string, unknown> {
    const issues = this.#issues.list()
    const count = (status: IssueStatus): number => issues.filter(issue => issue.status === status).length
    return {
      running: this.#running,
      checked_at: this.#checkedAt,
      open: count('open'),
      resolved: count('resolved'),
      ignored: count('ignored'),
      issues,
    }
  }

  displayProviders(): readonly Section[] {
    return this.#sections
  }

  getCliCommands(): Record<string, CliHandler> {
    return {
      status: {
        summary: 'list issues with remedies',
        reads: true,
        run: () => {
          if (!this.#running || this.#checkedAt === null) this.check(false)
          const value = this.status()
          return { value, text: textOf(value.issues as Issue[]) }
        },
      },
      list: {
        summary: 'list issues of one kind or status',
        reads: true,
        options: {
          status: { type: 'string', choices: STATUSES, help: 'issues of this status' },
          kind: { type: 'string', choices: ['device', 'permission', 'package'], help: 'issues of this kind' },
        },
        run: ({ status, kind }) => {
          const issues = this.#issues
            .list()
            .filter(
              issue => (status === undefined || issue.status === status) && (kind === undefined || issue.kind === kind),
            )
          return { value: { issues }, text: textOf(issues) }
        },
      },
      check: {
        summary: 'scan now',
        run: () => {
          const issues = this.check()
          const open = issues.filter(({ status }) => status === 'open').length
          return { value: { ok: open === 0, open, issues }, text: textOf(issues), exitCode: open === 0 ? 0 : 1 }
        },
      },
      set: {
        summary: 'set the status of an issue',
        example: '3f2a ignored',
        options: {
          id: { type: 'string', value: 'ID', required: true, help: 'issue, as status shows it' },
          status: { type: 'string', choices: STATUSES, required: true, help: 'ignored: known and accepted' },
        },
        operands: ['id', 'status'],
        run: ({ id, status }) => {
          const issue = this.#issues.set(String(id), status as IssueStatus, this.#host.clock.wall())
          if (!issue) throw new OsError('NOT_FOUND', `no issue ${id}`, { hint: 'os-node env-guard status lists them' })
          return { value: { ok: true, issue } }
        },
      },
      clear: {
        summary: 'remove resolved issues',
        options: { all: { type: 'boolean', help: 'also remove open issues until the next scan' } },
        run: ({ all }) => ({ value: { ok: true, cleared: this.#issues.clear(all !== true) } }),
      },
      'resource-show': {
        summary: 'show the table of remedies',
        reads: true,
        run: () => {
          const { files, logger } = this.#host
          const own = files.exists(this.#resources)
          return {
            value: { file: own ? this.#resources : null, remedies: readRemedies(this.#resources, files, logger) },
          }
        },
      },
      'resource-init': {
        summary: 'write the table of remedies to a file for editing',
        options: { force: { type: 'boolean', help: 'overwrite an existing file' } },
        run: ({ force }) => {
          const { files, dataDir } = this.#host
          if (files.exists(this.#resources) && force !== true)
            throw new OsError('BAD_REQUEST', `${this.#resources} already exists`, {
              hint: 'use --force to overwrite it',
            })
          files.mkdir(join(dataDir, 'env_guard'))
          writeRemedies(this.#resources, files)
          return { value: { ok: true, file: this.#resources } }
        },
      },
    }
  }

  get #issues(): IssueBook {
    if (!this.#book) this.autoLoad()
    return this.#book!
  }

  #lookSoon(): void {
    if (this.#soon || !this.#running) return
    this.#soon = true
    this.#cancel()
    this.#cancel = this.#timers.after(SETTLE_MS, () => this.#look())
  }

  #look(): void {
    this.#soon = false
    this.#cancel()
    try {
      this.check()
    } catch (error) {
      this.#host.logger.warn(`the check failed: ${asOsError(error).message}`)
    }
    const seconds = Number(this.#host.settings().check_interval_s)
    if (this.#running && seconds > 0) this.#cancel = this.#timers.after(seconds * 1000, () => this.#look())
  }
}

const textOf = (issues: readonly Issue[]): string =>
  issues.length === 0
    ? 'nothing is missing'
    : issues
        .map(({ id, status, kind, message, remedy }) => `${id}  ${status}  ${kind}: ${message}\n          ${remedy}`)
        .join('\n')

export const envGuardPlugin: PluginDefinition = {
  name: 'env_guard',
  restart: true,
  create: host => new EnvGuardService(host),
}
