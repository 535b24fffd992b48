// What a log is opened with; names and defaults follow gateway.log of Config.json (D4).
import { type Clock, systemClock } from '../lib/clock'
import { type Files, realFiles } from '../lib/files'
import { type Logger, silentLogger } from '../lib/logger'
import type { Fact } from '../pipeline/fact'
import { MAX_RECORD } from './format'
import type { LossRange } from './record'

/** setTimeout, handed in. */
export interface Timers {
  set(ms: number, run: () => void): unknown
  clear(handle: unknown): void
}

const systemTimers: Timers = {
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
  /** the same for a record that is waited for */
  ackCommitMs?: number
  commitBytes?: number
  /** `refuse`: facts are refused (DISK_FULL) unless every cursor has passed the oldest segment */
  whenFull?: 'drop_oldest' | 'refuse'
  segmentBytes?: number
  /** records waiting in RAM while the disk refuses; beyond it the oldest are lost and counted */
  bufferBytes?: number
  /** facts that a reader finds before others: a reader can ask for them alone */
  isAlarm?: (fact: Fact) => boolean
  /** written into the boot record */
  version?: string
  /** sealed segments are read again in the background, so many bytes a second at most; 0: they are not */
  checkBytesS?: number
  /** seqs not to use: what is found may be older than what was written once */
  skipSeqs?: number
}

export interface LogStatus {
  /** facts that are there. Numbers of records say less: a start after a kill goes on 16,777,216 numbers later. */
  records: number
  first_seq: number
  last_seq: number
  committed_seq: number
  bytes: number
  /** gateway.log.max_bytes */
  max_bytes: number
  /** UNIX ms of the oldest segment's making; null: nothing is kept */
  oldest: number | null
  /** facts gone by the bounds or because RAM was full: dropped + overflow */
  lost: number
  dropped: number
  overflow: number
  refused: number
  damaged: number
  torn: number
  /** the newest ranges of records that damage took */
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

/** What the background checks found since the start. */
export interface LogCheck {
  /** checks of sealed segments, each once a day */
  segments: number
  bytes: number
  /** segments with damage; which records, is in `gaps` */
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
 * Defaults filled in and sizes fitted to each other: at least 8 segments to a log and at least 4 chunks of RAM to a
 * segment, at most 256 segments; a log takes at least 256 KiB.
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
    /** damaged pieces kept aside */
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
