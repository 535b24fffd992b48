// CSV as RFC 4180 has it. Nothing here fails.

export type CsvCell = string | number | null

/** Quoted where RFC 4180 wants it; a text that a spreadsheet would run as a formula begins with an apostrophe. */
function csvCell(cell: CsvCell): string {
  if (cell === null) return ''
  if (typeof cell === 'number') return String(cell)
  const text = /^[=+@\t\r-]/.test(cell) ? `'${cell}` : cell
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** With its end of line; null is an empty cell. */
export const csvLine = (cells: readonly CsvCell[]): string => `${cells.map(csvCell).join(',')}\r\n`
