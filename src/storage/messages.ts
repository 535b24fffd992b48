// What main thread and SQL worker say to each other. Batches carry log records as they lie on the medium, so that decoding
// and hashing happen in the worker; their buffers are transferred, not copied.
import type { PacketQuery, SensorQuery } from './shapes'
import type { ViewCounts } from './view'

export interface WorkerSetup {
  readonly role: 'sql'
  readonly maxPackets: number
  readonly maxBytes: number
}

export type Question =
  | { readonly name: 'devices'; readonly limit?: number; readonly offset?: number }
  | { readonly name: 'packets'; readonly query: PacketQuery }
  | { readonly name: 'packet'; readonly uuid: string }
  | { readonly name: 'sensors'; readonly query: SensorQuery }

export type ToWorker =
  /** `upTo`: every record up to this seq has been handed over */
  | { readonly type: 'batch'; readonly bytes: ArrayBuffer; readonly length: number; readonly upTo: number }
  | { readonly type: 'question'; readonly id: number; readonly question: Question }

export type FromWorker =
  | { readonly type: 'ready' }
  /** the batch's buffer comes back to be filled again */
  | { readonly type: 'applied'; readonly upTo: number; readonly counts: ViewCounts; readonly bytes: ArrayBuffer }
  | { readonly type: 'answer'; readonly id: number; readonly answer: unknown }
  | { readonly type: 'failed'; readonly id: number; readonly code: string; readonly message: string }
