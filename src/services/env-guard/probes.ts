// Checks what is missing on this machine: devices named in the configuration, permissions for them, links that are down
// because of them, packages and files of os-node. It only checks: nothing is opened, run or changed. Never throws.
import { type DeviceAccess, deviceFindings, userName } from '../../checks/devices'
import { type Remedy, type ResourceKind, remedyFor } from '../../checks/remedies'
import type { ConfigStore } from '../../config'
import { ERRORS } from '../../lib/errors'
import type { LinkReport } from '../../links/supervisor'
import type { EnvIssue } from './issues'

export interface ProbeParts {
  readonly config: ConfigStore
  readonly remedies: readonly Remedy[]
  /** absent without a running gateway */
  readonly links?: Readonly<Record<string, LinkReport>>
  /** missing or damaged parts of os-node, with the problem as text */
  readonly parts: () => readonly { name: string; problem: string }[]
  /** why the native addon does not load; null: it loads */
  readonly addon: () => string | null
  /** the file system, for tests */
  readonly look?: (path: string) => DeviceAccess
}

/** how drivers start a message about something missing on this machine */
const ABSENT =
  /^(?:there is no (?:serial port|I2C bus|interface)|this machine has no|no (?:adapter|GPIO chip|line of this|1-Wire|[A-Z]+\d\w*:)|none of )/

/** a reason followed by advice */
const MISSING_INTERFACE = /^there is no interface [^\s:]+(?=: )/

/** What a link that is down needs from this machine, by its reason and hint; null: nothing. */
function lackOf(reason: string, hint: string): ResourceKind | null {
  if (hint === ERRORS.NO_ACCESS.hint || /EACCES|EPERM|permission|no right/i.test(reason)) return 'permission'
  if (/native addon missing|no driver|package|NO_PREBUILT|modprobe/i.test(`${reason} ${hint}`)) return 'package'
  if (
    ABSENT.test(reason) ||
    /ENOENT|ENODEV|ENXIO|no such (file|device)|is not there|no device answers|is gone|plugged/i.test(reason)
  )
    return 'device'
  return null
}

export function findIssues({ config, remedies, links, parts, addon, look }: ProbeParts): EnvIssue[] {
  const user = userName()
  const findings = new Map<string, EnvIssue>()
  const add = (
    kind: ResourceKind,
    resource: string,
    message: string,
    needed_by: readonly string[],
    group?: string,
  ): void => {
    const key = `${kind} ${resource}`
    const old = findings.get(key)
    findings.set(key, {
      kind,
      resource,
      message,
      remedy: remedyFor(remedies, kind, resource, { user, ...(group !== undefined && { group }) }),
      needed_by: [...new Set([...(old?.needed_by ?? []), ...needed_by])],
    })
  }
  for (const { kind, path, message, owners, group } of deviceFindings(config, look))
    if (kind) add(kind, path, message, owners, group)
  const missing = addon()
  if (missing !== null) add('package', 'native addon', missing, [])
  for (const { name, problem } of parts()) add('package', name, problem, [])
  for (const [name, link] of Object.entries(links ?? {})) {
    if (link.state !== 'down' || link.reason === undefined) continue
    const kind = lackOf(link.reason, link.hint ?? '')
    // a missing chip on an existing bus is a problem of the link
    const file = /\/dev\/[\w./:-]*\w(?![\w./:-]*\w| 0x)/.exec(link.reason)
    const path = file?.[0] ?? /interface (\w+)/.exec(link.reason)?.[1]
    const resource = path ?? (kind === 'package' && /native addon/.test(link.reason) ? 'native addon' : name)
    // leave out the driver's advice, since the remedy repeats it
    const reason = MISSING_INTERFACE.exec(link.reason)?.[0] ?? link.reason
    // the device was already reported above
    if (kind && !(path && findings.has(`${kind} ${path}`))) add(kind, resource, `${name}: ${reason}`, [name])
  }
  return [...findings.values()]
}
