// Limits new AIDs when memory is short (S19). The limits on what a new AID costs (templates, duplicates, sessions, the SQL
// view) are too high for the memory of a small machine. So above a share of the guard's memory limit new AIDs are rate
// limited: known devices continue, an honest new one waits a little, and a flood of invented ones takes no more memory.
// Refused packets are not decoded, logged or answered. Cannot fail.
import type { ConfigStore } from '../../config'
import type { Clock } from '../../lib/clock'
import { LAST_SECOND, type NodeClock } from '../../protocol/time'
import { memoryLimit } from '../guard/resources'

/** share of the guard's limit; its own levels begin at 0.85 */
const PART = 0.7
/** new AIDs between two memory checks */
const LOOK_EVERY = 256
const SLOW_PER_S = 10

/** The latest plausible time in ms (X36). While this machine's own time is not correct, only impossible times are refused. */
export function latestTime(time: Pick<NodeClock, 'synced' | 'now'>, config: ConfigStore): number {
  if (!time.synced) return LAST_SECOND * 1000
  return time.now() + 1000 * config.config.receiver.max_future_s
}

interface NewDevicesOptions {
  readonly clock: Clock
  /** memory limit of the process, bytes */
  limit(): number
  /** received before, or with an id assigned here */
  knows(aid: number): boolean
  rss?(): number
}

export class NewDevices {
  refused = 0
  readonly #options: NewDevicesOptions
  #untilLook = 0
  #slow = false
  #slowLeft = 0
  #second = Number.NEGATIVE_INFINITY

  constructor(options: NewDevicesOptions) {
    this.#options = options
  }

  /** Whether a data packet of that AID is accepted. Called per packet: one look-up for a known one. */
  admits(aid: number): boolean {
    const { clock, limit, knows, rss = () => process.memoryUsage.rss() } = this.#options
    if (knows(aid)) return true
    const now = clock.mono()
    if (now - this.#second >= 1000) {
      this.#second = now
      this.#slowLeft = SLOW_PER_S
      this.#untilLook = Math.min(this.#untilLook, SLOW_PER_S)
    }
    if (this.#untilLook-- <= 0) {
      this.#untilLook = LOOK_EVERY
      this.#slow = rss() > limit() * PART
    }
    if (!this.#slow || this.#slowLeft-- > 0) return true
    this.refused++
    return false
  }
}

/** The limiter of a gateway, as configured; `knows`: received before, or with an id assigned here. */
export const newDevicesOf = (config: ConfigStore, clock: Clock, knows: (aid: number) => boolean): NewDevices => {
  const limit = (): number => memoryLimit(config.config.gateway.guard.memory_mb)
  return new NewDevices({ clock, knows, limit })
}
