// What a Node is given and what it gives back. Types only, beside the number that means "no id".
import type { ConfigStore } from '../config'
import type { Clock } from '../lib/clock'
import type { OsError } from '../lib/errors'
import type { FlashLog } from '../log'
import type { Reading } from '../pipeline/fact'

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

/** One request and its reply over UDP, handed in by main: node is on the same floor as the media. */
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

export interface CoreSettings {
  store: ConfigStore
  clock: Clock
}
