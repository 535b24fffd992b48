// log verify and log export. Export is a stream of JSON lines whatever its length, read at the pace of who takes them; a
// damaged log is verified with ok false, exit 4.
import { counted } from '../../lib/counted'
import { exportedDict, UNIT_CHOICES } from '../../units/display'
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
  summary: 'print the records of the log as JSON lines',
  description: 'One JSON object per line, oldest first: {boot, seq, t_raw, …fact}. --json changes nothing.',
  examples: ['os-node log export > all.ndjson', 'os-node log export --from 5000 --units display | head -n 100'],
  options: {
    from: { type: 'integer', value: 'SEQ', min: 0, default: 0, help: 'first sequence number' },
    units: UNITS,
  },
  where: 'either',
  run: async ({ log }, { from, units }) => {
    const rows = log.export(Number(from))
    return { rows: units === 'display' ? inDisplayUnits(rows) : rows }
  },
}
