// gpio: every GPIO line of this machine and its user. gpio set: an output of the running gateway; only the process that
// holds a line can keep its level, so this needs a gateway.
import type { LineReport, OutputItem } from '../../links/hardware'
import type { Paint, Verb } from '../verb'
import { columns } from './status'

const shown = (value: number | null | undefined): string =>
  value === undefined ? '' : value === null ? '-' : String(value)

function lineRow(report: LineReport): string[] {
  const { chip, line, name, pin, header, direction, active_low, bias, used, consumer, value } = report
  return [
    chip,
    String(line),
    pin === undefined || pin === name ? name : `${pin} ${name}`.trimEnd(),
    header === undefined ? '' : String(header),
    `${direction}${active_low ? ', active low' : ''}${bias && bias !== 'disabled' ? `, ${bias.replace('_', '-')}` : ''}`,
    used ? consumer || 'in use' : '',
    shown(value),
  ]
}

interface GpioReport {
  readonly lines: readonly LineReport[]
  readonly outputs: readonly OutputItem[]
}

function listText({ lines, outputs }: GpioReport, paint: Paint): string {
  const chips = [...new Map(lines.map(({ chip, label }) => [chip, label]))].map(
    ([chip, label]) => `${chip} is ${label}`,
  )
  const table = columns(
    [['chip', 'line', 'name', 'pin', 'direction', 'used by', 'value'], ...lines.map(lineRow)],
    paint,
  )
  const rows = outputs.map(({ source, name, value, reason = '' }) => [name, source, shown(value), reason])
  const set = rows.length > 0 ? ['', columns([['output', 'source', 'value', ''], ...rows], paint)] : []
  return [table, '', chips.join('; '), ...set].join('\n')
}

export const gpioList: Verb<GpioReport> = {
  name: 'gpio',
  summary: 'list GPIO lines with name, direction, consumer and outputs',
  description: 'Takes no line from another program. Values are shown for the lines that the running gateway holds.',
  examples: ['os-node gpio', 'os-node gpio --json'],
  where: 'either',
  run: async ({ hardware, gateway }) => ({
    value: { lines: (await hardware()).lines(), outputs: gateway?.outputs.list() ?? [] },
  }),
  text: listText,
}

export const gpioSet: Verb<OutputItem> = {
  name: 'gpio set',
  summary: 'set an output of the running gateway',
  description: 'The value is logical: 1 is active, which with active_low is the low level.',
  examples: ['os-node gpio set pump 1', 'os-node gpio set garden.pump 0 --json'],
  options: {
    name: { type: 'string', value: 'NAME', required: true, help: 'output, or SOURCE.OUTPUT' },
    value: { type: 'integer', value: '0|1', required: true, min: 0, max: 1, help: '1 active, 0 inactive' },
  },
  operands: ['name', 'value'],
  where: 'gateway',
  async run({ gateway }, { name, value }) {
    return { value: { ...(await gateway!.outputs.set(String(name), value === 1 ? 1 : 0)) } }
  },
  text: ({ source, name, value }) => `${source}.${name} is ${value}`,
}
