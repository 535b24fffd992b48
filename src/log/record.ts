// The forms of a log record in memory. On disk it is the layout of format.ts; encode.ts writes it, decode.ts reads it.
import type { Fact, LinkMetadata } from '../pipeline/fact'

/** How far a time can be trusted; `unknown` is the time of another machine, taken as it came (D18). */
export type TimeQuality = 'unknown' | 'unsynced' | 'synced'

export type RecordKind = 'fact' | 'boot' | 'clock' | 'cursor' | 'loss' | 'packet'

/** Why records are no longer there. `dropped`: the bounds; `overflow`: RAM was full while the disk refused; `damaged`:
 *  the medium gave other bytes back; `torn`: a write cut off by a power loss before it was committed. */
export type LossReason = 'damaged' | 'torn' | 'dropped' | 'overflow'

/** Every seq from `from` to `to`, both included. `records` = how many of them are known to have been facts (or records,
 *  where the bytes no longer tell). */
export interface LossRange {
  readonly reason: LossReason
  readonly from: number
  readonly to: number
  readonly records: number
}

export type LossTotals = Record<LossReason, number>

/**
 * The node's time moved, or a time source confirmed it. Facts of this boot before this record with quality `unsynced` are off by
 * `offsetMs`; with a record of quality `synced` their times are right then, else a later one moves them again.
 */
export interface ClockChange {
  /** true UNIX ms at the record's mono_ms, as far as known */
  readonly trueWallMs: number
  /** by how much the node's time moved, ms */
  readonly offsetMs: number
  /** where the time came from: `server`, `ntp`, `system`, or `jump` */
  readonly source: string
}

export interface BootInfo {
  /** false = the first record of a boot; true = the last one, of a clean stop */
  readonly stop: boolean
  readonly version: string
}

export interface LogRecord {
  readonly seq: number
  readonly boot: number
  readonly kind: RecordKind
  /** ms of the boot's own monotonic clock */
  readonly monoMs: number
  /** UNIX ms as the clock stood at the append */
  readonly wallMs: number
  readonly quality: TimeQuality
  /** medium name, 'local' for own sensors, '' for the log's own records */
  readonly medium: string
  readonly fact?: Fact
  readonly link?: LinkMetadata
  /** of a fact that was an alarm when it was logged */
  readonly alarm?: true
  readonly cursor?: { readonly name: string; readonly seq: number }
  /** of kind `cursor` too: a number that a part keeps in the log */
  readonly counter?: { readonly name: string; readonly value: number }
  readonly clock?: ClockChange
  readonly bootInfo?: BootInfo
  /** a packet of another node that changed a template and gave no fact of its own */
  readonly packet?: { readonly bytes: Uint8Array; readonly future: boolean }
  readonly loss?: { readonly totals: LossTotals; readonly ranges: readonly LossRange[] }
}
