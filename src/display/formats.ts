// The five output formats, and their defaults derived from the data alone. JSON and TREE are data, TABLE is rows, HTML
// and TEXT are for people. No errors; the input is the output of plain.ts.

import { timeText } from '../lib/clock'
import { OsError } from '../lib/errors'
import { isMoment, numberText } from '../units/display'
import { type Dict, isDict, type Plain } from './plain'
import { textWidth } from './width'

export const DISPLAY_FORMATS = ['json', 'html', 'text', 'table', 'tree'] as const
export type DisplayFormat = (typeof DISPLAY_FORMATS)[number]

/** A format by its name in any case; no name is JSON. Throws BAD_REQUEST (X31). */
export function parseFormat(name: unknown): DisplayFormat {
  if (name === undefined || name === null || name === '') return 'json'
  const found = DISPLAY_FORMATS.find(format => format === String(name).toLowerCase())
  if (found) return found
  throw new OsError('BAD_REQUEST', 'unknown format', {
    details: { format: String(name).slice(0, 100) },
    hint: `name one of: ${DISPLAY_FORMATS.join(', ')}`,
  })
}

const isRows = (value: Plain): value is Dict[] => Array.isArray(value) && value.length > 0 && value.every(isDict)

const isSimple = (value: Plain): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (Array.isArray(value) && value.every(item => typeof item !== 'object' || item === null))

/** Rows of a table: the list itself, or the dict as one row. */
export function tableOf(data: Plain): Plain[] {
  if (Array.isArray(data)) return data
  return isDict(data) ? [data] : [{ value: data }]
}

/** Every column of any row, in order of first appearance. */
const columnsOf = (rows: readonly Dict[]): string[] => [...new Set(rows.flatMap(row => Object.keys(row)))]

// --- text ---------------------------------------------------------------------------------------------------------------

/** Control characters could move the terminal's cursor; a value may come from a foreign device. */
export const visible = (text: string): string =>
  text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '·')

/** One value in one line. */
export function cellText(value: Plain | undefined): string {
  if (value === undefined || value === null || value === '') return '-'
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(', ')
  if (typeof value === 'object') {
    const inner = Object.entries(value).map(([key, item]) => `${visible(key)}=${cellText(item)}`)
    return inner.length === 0 ? '-' : inner.join(' ')
  }
  return typeof value === 'number' ? numberText(value) : visible(String(value))
}

/** The same for a named value: a point in time as a date, which people can compare with a clock. */
const namedText = (name: string, value: Plain | undefined): string =>
  isMoment(name, value) ? timeText(value) : cellText(value)

/** Rows as columns. */
export function rowsText(rows: readonly Dict[]): string[] {
  const columns = columnsOf(rows)
  return aligned([columns.map(visible), ...rows.map(row => columns.map(column => namedText(column, row[column])))])
}

/** Lines of a table, each column as wide as its widest cell. */
export function aligned(table: readonly (readonly string[])[]): string[] {
  const widths = (table[0] ?? []).map((_, k) => table.reduce((most, cells) => Math.max(most, textWidth(cells[k]!)), 0))
  return table.map(cells =>
    cells
      .map((cell, k) => cell + ' '.repeat(widths[k]! - textWidth(cell)))
      .join('  ')
      .trimEnd(),
  )
}

function lines(data: Plain): string[] {
  if (typeof data === 'object' && data !== null && Object.keys(data).length === 0) return ['(nothing)']
  if (isRows(data)) return rowsText(data)
  if (Array.isArray(data) && !isSimple(data))
    return data.flatMap(item => ['-', ...lines(item).map(line => `  ${line}`)])
  if (isDict(data)) return pairs(data)
  return [cellText(data)]
}

/** Simple values first, unchanged and aligned; nested ones follow their name, indented. */
function pairs(data: Dict): string[] {
  const entries = Object.entries(data)
  const width = entries.reduce((most, [key, value]) => (isSimple(value) ? Math.max(most, key.length) : most), 0)
  return entries.flatMap(([key, value]) =>
    isSimple(value)
      ? [`${visible(key).padEnd(width)}  ${namedText(key, value)}`.trimEnd()]
      : [`${visible(key)}:`, ...lines(value).map(line => `  ${line}`)],
  )
}

/** The entries of a list or dict; the items of a list are numbered from 1. */
const entriesOf = (data: Plain): [string, Plain][] =>
  Array.isArray(data) ? data.map((item, k) => [String(k + 1), item]) : Object.entries(data as Dict)

/** For terminals: names and values aligned, lists of rows as columns. */
export const textOf = (data: Plain): string => lines(data).join('\n')

/** For terminals: branches drawn with lines. */
export const treeText = (data: Plain): string => branches(data, '').join('\n')

function branches(data: Plain, indent: string): string[] {
  if (isSimple(data)) return [`${indent}${cellText(data)}`]
  const entries = entriesOf(data)
  return entries.flatMap(([key, value], k) => {
    const last = k === entries.length - 1
    const head = `${indent}${last ? '└─ ' : '├─ '}${visible(key)}`
    return isSimple(value)
      ? [`${head}: ${cellText(value)}`]
      : [head, ...branches(value, `${indent}${last ? '   ' : '│  '}`)]
  })
}

// --- html ---------------------------------------------------------------------------------------------------------------

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Text for HTML content and attribute values. */
export const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, char => ESCAPES[char]!)

const cellHtml = (value: Plain | undefined): string =>
  value !== undefined && !isSimple(value) ? htmlOf(value) : escapeHtml(cellText(value))

/** A table without inline styles, as the page's content security policy requires; everything in it is escaped. */
export function htmlOf(data: Plain): string {
  if (isRows(data)) {
    const columns = columnsOf(data)
    const head = columns.map(column => `<th scope="col">${escapeHtml(column)}</th>`).join('')
    const body = data.map(row => `<tr>${columns.map(column => `<td>${cellHtml(row[column])}</td>`).join('')}</tr>`)
    return `<table class="display"><thead><tr>${head}</tr></thead><tbody>${body.join('')}</tbody></table>`
  }
  if (isSimple(data)) return `<p class="display">${escapeHtml(cellText(data))}</p>`
  const body = entriesOf(data).map(
    ([key, value]) => `<tr><th scope="row">${escapeHtml(key)}</th><td>${cellHtml(value)}</td></tr>`,
  )
  return `<table class="display"><tbody>${body.join('')}</tbody></table>`
}
