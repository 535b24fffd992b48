// Parameters of the handshake manager, and the parts of a decoded packet it reads. Types only.
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
  /** folder of the template registry; if it contains a file of an AID, its first packet may be a DIFF */
  registryDir?: string | null
  /** lifetime of unused sessions and sync entries */
  expireSeconds?: number
  /** file of the secure sessions; null: in memory only. Not opened with `strict`, whose sessions have their own files */
  secureStorePath?: string | null
}

/** The parts of a decoded packet that the manager reads. */
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
  /** `key`: the key to decrypt with; absent: the keys of the parser */
  decompress(raw: Uint8Array, key?: Uint8Array): DecodedData
}

/**
 * The strict behaviour of Node and gateway (X7, X9, X11, S13). If set, secure control packets and data packets are handled by
 * these sessions, and no received packet changes the manager's own sessions; if one is absent, its packets are ignored.
 * Without it the manager is the component of the vectors, which trusts every packet.
 */
export interface StrictSecurity {
  client?: SecureClient | null
  /** with several servers: the session for packets of that address; null or absent: `client` */
  clientOf?: (addr: unknown) => SecureClient | null
  server?: SecureServer | null
  /** whether a packet from that address may be the server's; others change nothing. Absent: every address is trusted */
  trusts?: (addr: unknown) => boolean
  /** NEED_FULL or BAD_KEY about a frame of ours; checks address and frame (SentFrames) and returns whether it was accepted */
  onRefused?: (refused: RefusedFrame, addr: unknown) => boolean
}

export interface HandshakeDeps {
  clock?: Clock
  /** the time this node sends to others, UNIX seconds */
  serverTime?: () => number
  allocator?: IdSource | SharedIdSource | null
  parser?: DataParser | null
  /** instead of sessions created from the options */
  sessions?: SecureSessions
  strict?: StrictSecurity | null
  role?: DeviceRole
  /** shared with all senders of requests (the delivery probes) */
  sequence?: SequenceCounter
  /** server times up to this are invalid, seconds; no key is derived from a timestamp up to this */
  timeSyncThreshold?: number
  /** decision 0018: ID_ASSIGN, ID_POOL_RES and TIME_RESPONSE only count with the seq of an open request */
  requireOpenRequest?: boolean
  /** called with an accepted server time: UNIX seconds, and the round trip of the answer */
  onServerTime?: (seconds: number, rttMs: number) => void
  /** called with a problem of the session file */
  onProblem?: (problem: string) => void
  files?: Files
  /**
   * the device's name, for requests without a name in their metadata (X39); default: a name for the lifetime of the manager
   */
  deviceId?: () => string
  sleep?: (ms: number) => Promise<void>
}
