// Looks for what is missing on this machine: devices that the configuration names, rights to use them, links that are down
// for want of one, packages and files of os-node. It only looks: nothing is opened, run or changed. Never throws.
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'
import type { ConfigStore } from '../../config'
import type { GatewayStatus } from '../../gateway/status'
import { ERRORS, errno } from '../../lib/errors'
import { mediumEnabled } from '../../links/enabled'
import { MEDIA } from '../../links/registry'
import type { EnvIssue } from './issues'
import { type Kind, type Remedy, remedyFor } from './remedies'

export interface ProbeParts {
  readonly config: ConfigStore
  readonly remedies: readonly Remedy[]
  /** absent without a gateway */
  readonly status?: GatewayStatus
  /** parts of os-node that are missing or damaged, in words */
  readonly parts: () => readonly { name: string; problem: string }[]
  /** why the native addon does not load; null: it does */
  readonly addon: () => string | null
  /** the file system, for tests */
  readonly look?: (path: string) => Look
}

export type Look = { state: 'fine' | 'missing' } | { state: 'forbidden'; group: string | undefined }

const userName = (): string => {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'of os-node') // a user id without a name
  }
}

/** The name of a group by its number, or undefined. */
function groupName(gid: number): string | undefined {
  try {
    const line = readFileSync('/etc/group', 'utf8')
      .split('\n')
      .find(entry => entry.split(':')[2] === String(gid))
    return line?.split(':')[0]
  } catch {
    return undefined // no such file: the number is all there is
  }
}

/** Whether this user may read and write a device. */
export function lookAt(path: string): Look {
  try {
    if (!existsSync(path)) return { state: 'missing' }
    accessSync(path, constants.R_OK | constants.W_OK)
    return { state: 'fine' }
  } catch (error) {
    return errno(error) === 'ENOENT' ? { state: 'missing' } : { state: 'forbidden', group: ownerOf(path) }
  }
}

/** The group of a file; undefined where even that is hidden. */
function ownerOf(path: string): string | undefined {
  try {
    const { gid } = statSync(path)
    return groupName(gid) ?? String(gid)
  } catch {
    return undefined
  }
}

/** Device files that the configuration names, with who names them. Media that are off need nothing. */
export function configuredDevices(config: ConfigStore): Map<string, string[]> {
  const found = new Map<string, string[]>()
  const note = (path: string, owner: string): void => {
    found.set(path, [...new Set([...(found.get(path) ?? []), owner])])
  }
  const visit = (value: unknown, owner: string): void => {
    if (typeof value === 'string') {
      if (/^\/dev\/[\w./:-]+$/.test(value)) note(value, owner)
    } else if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) visit(item, owner)
  }
  const { RESOURCES, gateway } = config.config
  for (const { name, options_name } of MEDIA)
    if (mediumEnabled(config, name))
      for (const options of [RESOURCES.physical_config, RESOURCES.transport_config] as Record<string, unknown>[])
        visit(options[options_name], name)
  for (const link of [...gateway.uplinks, ...gateway.receivers, ...(gateway.sources ?? [])]) visit(link, link.name)
  // the number of an I2C bus stands for its file
  for (const { name, bus } of (gateway.sources ?? []) as { name: string; bus?: unknown }[])
    if (Number.isInteger(bus)) note(`/dev/i2c-${bus}`, name)
  return found
}

/** how drivers begin to say that what they need is not on this machine */
const ABSENT =
  /^(?:there is no (?:serial port|I2C bus|interface)|this machine has no|no (?:adapter|GPIO chip|line of this|1-Wire|[A-Z]+\d\w*:)|none of )/

/** a reason that goes on with advice */
const MISSING_INTERFACE = /^there is no interface [^\s:]+(?=: )/

/** What a link that is down lacks, by its reason and hint; null: nothing of this machine. */
function lackOf(reason: string, hint: string): Kind | null {
  if (hint === ERRORS.NO_ACCESS.hint || /EACCES|EPERM|permission|no right/i.test(reason)) return 'permission'
  if (/native addon missing|no driver|package|NO_PREBUILT|modprobe/i.test(`${reason} ${hint}`)) return 'package'
  if (
    ABSENT.test(reason) ||
    /ENOENT|ENODEV|ENXIO|no such (file|device)|is not there|no device answers|is gone|plugged/i.test(reason)
  )
    return 'device'
  return null
}

export function findIssues({ config, remedies, status, parts, addon, look = lookAt }: ProbeParts): EnvIssue[] {
  const user = userName()
  const findings = new Map<string, EnvIssue>()
  const add = (kind: Kind, resource: string, message: string, needed_by: readonly string[], group?: string): void => {
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
  for (const [path, owners] of configuredDevices(config)) {
    const seen = look(path)
    if (seen.state === 'missing') add('device', path, `${path} is not there`, owners)
    if (seen.state === 'forbidden') add('permission', path, `${path} may not be used by ${user}`, owners, seen.group)
  }
  const missing = addon()
  if (missing !== null) add('package', 'native addon', missing, [])
  for (const { name, problem } of parts()) add('package', name, problem, [])
  for (const [name, link] of Object.entries(status?.links ?? {})) {
    if (link.state !== 'down' || link.reason === undefined) continue
    const kind = lackOf(link.reason, link.hint ?? '')
    // a chip on a bus that is there is the link's own
    const file = /\/dev\/[\w./:-]*\w(?![\w./:-]*\w| 0x)/.exec(link.reason)
    const path = file?.[0] ?? /interface (\w+)/.exec(link.reason)?.[1]
    const resource = path ?? (kind === 'package' && /native addon/.test(link.reason) ? 'native addon' : name)
    // what the driver advises would be told twice: the remedy says it
    const reason = MISSING_INTERFACE.exec(link.reason)?.[0] ?? link.reason
    // a device that was looked at above is said already
    if (kind && !(path && findings.has(`${kind} ${path}`))) add(kind, resource, `${name}: ${reason}`, [name])
  }
  return [...findings.values()]
}
