// State of a pin that outlives its source: a reload creates the source anew, but a meter must not restart at 0, nor a
// pump stop. A pin closed for longer was removed from the configuration, and starts fresh when it is added again.
// Bounded by the pins that were ever configured. No errors.
import { type PinSpec, pinText } from '../board'
import type { GpioWorld } from './lines'

export interface PinState {
  /** inputs: edges since the gateway started */
  count: number
  /** inputs: edges dropped during earlier openings */
  missed: number
  /** outputs: the last value set; undefined: never */
  wanted: 0 | 1 | undefined
  /** time of closing, by the clock of its world; Infinity while open */
  closedNs: number
}

/** time for a reload to close the old source and create the new one, on a busy machine */
const RELOAD_NS = 60e9

/** lines belong to a kernel: one world for all sources, another for each test */
const worlds = new WeakMap<GpioWorld, Map<string, PinState>>()

/** The state of a pin with the same name in the same source and the same function. */
export function pinStateOf(world: GpioWorld, source: string, name: string, use: string, spec: PinSpec): PinState {
  const pins = worlds.get(world) ?? new Map<string, PinState>()
  worlds.set(world, pins)
  const key = [source, name, use, pinText(spec)].join(' ')
  const before = pins.get(key)
  if (before && world.nowNs() - before.closedNs < RELOAD_NS) return before
  const state: PinState = { count: 0, missed: 0, wanted: undefined, closedNs: Number.POSITIVE_INFINITY }
  pins.set(key, state)
  return state
}
