// The time source of this machine's OS clock: NTP, as the kernel reports it (adjtimex, through the addon) or, without the
// addon, as a file of systemd-timesyncd shows it; or an RTC that agrees with the clock.
// Errors: if none can be read, no time source confirms the time, and the gateway waits for the time of the upstream.
import { statSync } from 'node:fs'
import { orElse } from '../../lib/errors'
import { nativeOrNull } from '../../native'
import type { TimeQuality, TimeSource, TimeStep } from '../../protocol/time'
import { RtcClock } from './rtc'

const TIMESYNCD = '/run/systemd/timesync/synchronized'
const rtc = new RtcClock()
/** an RTC drifts by seconds a day, and is set with the OS clock */
const AGREEMENT_S = 120

/** The signs that could be read; undefined: not readable. */
export interface ClockSigns {
  kernel?: { readonly synced: boolean; readonly offset_us: number; readonly maxerror_us: number }
  /** when timesyncd last set the clock (mtime of its file) */
  timesyncdMs?: number
  /** UNIX seconds of the RTC; read in the background, so unknown at first */
  rtcS?: number
}

export interface NtpReport {
  /** 'unknown': this machine does not report it */
  state: 'synced' | 'unsynced' | 'unknown'
  from?: 'kernel' | 'timesyncd'
  offset_us?: number
  max_error_us?: number
}

/** `time` of `os-node status --json`. */
export interface TimeReport {
  quality: TimeQuality | 'unknown'
  /** the node's time minus the OS clock */
  offset_ms: number
  /** what last moved or confirmed the time */
  source?: TimeStep['source']
  /** UNIX ms */
  last_sync?: number
  /** correction requested by a server that the hourly limit did not allow */
  held_back_ms?: number
  /** jumps of the OS clock since the start */
  jumps?: number
  ntp?: NtpReport
}

export function readSigns(): ClockSigns {
  // a container may forbid it
  const kernel = orElse(undefined, () => nativeOrNull()?.ntpState())
  // missing if another service keeps the clock, or none
  const timesyncdMs = orElse(undefined, () => statSync(TIMESYNCD).mtimeMs)
  const rtcS = rtc.seconds()
  return {
    ...(kernel && { kernel }),
    ...(timesyncdMs !== undefined && { timesyncdMs }),
    ...(rtcS !== undefined && { rtcS }),
  }
}

/** Settles when the RTC read started by readSigns() has ended, with or without success. */
export const rtcAnswer = (): Promise<void> => rtc.answered

/** All signs, including the time of the RTC. */
export async function allSigns(): Promise<ClockSigns> {
  rtc.seconds()
  await rtc.answered
  return readSigns()
}

export class TimeSources {
  #signs: ClockSigns = {}
  /** timesyncd's file from before a jump does not apply to the clock after it */
  #staleMs: number | undefined

  constructor(
    readonly read: () => ClockSigns,
    readonly wall: () => number,
  ) {}

  /** The OS clock jumped: earlier signs no longer apply. */
  doubt(): void {
    this.#staleMs = this.read().timesyncdMs
  }

  now(): TimeSource | null {
    const signs = this.read()
    this.#signs = signs
    if (signs.kernel?.synced) return 'ntp'
    if (!signs.kernel && signs.timesyncdMs !== undefined && signs.timesyncdMs !== this.#staleMs) return 'ntp'
    const { rtcS } = signs
    return rtcS !== undefined && Math.abs(rtcS - this.wall() / 1000) <= AGREEMENT_S ? 'system' : null
  }

  /** For status: the last result. */
  ntp(): NtpReport {
    const { kernel, timesyncdMs } = this.#signs
    if (kernel) {
      const { synced, offset_us, maxerror_us } = kernel
      return { state: synced ? 'synced' : 'unsynced', from: 'kernel', offset_us, max_error_us: maxerror_us }
    }
    if (timesyncdMs === undefined) return { state: 'unknown' }
    return { state: timesyncdMs === this.#staleMs ? 'unsynced' : 'synced', from: 'timesyncd' }
  }
}
