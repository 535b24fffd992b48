// Parses a configuration file in one pass, in parts: its values, and nodes with their positions. Comments and a
// trailing comma are allowed. Throws WRONG for a text that is not JSON; Refused for valid JSON that must not be used.
// Written by hand, reasons in docs/dependencies.md.
import { createScanner } from 'jsonc-parser'
import { PART, type Parts } from '../lib/slices'
import { FORBIDDEN, type Tree } from './keys'

/** the text is not JSON; the parser of jsonc-parser reports the fault */
export const WRONG = new Error('no JSON')

export class Refused extends Error {
  constructor(
    readonly offset: number,
    message: string,
  ) {
    super(message)
  }
}

/** A node as in jsonc-parser, whose own type would make that package a dependency of the library's types. */
export interface JsonNode {
  readonly type: 'object' | 'array' | 'property' | 'string' | 'number' | 'boolean' | 'null'
  readonly value?: unknown
  readonly offset: number
  readonly length: number
  readonly colonOffset?: number
  readonly parent?: JsonNode
  readonly children?: JsonNode[]
}

/** a node whose end is not parsed yet */
type Opened = { -readonly [K in keyof JsonNode]: JsonNode[K] }

interface Read {
  readonly node: JsonNode
  readonly value: unknown
}

// token numbers of jsonc-parser's SyntaxKind, whose enum does not exist at run time
const [OPEN, CLOSE, OPEN_LIST, CLOSE_LIST, COMMA, COLON, NULL, TRUE, FALSE, TEXT, NUMBER] = Array.from(
  { length: 11 },
  (_, k) => k + 1,
) as [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
const TRIVIA = 12
const END = 17
const MOST_DEEP = 64

export function* readText(text: string): Parts<Read> {
  const scanner = createScanner(text)
  let token = 0
  let seen = 0
  const next = (): void => {
    do {
      token = scanner.scan()
      if (scanner.getTokenError() !== 0) throw WRONG
    } while (token >= TRIVIA && token < END - 1)
    seen++
  }
  const need = (kind: number): void => {
    if (token !== kind) throw WRONG
  }
  /** the node of the current token with its value; reads the next token */
  const plain = (type: JsonNode['type'], value: unknown): Read => {
    const node: JsonNode = { type, value, offset: scanner.getTokenOffset(), length: scanner.getTokenLength() }
    next()
    return { node, value }
  }
  /** calls `read` for each part up to the closing token */
  function* each(node: Opened, close: number, read: () => Parts<JsonNode>): Parts<void> {
    next()
    while (token !== close) {
      if (seen >= PART) {
        seen = 0
        yield
      }
      const child = yield* read()
      node.children!.push(child)
      if (token === COMMA) next()
      else need(close)
    }
    node.length = scanner.getTokenOffset() + 1 - node.offset
    next()
  }

  function* object(node: Opened, depth: number): Parts<Read> {
    const tree: Tree = {}
    yield* each(node, CLOSE, function* () {
      need(TEXT)
      const key = plain('string', scanner.getTokenValue()).node
      const name = key.value as string
      if (FORBIDDEN.has(name)) throw new Refused(key.offset, `the name ${JSON.stringify(name)} is not allowed`)
      if (Object.hasOwn(tree, name)) throw new Refused(key.offset, `${JSON.stringify(name)} is there twice`)
      need(COLON)
      next()
      const inner = yield* value(depth + 1)
      tree[name] = inner.value
      const { offset, length } = inner.node
      const children = [key, inner.node]
      return { type: 'property', offset: key.offset, length: offset + length - key.offset, children }
    })
    return { node, value: tree }
  }

  function* list(node: Opened, depth: number): Parts<Read> {
    const items: unknown[] = []
    yield* each(node, CLOSE_LIST, function* () {
      const item = yield* value(depth + 1)
      items.push(item.value)
      return item.node
    })
    return { node, value: items }
  }

  function* value(depth: number): Parts<Read> {
    const offset = scanner.getTokenOffset()
    if (depth > MOST_DEEP) throw new Refused(offset, 'nested too deep')
    switch (token) {
      case OPEN:
        return yield* object({ type: 'object', offset, length: 0, children: [] }, depth)
      case OPEN_LIST:
        return yield* list({ type: 'array', offset, length: 0, children: [] }, depth)
      case TEXT:
        return plain('string', scanner.getTokenValue())
      case NULL:
        return plain('null', null)
      case TRUE:
      case FALSE:
        return plain('boolean', token === TRUE)
      case NUMBER: {
        const number = Number(scanner.getTokenValue())
        if (!Number.isFinite(number)) throw new Refused(offset, 'this number is too large')
        return plain('number', number)
      }
      default:
        throw WRONG
    }
  }

  next()
  const read = yield* value(0)
  need(END)
  return read
}
