// The library's exports of parts that the gateway uses on its hot paths: the same parts, plus a check of the arguments.
// Methods that run for each packet (encode, receive, keys) are not checked here either.
import { createNativeCore as createNative } from './cores'
import * as display from './display'
import { checkArgument, checkFunctions, checkMethods, checkNames, namesOf } from './lib/checked'
import { FlashLog } from './log'
import { createPureCore as create, type PureCoreOptions } from './pipeline/pycore'
import { Receiver as BareReceiver, type ReceiverOptions } from './pipeline/receiver'
import { UplinkEncoder as BareEncoder, type UplinkEncoderOptions } from './pipeline/sender'
import { SecureClient as BareClient, type SecureClientOptions } from './protocol/secure/client'
import { SecureServer as BareServer, type SecureServerOptions } from './protocol/secure/server'
import { SecureSessions as BareSessions, type SecureSessionsOptions } from './protocol/secure/sessions'
import * as services from './services'
import * as base62 from './wire/base62'
import * as cipher from './wire/cipher'
import * as crc from './wire/crc'
import * as serial from './wire/serial'

const RANGE = 'bytes bytes, start number~, end number~, seed number~'
export const { crc8, crc16, crc32c, crcBits } = checkFunctions({
  crc8: [crc.crc8, RANGE],
  crc16: [crc.crc16, RANGE],
  crc32c: [crc.crc32c, RANGE],
  crcBits: [crc.crcBits, 'width number, polynomial number, init number, bytes bytes'],
})
export const { encodeBase62, decodeBase62 } = checkFunctions({
  encodeBase62: [base62.encodeBase62, 'value numeric, usePrecision boolean~, precision number~'],
  decodeBase62: [base62.decodeBase62, 'text text, usePrecision boolean~, precision number~'],
})
export const { deriveSessionKey, xorPayload } = checkFunctions({
  deriveSessionKey: [cipher.deriveSessionKey, 'aid whole?, timestamp whole?'],
  xorPayload: [cipher.xorPayload, 'payload bytes, key bytes, offset number'],
})
export const { frameSerial, unframeSerial } = checkFunctions({
  frameSerial: [serial.frameSerial, 'packet bytes, framing text'],
  unframeSerial: [serial.unframeSerial, 'frame bytes, framing text'],
})
export const { normalizePluginName, ensurePluginDefaults, syncAllPluginDefaults, ensureAndMountPlugin } =
  checkFunctions({
    normalizePluginName: [services.normalizePluginName, 'name text'],
    ensurePluginDefaults: [services.ensurePluginDefaults, 'config object, pluginName text, own object~'],
    syncAllPluginDefaults: [services.syncAllPluginDefaults, 'config object'],
    ensureAndMountPlugin: [services.ensureAndMountPlugin, 'node node, pluginName text, load boolean~, mode text~'],
  })
export const { registerDisplayProvider, unregisterDisplayProvider, renderSection, collectAllSections } = checkFunctions(
  {
    registerDisplayProvider: [display.registerDisplayProvider, 'provider object'],
    unregisterDisplayProvider: [display.unregisterDisplayProvider, 'pluginName text, sectionId text'],
    renderSection: [display.renderSection, 'name text, format text~'],
    collectAllSections: [display.collectAllSections, 'format text~'],
  },
)

const CORE = namesOf<PureCoreOptions>()(
  'precision unitDialect units clock engine localId registryDir files keys policy maxTid maxBytes resolver fusion',
  'sensorIds',
)
const CLIENT = namesOf<SecureClientOptions>()('sessions clock requireSecure otherServers maxSources')
const SERVER = namesOf<SecureServerOptions>()(
  'sessions clock serverTime requireSecure rekeyAfterS plaintextAfterSecure onRekey maxSources',
)
const SESSIONS = namesOf<SecureSessionsOptions>()(
  'expireSeconds storePath peer timeSyncThreshold now mono files timers onProblem maxSessions',
)
const RECEIVER = namesOf<ReceiverOptions>()(
  'precision dialect units engine clock files registryDir inboundKey maxSources stamp latest maxBytes spillDir',
  'spillBytes checks',
)
const ENCODER = namesOf<UplinkEncoderOptions>()(
  'aid diffBase frames fullEvery fullIntervalS acknowledged precision dialect units engine slab firstTid clock',
)

/** Makes the core of this build. */
export function createPureCore(options: PureCoreOptions): ReturnType<typeof create> {
  checkArgument('createPureCore', 'options object', options)
  checkNames('createPureCore', options, CORE)
  return create(options)
}

/** The native core, null without WebAssembly; it makes the same packets. */
export function createNativeCore(options: PureCoreOptions): ReturnType<typeof createNative> {
  checkArgument('createNativeCore', 'options object', options)
  checkNames('createNativeCore', options, CORE)
  return createNative(options)
}

export class SecureClient extends BareClient {
  constructor(options: SecureClientOptions = {}) {
    checkNames('new SecureClient', options, CLIENT)
    super(options)
  }
}
export class SecureServer extends BareServer {
  constructor(options: SecureServerOptions = {}) {
    checkNames('new SecureServer', options, SERVER)
    super(options)
  }
}
export class SecureSessions extends BareSessions {
  constructor(options: SecureSessionsOptions = {}) {
    checkNames('new SecureSessions', options, SESSIONS)
    super(options)
  }
}
export class Receiver extends BareReceiver {
  constructor(options: ReceiverOptions = {}) {
    checkNames('new Receiver', options, RECEIVER)
    super(options)
  }
}
export class UplinkEncoder extends BareEncoder {
  constructor(options: UplinkEncoderOptions) {
    checkArgument('new UplinkEncoder', 'options object', options)
    checkNames('new UplinkEncoder', options, ENCODER)
    super(options)
  }
}

checkMethods({ prototype: FlashLog }, 'FlashLog', { open: 'options object' })
checkMethods(SecureClient, 'SecureClient', {
  usePeer: 'peer text',
  plaintextSent: 'aid number, timestampRaw number',
  onDictReady: 'aid number, timestampRaw number?',
  onChannelAck: 'aid number',
  onBadKey: 'refused object',
  onPlaintextRefused: 'refused object',
  keyRequestDue: 'aid number, nowMono number',
})
checkMethods(SecureServer, 'SecureServer', {
  onSecure: 'aid number, key bytes',
  onPlaintext: 'aid number, timestampRaw number',
  refusesPlaintext: 'sensors number',
  hears: 'address text',
  takesPlaintext: 'aid number, address text',
  isHome: 'aid number, address text',
  alive: 'aid number, address text',
  forget: 'aid number',
  refuse: 'frame refused',
})
checkMethods(SecureSessions, 'SecureSessions', {
  usePeer: 'peer text',
  noteLocalPlaintextSent: 'aid number, timestampRaw number',
  establishRemotePlaintext: 'aid number, timestampRaw number',
  confirmSecureDict: 'aid number, timestampRaw number?',
  markSecureChannel: 'aid number',
  keyOn: 'aid number, timestampRaw number',
})
