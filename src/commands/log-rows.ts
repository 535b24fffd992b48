// Formats the records of `log export`: those of a device and a time range, as JSON lines or as CSV with fixed columns.
// Rows are processed one by one, at the reader's pace. Errors: USAGE for an invalid time.
import { csvLine } from '../lib/csv'
import { OsError } from '../lib/errors'
import type { Selection } from '../log'
import type { OptionSpec, OptionValues } from './verb'

type LogRow = Readonly<Record<string, unknown>>

/** Options that select records; see selectionOf. */
export const SELECTION: Readonly<Record<string, OptionSpec>> = {
  since: { type: 'string', value: 'TIME', help: 'first time: UNIX seconds or ISO 8601' },
  until: { type: 'string', value: 'TIME', help: 'last time' },
  device: { type: 'string', value: 'ID', help: 'only this device' },
}

/**
 * The order of the columns never changes; new ones are appended. One line per sensor; a record without sensors has one
 * line too.
 */
export const LOG_COLUMNS = [
  ...['seq', 'boot', 't_raw_ms', 'device_id', 'device_status', 'source_aid', 'medium', 'sensor_index', 'sensor_id'],
  ...['sensor_status', 'value', 'unit', 'time_quality', 'logged_ms'],
]

/** UNIX seconds or an ISO 8601 date → UNIX ms. Throws USAGE. */
export function timeOf(name: string, text: string): number {
  const time = /^\d+(\.\d+)?$/.test(text) ? 1000 * Number(text) : Date.parse(text)
  if (Number.isNaN(time))
    throw new OsError('USAGE', `--${name}: ${JSON.stringify(text)} is no time`, {
      hint: 'UNIX seconds, or a date as 2026-01-31 or 2026-01-31T12:00:00Z',
    })
  return time
}

/** The selection of a command's options `since`, `until` and `device`. Throws USAGE. */
export function selectionOf({ since, until, device }: OptionValues): Selection {
  const selection = {
    ...(since !== undefined && { since: timeOf('since', String(since)) }),
    ...(until !== undefined && { until: timeOf('until', String(until)) }),
    ...(device !== undefined && { device: String(device) }),
  }
  if (selection.since !== undefined && selection.until !== undefined && selection.since > selection.until)
    throw new OsError('USAGE', '--since is later than --until', { hint: 'exchange them' })
  return selection
}

/** The rows of a selection. */
export async function* selected(
  rows: AsyncIterable<LogRow>,
  { since, until, device }: Selection,
): AsyncGenerator<LogRow> {
  for await (const row of rows) {
    const time = Number(row['t_raw'])
    if (device !== undefined && row['id'] !== device) continue
    if ((since === undefined || time >= since) && (until === undefined || time <= until)) yield row
  }
}

const cell = (value: unknown): string | number | null =>
  typeof value === 'number' || typeof value === 'string' ? value : null

/** The lines of the CSV without line ends, the header first. */
export async function* csvRows(rows: AsyncIterable<LogRow>): AsyncGenerator<string> {
  yield csvLine(LOG_COLUMNS).trimEnd()
  for await (const row of rows) {
    const { seq, boot, t_raw, id, s, source_aid, medium, time_quality, logged_ms } = row
    const record = [seq, boot, t_raw, id, s, source_aid, medium].map(cell)
    for (let n = 1; n === 1 || `s${n}_id` in row; n++) {
      const has = `s${n}_id` in row
      const sensor = ['id', 's', 'v', 'u'].map(part => cell(row[`s${n}_${part}`]))
      yield csvLine([...record, has ? n : null, ...sensor, cell(time_quality), cell(logged_ms)]).trimEnd()
    }
  }
}
