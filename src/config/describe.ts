// The schema as rows for people, forms and error messages: one row per key with its type, default, allowed values, and
// whether it is secret or needs a restart. Never throws for an unknown key.
import type { FieldMeta } from './fields'
import { getAt, joinKey, leaves, same } from './keys'
import { type AnySchema, type Config, openSchema, type PipeItem, type PlacedMeta } from './schema'

export type ValueType = 'int' | 'float' | 'bool' | 'str' | 'list' | 'object' | 'any'

export interface SchemaRow {
  readonly key: string
  readonly type: ValueType
  readonly default: unknown
  /** allowed values as a phrase: 'a whole number 0–10' */
  readonly allowed: string
  readonly help: string
  readonly restart: boolean
  readonly secret: boolean
  readonly min?: number
  readonly max?: number
  readonly choices?: readonly unknown[]
}

const requirement = (pipe: readonly PipeItem[], type: string): unknown =>
  pipe.find(item => item.type === type)?.requirement

/** The metadata of a field (FieldMeta, PlacedMeta). */
export const metadata = (pipe: readonly PipeItem[]): FieldMeta & PlacedMeta =>
  (pipe.find(item => item.type === 'metadata')?.metadata ?? {}) as never

const inner = (schema: AnySchema): boolean => schema.type === 'loose_object' || schema.type === 'object_with_rest'

/** The schema itself, or the alternatives if a key may have several types. */
const optionsOf = (core: AnySchema): AnySchema[] =>
  core.type === 'union' ? (core.options as AnySchema[]).map(option => openSchema(option).core) : [core]

/** Entries of an object, also if the object is one of several alternatives. */
export const entriesOf = (core: AnySchema): Record<string, AnySchema> | undefined =>
  optionsOf(core).find(option => option.entries)?.entries

/** The allowed values of a key, as a phrase. */
export function allowed(schema: AnySchema): string {
  const { core, pipe, nullable } = openSchema(schema)
  const phrase = phraseOf(core, pipe)
  return nullable ? `${phrase} or null` : phrase
}

function phraseOf(core: AnySchema, pipe: readonly PipeItem[]): string {
  switch (core.type) {
    case 'number': {
      const whole = pipe.some(item => item.type === 'integer')
      const min = requirement(pipe, 'min_value')
      const max = requirement(pipe, 'max_value') as number | undefined
      const open = max === undefined || max >= 1e15
      const range = min === undefined ? '' : open ? ` of at least ${min}` : ` ${min}–${max}`
      return `a ${whole ? 'whole number' : 'number'}${range}`
    }
    case 'boolean':
      return 'true or false'
    case 'string': {
      const pattern = pipe.find(item => item.type === 'regex')
      if (typeof pattern?.message === 'string') return pattern.message
      return requirement(pipe, 'min_length') ? 'a text that is not empty' : 'a text'
    }
    case 'picklist':
      return (core.options as string[]).map(option => JSON.stringify(option)).join(' or ')
    case 'union':
      return (core.options as AnySchema[]).map(allowed).join(' or ')
    case 'array':
      return core.item ? `a list, each ${allowed(core.item)}` : 'a list'
    case 'record':
      return core.value ? `an object, each value ${allowed(core.value)}` : 'an object'
    case 'strict_object':
      return `an object with ${Object.keys(core.entries ?? {}).join(', ')}`
    case 'loose_object':
    case 'object_with_rest':
      return 'an object'
    default:
      return 'anything'
  }
}

/** Types of the other kinds of schemas. */
const TYPES = new Map<string, ValueType>([
  ['boolean', 'bool'],
  ['string', 'str'],
  ['array', 'list'],
  ['loose_object', 'object'],
  ['object_with_rest', 'object'],
  ['strict_object', 'object'],
  ['record', 'object'],
])

function typeOf({ type, options }: AnySchema, pipe: readonly PipeItem[]): ValueType {
  if (type === 'number') return pipe.some(item => item.type === 'integer') ? 'int' : 'float'
  if (type !== 'picklist') return TYPES.get(type) ?? 'any'
  if (options?.every(Number.isInteger)) return 'int'
  return options?.every(option => typeof option === 'number') ? 'float' : 'str'
}

