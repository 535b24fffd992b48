// Checks a configuration against the schema. Every fault names its key, line, value, and the allowed values. Unknown
// keys are kept with a warning that suggests the probably intended key.

import * as v from 'valibot'
import { OsError } from '../lib/errors'
import { isObject } from '../lib/objects'
import { isSecret, MASK, masked } from '../lib/secrets'
import { allowed, entriesOf, metadata, schemaAt, schemaBelow, takesAnyName } from './describe'
import type { Document } from './document'
import { pointAt } from './document'
import { getAt, joinKey, nearest, same, type Tree } from './keys'
import { type AnySchema, type Config, openSchema, type Schema } from './schema'

export interface Fault {
  readonly key: string
  readonly path: readonly (string | number)[]
  readonly line?: number
  readonly text: string
}

interface Checked {
  /** with every default filled in, and with unknown keys */
  readonly config?: Config
  readonly faults: readonly Fault[]
}

/** Maximum number of reported faults: each is looked up in the text, and people would not read more. */
const MAX_FAULTS = 100

const show = (value: unknown, path: readonly (string | number)[]): string => {
  if (path.some(part => isSecret(String(part), value))) return 'what is there'
  const text = JSON.stringify(masked(value)) ?? 'nothing'
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

/** The fault of the value at `path`; `text` follows its position, or that of `at`. */
function faultAt(document: Document | undefined, path: Fault['path'], text: string, at = path): Fault {
  const line = document?.placeOf(at)?.line
  return { key: joinKey(path), path, ...(line !== undefined && { line }), text: pointAt(document, at) + text }
}

/** Validates a tree; `document` provides the line numbers. */
export function check(schema: Schema, tree: Tree, document?: Document): Checked {
  const result = v.safeParse(schema, tree)
  const own = strayLists(schema, tree, document)
  const more = result.success
    ? own.length > 0
      ? []
      : clashes(result.output, document)
    : faultsOf(schema, result.issues, document)
  const faults = [...own, ...more]
  return faults.length === 0 ? { config: result.output as Config, faults } : { faults }
}

function faultsOf(schema: AnySchema, issues: readonly v.BaseIssue<unknown>[], document: Document | undefined): Fault[] {
  return issues.slice(0, MAX_FAULTS).map(issue => {
    const path = (issue.path ?? []).map(item => item.key as string | number)
    const known = schemaAt(schema, path)
    // what no schema can express is in the message of the check itself
    const own = issue.type === 'check' || issue.type === 'raw_check' ? issue.message : undefined
    const what = own ?? (known ? allowed(known) : (issue.expected ?? 'something else'))
    if (issue.received === 'undefined')
      return faultAt(document, path, `: ${String(path.at(-1))} is missing; it must be ${what}`, path.slice(0, -1))
    return faultAt(document, path, own === undefined ? ` must be ${what}, not ${show(issue.input, path)}` : `: ${own}`)
  })
}

/** The error of a single value by the schema of its key; undefined for a valid one and for a masked secret. */
export function faultOf(schema: AnySchema, path: readonly string[], value: unknown): OsError | undefined {
  const known = typeof value === 'object' || value === MASK ? undefined : schemaAt(schema, path)
  const result = known && v.safeParse(known as never, value)
  if (!result || result.success) return undefined
  const issues = result.issues as v.BaseIssue<unknown>[]
  const placed = issues.map(issue => ({ ...issue, path: path.map(key => ({ key })) as never }))
  return invalid(faultsOf(schema, placed, undefined))
}

/** Finds lists in place of objects, which the schema library accepts. */
function strayLists(schema: AnySchema, tree: Tree, document: Document | undefined): Fault[] {
  const faults: Fault[] = []
  const walk = (value: unknown, path: (string | number)[], known: AnySchema | undefined): void => {
    if (!known || typeof value !== 'object' || faults.length >= MAX_FAULTS) return
    const below = (part: string | number, item: unknown) => walk(item, [...path, part], schemaBelow(known, part))
    if (isObject(value)) for (const name of Object.keys(value)) below(name, value[name])
    else if (Array.isArray(value)) {
      if (!/object|record/.test(openSchema(known).core.type)) for (const [k, item] of value.entries()) below(k, item)
      else faults.push(faultAt(document, path, ` must be ${allowed(known)}, not ${show(value, path)}`))
    }
  }
  walk(tree, [], schema)
  return faults
}

/** True for names and addresses that only this machine can reach. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(host)

/** Without auth everything is open to anyone who reaches the page (decision 0050), so it must be local. */
function openPage(config: Config, document: Document | undefined): Fault[] {
  const { host } = config.RESOURCES.service_plugins.web_user
  if (config.web_user.auth_enabled || isLoopback(host)) return []
  const what = `true while RESOURCES.service_plugins.web_user.host is ${JSON.stringify(host)}; without auth the page listens on 127.0.0.1 only`
  return [faultAt(document, ['web_user', 'auth_enabled'], ` must be ${what}`)]
}

/** Shared ids need the database that stores the packets. */
function sharedIds({ security_settings, storage }: Config, document: Document | undefined): Fault[] {
  const { enabled, dialect } = storage.sql
  if (security_settings.id_lease.store === 'file' || (enabled && dialect === 'postgresql')) return []
  const what = '"file" unless storage.sql.enabled is true and storage.sql.dialect is "postgresql"'
  return [faultAt(document, ['security_settings', 'id_lease', 'store'], ` must be ${what}`)]
}

/** A rule across keys that the schema cannot express: names of links are unique. */
function clashes(config: Config, document: Document | undefined): Fault[] {
  const faults = [...openPage(config, document), ...sharedIds(config, document)]
  const seen = new Map<string, string>()
  const { sources, uplinks, receivers } = config.gateway
  for (const [kind, items] of Object.entries({ sources: sources ?? [], uplinks, receivers })) {
    items.forEach((item, k) => {
      const other = seen.get(item.name)
      if (other && faults.length < MAX_FAULTS) {
        const text = ` must be a name that no other source, uplink or receiver has, not ${JSON.stringify(item.name)} (${other} has it)`
        faults.push(faultAt(document, ['gateway', kind, k, 'name'], text))
      } else if (!other) seen.set(item.name, `gateway.${kind}.${k}`)
    })
  }
  return faults
}

/** Several faults as one error. The message is the first fault, the details are all. */
export function invalid(faults: readonly Fault[]): OsError {
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : ''
  return new OsError('CONFIG_INVALID', `${faults[0]?.text ?? 'the configuration is not valid'}${more}`, {
    details: { key: faults[0]?.key, line: faults[0]?.line, faults: faults.map(fault => fault.text) },
  })
}

interface UnknownKey {
  readonly path: readonly (string | number)[]
  readonly text: string
  readonly lost: boolean
}

/** The media that have this key of a link, if the link's own medium does not. */
function strangeTo(known: AnySchema, medium: unknown): string | undefined {
  const { media } = metadata(openSchema(known).pipe)
  if (!media || typeof medium !== 'string') return undefined
  return media.some(name => name.toLowerCase() === medium.toLowerCase()) ? undefined : media.join(', ')
}

/** Options of a source: its driver checks them. */
const ofSource = ([section, list, ...path]: readonly (string | number)[]): boolean =>
  section === 'gateway' && list === 'sources' && path.length > 1

/** The known name most similar to a path's last key. */
export function nearestKey(schema: AnySchema, path: readonly (string | number)[]): string | undefined {
  const around = schemaAt(schema, path.slice(0, -1))
  return nearest(String(path.at(-1)), Object.keys((around && entriesOf(openSchema(around).core)) ?? {}))
}

/** The first path that is unknown to the schema and new in `after`; unknown keys in `before` may stay. */
export function newUnknownKey(schema: AnySchema, before: unknown, after: unknown): (string | number)[] | undefined {
  type Path = (string | number)[]
  const walk = (value: unknown, old: unknown, path: Path, at: AnySchema): Path | undefined => {
    if (typeof value !== 'object' || value === null) return undefined
    const named =
      Array.isArray(value) && Array.isArray(old) ? new Map(old.map(item => [getAt(item, ['name']), item])) : undefined
    for (const [name, item] of Object.entries(value)) {
      const here = [...path, name]
      // elements are matched by name, wherever they moved
      const was = named?.get(getAt(item, ['name']) ?? named) ?? getAt(old, [name])
      const known = schemaBelow(at, name)
      if (!known && !takesAnyName(at, at === schema) && !ofSource(here) && !same(was, item)) return here
      const deeper = known && walk(item, was, here, known)
      if (deeper) return deeper
    }
    return undefined
  }
  return walk(after, before, [], schema)
}

/** Unknown keys, and keys without effect where they are. `lost`: the schema does not have the key at all. */
export function unknownKeys(schema: AnySchema, tree: unknown, document?: Document): UnknownKey[] {
  const found: UnknownKey[] = []
  const walk = (value: unknown, path: (string | number)[], at: AnySchema): void => {
    if (found.length >= MAX_FAULTS) return
    if (Array.isArray(value)) {
      const item = schemaBelow(at, 0)
      for (const [k, part] of value.entries()) if (item) walk(part, [...path, k], item)
    } else if (isObject(value)) {
      for (const name of Object.keys(value)) {
        const here = [...path, name]
        const known = schemaBelow(at, name)
        const media = known && strangeTo(known, value.medium)
        if (media && found.length < MAX_FAULTS) {
          const text = `${pointAt(document, here)} means nothing to ${String(value.medium)}, only to ${media}`
          found.push({ path: here, text, lost: false })
        }
        if (known) walk(value[name], here, known)
        else if (found.length < MAX_FAULTS && !takesAnyName(at, at === schema) && !ofSource(here)) {
          const meant = nearestKey(schema, here)
          const text = `${pointAt(document, here)} is not a known key${meant ? `; did you mean ${meant}?` : ''}`
          found.push({ path: here, text, lost: true })
        }
      }
    }
  }
  walk(tree, [], schema)
  return found
}
