// Extracts the readable parts of a configuration text that is not JSON: every value outside the damage. A value that
// the damage affects, or that the end of the file may have truncated, is skipped and reported.

import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { isObject } from '../lib/objects'
import { isFree, schemaAt } from './describe'
import { getAt, safeName, type Tree } from './keys'
import { NO_VALUE, tidy } from './lenient-json'
import type { AnySchema } from './schema'

interface Damage {
  readonly path: readonly (string | number)[]
  /** the start of the original text, or a value replaced by a duplicate; null if unknown */
  readonly old: unknown
}

/** Faults next to a value (a comma, a brace, a name) that do not affect the value itself. */
const AROUND = new Set([
  'CommaExpected',
  'CloseBraceExpected',
  'CloseBracketExpected',
  'PropertyNameExpected',
  'ColonExpected',
  'EndOfFileExpected',
  'InvalidCommentToken',
  'UnexpectedEndOfComment',
])
const DEEPEST = 64

export function salvage(broken: string): { tree: Tree; damaged: readonly Damage[] } {
  const { text, left } = tidy(broken)
  const errors: ParseError[] = []
  const damaged: Damage[] = left ? [{ path: ['?'], old: null }] : []
  let root: Node | undefined
  try {
    root = parseTree(text, errors, { allowTrailingComma: true })
  } catch {
    // nested too deep for the parser's stack: nothing of it is a configuration
  }
  const end = text.trimEnd().length
  const wrong = errors.filter(({ error }) => !AROUND.has(printParseErrorCode(error)))

  const leave = (path: readonly (string | number)[], from: number, length: number): undefined => {
    const [line = ''] = text.slice(from, from + Math.max(length, 1)).split('\n')
    // the text may contain a secret
    damaged.push({ path, old: path.length > 0 ? line.trim().slice(0, 60) : null })
  }
  const whole = (node: Node): boolean => {
    const to = node.offset + node.length
    // a text closed at the end of the file is complete; a number may lack further digits
    if (to >= end && node.type !== 'string') return false
    return !wrong.some(({ offset, length }) => offset <= to && offset + length >= node.offset)
  }
  const read = (node: Node, path: readonly (string | number)[]): unknown => {
    if (path.length > DEEPEST) return leave(path, node.offset, node.length)
    if (node.type === 'array')
      return (node.children ?? []).map((child, k) => read(child, [...path, k])).filter(value => value !== undefined)
    if (node.type === 'object') return readObject(node, path)
    if (String(node.value).startsWith(NO_VALUE)) {
      damaged.push({ path, old: String(node.value).slice(1, 61) })
      return undefined
    }
    return whole(node) ? node.value : leave(path, node.offset, node.length)
  }
  const readObject = (node: Node, path: readonly (string | number)[]): Tree => {
    const tree: Tree = {}
    for (const { children: [name, value] = [], offset, length } of node.children ?? []) {
      const key = String(name?.value ?? '')
      const here = [...path, key]
      if (!safeName(key)) damaged.push({ path: [...path, '?'], old: null })
      else if (!value) leave(here, offset, length)
      else {
        const found = read(value, here)
        // if a key occurs twice, the last one counts, as in every JSON reader
        if (Object.hasOwn(tree, key)) damaged.push({ path: here, old: tree[key] })
        if (found !== undefined) tree[key] = found
      }
    }
    return tree
  }
  if (root?.type === 'object') return { tree: readObject(root, []), damaged }
  if (text.trim() !== '') leave([], 0, end)
  return { tree: {}, damaged }
}

/**
 * Moves keys to their section if a missing brace left them in the previous one: keys that are unknown where they are,
 * but known and absent further up. Returns their new paths.
 */
export function moveToSection(schema: AnySchema, tree: Tree): string[][] {
  const moved: string[][] = []
  const walk = (node: Tree, path: readonly string[]): void => {
    for (const [name, value] of Object.entries(node)) {
      const here = [...path, name]
      const known = schemaAt(schema, here) !== undefined || isFree(schema, here)
      const section = known
        ? undefined
        : path
            .map((_, k) => [...path.slice(0, k), name])
            .reverse()
            .find(up => schemaAt(schema, up) && getAt(tree, up) === undefined)
      if (isObject(value)) walk(value, here)
      if (!section) continue
      delete node[name]
      ;(getAt(tree, section.slice(0, -1)) as Tree)[name] = value
      moved.push(section)
    }
  }
  walk(tree, [])
  return moved
}
