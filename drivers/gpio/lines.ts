// Shared by inputs and outputs: requests the line of a pin in the options, and turns errors into ones that a person at
// the terminal understands. A missing chip or line is LINK_DOWN, since it may be plugged in at any moment.
import { asOsError, OsError } from '../../src/lib/errors'
import { GpioChip, GpioLines, type LinesOptions } from '../../src/native/gpio'
import { board, type PinSpec, pinName, pinText, type ResolvedPin, resolvePin, withoutRight } from '../board'
import { release } from './held-lines'
import { LineHolder } from './line-holder'

/** How lines are requested; tests pass their own. */
export interface GpioWorld {
  resolve(spec: PinSpec): ResolvedPin
  request(chip: string, options: LinesOptions): Promise<GpioLines>
  /** the current user of a line; '' if unknown */
  consumer(pin: ResolvedPin): string
  /** the clock of the kernel's edge timestamps, in nanoseconds */
  nowNs(): number
  /** keeps lines while no gateway runs; undefined: the kernel decides */
  readonly holder?: Pick<LineHolder, 'keep' | 'holds' | 'free'>
}

export const kernelGpio: GpioWorld = {
  resolve: resolvePin,
  request: (path, options) => GpioLines.request(path, options),
  consumer: ({ chip: path, line }) => {
    const chip = GpioChip.open(path)
    try {
      return chip.line(line).consumer
    } finally {
      chip.close()
    }
  },
  nowNs: () => Number(process.hrtime.bigint()),
  holder: new LineHolder(),
}

/** The sensor id of a pin without a configured name: GPIO17, or chip and line. */
export const defaultName = (spec: PinSpec): string => idOf(pinName(spec, board()) ?? pinText(spec))

const idOf = (text: string): string => text.replace(/\/dev\//, '').replace(/[^A-Za-z0-9_-]+/g, '_')

const NOT_ABLE = ['EINVAL', 'ENXIO', 'EOPNOTSUPP', 'ENOSYS', 'ENOTSUP']

/** True when the chip, not the line, refuses the request. */
export const refuses = (error: OsError): boolean =>
  NOT_ABLE.includes(String(error.details.errno)) || /-524$/.test(String(error.details.errno))

/**
 * Requests the line of a pin. Rejects with CONFIG_INVALID, LINK_DOWN, FORBIDDEN, TIMEOUT, BUS_STUCK, E_NO_ADDON; the
 * message names the pin.
 */
export async function requestPin(
  world: GpioWorld,
  name: string,
  spec: PinSpec,
  options: Omit<LinesOptions, 'lines'>,
): Promise<GpioLines> {
  let pin: ResolvedPin | undefined
  try {
    pin = world.resolve(spec)
    await release(world, pin)
    return await world.request(pin.chip, { ...options, lines: [pin.line] })
  } catch (thrown) {
    throw explain(world, asOsError(thrown), name, spec, pin)
  }
}

function explain(world: GpioWorld, error: OsError, name: string, spec: PinSpec, pin: ResolvedPin | undefined): OsError {
  const text = pinText(spec)
  // do not repeat a name that was derived from the pin
  const own = name === text || name === idOf(text) ? '' : `${name}: `
  const what = own + text
  const { errno } = error.details
  if (errno === 'EBUSY') {
    const who = pin ? quietly(() => world.consumer(pin)) : ''
    return new OsError('LINK_DOWN', `${what} is in use${who ? ` by ${who}` : ''}`, {
      cause: error,
      details: { errno },
      hint: 'a pin has one owner: another entry of the configuration, an overlay of the boot configuration, or a program; os-node gpio shows who',
    })
  }
  if (error.code === 'NOT_FOUND')
    return new OsError('LINK_DOWN', `${what}: ${error.message}`, {
      cause: error,
      hint: error.hint,
      details: error.details,
    })
  if (errno === 'ENOTTY')
    return new OsError('CONFIG_INVALID', `${what}: ${pin?.chip} is no GPIO chip`, {
      cause: error,
      details: { errno },
      hint: 'os-node gpio lists the chips',
    })
  if (refuses(error))
    return new OsError('LINK_DOWN', `${what}: the chip cannot do this (${errno})`, {
      cause: error,
      details: { errno },
      hint: 'leave out bias, drive or debounce_ms; a line without an interrupt supports only mode level; os-node gpio lists the lines',
    })
  const allowed = pin ? withoutRight(error, pin.chip) : error
  return new OsError(
    allowed.code,
    allowed.message.startsWith(text) ? own + allowed.message : `${what}: ${allowed.message}`,
    {
      cause: error,
      hint: allowed.hint,
      details: allowed.details,
    },
  )
}

/** For messages only: empty if the query fails. */
function quietly(ask: () => string): string {
  try {
    return ask()
  } catch {
    return '' // the chip was unplugged during the query
  }
}
