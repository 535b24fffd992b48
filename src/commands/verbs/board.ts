// board: the header of this board with the users of its pins, its buses, and what to do to enable a bus that the
// configuration needs.
import type { BoardReport, BusReport, PinReport } from '../../links/hardware'
import type { Paint, Verb } from '../verb'
import { columns } from './status'

/** The description of a pin: its user, else its other functions. */
const about = ({ used_by, functions }: PinReport): string =>
  used_by.length > 0 ? used_by.join(', ') : functions.slice(0, 3).join(' ')

/** The header as on the board: odd pins left, even pins right. */
function header(pins: readonly PinReport[], paint: Paint): string[] {
  const texts = pins.map(about)
  const width = Math.max(...texts.filter((_, k) => k % 2 === 0).map(text => text.length))
  const lines: string[] = []
  for (let k = 0; k + 1 < pins.length; k += 2) {
    const [odd, even] = [pins[k]!, pins[k + 1]!]
    const paintText = (pin: PinReport, text: string): string =>
      pin.used_by.length > 0 ? paint.bold(text) : paint.dim(text)
    const left = `${paintText(odd, texts[k]!.padStart(width))}  ${odd.name.padStart(6)} ${String(odd.header).padStart(2)}`
    const right = `${String(even.header).padEnd(2)} ${even.name.padEnd(6)}  ${paintText(even, texts[k + 1]!)}`
    lines.push(`${left} | ${right}`.trimEnd())
  }
  return lines
}

const STATES: Record<BusReport['state'], string> = { ready: 'ready', no_right: 'no permission', missing: 'off' }

function text(report: BoardReport, paint: Paint): string {
  const { board, title, by, model, pins, off_header, buses, leds, clashes } = report
  const known = by === 'configuration' ? `gateway.board; the machine reports ${model || 'nothing'}` : model
  const lines = [`${paint.bold(title)} (${board})${known ? `: ${known}` : ''}`]
  if (pins.length > 0) lines.push('', ...header(pins, paint))
  if (off_header.length > 0) {
    const rows = off_header.map(({ name, used_by }) => [name, used_by.join(', ')])
    lines.push('', columns([['not on the header', 'used by'], ...rows], paint))
  }
  if (clashes.length > 0) lines.push('', ...clashes.map(clash => paint.bad(`used twice: ${clash}`)))
  if (buses.length > 0) {
    const rows = buses.map(({ name, device, state, used_by, todo = '' }) => [
      name,
      device,
      STATES[state],
      used_by.join(', '),
      todo,
    ])
    lines.push('', columns([['bus', 'device', '', 'used by', 'to do'], ...rows], paint))
  }
  // buses that the configuration needs and the machine lacks
  const wanted = buses.filter(({ state, used_by }) => state !== 'ready' && used_by.length > 0)
  for (const { name, todo, note, used_by } of wanted)
    lines.push(paint.warn(`${used_by.join(', ')} needs ${name}: ${todo}${note ? ` (${note})` : ''}`))
  const lit = Object.entries(leds).map(([led, path]) => `${led} ${path ?? 'not present'}`)
  if (lit.length > 0) lines.push('', `LEDs: ${lit.join(', ')}`)
  if (pins.length === 0)
    lines.push("its pins are named by the kernel's line names, or by chip and line: os-node gpio lists them")
  return lines.join('\n')
}

export const boardShow: Verb<BoardReport> = {
  name: 'board',
  summary: 'show the board, its pins and buses',
  description: 'Changes nothing. gateway.board sets an undetected board.',
  examples: ['os-node board', 'os-node board --json'],
  where: 'either',
  run: async ({ hardware }) => ({ value: { ...(await hardware()).board() } }),
  text,
}
