// The text of a new Config.json: every key with its default, in the order of the schema. The file at the root of the project
// is this text; a test keeps them equal.
import * as v from 'valibot'
import { isTree } from './keys'
import { baseSchema, type Config } from './schema'

export const defaults = (): Config => v.parse(baseSchema, {})

const one = (value: unknown): string => JSON.stringify(value)

/** Small objects and lists of plain values stay on one line when they fit. */
function write(value: unknown, indent: string): string {
  const entries = Array.isArray(value)
    ? value.map((item): [string, unknown] => ['', item])
    : isTree(value)
      ? Object.entries(value).filter(([, item]) => item !== undefined)
      : undefined
  if (!entries) return one(value)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  if (entries.length === 0) return `${open}${close}`
  const deeper = `${indent}  `
  const part = ([name, item]: [string, unknown], at: string): string => (name ? `${one(name)}: ` : '') + write(item, at)
  const flat = entries.every(([, item]) => typeof item !== 'object' || item === null)
  const line = flat ? `${open} ${entries.map(entry => part(entry, '')).join(', ')} ${close}` : ''
  const tight = Array.isArray(value) ? line.replace(/^\[ | \]$/g, m => m.trim()) : line
  if (flat && tight.length + indent.length <= 90 && entries.length <= 5) return tight
  return `${open}\n${entries.map(entry => deeper + part(entry, deeper)).join(',\n')}\n${indent}${close}`
}

/** A configuration as the text of a file. */
export const textOf = (tree: unknown): string => `${write(tree, '')}\n`

/** All defaults as the text of a file. */
export const defaultText = (): string => textOf(defaults())
