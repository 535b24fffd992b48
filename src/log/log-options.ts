// Options of a log; names and defaults follow gateway.log of Config.json (decision 0008).
import { type Clock, systemClock } from '../lib/clock'
import { type Files, realFiles } from '../lib/files'
import { type Logger, silentLogger } from '../lib/logger'
import { systemTimers, type Timers } from '../lib/timers'
import type { Fact } from '../pipeline/fact'
import { MAX_RECORD } from './format'
import type { LossRange } from './record'

export interface FlashLogOptions {
  dir: string
  files?: Files
  clock?: Clock
  timers?: Timers
  logger?: Logger
  /** maximum size of the log, including its damaged pieces (counted in blocks of 4096) */
  maxBytes?: number
  /** 0 = no age limit */
  maxAgeS?: number
  /** maximum time from append to commit */
  commitIntervalMs?: number
  /** maximum time from the request for a commit to the commit */
  ackCommitMs?: number
  commitBytes?: number
  /** `refuse`: facts are refused (DISK_FULL) unless every cursor has passed the oldest segment */
  whenFull?: 'drop_oldest' | 'refuse'
  segmentBytes?: number
  /** records pending in RAM while the disk refuses; above this the oldest are dropped and counted */
  bufferBytes?: number
  /** marks facts that a reader can read separately, before others */
  isAlarm?: (fact: Fact) => boolean
  /** written into the boot record */
  version?: string
  /** maximum bytes a second for the background checks of sealed segments; 0: no checks */
  checkBytesS?: number
  /** number of seqs to skip: the files found may be older than what was once written */
  skipSeqs?: number
}

export interface LogStatus {
  /** number of existing facts. Seqs cannot be used for this: a start after a kill skips 16,777,216 numbers. */
  records: number
  first_seq: number
  last_seq: number
  committed_seq: number
  bytes: number
  /** gateway.log.max_bytes */
  max_bytes: number
  /** UNIX ms when the oldest segment was created; null: the log is empty */
  oldest: number | null
  /** facts dropped by the limits or because RAM was full: dropped + overflow */
  lost: number
  dropped: number
  overflow: number
  refused: number
  damaged: number
  torn: number
  /** the newest ranges of records lost to damage */
  gaps: readonly LossRange[]
  /** chain.json was damaged at the start */
  chain?: string
  bytes_written_today: number
  /** absent without background checks */
  check?: LogCheck
  /** fdatasyncs since the start */
  syncs: number
  /** records not yet on the medium */
  pending: number
  state: 'ok' | 'degraded'
  reason?: string
}

/** Results of the background checks since the start. */
export interface LogCheck {
  /** number of checks of sealed segments, each once a day */
  segments: number
  bytes: number
  /** number of damaged segments; `gaps` lists the records */
  damaged: number
  /** names of segments that cannot be read now */
  unreadable: string[]
  /** UNIX ms of the newest check */
  last: number | null
}

const KIB = 1024
const MIB = 1024 * KIB
const MAX_SEGMENTS = 256

export type LogSettings = ReturnType<typeof settle>

/**
 * Fills in defaults and adapts sizes to each other: at least 8 segments per log and 4 RAM chunks per segment, at most 256
 * segments; a log has at least 256 KiB.
 */
export function settle(o: FlashLogOptions) {
  const maxBytes = Math.max(o.maxBytes ?? 64 * MIB, 256 * KIB)
  const wanted = Math.max(o.segmentBytes ?? MIB, Math.ceil(maxBytes / MAX_SEGMENTS), 32 * KIB)
  const segmentBytes = Math.min(wanted, Math.floor(maxBytes / 8))
  const chunkBytes = Math.min(64 * KIB, Math.floor(segmentBytes / 4))
  const bufferBytes = Math.max(o.bufferBytes ?? 8 * MIB, 4 * chunkBytes)
  return {
    dir: o.dir,
    files: o.files ?? realFiles,
    clock: o.clock ?? systemClock,
    timers: o.timers ?? systemTimers,
    logger: o.logger ?? silentLogger,
    isAlarm: o.isAlarm ?? (() => false),
    version: o.version ?? '',
    skipSeqs: o.skipSeqs ?? 0,
    checkBytesS: o.checkBytesS ?? 0,
    maxBytes,
    maxAgeMs: (o.maxAgeS ?? 0) * 1000,
    whenFull: o.whenFull ?? ('drop_oldest' as const),
    commitIntervalMs: o.commitIntervalMs ?? 1000,
    ackCommitMs: o.ackCommitMs ?? 100,
    commitBytes: Math.min(o.commitBytes ?? 64 * KIB, bufferBytes / 2),
    segmentBytes,
    chunkBytes,
    bufferBytes,
    /** committed records kept in RAM for readers */
    recentBytes: 256 * KIB,
    maxRecord: Math.min(MAX_RECORD, Math.floor(segmentBytes / 2)),
    /** damaged pieces kept */
    damagedBytes: Math.min(MIB, Math.floor(maxBytes / 8)),
  }
}

/** `gateway.log` of Config.json as options. */
export const logSettings = (log: {
  max_bytes: number
  max_age_s: number
  commit_interval_ms: number
  ack_commit_ms: number
  commit_bytes: number
  when_full: 'drop_oldest' | 'refuse'
  check_bytes_s: number
}): Omit<FlashLogOptions, 'dir'> => ({
  maxBytes: log.max_bytes,
  maxAgeS: log.max_age_s,
  commitIntervalMs: log.commit_interval_ms,
  ackCommitMs: log.ack_commit_ms,
  commitBytes: log.commit_bytes,
  whenFull: log.when_full,
  checkBytesS: log.check_bytes_s,
})
