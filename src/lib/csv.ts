// CSV according to RFC 4180. No errors.

export type CsvCell = string | number | null

/** Quoted if RFC 4180 requires it; a text that a spreadsheet would run as a formula gets a leading apostrophe. */
function csvCell(cell: CsvCell): string {
  if (cell === null) return ''
  if (typeof cell === 'number') return String(cell)
  const text = /^[=+@\t\r-]/.test(cell) ? `'${cell}` : cell
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** With its line end; null is an empty cell. */
export const csvLine = (cells: readonly CsvCell[]): string => `${cells.map(csvCell).join(',')}\r\n`
