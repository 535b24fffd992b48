// What the two cores have in common, and what they are given. A core turns readings into finished packets and packets
// into facts; pycore is our TypeScript, rscore the WebAssembly one. Both give identical bytes for every input (D12).
import type { Engine } from './compress'
import type { Reading } from './fact'
import type { Fusion } from './fuse'

/** How the words for units on the wire are made and read in dialect `ucum` (X1). Implemented in units/. */
export interface WireUnits {
  /** canonical or prefixed UCUM unit → what stands in the text */
  toToken(unit: string): string
  /** token of any peer → canonical unit; canonical value = wire value × factor + offset */
  fromToken(token: string): { unit: string; factor: number; offset: number; ambiguous: boolean }
  /** the same for a template of C firmware, whose units are plain UCUM: `A` is ampere there, not the class temperature */
  fromPlain(token: string): ReturnType<WireUnits['fromToken']>
  /** SI-prefixed spellings of a canonical unit; 1 `code` = `scale` canonical units (`mA` → 0.001). Empty where none fit. */
  prefixed(unit: string): readonly { code: string; scale: number }[]
}

/** Any UCUM expression or everyday spelling → canonical unit; canonical value = value × factor + offset. */
export interface UnitResolver {
  resolve(unit: string): { canonical: string; factor: number; offset: number } | null
  /** a reading may name its unit as a list; without this such rows are refused */
  resolveList?(units: readonly string[]): { canonical: string; factor: number; offset: number } | null
}

/** The law of a reading's unit, in text or as a list. */
export function resolveUnit(resolver: UnitResolver, unit: unknown): ReturnType<UnitResolver['resolve']> {
  if (typeof unit === 'string') return resolver.resolve(unit)
  const list = Array.isArray(unit) && unit.length > 0 && unit.every(part => typeof part === 'string')
  return list ? (resolver.resolveList?.(unit as string[]) ?? null) : null
}

export type UnitDialect = 'ucum' | 'attribute'
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
}
