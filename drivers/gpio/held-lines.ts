// Output lines that are held while no source has them: from the start of the gateway until its source opens (in safe mode for
// good), and from one source to the next while the configuration is read again, so that a relay does not drop. Who asks for
// such a line as the same kind of output gets it as it is; for anything else it is let go of first.
import { orElse } from '../../src/lib/errors'
import type { GpioLines } from '../../src/native/gpio'
import type { PinSpec, ResolvedPin } from '../board'
import type { OutputOptions } from './gpio-options'

/** Whose lines are held; GpioWorld of lines.ts. */
interface PinWorld {
  resolve(spec: PinSpec): ResolvedPin
}

interface Parked {
  readonly lines: GpioLines
  /** what can only be changed by requesting the line anew */
  readonly form: string
  /** it goes on as it is; false: it was requested for the start, and takes its value at the opening */
  readonly stays: boolean
  /** before it is let go of; undefined: its level stays */
  readonly onStop?: 0 | 1
}

/** lines live in the kernel: one world for all sources, another for each test */
const worlds = new WeakMap<PinWorld, Map<string, Parked>>()

const linesOf = (world: PinWorld): Map<string, Parked> => {
  const lines = worlds.get(world) ?? new Map<string, Parked>()
  worlds.set(world, lines)
  return lines
}

const keyOf = ({ chip, line }: ResolvedPin): string => `${chip} ${line}`

export const formOf = ({ active_low, drive }: Pick<OutputOptions, 'active_low' | 'drive'>): string =>
  `${active_low} ${drive}`

/** undefined: not there now; the next request says why */
const resolved = (world: PinWorld, spec: PinSpec): ResolvedPin | undefined =>
  orElse(undefined, () => world.resolve(spec))

/** Holds the lines of a pin until someone asks for them; the result lets go of them unless someone did. */
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

/** The held lines of a pin, where they are of that form. */
export function unpark(world: PinWorld, spec: PinSpec, form: string): Parked | undefined {
  const pin = resolved(world, spec)
  const parked = pin && linesOf(world).get(keyOf(pin))
  if (!parked || parked.form !== form) return undefined
  linesOf(world).delete(keyOf(pin))
  return parked
}

/** Before a pin is requested as anything else. */
export async function release(world: PinWorld, pin: ResolvedPin): Promise<void> {
  const parked = linesOf(world).get(keyOf(pin))
  linesOf(world).delete(keyOf(pin))
  if (parked) await letGo(parked)
}

async function letGo({ lines, onStop }: Parked): Promise<void> {
  try {
    if (onStop !== undefined) await lines.set(0, onStop)
  } catch {
    // the chip is gone, and its levels with it
  }
  await lines.close()
}
