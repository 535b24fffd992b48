// The newest acknowledged time of each content whose template was forgotten. An older FULL is no base for DIFFs: the
// next one would omit what changed in between. A sender whose clock was set back is trusted after a while.
import { LruMap } from '../lib/lru-map'

/** a min timestamp for every content of its AID: its contents were lost when it was evicted from the spill */
export const ANY_CONTENT = 0

/** contents of one AID whose newest time is remembered */
const MAX_MIN_TIMESTAMPS = 256

/** Newest time of a content that may have been acknowledged before its template was forgotten. */
interface MinTimestamp {
  ts: number
  lateRun: number
}

export type MinTimestamps = LruMap<number, MinTimestamp>

export const newMinTimestamps = (): MinTimestamps => new LruMap(MAX_MIN_TIMESTAMPS)

export function raiseMinTimestamp(minTimestamps: MinTimestamps, shape: number, ts: number): void {
  const minTimestamp = minTimestamps.get(shape)
  if (minTimestamp && minTimestamp.ts >= ts) return
  minTimestamps.set(shape, { ts, lateRun: 0 })
}

/** a sender whose clock was set back by more than this is trusted after this many late frames */
export const STEP_BACK_MS = 600_000
export const STEP_BACK_FRAMES = 8

/** Whether a time is older than an acknowledged one of that content; accepts a clock that was set back. */
export function isBelow(minTimestamps: MinTimestamps, content: number, ts: number): boolean {
  const minTimestamp = minTimestamps.get(content)
  if (!minTimestamp || ts >= minTimestamp.ts) return false
  minTimestamp.lateRun++
  if (minTimestamp.lateRun <= STEP_BACK_FRAMES || minTimestamp.ts - ts <= STEP_BACK_MS) return true
  minTimestamps.delete(content)
  return false
}

/**
 * True for a FULL of a run that may have newer packets acknowledged by a receiver that has forgotten them. Bare frames
 * (epoch -1) are never acknowledged.
 */
export function isStale(
  { source, epoch }: { source: { minTimestamps: MinTimestamps }; epoch: number },
  content: number,
  ts: number,
): boolean {
  if (epoch < 0) return false
  return isBelow(source.minTimestamps, content, ts) || isBelow(source.minTimestamps, ANY_CONTENT, ts)
}
