// Outputs without a running source: set first at every start of the gateway, and by `os-node outputs safe` after a
// crash. Errors (invalid options, a line that cannot be opened) are part of the result; the other outputs are set
// anyway.
import { asOsError } from '../../src/lib/errors'
import { checkOptions } from '../../src/links/driver-options'
import type { OutputItem } from '../../src/links/hardware'
import type { GpioLines } from '../../src/native/gpio'
import { gpioOptions, type OutputOptions } from './gpio-options'
import { formOf, park } from './held-lines'
import { defaultName, type GpioWorld, kernelGpio, requestPin } from './lines'

/** An entry of gateway.sources. */
interface ConfiguredSource {
  readonly name: string
  readonly type: string
}

/** `fault`: after a crash of the last run */
export type Occasion = 'start' | 'fault'

/** The logical value for an output; keep: unchanged. */
const valueAt = ({ on_start, on_fault, on_stop, initial }: OutputOptions, occasion: Occasion): 0 | 1 | 'keep' =>
  occasion === 'fault' ? (on_fault ?? on_stop) : (on_start ?? initial)

/**
 * Sets every output of the configuration. `hold`: keeps the lines open until their source opens, and hold-lines lets go of them; otherwise
 * hold-lines keeps them (line-holder.ts), or the kernel decides whether the level stays (docs/wiring.md). One that hold-lines has already stays.
 */
export async function settleOutputs(
  entries: readonly ConfiguredSource[],
  occasion: Occasion,
  hold: boolean,
  world: GpioWorld = kernelGpio,
): Promise<OutputItem[]> {
  const items: OutputItem[] = []
  const held = await heldBefore(world, hold)
  for (const { name: source, type, ...fields } of entries) {
    if (type !== 'gpio') continue
    const { deadband: _, ...raw } = fields as Record<string, unknown>
    try {
      for (const output of checkOptions(gpioOptions, raw, source).outputs)
        items.push(await settle(world, source, output, { occasion, hold, held }))
    } catch (error) {
      items.push({ source, name: 'outputs', value: null, reason: asOsError(error).message })
    }
  }
  return items
}

/** Whether hold-lines has lines that stay there. */
async function heldBefore({ holder }: GpioWorld, hold: boolean): Promise<boolean> {
  try {
    if (!hold) return (await holder?.holds()) ?? false
    await holder?.free()
  } catch {
    // it does not answer: the requests of its lines say that they are in use
  }
  return false
}

async function settle(
  world: GpioWorld,
  source: string,
  output: OutputOptions,
  { occasion, hold, held }: { occasion: Occasion; hold: boolean; held: boolean },
): Promise<OutputItem> {
  const name = output.name ?? defaultName(output)
  const value = valueAt(output, occasion)
  if (value === 'keep') return { source, name, value: null, reason: 'kept as it is' }
  const { active_low, drive } = output
  try {
    const lines = await requestPin(world, name, output, {
      ...{ direction: 'output', consumer: `os-node ${name}`, active_low, drive },
      initial: [value],
    })
    if (hold) park(world, output, { lines, form: formOf(output), stays: false })
    else await leave(world, output, lines)
    return { source, name, value }
  } catch (error) {
    const { message, details } = asOsError(error)
    if (held && details.errno === 'EBUSY') return { source, name, value, reason: 'held since the last crash' }
    return { source, name, value: null, reason: message }
  }
}

/** Closes lines that keep their level where they can. */
async function leave(world: GpioWorld, output: OutputOptions, lines: GpioLines): Promise<void> {
  try {
    await world.holder?.keep(world.resolve(output).chip, lines)
  } finally {
    await lines.close()
  }
}
