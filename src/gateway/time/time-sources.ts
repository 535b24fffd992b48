// Which time source keeps the OS clock of this machine: NTP, as the kernel reports it (adjtimex, by the
// addon) or, without the addon, as systemd-timesyncd says in a file; or an RTC that agrees with it. What fails:
// where none of it can be read, no time source confirms the time, and the gateway waits for the upstream's.
import { statSync } from 'node:fs'
import { nativeOrNull } from '../../native'
import type { TimeSource } from '../../protocol/time'
import { RtcClock } from './rtc'

const TIMESYNCD = '/run/systemd/timesync/synchronized'
const rtc = new RtcClock()
/** an RTC drifts by seconds a day, and is set with the OS clock */
const AGREEMENT_S = 120

/** What could be read; undefined: it could not. */
export interface ClockSigns {
  kernel?: { readonly synced: boolean; readonly offset_us: number; readonly maxerror_us: number }
  /** when timesyncd set the clock last, as its file's time says */
  timesyncdMs?: number
  /** UNIX seconds of the RTC; it is queried meanwhile, so the first time nothing is known of it yet */
  rtcS?: number
}

export interface NtpReport {
  /** 'unknown': this machine does not tell */
  state: 'synced' | 'unsynced' | 'unknown'
  from?: 'kernel' | 'timesyncd'
  offset_us?: number
  max_error_us?: number
}

export function readSigns(): ClockSigns {
  const signs: ClockSigns = {}
  try {
    const kernel = nativeOrNull()?.ntpState()
    if (kernel) signs.kernel = kernel
  } catch {
    // a container may forbid it: nothing is known then
  }
  try {
    signs.timesyncdMs = statSync(TIMESYNCD).mtimeMs
  } catch {
    // another service keeps the clock, or none
  }
  try {
    const seconds = rtc.seconds()
    if (seconds !== undefined) signs.rtcS = seconds
  } catch {
    // it fails to answer
  }
  return signs
}

/** Settles when the read of the RTC that readSigns() began has ended, well or not. */
export const rtcAnswer = (): Promise<void> => rtc.answered

/** What can be read, the time of the RTC included. */
export async function allSigns(): Promise<ClockSigns> {
  rtc.seconds()
  await rtc.answered
  return readSigns()
}

export class TimeSources {
  #signs: ClockSigns = {}
  /** timesyncd's file from before a jump says nothing of the clock after it */
  #staleMs: number | undefined

  constructor(
    readonly read: () => ClockSigns,
    readonly wall: () => number,
  ) {}

  /** The OS clock jumped: what was said of it before does not count. */
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

  /** For status: as it was read last. */
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
