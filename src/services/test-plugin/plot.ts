// Bars in plain text, for a terminal and a log file alike.
const WIDTH = 40

/** One line per value: its label, its bar (WIDTH for the largest, at least one mark unless 0), and the value. */
export function bars(rows: readonly (readonly [label: string, value: number])[], unit = ''): string[] {
  const most = Math.max(0, ...rows.map(([, value]) => value))
  const longest = Math.max(0, ...rows.map(([label]) => label.length))
  return rows.map(([label, value]) => {
    const marks = value > 0 ? Math.max(1, Math.round((WIDTH * value) / most)) : 0
    return `  ${label.padStart(longest)} |${'#'.repeat(marks).padEnd(WIDTH)}| ${value}${unit}`
  })
}
