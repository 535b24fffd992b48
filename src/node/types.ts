// What a Node is given and what it gives back. Types only, beside the number that means "no id".
import type { ConfigStore, Fragment } from '../config'
import type { Clock } from '../lib/clock'
import type { OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { Registry } from '../links/registry'
import type { FlashLog } from '../log'
import type { Core } from '../pipeline/core'
import type { Reading } from '../pipeline/fact'
import type { IdAllocator } from '../protocol/ids/allocator'
import type { DatabaseManager } from '../storage'
import type { NodeBase } from './node'
import type { ServiceManager } from './services'

export type TransmitResult = readonly [
  binary_packet: Buffer,
  assigned_id: number,
  strategy: 'FULL_PACKET' | 'DIFF_PACKET',
]

/** 4294967295 means that no server has given an id yet. */
export const UNASSIGNED_ID = 4294967295

export interface TransmitOptions {
  /** UNIX seconds; from 1e11 on milliseconds. Left out: now, in milliseconds on the wire (D18) */
  t?: number
  /** sends a zero time, which the receiver replaces by its own */
  no_timestamp?: boolean
  /** free parts of a packet, sent with the readings */
  geohash?: string
  url?: string
  msg?: string
}

export interface BatchItem extends TransmitOptions {
  sensors: readonly Reading[]
  device_id?: string
  device_status?: string
}

/** One request and its reply over UDP, handed in by main: node stands on the same floor as the media. */
export type UdpRequest = (
  host: string,
  port: number,
  packet: Uint8Array,
  timeoutMs: number,
  accept?: (reply: Uint8Array) => boolean,
  onFailure?: (error: OsError) => void,
) => Promise<Uint8Array | null>

/** Where a node writes what it transmits. */
export type NodeLog = Pick<FlashLog, 'appendFact'>

export interface NodeParts {
  registry: Registry
  request: UdpRequest
  createCore: (settings: CoreSettings) => Core
  /** what the configuration may say of the media and of plugins */
  fragments?: () => readonly Fragment[]
  /** the service manager of a node that is given none */
  services?: (node: NodeBase) => ServiceManager
  /** its database manager, null where the configuration has none; `log`: where the node writes */
  database?: (node: NodeBase, log: NodeLog | undefined) => DatabaseManager | null
}

export interface CoreSettings {
  store: ConfigStore
  clock: Clock
}

export interface NodeOptions extends Partial<NodeParts> {
  /** an opened configuration instead of a path */
  config?: ConfigStore
  clock?: Clock
  logger?: Logger
  log?: NodeLog
  /** left out: one of its own, kept in data/id_allocation.json beside the configuration; null: hands out no ids */
  idAllocator?: IdAllocator | null
  /** file of peers' secure sessions; left out: as the configuration says; null: secure sessions stay in memory */
  secureStorePath?: string | null
  serviceManager?: ServiceManager
  /** left out: one over the log of the node, or over the files of its data directory */
  dbManager?: DatabaseManager | null
}
