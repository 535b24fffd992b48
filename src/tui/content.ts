// The middle of the screen: one section, all of them, the providers, or search results; fitted to the width and cut to
// the available rows.

import { DISPLAY_FORMATS, type Plain, pad, rowsText, type SectionInfo } from '../display'
import { counted } from '../lib/counted'
import { isObject } from '../lib/objects'
import { type Style, type TextLine, wrap } from './line'
import type { Held, TuiState } from './state'

const STATES: Readonly<Record<string, Style>> = {
  up: 'good',
  synced: 'good',
  healthy: 'good',
  down: 'bad',
  ERROR: 'bad',
  degraded: 'warn',
  opening: 'warn',
  disabled: 'dim',
}
const STATE = /(?<=^|\s{2})(up|synced|healthy|down|ERROR|degraded|opening|disabled)(?=\s{2}|$)/

/** The title of the view. */
export function headline(state: TuiState): string {
  if (state.view === 'all') return `all ${counted(state.sections.length, 'section')}`
  if (state.view === 'providers') return counted(state.sections.length, 'provider')
  if (state.view === 'search') return `${state.matches.length} of ${counted(state.sections.length, 'section')}`
  const { section } = state
  if (!section) return 'no section'
  return `${section.display_name} (${section.section_path})${state.json ? ' json' : ''}`
}

/** The visible part of the view, padded with empty lines. Sets `state.page`. `problem`: why the data is old. */
export function page(
  state: TuiState,
  columns: number,
  room: number,
  problem: string,
): { text: TextLine[]; from: number; to: number; total: number } {
  const all = state.sections.length === 0 ? nothing(columns, problem) : content(state, columns)
  state.page = { rows: room, lines: all.length }
  // keeps the selected match on the page
  if (state.view === 'search') state.scroll = Math.max(0, state.picked - room + 1)
  const from = Math.min(state.scroll, Math.max(0, all.length - room))
  const shown = all.slice(from, from + room)
  const to = from + shown.length
  while (shown.length < room) shown.push([])
  return { text: shown, from, to, total: all.length }
}

/** Shown before the first read, and if reading is impossible. */
const nothing = (columns: number, problem: string): TextLine[] =>
  problem === '' ? [[['no section yet', 'dim']]] : wrap(problem, columns).map((text): TextLine => [[text, 'bad']])

function content(state: TuiState, columns: number): TextLine[] {
  if (state.view === 'providers') return providers(state.sections, columns)
  if (state.view === 'search') return found(state, columns)
  if (state.view === 'section') {
    const { section } = state
    return section ? body(state.held(section.name), columns) : []
  }
  return state.sections.flatMap(section => [
    [[`${section.display_name} `, 'head'] as const, [`(${section.name})`, 'dim'] as const],
    ...body(state.held(section.name), columns),
    [],
  ])
}

const isFailure = (data: Plain): data is { error: string; code: string } =>
  isObject(data) && typeof data.error === 'string' && 'code' in data

/** A section may have thousands of lines: they are laid out once per read and width, not per key. */
const set = new WeakMap<Held, { columns: number; lines: TextLine[] }>()

function body(held: Held | undefined, columns: number): TextLine[] {
  if (!held) return [[['…', 'dim']]]
  const known = set.get(held)
  if (known?.columns === columns) return known.lines
  const lines = setLines(held.data, columns)
  set.set(held, { columns, lines })
  return lines
}

function setLines(data: Plain, columns: number): TextLine[] {
  if (isFailure(data)) return wrap(`${data.code}: ${data.error}`, columns).map((text): TextLine => [[text, 'bad']])
  const text = typeof data === 'string' ? data : JSON.stringify(data, null, 2)
  // a plugin's text may contain tabs and line ends of other systems
  return text.split(/\r?\n/).flatMap(line => wrap(line.replaceAll('\t', '  '), columns).map(paint))
}

/** Colours for states, bold for headings. */
function paint(text: string): TextLine {
  const state = STATE.exec(text)
  if (state) {
    const at = state.index
    const word = state[0]
    return [[text.slice(0, at)], [word, STATES[word]!], [text.slice(at + word.length)]]
  }
  return [[text, /^\s*[\w.:-]+:$/.test(text) ? 'bold' : 'plain']]
}

function providers(sections: readonly SectionInfo[], columns: number): TextLine[] {
  const rows = sections.map((section, k) => ({
    '#': k + 1,
    section: section.section_path,
    title: section.display_name,
    category: section.category,
    priority: section.priority,
    every: `${section.refresh_interval_s} s`,
    prefers: prefers(section),
  }))
  return rowsText(rows).flatMap((line, row) =>
    wrap(line, columns).map((text): TextLine => [[text, row === 0 ? 'dim' : 'plain']]),
  )
}

/** The preferred format, and the others if not all five are supported. */
const prefers = ({ preferred_format, supported_formats }: SectionInfo): string =>
  supported_formats.length === DISPLAY_FORMATS.length
    ? preferred_format
    : `${preferred_format} of ${supported_formats.join(' ')}`

function found(state: TuiState, columns: number): TextLine[] {
  const { matches, sections, picked } = state
  if (matches.length === 0) return [[['no section of that name', 'dim']]]
  return matches.map((section, k): TextLine => {
    const text = ` ${String(sections.indexOf(section) + 1).padStart(2)} ${section.name}  ${section.display_name}`
    return [[k === picked ? pad(text, columns) : text, k === picked ? 'pick' : 'plain']]
  })
}
