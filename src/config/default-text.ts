// The text of a new Config.json: every key with its default, in schema order. The Config.json at the root of the
// project has this text; a test compares them.
import * as v from 'valibot'
import { valueText } from './rewrite'
import { baseSchema, type Config } from './schema'

export const defaults = (): Config => v.parse(baseSchema, {})

/** A configuration as the text of a file. */
export const textOf = (tree: unknown): string => `${valueText(tree, '')}\n`

/** All defaults as the text of a file. */
export const defaultText = (): string => textOf(defaults())
