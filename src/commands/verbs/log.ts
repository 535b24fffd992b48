// log verify and log export. Export is a stream of JSON lines whatever its length, read at the pace of who takes them; a
// damaged log is verified with ok false, exit 4.
import { counted } from '../../lib/counted'
import { exportedDict, UNIT_CHOICES } from '../../units/display'
import { csvRows, selected, timeOf } from '../log-rows'
import type { OptionSpec, Verb } from '../verb'

export const logVerify: Verb = {
  name: 'log verify',
  summary: 'verify every record of the log',
  examples: ['os-node log verify', 'os-node log verify --json'],
  options: {},
  where: 'either',
  async run(context) {
    const value = await context.log.verify()
    return { value: { ...value }, exitCode: value.ok ? 0 : 4 }
  },
  text(value, paint) {
    const state = value.ok ? paint.good('the log is sound') : paint.bad('the log is damaged')
    return `${state}: ${counted(Number(value.records), 'record')}; damaged ${value.damaged}, lost ${value.lost}`
  },
}

/** What exports offer. */
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
    since: { type: 'string', value: 'TIME', help: 'first time: UNIX seconds or ISO 8601' },
    until: { type: 'string', value: 'TIME', help: 'last time' },
    device: { type: 'string', value: 'ID', help: 'of this device only' },
    format: { type: 'string', value: 'FORMAT', choices: ['ndjson', 'csv'], default: 'ndjson', help: 'of the lines' },
    units: UNITS,
  },
  where: 'either',
  run: async ({ log }, { from, units, since, until, device, format }) => {
    const which = {
      ...(since !== undefined && { since: timeOf('since', String(since)) }),
      ...(until !== undefined && { until: timeOf('until', String(until)) }),
      ...(device !== undefined && { device: String(device) }),
    }
    const found = selected(log.export(Number(from)), which)
    const rows = units === 'display' ? inDisplayUnits(found) : found
    return { rows: format === 'csv' ? csvRows(rows) : rows }
  },
  // a line of CSV is a text
  rowText: row => (typeof row === 'string' ? row : JSON.stringify(row)),
}
