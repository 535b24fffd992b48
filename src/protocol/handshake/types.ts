// Parameters of the handshake manager, and what it reads of a decoded packet. Types only.
import type { Clock } from '../../lib/clock'
import type { Files } from '../../lib/files'
import type { SequenceCounter } from '../control'
import type { IdSource, SharedIdSource } from '../ids/service'
import type { RefusedFrame } from '../nack'
import type { SecureClient } from '../secure/client'
import type { SecureServer } from '../secure/server'
import type { SecureSessions } from '../secure/sessions'
import type { DeviceRole } from './roles'

/** The constructor parameters of the specification. */
export interface HandshakeOptions {
  targetSyncCount?: number
  /** folder of the template registry; a file of an AID there lets its first packet be a DIFF */
  registryDir?: string | null
  /** life of sessions and sync entries that are not used */
  expireSeconds?: number
  /** file of the secure sessions; null: in memory only. Not opened with `strict`, whose halves have their own */
  secureStorePath?: string | null
}

/** What it reads of a decoded packet. */
interface DataMeta {
  source_aid?: number | null
  base_cmd?: number | null
  secure?: boolean | null
  crc16_ok?: boolean | null
  crc8_ok?: boolean | null
  server_stamped?: boolean | null
  timestamp_raw?: number | null
}

export type DecodedData = Record<string, unknown> & { error?: unknown; __packet_meta__?: DataMeta }

/** Decodes data packets: the fact dict with `__packet_meta__`, or `{error, __packet_meta__}`. */
export interface DataParser {
  /** `key`: decipher with this one; absent: with what the parser knows itself */
  decompress(raw: Uint8Array, key?: Uint8Array): DecodedData
}

/**
 * The strict behaviour of Node and gateway (X7, X9, X11, S13). When it is set, secure control packets and data
 * packets go to these halves and the manager's own sessions are not moved by anything received; a half that is absent
 * takes nothing. Without it the manager is the component of the vectors, which believes every packet.
 */
export interface StrictSecurity {
  client?: SecureClient | null
  /** the half that packets of that address are about, where there are several servers; null or absent: `client` */
  clientOf?: (addr: unknown) => SecureClient | null
  server?: SecureServer | null
  /** whether a packet from there may be the server's; one that may not moves nothing. Absent: every address may */
  trusts?: (addr: unknown) => boolean
  /**
   * NEED_FULL or BAD_KEY about a frame of ours; checks address and frame (SentFrames) and says whether it was obeyed
   */
  onRefused?: (refused: RefusedFrame, addr: unknown) => boolean
}

export interface HandshakeDeps {
  clock?: Clock
  /** what this node tells others as the time, UNIX seconds */
  serverTime?: () => number
  allocator?: IdSource | SharedIdSource | null
  parser?: DataParser | null
  /** in place of sessions made from the options */
  sessions?: SecureSessions
  strict?: StrictSecurity | null
  role?: DeviceRole
  /** shared with everything that sends requests (the delivery probes) */
  sequence?: SequenceCounter
  /** server times at or below are no times, seconds; no key is derived from a timestamp at or below */
  timeSyncThreshold?: number
  /** D16: ID_ASSIGN, ID_POOL_RES and TIME_RESPONSE only count with the seq of an open request */
  requireOpenRequest?: boolean
  /** called with a server time that counts: UNIX seconds, and how long the answer took */
  onServerTime?: (seconds: number, rttMs: number) => void
  /** called with what is wrong with the session file */
  onProblem?: (problem: string) => void
  files?: Files
  /** the device's name, for requests whose metadata has none (X39); left out: one for the life of the manager */
  deviceId?: () => string
  sleep?: (ms: number) => Promise<void>
}
