// What a pin keeps for as long as the gateway runs: its source is made anew when the configuration is loaded again, and a
// meter must not begin at 0 then, nor a pump stop. What was closed for longer was taken out of the configuration, and begins
// anew when it comes back. Bounded by the pins that were ever configured. Nothing fails.
import { type PinSpec, pinText } from '../board'
import type { GpioWorld } from './lines'

export interface Kept {
  /** inputs: edges since the gateway began */
  count: number
  /** inputs: edges that earlier openings dropped */
  missed: number
  /** outputs: what it was last set to; undefined: never */
  wanted: 0 | 1 | undefined
  /** when it was closed, by the clock of its world; Infinity while it is open */
  closedNs: number
}

/** a reload closes the old source and makes the new one; a busy machine takes its time */
const RELOAD_NS = 60e9

/** lines live in the kernel: one world for all sources, another for each test */
const worlds = new WeakMap<GpioWorld, Map<string, Kept>>()

/** Of a pin that has the same name in the same source and does the same. */
export function keptOf(world: GpioWorld, source: string, name: string, use: string, spec: PinSpec): Kept {
  const pins = worlds.get(world) ?? new Map<string, Kept>()
  worlds.set(world, pins)
  const key = [source, name, use, pinText(spec)].join(' ')
  const before = pins.get(key)
  if (before && world.nowNs() - before.closedNs < RELOAD_NS) return before
  const kept: Kept = { count: 0, missed: 0, wanted: undefined, closedNs: Number.POSITIVE_INFINITY }
  pins.set(key, kept)
  return kept
}
