// What a log is opened with; names and defaults follow gateway.log of Config.json (D4).
import type { Clock } from '../lib/clock'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { TimeQuality } from './record'

/** setTimeout, handed in. */
export interface Timers {
  set(ms: number, run: () => void): unknown
  clear(handle: unknown): void
}

export const systemTimers: Timers = {
  set: (ms, run) => setTimeout(run, ms),
  clear: handle => clearTimeout(handle as NodeJS.Timeout),
}

export interface FlashLogOptions {
  dir: string
  files?: Files
  clock?: Clock
  timers?: Timers
  logger?: Logger
  /** the log, its damaged pieces included, never takes more (counted in blocks of 4096) */
  maxBytes?: number
  /** 0 = no bound by age */
  maxAgeS?: number
  /** longest time a record waits for the disk */
  commitIntervalMs?: number
  /** the same for a record somebody waits for */
  ackCommitMs?: number
  commitBytes?: number
  /** `refuse`: facts are refused (DISK_FULL) unless every cursor has passed the oldest segment */
  whenFull?: 'drop_oldest' | 'refuse'
  segmentBytes?: number
  /** records waiting in RAM while the disk refuses; beyond it the oldest are lost and counted */
  bufferBytes?: number
  /** written into the boot record */
  version?: string
}

export interface LogStatus {
  first_seq: number
  last_seq: number
  committed_seq: number
  bytes: number
  /** facts gone by the bounds or because RAM was full: dropped + overflow */
  lost: number
  dropped: number
  overflow: number
  refused: number
  damaged: number
  torn: number
  bytes_written_today: number
  /** fdatasyncs since the start */
  syncs: number
  /** records not yet on the medium */
  pending: number
  state: 'ok' | 'degraded'
  reason?: string
}

export interface AppendOptions {
  quality?: TimeQuality
}