/** The row of one schema under one key. */
export function rowOf(key: string, schema: AnySchema): SchemaRow {
  const { core, pipe, standard } = openSchema(schema)
  const meta = metadata(pipe)
  // a form needs the bounds to offer only allowed values
  const min = requirement(pipe, 'min_value')
  const max = requirement(pipe, 'max_value')
  return {
    key,
    type: typeOf(core, pipe),
    default: inner(core) ? undefined : (standard ?? meta.standard),
    allowed: allowed(schema),
    help: meta.help === undefined ? '' : meta.help + (meta.media ? ` (${meta.media.join(', ')})` : ''),
    restart: meta.restart === true,
    secret: meta.secret === true,
    ...(typeof min === 'number' && { min }),
    ...(typeof max === 'number' && max < 1e15 && { max }),
    ...(core.type === 'picklist' && { choices: core.options as readonly unknown[] }),
    ...(core.type === 'boolean' && { choices: [true, false] }),
  }
}

/** The schema of a name below a schema; undefined for an unknown name (kept, not checked). */
export function schemaBelow(at: AnySchema, part: string | number): AnySchema | undefined {
  const { core } = openSchema(at)
  const name = String(part)
  const entries = entriesOf(core)
  if (entries && Object.hasOwn(entries, name)) return entries[name]
  const list = optionsOf(core).find(option => option.type === 'array')
  if (list) return list.item
  if (core.type === 'record') return core.value
  return core.type === 'object_with_rest' ? core.rest : undefined
}

/** The schema of a path; undefined for an unknown path. */
export function schemaAt(root: AnySchema, path: readonly (string | number)[]): AnySchema | undefined {
  let at: AnySchema | undefined = root
  for (const part of path) at = at && schemaBelow(at, part)
  return at
}

/** True if a key, or a section around it, takes effect only at the next start. */
export function needsRestart(root: AnySchema, path: readonly string[]): boolean {
  let at: AnySchema | undefined = root
  return path.some(part => {
    at = at && schemaBelow(at, part)
    return at !== undefined && rowOf(part, at).restart
  })
}

/** True if unknown names are allowed: a part without its own schema. Not for the root. */
export function takesAnyName(at: AnySchema, isRoot: boolean): boolean {
  const { core } = openSchema(at)
  const entries = entriesOf(core)
  return inner(core) ? !isRoot && Object.keys(entries ?? {}).length === 0 : !entries
}

/** True if every name is allowed: maps of media and plugins, and everything below a part without a schema. */
export function isFree(root: AnySchema, path: readonly (string | number)[]): boolean {
  let at: AnySchema = root
  for (const part of path) {
    const next = schemaBelow(at, part)
    if (!next) return takesAnyName(at, at === root)
    at = next
  }
  return true
}

/** A row for every key with a value; lists and maps are one row, the keys of list elements follow with `[]`. */
export function rows(root: AnySchema, path: readonly string[] = []): SchemaRow[] {
  const { core } = openSchema(root)
  if (inner(core)) {
    const under = Object.entries(core.entries ?? {}).flatMap(([name, schema]) => rows(schema, [...path, name]))
    return under.length > 0 ? under : [rowOf(joinKey(path), root)]
  }
  const own = rowOf(joinKey(path), root)
  const item = core.type === 'array' && core.item && openSchema(core.item).core
  if (item && inner(item)) return [own, ...rows(item as AnySchema, [...path.slice(0, -1), `${path.at(-1)}[]`])]
  const parts = core.type === 'union' ? Object.entries(entriesOf(core) ?? {}) : []
  return [own, ...parts.flatMap(([name, schema]) => rows(schema, [...path, name]))]
}

/** Keys with another value in `after`. */
export function differences(root: AnySchema, before: Config, after: Config): { key: string; restart: boolean }[] {
  if (before === after) return []
  return [...new Set([...leaves(before), ...leaves(after)].map(leaf => joinKey(leaf.path)))]
    .map(key => ({ key, path: key.split('.') }))
    .filter(({ path }) => !same(getAt(before, path), getAt(after, path)))
    .map(({ key, path }) => ({ key, restart: needsRestart(root, path) }))
}
