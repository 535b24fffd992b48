// Everything the self-test uses of the program. In dist/os-node-selftest.js the build replaces this module with the running
// program's own exports, so that no part of the gateway is loaded twice. No other module of this folder imports values from
// outside of it; the build checks this.

export { coreProblem, createNativeChecks, createNativeCore } from '../../cores'
export { counted } from '../../lib/counted'
export { asOsError, OsError } from '../../lib/errors'
export { progressBar } from '../../lib/progress'
export { exportFacts, FlashLog, verify } from '../../log'
export { createPureCore } from '../../pipeline/pycore'
export { Receiver } from '../../pipeline/receiver'
export { Standardizer } from '../../pipeline/standardize'
export { HandshakeManager } from '../../protocol/handshake/manager'
export { IdAllocator } from '../../protocol/ids/allocator'
export { Database } from '../../storage'
export { resolve, resolveList } from '../../units/canonical'
export { wireUnits } from '../../units/wire'
export { decodeBase62, encodeBase62 } from '../../wire/base62'
export { deriveSessionKey, xorPayload } from '../../wire/cipher'
export { crc8, crc16, crc32c, crcBits } from '../../wire/crc'
export { readHeader, readU32, sealFrame, writeHeader } from '../../wire/frame'
export { frameSerial, unframeSerial } from '../../wire/serial'
