// Messages between main thread and SQL worker. Batches contain log records in their stored form, so that the worker decodes
// and hashes them; their buffers are transferred, not copied.
import type { ErrorCode } from '../lib/errors'
import type { ExportResult } from './export'
import type { WindowSettings } from './folder'
import type { IdWork } from './server/ids'
import type { HistoryQuery, PacketQuery, SensorQuery } from './shapes'
import type { ViewCounts } from './view'
import type { Summary } from './windowfile'

export interface WorkerSetup {
  /** sql.js, compiled */
  readonly wasm: Uint8Array
  /** limits of the open window */
  readonly maxPackets: number
  readonly maxBytes: number
  /** absent: only the open window */
  readonly windows?: WindowSettings
}

/** A sealed window of the log. */
export interface WindowNote extends Pick<Summary, 'from' | 'to' | 'witness' | 'packets' | 'duplicates'> {
  readonly name: string
}

export type Question =
  | { readonly name: 'devices'; readonly limit?: number; readonly offset?: number }
  | { readonly name: 'packets'; readonly query: PacketQuery }
  | { readonly name: 'packet'; readonly uuid: string }
  | { readonly name: 'sensors'; readonly query: SensorQuery }
  | { readonly name: 'history'; readonly query: HistoryQuery }

/** For the shared allocator, in a database of the dialect postgresql. */
export interface IdQuestion {
  readonly name: 'ids'
  readonly work: IdWork
}

export type ToWorker =
  /** the next records begin at `from`; `foreign`: names of files of another log */
  | { readonly type: 'begin'; readonly from: number; readonly foreign: readonly string[] }
  /** `upTo`: every record up to this seq was sent; the log begins at `logFirst` */
  | {
      readonly type: 'batch'
      readonly bytes: ArrayBuffer
      readonly length: number
      readonly upTo: number
      readonly logFirst: number
    }
  /** the records since `begin` form a separate window */
  | { readonly type: 'seal'; readonly upTo: number }
  | { readonly type: 'question'; readonly id: number; readonly question: Question | IdQuestion }

/** State of the worker, part of all its messages. */
export interface WorkerState {
  readonly counts: ViewCounts
  /** bytes of the thread */
  readonly heap: number
  /** a sealed window was lost, and the log may have its records */
  readonly hole: boolean
  /** the sealed windows, if they changed since the last message */
  readonly windows?: readonly WindowNote[]
}

export type FromWorker =
  /** `seq`: a database server has every record up to it; present if this log is the writer */
  | ({ readonly type: 'ready'; readonly windows: readonly WindowNote[]; readonly seq?: number } & WorkerState)
  /** of a database server: the worker ends */
  | { readonly type: 'down'; readonly code: ErrorCode; readonly message: string }
  /** returns the batch's buffer for reuse */
  | ({ readonly type: 'applied'; readonly upTo: number; readonly bytes?: ArrayBuffer } & WorkerState)
  | ({ readonly type: 'answer'; readonly id: number; readonly answer: unknown } & WorkerState)
  | ({ readonly type: 'failed'; readonly id: number; readonly code: string; readonly message: string } & WorkerState)

/** The worker of an export; reports its progress, and finally its result. */
export interface ExportSetup {
  readonly wasm: Uint8Array
  readonly exports: {
    /** the temporary name of the file */
    readonly part: string
    readonly csv: boolean
    /** true: values in display units */
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
