// Shared by the operations of the vectors: the library they use, bytes as hex text, numbers that JSON cannot represent, and
// the fixed clock.
import type { Engine, EngineOptions } from '../../../pipeline/compress'
import type { Fusion, FusionOptions } from '../../../pipeline/fuse'
import type { Standardizer } from '../../../pipeline/standardize'
import type { HandshakeManager } from '../../../protocol/handshake/manager'
import type { IdAllocator } from '../../../protocol/ids/allocator'
import type { decodeBase62, encodeBase62 } from '../../../wire/base62'
import type { deriveSessionKey, xorPayload } from '../../../wire/cipher'
import type { crc8, crc16, crcBits } from '../../../wire/crc'
import type { frameSerial, unframeSerial } from '../../../wire/serial'

/** The part of the library that the vectors test; passed in, so that it is the one under test. */
export interface Lib {
  readonly Engine: new (configPath: string | null, options: EngineOptions) => Engine
  readonly Fusion: new (configPath: string | null, options: FusionOptions) => Fusion
  readonly Standardizer: typeof Standardizer
  readonly HandshakeManager: typeof HandshakeManager
  readonly IdAllocator: typeof IdAllocator
  readonly crc8: typeof crc8
  readonly crc16: typeof crc16
  readonly crcBits: typeof crcBits
  readonly encodeBase62: typeof encodeBase62
  readonly decodeBase62: typeof decodeBase62
  readonly deriveSessionKey: typeof deriveSessionKey
  readonly xorPayload: typeof xorPayload
  readonly frameSerial: typeof frameSerial
  readonly unframeSerial: typeof unframeSerial
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
