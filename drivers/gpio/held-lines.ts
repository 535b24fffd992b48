// Output lines held open while no source has them: from the start of the gateway until the source opens (in safe mode,
// permanently), and between the old and the new source during a reload, so that a relay does not drop. A request for
// such a line as the same kind of output takes it over unchanged; any other request releases it first.
import { orElse } from '../../src/lib/errors'
import type { GpioLines } from '../../src/native/gpio'
import type { PinSpec, ResolvedPin } from '../board'
import type { OutputOptions } from './gpio-options'

/** The owner of the held lines; GpioWorld of lines.ts. */
interface PinWorld {
  resolve(spec: PinSpec): ResolvedPin
}

interface Parked {
  readonly lines: GpioLines
  /** settings that only a new request can change */
  readonly form: string
  /** true: the level stays as it is; false: requested at the start, it gets its value when the source opens */
  readonly stays: boolean
  /** level to set before release; undefined: unchanged */
  readonly onStop?: 0 | 1
}

/** lines belong to a kernel: one world for all sources, another for each test */
const worlds = new WeakMap<PinWorld, Map<string, Parked>>()

const linesOf = (world: PinWorld): Map<string, Parked> => {
  const lines = worlds.get(world) ?? new Map<string, Parked>()
  worlds.set(world, lines)
  return lines
}

const keyOf = ({ chip, line }: ResolvedPin): string => `${chip} ${line}`

export const formOf = ({ active_low, drive }: Pick<OutputOptions, 'active_low' | 'drive'>): string =>
  `${active_low} ${drive}`

/** undefined: missing now; the next request reports why */
const resolved = (world: PinWorld, spec: PinSpec): ResolvedPin | undefined =>
  orElse(undefined, () => world.resolve(spec))

/** Holds the lines of a pin until a source takes them; the returned function releases them if none did. */
export function park(world: PinWorld, spec: PinSpec, parked: Parked): () => Promise<void> {
  const pin = resolved(world, spec)
  if (!pin) return () => letGo(parked)
  const lines = linesOf(world)
  lines.set(keyOf(pin), parked)
  return async () => {
    if (lines.get(keyOf(pin)) !== parked) return
    lines.delete(keyOf(pin))
    await letGo(parked)
  }
}

/** The held lines of a pin, if they have that form. */
export function unpark(world: PinWorld, spec: PinSpec, form: string): Parked | undefined {
  const pin = resolved(world, spec)
  const parked = pin && linesOf(world).get(keyOf(pin))
  if (!parked || parked.form !== form) return undefined
  linesOf(world).delete(keyOf(pin))
  return parked
}

/** Call before a pin is requested in another form. */
export async function release(world: PinWorld, pin: ResolvedPin): Promise<void> {
  const parked = linesOf(world).get(keyOf(pin))
  linesOf(world).delete(keyOf(pin))
  if (parked) await letGo(parked)
}

async function letGo({ lines, onStop }: Parked): Promise<void> {
  try {
    if (onStop !== undefined) await lines.set(0, onStop)
  } catch {
    // the chip is unplugged, and its levels are lost
  }
  await lines.close()
}
