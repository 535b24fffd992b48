// Config.json as text: read with line and column, and changed in place so that the owner's formatting and comments stay.
// Comments and a trailing comma are allowed. A syntax error names file, line and column; a key written twice in one object
// is an error too, since an edit and the reader would mean different ones.
import { findNodeAtLocation, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { OsError } from '../lib/errors'
import { joinKey, safeName, type Tree } from './keys'

export interface Place {
  readonly line: number
  readonly column: number
}

export interface Document {
  readonly path: string
  readonly text: string
  readonly value: Tree
  /** where a value stands in the file; undefined when it does not */
  placeOf(path: readonly (string | number)[]): Place | undefined
}

const WORDS: Record<string, string> = {
  InvalidSymbol: 'a word that is not JSON',
  InvalidNumberFormat: 'a number that is not JSON',
  PropertyNameExpected: 'a name in double quotes is expected',
  ValueExpected: 'a value is expected',
  ColonExpected: 'a colon is expected',
  CommaExpected: 'a comma is expected',
  CloseBraceExpected: 'a closing } is missing',
  CloseBracketExpected: 'a closing ] is missing',
  EndOfFileExpected: 'there is text after the end',
  UnexpectedEndOfComment: 'a comment is not closed',
  UnexpectedEndOfString: 'a text is not closed',
  UnexpectedEndOfNumber: 'a number is cut off',
  InvalidUnicode: 'a \\u sequence is wrong',
  InvalidEscapeCharacter: 'a \\ sequence is wrong',
  InvalidCharacter: 'a character that must not be in a text',
}

export function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return { line, column: offset - (before.lastIndexOf('\n') + 1) + 1 }
}

const fault = (path: string, text: string, offset: number, what: string): OsError => {
  const { line, column } = placeAt(text, offset)
  return new OsError('CONFIG_SYNTAX', `${path}:${line}:${column}: ${what}`, { details: { file: path, line, column } })
}

/** Reads the text of a configuration file. Throws CONFIG_SYNTAX with file, line and column. */
export function parseDocument(path: string, bytes: Uint8Array | string): Document {
  let text = typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString('utf8')
  if (text.startsWith('\ufeff')) text = text.slice(1)
  if (text.trim() === '') throw fault(path, '', 0, 'the file is empty')
  const errors: ParseError[] = []
  const root = treeOf(path, text, errors)
  const first = errors[0]
  if (first) {
    const word = printParseErrorCode(first.error)
    throw fault(path, text, Math.min(first.offset, text.length), WORDS[word] ?? word)
  }
  if (root?.type !== 'object') throw fault(path, text, root?.offset ?? 0, 'the file must hold one object { … }')
  const value = build(path, text, root, 0) as Tree
  return {
    path,
    text,
    value,
    placeOf: at => {
      const node = findNodeAtLocation(root, [...at])
      return node && placeAt(text, node.offset)
    },
  }
}

function treeOf(path: string, text: string, errors: ParseError[]): Node | undefined {
  try {
    return parseTree(text, errors, { allowTrailingComma: true })
  } catch (cause) {
    // the parser calls itself for each level, and the stack has an end
    if (cause instanceof RangeError) throw fault(path, text, 0, 'nested too deep')
    throw cause
  }
}

function build(path: string, text: string, node: Node, depth: number): unknown {
  if (depth > 64) throw fault(path, text, node.offset, 'nested too deep')
  if (node.type === 'array') return (node.children ?? []).map(child => build(path, text, child, depth + 1))
  if (node.type !== 'object') {
    if (typeof node.value === 'number' && !Number.isFinite(node.value)) {
      throw fault(path, text, node.offset, 'this number is too large')
    }
    return node.value
  }
  const tree: Tree = {}
  for (const property of node.children ?? []) {
    const [key, value] = property.children ?? []
    if (!key || !value) throw fault(path, text, property.offset, 'a value is expected')
    const name = String(key.value)
    if (!safeName(name) && ['__proto__', 'constructor', 'prototype'].includes(name)) {
      throw fault(path, text, key.offset, `the name ${JSON.stringify(name)} is not allowed`)
    }
    if (Object.hasOwn(tree, name)) throw fault(path, text, key.offset, `${JSON.stringify(name)} is there twice`)
    tree[name] = build(path, text, value, depth + 1)
  }
  return tree
}

/** `file:line: key` for messages; the line is left out when the key is not in the file. */
export const pointAt = (document: Document | undefined, path: readonly (string | number)[]): string => {
  const place = document?.placeOf(path)
  return document && place ? `${document.path}:${place.line}: ${joinKey(path)}` : joinKey(path)
}
