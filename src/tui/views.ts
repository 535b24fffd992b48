// The state as lines of a screen. `menu` is the live list with numbers, `bios` the framed one with tabs and the keys at
// the side. Both fit a terminal of any size; below 20 × 6 they say that it is too small.
import { pad, textWidth } from '../display'
import { headline, page } from './content'
import { lineWidth, type Span, type TextLine } from './line'
import type { TuiState } from './state'

interface Around {
  readonly columns: number
  readonly rows: number
  /** program and device */
  readonly title: string
  /** origin of the data, interval, time */
  readonly note: string
  /** why the data is old; '' if it is current */
  readonly problem: string
}

export type Look = 'menu' | 'bios'

const KEYS: readonly (readonly [key: string, what: string])[] = [
  ['↑↓', 'scroll'],
  ['m', 'providers'],
  ['s', 'search'],
  ['1-9', 'section'],
  ['a', 'all'],
  ['r', 'refresh'],
  ['j', 'json'],
  ['q', 'quit'],
]
const SIDE_WIDTH = 25
/** narrower terminals use all columns for the section */
const SIDE_FROM = 104

/** Every row of the screen. Sets `state.page`. */
export function linesOf(state: TuiState, around: Around, look: Look): TextLine[] {
  const { columns, rows } = around
  if (columns < 20 || rows < 6) return [[['too small']], ...Array.from({ length: rows - 1 }, (): TextLine => [])]
  return look === 'bios' ? bios(state, around) : menu(state, around)
}

function bar(left: string, right: string, columns: number): TextLine {
  if (right === '') return [[pad(` ${left}`, columns), 'bar']]
  const room = columns - textWidth(right) - 2
  if (room < textWidth(left) / 2) return [[pad(` ${left}`, columns), 'bar']]
  return [[`${pad(` ${left}`, room)} ${right} `, 'bar']]
}

// --- menu -----------------------------------------------------------------------------------------------------------------

function menu(state: TuiState, around: Around): TextLine[] {
  const { columns, rows, title, note } = around
  const head: TextLine[] = [bar(title, note, columns), ...numbers(state, columns, Math.max(1, Math.floor(rows / 6)))]
  const room = Math.max(1, rows - head.length - 2)
  const { text, from, to, total } = page(state, columns, room, around.problem)
  const place = total > room ? ` ${from + 1}-${to} of ${total} ` : '──'
  return [...head, rule(headline(state), place, columns), ...text, foot(state, around)]
}

/** Sections with their numbers, in at most `most` rows: those around the current one. */
function numbers(state: TuiState, columns: number, most: number): TextLine[] {
  const lines: Span[][] = [[]]
  let at = 0
  for (const [k, section] of state.sections.entries()) {
    const label = ` ${k + 1} ${section.name} `
    if (lineWidth(lines.at(-1)!) + textWidth(label) > columns && lines.at(-1)!.length > 0) lines.push([])
    const shown = state.view === 'section' && section === state.section
    if (shown) at = lines.length - 1
    lines.at(-1)!.push([label, shown ? 'pick' : 'plain'])
  }
  const first = Math.max(0, Math.min(at, lines.length - most))
  return lines.slice(first, first + most)
}

function rule(left: string, right: string, columns: number): TextLine {
  const room = Math.max(0, columns - textWidth(right) - 6)
  const name = textWidth(left) > room ? pad(left, room) : left
  const line = '─'.repeat(room - textWidth(name))
  return [
    ['── ', 'dim'],
    [name, 'bold'],
    [` ${line}`, 'dim'],
    [right, 'dim'],
    ['──', 'dim'],
  ]
}

