// The log record in memory. format.ts defines its bytes; encode.ts writes them, decode.ts reads them.
import type { Fact, LinkMetadata } from '../pipeline/fact'

/** How reliable a time is; `unknown` is the time of another machine, taken unchanged (decision 0044). */
export type RecordTimeQuality = 'unknown' | 'unsynced' | 'synced'

export type RecordKind = 'fact' | 'boot' | 'clock' | 'cursor' | 'loss' | 'packet'

/**
 * Why records no longer exist. `dropped`: by the limits; `overflow`: RAM was full while the disk refused; `damaged`: the
 * medium returned other bytes; `torn`: a write interrupted by a power loss before it was committed.
 */
export type LossReason = 'damaged' | 'torn' | 'dropped' | 'overflow'

/**
 * Every seq from `from` to `to`, inclusive. `records`: how many of them are known to have been facts (or records, if the
 * bytes are unreadable).
 */
export interface LossRange {
  readonly reason: LossReason
  readonly from: number
  readonly to: number
  readonly records: number
}

export type LossTotals = Record<LossReason, number>

/**
 * The node's time moved, or a time source confirmed it. Earlier facts of this boot with quality `unsynced` are off by
 * `offsetMs`. If this record's quality is `synced`, their times are correct with that, otherwise a later clock record
 * corrects them further.
 */
export interface ClockChange {
  /** true UNIX ms at the record's mono_ms, as far as known */
  readonly trueWallMs: number
  /** step of the node's time, ms */
  readonly offsetMs: number
  /** the source of the time: `server`, `ntp`, `system`, or `jump` */
  readonly source: string
}

export interface BootInfo {
  /** false = the first record of a boot; true = the last one, at a clean stop */
  readonly stop: boolean
  readonly version: string
}

export interface LogRecord {
  readonly seq: number
  readonly boot: number
  readonly kind: RecordKind
  /** ms of the boot's monotonic clock */
  readonly monoMs: number
  /** UNIX ms of the clock at the append */
  readonly wallMs: number
  readonly quality: RecordTimeQuality
  /** medium name, 'local' for own sensors, '' for the log's own records */
  readonly medium: string
  readonly fact?: Fact
  readonly link?: LinkMetadata
  /** set for a fact that was an alarm when it was logged */
  readonly alarm?: true
  readonly cursor?: { readonly name: string; readonly seq: number }
  /** has the kind `cursor` too: a number that a module stores in the log */
  readonly counter?: { readonly name: string; readonly value: number }
  readonly clock?: ClockChange
  readonly bootInfo?: BootInfo
  /** a packet of another node that changed a template and gave no fact */
  readonly packet?: { readonly bytes: Uint8Array; readonly future: boolean }
  readonly loss?: { readonly totals: LossTotals; readonly ranges: readonly LossRange[] }
}
