// The library for the vectors: the classes passed in, and the functions of the lower rooms.
import {
  crc8,
  crc16,
  crcBits,
  decodeBase62,
  deriveSessionKey,
  encodeBase62,
  frameSerial,
  HandshakeManager,
  IdAllocator,
  Standardizer,
  unframeSerial,
  xorPayload,
} from './program'
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
