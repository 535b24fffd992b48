// Writes a changed tree into the text of a configuration file: only differences are replaced, so that all other
// comments and formatting stay. One pass over text and tree, however many keys differ. No errors here; the caller
// parses the result and compares.

import { getNodeValue, type Node } from 'jsonc-parser'
import { isObject } from '../lib/objects'
import { type Document, lineOf, lineStarts } from './document'
import { same, type Tree } from './keys'

const one = (value: unknown): string => JSON.stringify(value)

/** A value as the text of a file. Small objects and lists of plain values stay on one line if they fit. */
export function valueText(value: unknown, indent: string, unit = '  '): string {
  const entries = Array.isArray(value)
    ? value.map((item): [string, unknown] => ['', item])
    : isObject(value)
      ? Object.entries(value).filter(([, item]) => item !== undefined)
      : undefined
  if (!entries) return one(value)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  if (entries.length === 0) return `${open}${close}`
  const deeper = indent + unit
  const part = ([name, item]: [string, unknown], at: string): string =>
    (Array.isArray(value) ? '' : `${one(name)}: `) + valueText(item, at, unit)
  if (entries.length <= 5 && entries.every(([, item]) => typeof item !== 'object' || item === null)) {
    const line = `${open} ${entries.map(entry => part(entry, '')).join(', ')} ${close}`
    const tight = Array.isArray(value) ? line.replace(/^\[ | \]$/g, m => m.trim()) : line
    if (tight.length + indent.length <= 90) return tight
  }
  return `${open}\n${entries.map(entry => deeper + part(entry, deeper)).join(',\n')}\n${indent}${close}`
}

interface Edit {
  readonly offset: number
  readonly length: number
  readonly content: string
}

/** An element of a list, or a property of an object. */
interface Part {
  readonly node: Node
  /** the required value; undefined: removed */
  readonly meant: unknown
}

/** The text of a document, changed to have the values of `target`. */
export function rewritten({ text, root }: Pick<Document, 'text' | 'root'>, target: Tree): string {
  const edits: Edit[] = []
  const unit = /\n\t/.test(text) ? '\t' : (/\n( +)\S/.exec(text)?.[1] ?? '  ')
  const eol = text.includes('\r\n') ? '\r\n' : '\n'

  const lines = lineStarts(text)
  /** the indentation of the line that contains an offset */
  const indentAt = (offset: number): string => /^[ \t]*/.exec(text.slice(lines[lineOf(lines, offset)], offset))![0]
  const spelled = (value: unknown, indent: string): string => valueText(value, indent, unit).replaceAll('\n', eol)
  const replace = (offset: number, end: number, content: string): void => {
    edits.push({ offset, length: end - offset, content })
  }
  const endOf = ({ offset, length }: Node): number => offset + length

  const compare = (node: Node, value: unknown): void => {
    const { type, children = [], offset } = node
    if (type === 'object' && isObject(value)) {
      const names = children.map(({ children: [name] = [] }) => String(name?.value))
      const known = new Set(names)
      const fresh = Object.entries(value).filter(([name, item]) => !known.has(name) && item !== undefined)
      const parts = children.map((child, k) => ({ node: child, meant: value[names[k]!] }))
      const added = fresh.map(
        ([name, item]) =>
          (indent: string) =>
            `${one(name)}: ${spelled(item, indent)}`,
      )
      inside(node, value, parts, added, child => child.children![1]!)
    } else if (type === 'array' && Array.isArray(value)) {
      const { parts, appended } = aligned(children, value)
      const added = appended.map(item => (indent: string) => spelled(item, indent))
      inside(node, value, parts, added, child => child)
    } else if (type === 'object' || type === 'array' || node.value !== value)
      replace(offset, endOf(node), spelled(value, indentAt(offset)))
  }

  const inside = (
    node: Node,
    value: unknown,
    parts: readonly Part[],
    added: readonly ((indent: string) => string)[],
    partOf: (child: Node) => Node,
  ): void => {
    const stays = parts.filter(({ meant }) => meant !== undefined)
    const last = stays.at(-1)
    if (!last) {
      if (parts.length > 0 || added.length > 0) replace(node.offset, endOf(node), spelled(value, indentAt(node.offset)))
      return
    }
    if (added.length > 0) {
      const first = parts[0]!.node
      const own = text.slice(node.offset, first.offset).includes('\n')
      const indent = indentAt(own ? first.offset : node.offset)
      const between = own ? `,${eol}${indent}` : ', '
      const content = added.map(say => between + say(indent)).join('')
      replace(endOf(last.node), endOf(last.node), content)
    }
    let kept = false
    parts.forEach(({ node: child, meant }, k) => {
      if (meant !== undefined) {
        kept = true
        compare(partOf(child), meant)
      } else if (kept) replace(endOf(parts[k - 1]!.node), endOf(child), '')
      else replace(child.offset, parts[k + 1]!.node.offset, '')
    })
  }

  compare(root, target)
  // stable: text appended inside an element comes before text inserted after it
  edits.sort((a, b) => a.offset - b.offset || a.length - b.length)
  let out = ''
  let at = 0
  for (const { offset, length, content } of edits) {
    out += text.slice(at, offset) + content
    at = offset + length
  }
  return out + text.slice(at)
}

/** Pairs the elements of a list with their new values: equal ones at both ends stay, those in between are changed in order. */
function aligned(children: readonly Node[], value: readonly unknown[]): { parts: Part[]; appended: unknown[] } {
  const old = children.map(child => getNodeValue(child) as unknown)
  const shared = Math.min(old.length, value.length)
  let head = 0
  while (head < shared && same(old[head], value[head])) head++
  let tail = 0
  while (tail < shared - head && same(old[old.length - 1 - tail], value[value.length - 1 - tail])) tail++
  // an inserted element in the middle shifts the following ones
  if (value.length > old.length) return { parts: partsOf(children, value), appended: value.slice(old.length) }
  const gone = old.length - value.length
  const from = old.length - tail - gone
  const meant = children.map((_, k) => (k < from ? value[k] : k < from + gone ? undefined : value[k - gone]))
  return { parts: partsOf(children, meant), appended: [] }
}

const partsOf = (children: readonly Node[], meant: readonly unknown[]): Part[] =>
  children.map((node, k) => ({ node, meant: meant[k] }))
