// How many AIDs that were never heard may come in (S19). What a new AID costs, in templates, duplicates, sessions and the SQL
// view, is bounded only by numbers that a small machine has no memory for. So beyond a part of the guard's limit newcomers
// are let in slowly: known devices go on as before, an honest new one waits a little, and a flood of invented ones takes no
// more memory. What is refused is not decoded, not logged and not answered. Cannot fail.
import type { ConfigStore } from '../../config'
import type { Clock } from '../../lib/clock'
import { LAST_SECOND, type NodeClock } from '../../protocol/time'
import { memoryLimit } from '../guard/resources'

/** of the guard's limit; its own levels begin at 0.85 */
const PART = 0.7
/** new AIDs between two looks at the memory */
const LOOK_EVERY = 256
const SLOW_PER_S = 10

/** ms after which a time is too far ahead to be believed (X36). While this machine's own time is not right, only what is no time at all. */
export function latestTime(time: Pick<NodeClock, 'synced' | 'now'>, config: ConfigStore): number {
  if (!time.synced) return LAST_SECOND * 1000
  return time.now() + 1000 * config.config.receiver.max_future_s
}

interface NewDevicesOptions {
  readonly clock: Clock
  /** bytes the process may take */
  limit(): number
  /** heard before, or with an id assigned here */
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

  /** Whether a data packet of that AID may come in. Called per packet: one look-up for a known one. */
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

/** Those of a gateway, as configured; `knows`: heard before, or with an id assigned here. */
export const newDevicesOf = (config: ConfigStore, clock: Clock, knows: (aid: number) => boolean): NewDevices => {
  const limit = (): number => memoryLimit(config.config.gateway.guard.memory_mb)
  return new NewDevices({ clock, knows, limit })
}
