// log verify and log export. Export is a stream of JSON lines of any length, read at the reader's pace; verifying a
// damaged log gives ok false, exit 4.
import { counted, rangesText } from '../../lib/counted'
import { exportedDict, UNIT_CHOICES } from '../../units/display'
import type { LogVerified } from '../context'
import { csvRows, SELECTION, selected, selectionOf } from '../log-rows'
import type { OptionSpec, Verb } from '../verb'

export const logVerify: Verb<LogVerified> = {
  name: 'log verify',
  summary: 'verify every record of the log',
  description:
    'With a device or a time: counts only those records. Lost records count if their neighbours were logged ' +
    'in that time, whatever the device.',
  examples: ['os-node log verify', 'os-node log verify --json', 'os-node log verify --device HUB --since 2026-01-31'],
  options: SELECTION,
  where: 'either',
  async run(context, options) {
    const value = await context.log.verify(selectionOf(options), context)
    return { value, exitCode: value.ok ? 0 : 4 }
  },
  text(value, paint) {
    const state = value.ok ? paint.good('the log is sound') : paint.bad('the log is damaged')
    const { records, damaged, lost, pieces = [], gaps = [] } = value
    const lines = [
      `${state}: ${counted(records, 'record')}; lost ${damaged} to damage, ${lost} to the limits of log and RAM`,
    ]
    const files = new Set(pieces.map(({ file }) => file))
    if (files.size > 0) lines.push(`damaged: ${[...files].join(', ')}`)
    for (const reason of new Set(gaps.map(gap => gap.reason)))
      lines.push(`${reason}: records ${rangesText(gaps.filter(gap => gap.reason === reason))} are lost`)
    return lines.join('\n')
  },
}

/** Units of exports. */
export const UNITS: OptionSpec = {
  type: 'string',
  value: 'UNITS',
  choices: UNIT_CHOICES,
  default: 'canonical',
  help: 'units of the values: canonical UCUM (K, Pa), or those for people (°C, hPa)',
}

async function* inDisplayUnits(rows: AsyncIterable<Record<string, unknown>>) {
  for await (const row of rows) yield exportedDict(row)
}

export const logExport: Verb = {
  name: 'log export',
  summary: 'print the records of the log as JSON lines or CSV',
  description:
    'One JSON object per line, oldest first: {boot, seq, t_raw, …fact}; --json changes nothing. With --format csv one line per sensor ' +
    'reading. Times are those of the readings (t_raw).',
  examples: [
    'os-node log export > all.ndjson',
    'os-node log export --from 5000 --units display | head -n 100',
    'os-node log export --format csv --device HUB --since 2026-01-31 --until 2026-02-01T12:00:00Z > hub.csv',
  ],
  options: {
    from: { type: 'integer', value: 'SEQ', min: 0, default: 0, help: 'first sequence number' },
    ...SELECTION,
    format: { type: 'string', value: 'FORMAT', choices: ['ndjson', 'csv'], default: 'ndjson', help: 'output format' },
    units: UNITS,
  },
  where: 'either',
  run: async (context, options) => {
    const { from, units, format } = options
    const found = selected(context.log.export(Number(from), context), selectionOf(options))
    const rows = units === 'display' ? inDisplayUnits(found) : found
    return { rows: format === 'csv' ? csvRows(rows) : rows }
  },
  // a CSV line is text already
  rowText: row => (typeof row === 'string' ? row : JSON.stringify(row)),
}
