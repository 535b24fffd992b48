// Every GPIO line of this machine as the kernel reports it, for `os-node gpio`. No line is requested, because that
// could take a pin from its user; values are those that this program reads anyway.

import type { LineReport } from '../../src/links/hardware'
import { GpioChip, type LineInfo } from '../../src/native/gpio'
import { findChips } from './chips'
import { type Board, headerPins } from './types'

/** consumer label of our lines; the kernel truncates it to 31 bytes */
const OURS = 'os-node '

/** `values`: newest readings by sensor id. Throws NOT_FOUND, FORBIDDEN, E_NO_ADDON if there is no readable chip. */
export function lineReports(board: Board, values: Readonly<Record<string, number | null>> = {}): LineReport[] {
  const header = new Map(headerPins(board).flatMap(pin => (pin.gpio === null ? [] : [[pin.gpio, pin] as const])))
  return findChips().flatMap(({ path, name: chip, label, lines }) => {
    const opened = GpioChip.open(path)
    try {
      return Array.from({ length: lines }, (_, line) => {
        const { name, direction, active_low, bias, used, consumer } = opened.line(line)
        const pin = board.gpio.labels.includes(label) ? header.get(line) : undefined
        const value = ourValue(consumer, values)
        return {
          ...{ chip, label, line, name },
          ...(pin && { pin: pin.name, header: pin.header }),
          ...{ direction, active_low, bias, used, consumer },
          ...(value !== undefined && { value }),
        }
      })
    } finally {
      opened.close()
    }
  })
}

function ourValue(
  consumer: LineInfo['consumer'],
  values: Readonly<Record<string, number | null>>,
): number | null | undefined {
  if (!consumer.startsWith(OURS)) return undefined
  const shown = consumer.slice(OURS.length)
  const cut = consumer.length >= 31
  const id = Object.keys(values).find(key => key === shown || (cut && key.startsWith(shown)))
  return id === undefined ? undefined : values[id]
}
