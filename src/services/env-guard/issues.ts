// Issues: what is missing, since when, and whether it still is. Stored in <data>/env_guard/status.json, bounded; the issues
// resolved longest ago are dropped first. Written when the set changes, not at every check.
//
// Errors: an unreadable file starts a new one, a failed write is logged; both only lose history.
import { createHash } from 'node:crypto'
import { dirname } from 'node:path'
import * as v from 'valibot'
import { KINDS, type ResourceKind } from '../../checks/remedies'
import { atomicWrite } from '../../lib/atomic'
import { asOsError, errno } from '../../lib/errors'
import type { Files } from '../../lib/files'
import type { Logger } from '../../lib/logger'

export const STATUSES = ['open', 'resolved', 'ignored'] as const
export type IssueStatus = (typeof STATUSES)[number]

/** The result of a check. */
export interface EnvIssue {
  readonly kind: ResourceKind
  /** the device, file, package or link concerned */
  readonly resource: string
  readonly message: string
  readonly remedy: string
  /** links that need it */
  readonly needed_by: readonly string[]
}

const ISSUE = v.object({
  id: v.string(),
  kind: v.picklist(KINDS),
  resource: v.string(),
  message: v.string(),
  remedy: v.string(),
  needed_by: v.array(v.string()),
  status: v.picklist(STATUSES),
  /** checks that detected it */
  attempts: v.number(),
  /** UNIX ms */
  first_at: v.number(),
  last_at: v.number(),
  resolved_at: v.nullable(v.number()),
})
export type Issue = v.InferOutput<typeof ISSUE>

const idOf = (kind: ResourceKind, resource: string): string =>
  createHash('sha256').update(`${kind}\0${resource}`).digest('hex').slice(0, 8)

export class IssueBook {
  readonly #path: string
  readonly #files: Files
  readonly #logger: Logger
  readonly #max: number
  readonly #issues = new Map<string, Issue>()

  constructor(path: string, { files, logger, max }: { files: Files; logger: Logger; max: number }) {
    this.#path = path
    this.#files = files
    this.#logger = logger
    this.#max = max
    for (const issue of this.#read()) this.#issues.set(issue.id, issue)
  }

  /** Open issues first, then the newest. */
  list(): Issue[] {
    const rank = ({ status }: Issue): number => STATUSES.indexOf(status === 'ignored' ? 'ignored' : status)
    return [...this.#issues.values()].sort((a, b) => rank(a) - rank(b) || b.last_at - a.last_at)
  }

  /**
   * Applies the result of a complete check: issues it did not detect are resolved. Returns new issues. `save` false: in RAM
   * only.
   */
  take(findings: readonly EnvIssue[], now: number, save = true): Issue[] {
    const fresh: Issue[] = []
    const seen = new Set<string>()
    let changed = false
    for (const finding of findings) {
      const id = idOf(finding.kind, finding.resource)
      seen.add(id)
      const old = this.#issues.get(id)
      const issue: Issue = {
        id,
        ...finding,
        needed_by: [...finding.needed_by],
        status: old?.status === 'ignored' ? 'ignored' : 'open',
        attempts: (old?.attempts ?? 0) + 1,
        first_at: old?.status === 'resolved' ? now : (old?.first_at ?? now),
        last_at: now,
        resolved_at: null,
      }
      this.#issues.set(id, issue)
      if (!old || old.status === 'resolved') fresh.push(issue)
      changed ||= !old || old.status !== issue.status || old.message !== issue.message
    }
    for (const issue of this.#issues.values()) {
      if (issue.status !== 'open' || seen.has(issue.id)) continue
      this.#issues.set(issue.id, { ...issue, status: 'resolved', resolved_at: now })
      changed = true
    }
    this.#bound()
    if (changed && save) this.#write()
    return fresh
  }

  /** Undefined if the issue does not exist. */
  set(id: string, status: IssueStatus, now: number): Issue | undefined {
    const issue = this.#issues.get(id)
    if (!issue) return undefined
    const next = { ...issue, status, resolved_at: status === 'resolved' ? now : null }
    this.#issues.set(id, next)
    this.#write()
    return next
  }

  /** Forgets all issues, or the resolved ones. Returns the number. */
  clear(resolvedOnly: boolean): number {
    const gone = [...this.#issues.values()].filter(({ status }) => !resolvedOnly || status === 'resolved')
    for (const { id } of gone) this.#issues.delete(id)
    if (gone.length > 0) this.#write()
    return gone.length
  }

  #bound(): void {
    const over = this.#issues.size - this.#max
    if (over <= 0) return
    for (const { id } of this.list().reverse().slice(0, over)) this.#issues.delete(id)
  }

  #read(): Issue[] {
    try {
      const file = JSON.parse(this.#files.read(this.#path).toString('utf8')) as { issues?: unknown }
      return v.parse(v.array(ISSUE), file.issues)
    } catch (error) {
      if (errno(error) !== 'ENOENT')
        this.#logger.warn(`${this.#path} cannot be read and is replaced: ${asOsError(error).message}`)
      return []
    }
  }

  #write(): void {
    try {
      this.#files.mkdir(dirname(this.#path))
      atomicWrite(this.#path, `${JSON.stringify({ issues: this.list() }, null, 2)}\n`, this.#files)
    } catch (error) {
      this.#logger.warn(`${this.#path} cannot be written: ${asOsError(error).message}`)
    }
  }
}