function foot(state: TuiState, { columns, problem }: Around): TextLine {
  if (state.view === 'search')
    return [
      [` search: ${state.query}`, 'bold'],
      ['_', 'pick'],
      ['   Enter open  Esc back', 'dim'],
    ]
  if (state.digits !== '')
    return [
      [` section ${state.digits}`, 'bold'],
      ['_', 'pick'],
    ]
  const said = state.message || problem
  if (said) return [[pad(` ${said}`, columns), state.message ? 'warn' : 'bad']]
  const keys = KEYS.flatMap(([key, what], k): Span[] => [
    [` ${key}`, 'bold'],
    [` ${what}${k < KEYS.length - 1 ? ' ' : ''}`, 'dim'],
  ])
  return lineWidth(keys) <= columns ? keys : [[` ${KEYS.map(([key]) => key).join(' ')} quit`, 'bold']]
}

// --- bios -----------------------------------------------------------------------------------------------------------------

function bios(state: TuiState, around: Around): TextLine[] {
  const { columns, rows, title, note } = around
  const side = columns >= SIDE_FROM ? SIDE_WIDTH : 0
  const wide = columns - 2 - (side === 0 ? 0 : side + 1)
  const room = Math.max(1, rows - 5)
  const { text, from, to, total } = page(state, wide - 2, room, around.problem)
  const help = sidePane(state, side - 2, room)
  const edge = (left: string, mid: string, right: string): TextLine => [
    [left + '─'.repeat(wide) + (side === 0 ? '' : mid + '─'.repeat(side)) + right, 'dim'],
  ]
  const body = text.map((line, row): TextLine => {
    const fill = ' '.repeat(Math.max(0, wide - 1 - lineWidth(line)))
    const right: Span[] = side === 0 ? [] : [[' '], ...(help[row] ?? [])]
    const padding = side === 0 ? '' : ' '.repeat(Math.max(0, side - 1 - lineWidth(help[row] ?? [])))
    return [
      ['│', 'dim'],
      [' '],
      ...line,
      [fill],
      ['│', 'dim'],
      ...right,
      [padding],
      ...(side === 0 ? [] : [['│', 'dim'] as const]),
    ]
  })
  const place = total > room ? `${from + 1}-${to} of ${total}` : ''
  const said = state.view === 'search' || state.digits || state.message || around.problem
  const keys = ' ←→↑↓  m providers  1-9 section  a all  s search  r refresh  j json  q quit'
  return [
    bar(title, note, columns),
    tabs(state, columns),
    edge('┌', '┬', '┐'),
    ...body,
    edge('└', '┴', '┘'),
    said
      ? foot(state, around)
      : bar(keys.trim(), columns >= textWidth(keys) + textWidth(place) + 3 ? place : '', columns),
  ]
}

/** Sections as tabs in one row, scrolled so that the current one is visible. */
function tabs(state: TuiState, columns: number): TextLine {
  const labels = state.sections.map(
    (section): Span => [
      ` ${section.display_name} `,
      state.view === 'section' && section === state.section ? 'pick' : 'plain',
    ],
  )
  const at = Math.max(0, state.sections.indexOf(state.section!))
  let first = 0
  while (first < at && lineWidth(labels.slice(first, at + 1)) > columns - 2) first++
  return [[first > 0 ? '←' : ' ', 'dim'], ...labels.slice(first)]
}

function sidePane(state: TuiState, width: number, room: number): TextLine[] {
  if (width <= 0) return []
  const { section } = state
  const facts: TextLine[] = section
    ? [
        [[pad(section.display_name, width), 'bold']],
        ...(
          [
            ['section', section.name],
            ['category', section.category],
            ['priority', String(section.priority)],
            ['every', `${section.refresh_interval_s} s`],
          ] as const
        ).map(([name, value]): TextLine => [[`${name.padEnd(9)} `, 'dim'], [pad(value, width - 10)]]),
        [],
      ]
    : []
  const keys = [...KEYS, ['←→', 'next, previous'] as const].map(
    ([key, what]): TextLine => [[key.padEnd(4), 'bold'], [what]],
  )
  return [...facts, ...keys].slice(0, room)
}
