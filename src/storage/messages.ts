// What main thread and SQL worker say to each other. Batches carry log records as they lie on the medium, so that decoding
// and hashing happen in the worker; their buffers are transferred, not copied.
import type { ErrorCode } from '../lib/errors'
import type { ExportResult } from './export'
import type { IdWork } from './server/ids'
import type { HistoryQuery, PacketQuery, SensorQuery } from './shapes'
import type { ViewCounts } from './view'
import type { Summary } from './windowfile'

/** The sealed windows. */
export interface WindowSettings {
  readonly dir: string
  /** another process writes them */
  readonly readOnly: boolean
  /** bounds of all files together, for those whose records the log no longer has; 0 or left out: none */
  readonly keepBytes?: number
  readonly keepMs?: number
}

export interface WorkerSetup {
  /** sql.js, compiled */
  readonly wasm: Uint8Array
  /** bounds of the open window */
  readonly maxPackets: number
  readonly maxBytes: number
  /** left out: the open window only */
  readonly windows?: WindowSettings
}

/** A sealed window of the log. */
export interface WindowNote extends Pick<Summary, 'from' | 'to' | 'witness'> {
  readonly name: string
}

export type Question =
  | { readonly name: 'devices'; readonly limit?: number; readonly offset?: number }
  | { readonly name: 'packets'; readonly query: PacketQuery }
  | { readonly name: 'packet'; readonly uuid: string }
  | { readonly name: 'sensors'; readonly query: SensorQuery }
  | { readonly name: 'history'; readonly query: HistoryQuery }

/** To the allocator that receivers share, in a database of the dialect postgresql. */
export interface IdQuestion {
  readonly name: 'ids'
  readonly work: IdWork
}

export type ToWorker =
  /** the records that come now begin at `from`; files named are of another log */
  | { readonly type: 'begin'; readonly from: number; readonly foreign: readonly string[] }
  /** `upTo`: every record up to this seq has been handed over; the log begins at `logFirst` */
  | {
      readonly type: 'batch'
      readonly bytes: ArrayBuffer
      readonly length: number
      readonly upTo: number
      readonly logFirst: number
    }
  /** what came since `begin` is a window of its own */
  | { readonly type: 'seal'; readonly upTo: number }
  | { readonly type: 'question'; readonly id: number; readonly question: Question | IdQuestion }

/** How the worker is, with everything it says. */
export interface WorkerState {
  readonly counts: ViewCounts
  /** bytes of the thread */
  readonly heap: number
  /** a sealed window was lost, and the log may have what was in it */
  readonly hole: boolean
}

export type FromWorker =
  /** `seq`: a database server has every record up to it; it is written by this log */
  | ({ readonly type: 'ready'; readonly windows: readonly WindowNote[]; readonly seq?: number } & WorkerState)
  /** of a database server: the worker ends */
  | { readonly type: 'down'; readonly code: ErrorCode; readonly message: string }
  /** the batch's buffer comes back to be filled again */
  | ({ readonly type: 'applied'; readonly upTo: number; readonly bytes?: ArrayBuffer } & WorkerState)
  | ({ readonly type: 'answer'; readonly id: number; readonly answer: unknown } & WorkerState)
  | ({ readonly type: 'failed'; readonly id: number; readonly code: string; readonly message: string } & WorkerState)

/** The worker of an export; it says how far it is, and then once what came of it. */
export interface ExportSetup {
  readonly wasm: Uint8Array
  readonly exports: {
    /** the file, by the name it has until it is whole */
    readonly part: string
    readonly csv: boolean
    /** true: values in the units for people */
    readonly display: boolean
    readonly dataDir: string
    /** folder of the sealed windows */
    readonly windows?: string
  }
}

export type FromExport =
  | { readonly done: number; readonly of: number }
  | { readonly result: ExportResult }
  | { readonly failed: { readonly code: ErrorCode; readonly message: string; readonly hint: string } }
