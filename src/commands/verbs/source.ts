// source list and source test: the sources of this gateway, and one source read once with the raw bytes of its bus. In
// a running gateway the gateway's own link is read; without one the source is opened for the test.
import type { SourceItem, SourceTest } from '../../gateway/intake/test-source'
import { resolve } from '../../units/canonical'
import { readingText, valueText } from '../../units/display'
import type { Verb } from '../verb'
import { columns } from './status'

/** A source's units are configured in canonical form; people see those of the display table. */
function shown(value: number | null, unit: string): [value: string, unit: string] {
  if (value === null) return ['-', '']
  const { canonical, factor, offset } = resolve(unit) ?? { canonical: unit, factor: 1, offset: 0 }
  const text = valueText(value * factor + offset, canonical)
  return [text.value, text.unit]
}

export const sourceList: Verb<{ sources: readonly SourceItem[] }> = {
  name: 'source list',
  summary: 'list sources',
  examples: ['os-node source list', 'os-node source list --json'],
  where: 'either',
  run: async ({ sources }) => ({ value: { sources: await (await sources()).list() } }),
  text({ sources }, paint) {
    if (sources.length === 0) return 'no source is configured'
    const rows = sources.map(({ name, type, state = 'not running', interval_ms, reason = '' }) => [
      name,
      type,
      state,
      interval_ms === undefined ? '' : readingText(interval_ms / 1000, 's'),
      reason,
    ])
    return columns([['source', 'type', 'state', 'interval', ''], ...rows], paint)
  },
}

export const sourceTest: Verb<SourceTest> = {
  name: 'source test',
  summary: 'read a source once and show raw bytes and values',
  description:
    'Nothing is logged, and the schedule continues. A source that is down is tried immediately. ' +
    'Exit 1 when one of its sensors has no value.',
  examples: ['os-node source test boiler', 'os-node source test boiler --json'],
  options: { name: { type: 'string', value: 'NAME', required: true, help: 'source, as os-node source list shows it' } },
  operands: ['name'],
  where: 'either',
  async run({ sources }, { name }) {
    const result = await (await sources()).test(String(name))
    const failed = result.readings.some(({ value }) => value === null)
    return { value: { ...result }, exitCode: failed ? 1 : 0 }
  },
  text({ name, type, took_ms, readings }, paint) {
    const rows = readings.map(({ sensor_id, raw, status, value: v, unit, error = '' }) => [
      sensor_id,
      raw === '' ? '-' : raw,
      status,
      ...shown(v, unit),
      error,
    ])
    const head = `${paint.bold(name)} (${type}), ${took_ms} ms`
    return `${head}\n${columns([['sensor', 'raw', 'status', 'value', 'unit', ''], ...rows], paint)}`
  },
}
