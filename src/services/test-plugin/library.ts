// The library as the vectors see it: the classes that were handed in, and the functions of the lower rooms.
import { Standardizer } from '../../pipeline/standardize'
import { HandshakeManager } from '../../protocol/handshake/manager'
import { IdAllocator } from '../../protocol/ids/allocator'
import { decodeBase62, encodeBase62 } from '../../wire/base62'
import { deriveSessionKey, xorPayload } from '../../wire/cipher'
import { crc8, crc16, crcBits } from '../../wire/crc'
import { frameSerial, unframeSerial } from '../../wire/serial'
import type { Lib } from './vectors/common'

export const libraryOf = ({ Engine, Fusion }: Pick<Lib, 'Engine' | 'Fusion'>): Lib => ({
  Engine,
  Fusion,
  Standardizer,
  HandshakeManager,
  IdAllocator,
  crc8,
  crc16,
  crcBits,
  encodeBase62,
  decodeBase62,
  deriveSessionKey,
  xorPayload,
  frameSerial,
  unframeSerial,
})
