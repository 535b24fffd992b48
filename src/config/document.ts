// The text of Config.json: read with line and column, and changed in place so that the owner's formatting and comments
// stay. Comments and a trailing comma are allowed. A syntax error names file, line and column; a key that occurs twice
// in one object is an error too, because an edit and the reader could use different ones.
import { findNodeAtLocation, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { OsError } from '../lib/errors'
import { atOnce, type Parts } from '../lib/slices'
import { type JsonNode, Refused, readText, WRONG } from './jsonc'
import { joinKey, type Tree } from './keys'

interface Position {
  readonly line: number
  readonly column: number
}

export interface Document {
  readonly path: string
  readonly text: string
  readonly value: Tree
  readonly root: JsonNode
  /** position of a value in the file; undefined if it is not there */
  placeOf(path: readonly (string | number)[]): Position | undefined
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

/** The offsets of the line starts of a text. */
export const lineStarts = (text: string): number[] => [0, ...Array.from(text.matchAll(/\n/g), ({ index }) => index + 1)]

/** The line of an offset, from 0. */
export function lineOf(starts: readonly number[], offset: number): number {
  let [low, high] = [0, starts.length]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (starts[middle]! <= offset) low = middle
    else high = middle
  }
  return low
}

function placeIn(starts: readonly number[], offset: number): Position {
  const line = lineOf(starts, offset)
  return { line: line + 1, column: offset - starts[line]! + 1 }
}

const fault = (path: string, text: string, offset: number, what: string): OsError => {
  const { line, column } = placeIn(lineStarts(text), offset)
  return new OsError('CONFIG_SYNTAX', `${path}:${line}:${column}: ${what}`, { details: { file: path, line, column } })
}

/** Nothing, or zeros, which a power cut leaves of a file. */
export const isEmpty = (text: string): boolean => /^[\s\0]*$/.test(text)

/** Reads the text of a configuration file. Throws CONFIG_SYNTAX with file, line and column. */
export const parseDocument = (path: string, bytes: Uint8Array | string): Document => atOnce(parsing(path, bytes))

/** The same in parts. */
export function* parsing(path: string, bytes: Uint8Array | string): Parts<Document> {
  let text = typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString('utf8')
  if (text.startsWith('\ufeff')) text = text.slice(1)
  if (isEmpty(text)) throw fault(path, '', 0, 'the file is empty')
  const { node: root, value } = yield* read(path, text)
  if (root.type !== 'object') throw fault(path, text, root.offset, 'the file must hold one object { … }')
  let starts: readonly number[] | undefined
  return {
    path,
    text,
    value: value as Tree,
    root,
    placeOf: at => {
      const node = findNodeAtLocation(root, [...at])
      if (!node) return undefined
      starts ??= lineStarts(text)
      return placeIn(starts, node.offset)
    },
  }
}

function* read(path: string, text: string): ReturnType<typeof readText> {
  try {
    return yield* readText(text)
  } catch (cause) {
    if (cause instanceof Refused) throw fault(path, text, cause.offset, cause.message)
    if (cause !== WRONG) throw cause
    const { offset, what } = firstFault(text)
    throw fault(path, text, Math.min(offset, text.length), what)
  }
}

/** The first fault of a text that is not JSON. */
function firstFault(text: string): { offset: number; what: string } {
  const errors: ParseError[] = []
  try {
    parseTree(text, errors, { allowTrailingComma: true })
  } catch (cause) {
    // the parser is recursive, so deep nesting exceeds the stack
    if (cause instanceof RangeError) return { offset: 0, what: 'nested too deep' }
    throw cause
  }
  const { offset, error } = errors[0] ?? { offset: 0, error: 1 }
  const word = printParseErrorCode(error)
  return { offset, what: WORDS[word] ?? word }
}

/** `file:line: key` for messages, without the line if the key is not in the file. */
export const pointAt = (document: Document | undefined, path: readonly (string | number)[]): string => {
  const place = document?.placeOf(path)
  return document && place ? `${document.path}:${place.line}: ${joinKey(path)}` : joinKey(path)
}
