// Packets made together: a plan adds its frame, and all are taken together, in order. The pure core's batch writes each
// frame immediately; the native one (src/cores) lets WebAssembly make the bytes.
import { counted } from '../lib/counted'
import { OsError } from '../lib/errors'
import type { PacketPlan } from './plan'
import type { PacketSlab } from './slab'
import type { DiffPolicy } from './templates'

export interface FrameBatch {
  /** frames added and not taken yet */
  readonly count: number
  /**
   * Adds the frame of the plan's loaded numbers and times and records it in its template; returns its command byte.
   * Cannot fail.
   */
  add(plan: PacketPlan, full: boolean, policy: DiffPolicy, key: Uint8Array | null): number
  /** All frames; none of them is overwritten while it is reachable. */
  take(): Buffer[]
  /**
   * Writes all frames one after another to memory of the caller, from `at` on; returns the end, `ends` gets the end of
   * each. Throws PACKET_TOO_LARGE if they do not fit; then they stay in the batch.
   */
  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number
}

/** Copies finished frames to memory of the caller. */
export function copyFrames(
  frames: readonly Buffer[],
  out: Uint8Array,
  at: number,
  ends: Float64Array | Int32Array,
): number {
  let size = 0
  for (const frame of frames) size += frame.length
  if (out.length - at < size || ends.length < frames.length) throw tooLarge(size, frames.length)
  frames.forEach((frame, k) => {
    out.set(frame, at)
    at += frame.length
    ends[k] = at
  })
  return at
}

export const tooLarge = (size: number, count: number): OsError =>
  new OsError('PACKET_TOO_LARGE', `${counted(count, 'packet')} of together ${size} bytes do not fit`)

export class PureBatch implements FrameBatch {
  readonly #slab: PacketSlab
  #frames: Buffer[] = []

  constructor(slab: PacketSlab) {
    this.#slab = slab
  }

  get count(): number {
    return this.#frames.length
  }

  add(plan: PacketPlan, full: boolean, policy: DiffPolicy, key: Uint8Array | null): number {
    const at = this.#slab.reserve(plan.maxSize)
    const frame = this.#slab.take(at, plan.writeFrame(this.#slab.chunk, at, full, policy, key))
    this.#frames.push(frame)
    return frame[0]!
  }

  take(): Buffer[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }

  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number {
    const end = copyFrames(this.#frames, out, at, ends)
    this.#frames = []
    return end
  }
}
