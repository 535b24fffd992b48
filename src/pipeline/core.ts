// Shared by the two cores. A core turns readings into finished packets; pycore is TypeScript, with rscore WebAssembly
// makes the bytes of a batch. Both give identical bytes for every input (decision 0064).
import type { Engine } from './compress'
import type { Reading } from './fact'
import type { Fusion } from './fuse'

export type Strategy = 'FULL' | 'DIFF'

/** A row that was not sent, with the reason (decision 0006). */
export interface RejectedRow {
  readonly index: number
  readonly code: 'BAD_READING' | 'BAD_ID' | 'UNKNOWN_UNIT' | 'E_PRECISION' | 'PACKET_TOO_LARGE'
  readonly reason: string
}

/** X4: the name of the packet that was sent. */
export const strategyName = (cmd: number): 'FULL_PACKET' | 'DIFF_PACKET' =>
  cmd === 0x3f || cmd === 0x40 ? 'FULL_PACKET' : 'DIFF_PACKET'

/** A caller's `t` as milliseconds: values below 1e11 are seconds. */
export const toMillis = (t: number): number => (t < 1e11 ? Math.trunc(t * 1000) : Math.trunc(t))

/** What one packet is made of. `tMs` is written unchanged; `strategy` as the strategist decides, FULL forces a full packet. */
type PacketInput = [
  readings: readonly Reading[],
  deviceId: string,
  state: string,
  tMs: number,
  aid: number,
  strategy: Strategy,
]

export interface Core {
  readonly name: 'pycore' | 'rscore'
  readonly engine: Engine
  readonly fusion: Fusion
  /** rows refused by the last call; empty if all were sent */
  readonly lastRejected: readonly RejectedRow[]
  /**
   * Readings → one finished packet that is never overwritten while it is reachable (decision 0064). Throws ALL_READINGS_REFUSED,
   * BAD_ID, BAD_TIME.
   */
  transmitFast(...input: PacketInput): Buffer
  /** The same to memory of the caller; returns the end. Throws PACKET_TOO_LARGE if it does not fit. */
  encodeInto(out: Uint8Array, at: number, ...input: PacketInput): number
  /**
   * The packet of transmitFast in two steps: it counts as made now, take() returns its bytes. Returns its command byte.
   * Throws like transmitFast, and then nothing was added.
   */
  stage(...input: PacketInput): number
  /** packets staged and not taken */
  readonly staged: number
  /** All staged packets in order; none is overwritten while it is reachable. */
  take(): Buffer[]
  /**
   * The same one after another to memory of the caller; returns the end, `ends` gets the end of each. Throws
   * PACKET_TOO_LARGE.
   */
  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number
}
