// What the two cores have in common. A core turns readings into finished packets; pycore is our TypeScript, with rscore the bytes
// of a batch are made by WebAssembly. Both give identical bytes for every input (D12).
import type { Engine } from './compress'
import type { Reading } from './fact'
import type { Fusion } from './fuse'

export type Strategy = 'FULL' | 'DIFF'

/** A row that was not sent, and why (D3). */
export interface RejectedRow {
  readonly index: number
  readonly code: 'BAD_READING' | 'BAD_ID' | 'UNKNOWN_UNIT' | 'E_PRECISION' | 'PACKET_TOO_LARGE'
  readonly reason: string
}

/** X4: the name of the packet that went out. */
export const strategyName = (cmd: number): 'FULL_PACKET' | 'DIFF_PACKET' =>
  cmd === 0x3f || cmd === 0x40 ? 'FULL_PACKET' : 'DIFF_PACKET'

/** A caller's `t` as milliseconds: below 1e11 it is seconds. */
export const toMillis = (t: number): number => (t < 1e11 ? Math.trunc(t * 1000) : Math.trunc(t))

export interface Core {
  readonly name: 'pycore' | 'rscore'
  readonly engine: Engine
  readonly fusion: Fusion
  /** the rows the last call left out; empty when all went */
  readonly lastRejected: readonly RejectedRow[]
  /**
   * Readings → one finished packet that is never overwritten while it is reachable (D12). `tMs` goes on the wire as it
   * is. `strategy` as the strategist decides; FULL forces a full packet. Throws ALL_READINGS_REFUSED, BAD_ID, BAD_TIME.
   */
  transmitFast(
    readings: readonly Reading[],
    deviceId: string,
    state: string,
    tMs: number,
    aid: number,
    strategy: Strategy,
  ): Buffer
  /** The same into memory the caller owns; returns the end. Throws PACKET_TOO_LARGE when it does not fit. */
  encodeInto(
    out: Uint8Array,
    at: number,
    readings: readonly Reading[],
    deviceId: string,
    state: string,
    tMs: number,
    aid: number,
    strategy: Strategy,
  ): number
  /**
   * The packet as transmitFast makes it, in two steps: it counts as made now, its bytes come with take(). Returns its command
   * byte. Throws as transmitFast does, and then nothing was put in.
   */
  stage(
    readings: readonly Reading[],
    deviceId: string,
    state: string,
    tMs: number,
    aid: number,
    strategy: Strategy,
  ): number
  /** packets staged and not taken */
  readonly staged: number
  /** All staged packets in order; none is overwritten while it is reachable. */
  take(): Buffer[]
  /** The same one after another into memory the caller owns; returns the end, `ends` gets the end of each. Throws PACKET_TOO_LARGE. */
  takeInto(out: Uint8Array, at: number, ends: Float64Array | Int32Array): number
}
