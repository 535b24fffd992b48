// What the operations of the vectors' adapter share: bytes as hex text, numbers JSON cannot hold, the clock that stands.
import type * as Library from '../../../src/index'

export type Lib = typeof Library
// biome-ignore lint/suspicious/noExplicitAny: the vectors' inputs have no schema
export type Request = Record<string, any>
export type Answer = Record<string, unknown>
export type Ops = Record<string, (lib: Lib, request: Request, dir: string) => Answer>

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
export const bytes = (text: string): Buffer => Buffer.from(text, 'hex')

export const number = (value: unknown): unknown => {
  if (value === 'inf') return Number.POSITIVE_INFINITY
  if (value === '-inf') return Number.NEGATIVE_INFINITY
  return value === 'nan' ? Number.NaN : value
}

export const told = (thrown: unknown): Answer => ({ error: thrown instanceof Error ? thrown.message : String(thrown) })

/** Stands at `now` (UNIX seconds), else where the vectors' clock stands. */
export const clockAt = (now: unknown): { wall: () => number; mono: () => number } => {
  const seconds = typeof now === 'number' ? now : 1710000000
  return { wall: () => seconds * 1000, mono: () => 0 }
}
