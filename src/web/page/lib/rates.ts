// Counters of the gateway → rates per second, over the time between two rounds, with the last minutes for the small lines.
import type { Status } from './types'

const KEPT = 60

/**
 * Ms until the next query of an unreachable gateway: four times a second for the half minute of a restart, within two
 * seconds for ten minutes, then rarely. `random` (0..1) spreads many open pages.
 */
export const retryDelayMs = (failures: number, random: number): number =>
  (failures <= 100 ? 200 : failures <= 600 ? 800 : 10_000) * (1 + random / 2)

/** readings accepted; packets received, acknowledged by the upstream, sent best effort (never acknowledged); bytes of the log */
const KINDS = ['readings', 'packets', 'acked', 'sent', 'bytes'] as const
type Rates = Record<(typeof KINDS)[number], number>

const counters = (status: Status): Rates => ({
  readings: status.intake?.readings ?? status.log.last_seq,
  packets: status.received?.packets ?? 0,
  acked: Object.values(status.uplinks).reduce((sum, uplink) => sum + uplink.acked, 0),
  sent: Object.values(status.uplinks).reduce((sum, uplink) => sum + (uplink.sent ?? 0), 0),
  bytes: status.log.bytes_written_today,
})

/** Input of the gateway: its readings, or packets of other nodes if it has no sources. */
export const comesIn = ({ links, intake, received }: Status): 'readings' | 'packets' =>
  received && !intake?.readings && !Object.values(links).some(({ kind }) => kind === 'source') ? 'packets' : 'readings'

export class Meter {
  #last: { at: number; counters: Rates; uptime: number } | undefined
  readonly lines: Record<keyof Rates, number[]> = { readings: [], packets: [], acked: [], sent: [], bytes: [] }
  rates: Rates | undefined

  /** `at`: ms of a clock that never jumps */
  add(status: Status, at: number): void {
    const next = { at, counters: counters(status), uptime: status.uptime_s }
    const last = this.#last
    if (last && at - last.at < 500) return
    this.#last = next
    // after a restart the gateway counts from zero
    if (!last || next.uptime < last.uptime) return
    const seconds = (at - last.at) / 1000
    const rates: Rates = { readings: 0, packets: 0, acked: 0, sent: 0, bytes: 0 }
    for (const kind of KINDS) {
      // the daily bytes restart at midnight
      rates[kind] = Math.max(0, (next.counters[kind] - last.counters[kind]) / seconds)
      const line = this.lines[kind]
      line.push(rates[kind])
      if (line.length > KEPT) line.shift()
    }
    this.rates = rates
  }
}
