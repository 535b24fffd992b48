// Packets of which several are made before any is taken: a plan puts its frame in, and all come out together, in order. The pure
// core's batch writes each frame at once; the native one (src/cores) leaves the bytes to WebAssembly.
import { counted } from '../lib/counted'
import { OsError } from '../lib/errors'
import type { PacketPlan } from './plan'
import type { PacketSlab } from './slab'
import type { DiffPolicy } from './templates'

export interface FrameBatch {
  /** frames put in and not taken yet */
  readonly count: number
  /** The frame of the plan's loaded numbers and times, booked in its template; returns its command byte. Cannot fail. */
  add(plan: PacketPlan, full: boolean, policy: DiffPolicy, key: Uint8Array | null): number
  /** All frames; none of them is overwritten while it is reachable. */
  take(): Buffer[]
  /**
   * All frames one after another into memory the caller owns, from `at` on; returns the end, `ends` gets the end of each. Throws
   * PACKET_TOO_LARGE when they do not fit, and they stay.
   */
  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number
}

/** Frames that are finished already, into memory of the caller. */
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
