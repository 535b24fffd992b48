// The configuration as options: one row per key that can be set separately, and the categories of a form. Elements of
// lists (`gateway.uplinks[].port`) are not options: the complete list is one, as JSON.
import type { SchemaRow } from '../config'
import type { WebConfig } from './context'

type OptionType = 'bool' | 'int' | 'float' | 'str' | 'json'

const TYPES: Partial<Record<SchemaRow['type'], OptionType>> = { bool: 'bool', int: 'int', float: 'float', str: 'str' }

const stored = (config: WebConfig, key: string): unknown => (config.has(key) ? config.get(key) : null)

/** 'any' gets the type of its value. */
function typeOf({ type }: SchemaRow, value: unknown): OptionType {
  if (type !== 'any') return TYPES[type] ?? 'json'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'string') return 'str'
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float'
  return 'json'
}

const optionRows = (config: WebConfig): SchemaRow[] =>
  config
    .rows()
    .filter(({ key }) => !key.includes('[]'))
    .sort((a, b) => (a.key < b.key ? -1 : 1))

/** `options` of GET /api/options. */
export function optionList(config: WebConfig): object[] {
  return optionRows(config).map(row => {
    const value = stored(config, row.key)
    return { key: row.key, value, value_type: typeOf(row, value), writable: config.writable(row.key) }
  })
}

/** `schema` of GET /api/options/schema; `now` in UNIX ms. */
export function optionSchema(config: WebConfig, onlyWritable: boolean, now: number): object {
  const categories = new Map<string, object[]>()
  for (const row of optionRows(config)) {
    const writable = config.writable(row.key)
    if (onlyWritable && !writable) continue
    const id = categoryOf(row.key)
    const fields = categories.get(id) ?? []
    const parts = row.type === 'list' ? partsOf(config, row.key) : []
    fields.push(field(row, stored(config, row.key), writable, parts))
    categories.set(id, fields)
  }
  return {
    generated_at: Math.floor(now / 1000),
    categories: [...categories].map(([id, fields]) => ({ id, title: titleOf(id), count: fields.length, fields })),
    writable_prefixes: config.prefixes(),
  }
}

/** Names and meanings of the parts of a list's elements, so that a search for them finds the list. */
const partsOf = (config: WebConfig, list: string): object[] =>
  config
    .rows()
    .filter(({ key }) => key.startsWith(`${list}[]`))
    .map(({ key, help, allowed }) => ({ key: key.slice(list.length + 3), help, allowed }))

function field(row: SchemaRow, value: unknown, writable: boolean, parts: readonly object[]): object {
  const { key, help, allowed, restart, secret, min, max, choices } = row
  return {
    key,
    label: titleOf(key.split('.').at(-1)!),
    description: help || allowed,
    type: typeOf(row, value),
    value,
    default: row.default ?? null,
    writable,
    choices: choices ?? null,
    allowed,
    help,
    restart,
    secret,
    ...(parts.length > 0 && { parts }),
    ...(min !== undefined && { min }),
    ...(max !== undefined && { max }),
  }
}

/** The section of a key, at most two names deep. */
const categoryOf = (key: string): string => key.split('.').slice(0, -1).slice(0, 2).join('.') || 'general'

const titleOf = (id: string): string => {
  const words = id.split('.').at(-1)!.replaceAll('_', ' ').trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}
