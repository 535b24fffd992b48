// The time of a packet on the wire (decision 0044), in milliseconds. A caller's `t` is used unchanged, unless it is below the
// threshold (no valid date) and there is no secure session with the peer: then the last server time is used, else this
// machine's clock, in whole seconds. It never waits for a server. Throws BAD_TIME for an invalid time.
import type { Clock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { toMillis } from '../pipeline/core'
import type { TransmitOptions } from './types'

export class NodeTime {
  readonly #clock: Clock
  readonly #threshold: () => number
  #server: { readonly seconds: number; readonly at: number } | null = null

  /** `threshold`: UNIX seconds below this are no valid date */
  constructor(clock: Clock, threshold: () => number) {
    this.#clock = clock
    this.#threshold = threshold
  }

  /** Remembers the time of a server. */
  note(seconds: number): void {
    this.#server = { seconds, at: this.#clock.mono() }
  }

  /** `secured`: the device has a secure dict. */
  onWire({ t, no_timestamp }: TransmitOptions, secured: boolean): number {
    if (no_timestamp) return 0
    if (t === undefined || t === null) return Math.floor(this.#clock.wall())
    if (typeof t !== 'number' || !Number.isFinite(t) || t < 0)
      throw new OsError('BAD_TIME', `t is ${String(t)}, not a UNIX time`)
    if (secured || t >= this.#threshold()) return toMillis(t)
    const seconds = this.#server
      ? this.#server.seconds + (this.#clock.mono() - this.#server.at) / 1000
      : this.#clock.wall() / 1000
    return Math.floor(seconds) * 1000
  }
}
