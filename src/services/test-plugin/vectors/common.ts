// Shared by the operations of the vectors: the library they use, bytes as hex text, numbers that JSON cannot represent, and
// the fixed clock.
import type { Engine, EngineOptions } from '../../../pipeline/compress'
import type { Fusion, FusionOptions } from '../../../pipeline/fuse'
import type * as Program from '../program'

type Functions = 'encodeBase62' | 'decodeBase62' | 'deriveSessionKey' | 'xorPayload' | 'frameSerial' | 'unframeSerial'
type Parts = Functions | 'Standardizer' | 'HandshakeManager' | 'IdAllocator' | 'crc8' | 'crc16' | 'crcBits'

/** The part of the library that the vectors test; passed in, so that it is the one under test. */
export interface Lib extends Pick<typeof Program, Parts> {
  readonly Engine: new (configPath: string | null, options: EngineOptions) => Engine
  readonly Fusion: new (configPath: string | null, options: FusionOptions) => Fusion
}

// biome-ignore lint/suspicious/noExplicitAny: the vectors' inputs have no schema
export type Request = Record<string, any>
export type Answer = Record<string, unknown>
/** One operation: request → answer. `dir`: an empty folder. */
type Operation<L extends Lib = Lib> = (lib: L, request: Request, dir: string) => Answer
export type Ops<L extends Lib = Lib> = Record<string, Operation<L>>

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
export const bytes = (text: string): Buffer => Buffer.from(text, 'hex')

export const number = (value: unknown): unknown => {
  if (value === 'inf') return Number.POSITIVE_INFINITY
  if (value === '-inf') return Number.NEGATIVE_INFINITY
  return value === 'nan' ? Number.NaN : value
}

export const reported = (thrown: unknown): Answer => ({
  error: thrown instanceof Error ? thrown.message : String(thrown),
})

/** Fixed at `now` (UNIX seconds), else at the vectors' default time. */
export const clockAt = (now: unknown): { wall: () => number; mono: () => number } => {
  const seconds = typeof now === 'number' ? now : 1710000000
  return { wall: () => seconds * 1000, mono: () => 0 }
}
