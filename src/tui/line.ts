// A line of the screen: pieces of text, each with a style. Kept as pieces until it is drawn, so that widths are those
// of the text, and a terminal without colours or UTF-8 gets the same lines.
import { fit, textWidth, visible } from '../display'

export type Style = 'plain' | 'bold' | 'dim' | 'bar' | 'pick' | 'good' | 'bad' | 'warn' | 'head'
export type Span = readonly [text: string, style?: Style]
export type TextLine = readonly Span[]

export interface Ink {
  readonly colours: boolean
  readonly unicode: boolean
}

const CODES: Readonly<Record<Style, string>> = {
  plain: '',
  bold: '1',
  dim: '2',
  bar: '7',
  pick: '1;7',
  good: '32',
  bad: '31',
  warn: '33',
  head: '1;36',
}
const COLOUR = /;?3\d/
const PLAIN_SIGNS: Readonly<Record<string, string>> = {
  '─': '-',
  '│': '|',
  '┌': '+',
  '┐': '+',
  '└': '+',
  '┘': '+',
  '┬': '+',
  '┴': '+',
  '├': '+',
  '…': '~',
  '·': '.',
  '←': '<',
  '→': '>',
  '↑': '^',
  '↓': 'v',
}

/** The terminal's capabilities, from its environment. Without a locale UTF-8 is assumed, as terminals use it. */
export function inkOf(env: Record<string, string | undefined>): Ink {
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG || 'UTF-8'
  return { colours: !env.NO_COLOR, unicode: /utf-?8/i.test(locale) }
}

export const lineWidth = (line: TextLine): number => line.reduce((sum, [text]) => sum + textWidth(text), 0)

export interface Encoded {
  readonly text: string
  /** true: it reaches the last column, so nothing after it must be erased */
  readonly full: boolean
}

/** The line encoded for a terminal, cut to its width. No text in it can move the cursor. */
export function encode(line: TextLine, width: number, { colours, unicode }: Ink): Encoded {
  let left = width
  let out = ''
  for (const [text, style = 'plain'] of line) {
    if (left <= 0) break
    const cut = fit(visible(text), left)
    left -= cut.width
    const code = colours ? CODES[style] : CODES[style].replace(COLOUR, '')
    const shown = unicode ? cut.text : ascii(cut.text)
    out += code === '' ? shown : `\x1b[${code}m${shown}\x1b[0m`
  }
  return { text: out, full: left <= 0 }
}

const ascii = (text: string): string =>
  [...text].map(char => (char < '\x7f' ? char : (PLAIN_SIGNS[char] ?? '?'.repeat(textWidth(char))))).join('')

/** One long line as several; continuation lines are indented. */
export function wrap(text: string, width: number): string[] {
  if (textWidth(text) <= width) return [text]
  const indent = Math.min(Math.floor(width / 2), text.length - text.trimStart().length + 2)
  const out: string[] = []
  let remaining = text
  while (textWidth(remaining) > width) {
    const { text: head } = fit(remaining, width)
    // at a blank if one is near the end, else inside a word
    const blank = head.lastIndexOf(' ')
    const cut = blank > Math.max(indent, width / 2) ? blank : head.length
    out.push(head.slice(0, cut).trimEnd())
    remaining = ' '.repeat(indent) + remaining.slice(cut).trimStart()
  }
  if (remaining.trim() !== '') out.push(remaining)
  return out
}
