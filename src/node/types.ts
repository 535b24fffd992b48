// Parameters and results of a Node. Types only, and the number for "no id".
import type { ConfigStore } from '../config'
import type { Clock } from '../lib/clock'
import type { OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { FlashLog } from '../log'
import type { Reading } from '../pipeline/fact'

export type TransmitResult = readonly [
  binary_packet: Buffer,
  assigned_id: number,
  strategy: 'FULL_PACKET' | 'DIFF_PACKET',
]

export interface TransmitOptions {
  /** UNIX seconds; from 1e11 on milliseconds. Left out: now, in milliseconds on the wire (decision 0044) */
  t?: number
  /** sends a zero time, which the receiver replaces with its own */
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

/** One call of transmit; `tMs` is its time on the wire. */
export interface BatchCall {
  readonly sensors: readonly Reading[]
  readonly device: string
  readonly status: string
  readonly options: TransmitOptions
  readonly aid: number
  readonly tMs: number
}

/** One request and its reply over UDP, passed in by main: node is on the same floor as the media. */
export type UdpRequest = (
  host: string,
  port: number,
  packet: Uint8Array,
  timeoutMs: number,
  accept?: (reply: Uint8Array) => boolean,
  onFailure?: (error: OsError) => void,
) => Promise<Uint8Array | null>

/** The log to which a node writes what it transmits. */
export type NodeLog = Pick<FlashLog, 'appendFact'>

/** The specification's values; `ffi`, a send that bypasses the drivers, does not occur here. */
export type DispatchPath = 'ffi' | 'driver' | 'none'

/** Of the last batch of a node on the native core. */
export interface BatchMetrics {
  /** packets in it */
  readonly count: number
  /** `plan`: finding the changes and units; `encode`: the bytes */
  readonly stage_timing_ms: Record<string, number>
}

export interface CoreSettings {
  store: ConfigStore
  clock: Clock
  /** gets a warning if the configured core cannot run here; null: the process warns */
  logger: Logger | null
}
