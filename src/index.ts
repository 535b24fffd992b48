export { OsError } from './lib/errors'

// wire and pipeline
export { Engine, type EngineOptions } from './pipeline/compress'
export type { Core, RejectedRow, Strategy, UnitDialect, UnitResolver, WireUnits } from './pipeline/core'
export type { Fact, FactDict, Reading, SensorFact } from './pipeline/fact'
export { type DecodedPacket, Fusion, type FusionOptions, type SessionKeys } from './pipeline/fuse'
export type { PacketMeta } from './pipeline/receive'
export { decodeBase62, encodeBase62 } from './wire/base62'
export { deriveSessionKey, xorPayload } from './wire/cipher'
export { COMMAND } from './wire/commands'
export { crc8, crc16, crc32c, crcBits } from './wire/crc'
export { frameSerial, unframeSerial } from './wire/serial'
