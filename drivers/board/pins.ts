// Resolves a pin of the configuration to a chip and line of this machine. GPIOn of a known board is line n of the chip
// with the board's label; other names are searched among the kernel's line names. Errors: a power pin, or a form that
// this board does not have (CONFIG_INVALID); a chip or line that is missing (NOT_FOUND; it may be plugged in later).
import { OsError } from '../../src/lib/errors'
import { oneWay, PIN_WAYS, type PinKeys, type PinSpec } from './board-options'
import { type Chip, findChips, lineNamed } from './chips'
import { type Board, gpioNumber, headerPins } from './types'

export interface ResolvedPin {
  /** /dev/gpiochipN */
  readonly chip: string
  readonly line: number
  /** GPIO17, the kernel's line name, or chip and line */
  readonly name: string
}

/** The lookups that pins need; tests pass their own. */
export interface PinWorld {
  readonly board: Board
  chips(): readonly Chip[]
  lineNamed(path: string, name: string): number | null
}

export const worldOf = (board: Board): PinWorld => ({ board, chips: () => findChips(), lineNamed })

/** A pin as text for messages: GPIO17, pin 11 of the header, gpiochip2 line 3. */
export function pinText(spec: PinSpec): string {
  const { pin, header, chip, line } = keysOf(spec)
  return pin ?? (header !== undefined ? `pin ${header} of the header` : `${chip} line ${line}`)
}

const keysOf = (spec: PinSpec): PinKeys => (typeof spec === 'string' ? { pin: spec } : spec)

/** The name of a pin on this board, without access to its chips: 'GPIO17' for {header: 11}; null if unknown. */
export function pinName(spec: PinSpec, board: Board): string | null {
  const { pin, header, line, chip } = keysOf(spec)
  if (pin !== undefined) return pin
  if (header !== undefined) return headerPins(board)[header - 1]?.name ?? null
  return chip !== undefined && board.gpio.labels.includes(chip) ? `GPIO${line}` : null
}

/** Throws CONFIG_INVALID, NOT_FOUND, and the errors of findChips. */
export function resolveIn(world: PinWorld, spec: PinSpec): ResolvedPin {
  const keys = keysOf(spec)
  if (!oneWay(keys)) throw new OsError('CONFIG_INVALID', PIN_WAYS)
  const { pin, header, chip, line } = keys
  if (chip !== undefined) return ofChip(world, chip, line!)
  return named(world, pin ?? headerName(world.board, header!))
}

function headerName(board: Board, number: number): string {
  const found = headerPins(board)[number - 1]
  if (!found)
    throw new OsError('CONFIG_INVALID', `the board ${board.name} has no known header, so pin ${number} is unknown`, {
      hint: 'name the pin by chip and line (os-node gpio shows them), or the board as gateway.board',
    })
  if (found.gpio === null)
    throw new OsError('CONFIG_INVALID', `pin ${number} of the header is ${found.name}`, {
      hint: 'os-node board shows the header',
    })
  return found.name
}

function named(world: PinWorld, name: string): ResolvedPin {
  const { board } = world
  const number = gpioNumber(name)
  if (number !== null && board.gpio.labels.length > 0) {
    if (!headerPins(board).some(pin => pin.gpio === number))
      throw new OsError('CONFIG_INVALID', `${name} is not on the header of ${board.title}`, {
        hint: 'os-node board shows the header; a line off the header is named by chip and line',
      })
    const chip = world.chips().find(({ label }) => board.gpio.labels.includes(label))
    if (chip) return { chip: chip.path, line: number, name }
    throw new OsError('NOT_FOUND', `no GPIO chip here is labelled ${board.gpio.labels.join(' or ')}`, {
      hint: 'os-node gpio shows the chips; gateway.board names another board',
    })
  }
  const found = world.chips().flatMap(({ path }) => {
    const line = world.lineNamed(path, name)
    return line === null ? [] : [{ chip: path, line, name }]
  })
  if (found.length === 1) return found[0]!
  if (found.length > 1)
    throw new OsError('CONFIG_INVALID', `several lines are named ${name}: ${found.map(f => f.chip).join(', ')}`, {
      hint: 'name the pin by chip and line',
    })
  throw new OsError('NOT_FOUND', `no line of this machine is named ${name}`, {
    hint: 'os-node gpio lists the lines; name the pin by chip and line where they have no names',
  })
}

function ofChip(world: PinWorld, chip: string, line: number): ResolvedPin {
  if (chip.startsWith('/')) return { chip, line, name: `${chip.slice(chip.lastIndexOf('/') + 1)}:${line}` }
  const found = world.chips().filter(({ name, label }) => name === chip || label === chip)
  if (found.length === 0)
    throw new OsError('NOT_FOUND', `no GPIO chip has the name or label ${chip}`, {
      hint: 'os-node gpio lists the chips',
    })
  const [first] = found
  if (found.length > 1)
    throw new OsError(
      'CONFIG_INVALID',
      `several GPIO chips are labelled ${chip}: ${found.map(f => f.name).join(', ')}`,
      {
        hint: 'name the chip by its device',
      },
    )
  if (line >= first!.lines)
    throw new OsError('CONFIG_INVALID', `${chip} has ${first!.lines} lines, numbered from 0; there is no ${line}`)
  return { chip: first!.path, line, name: `${first!.name}:${line}` }
}
