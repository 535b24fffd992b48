// Which time goes on the wire (D18): milliseconds. A `t` of the caller goes as it is, unless it is no date yet (below the threshold)
// and no secure session says that the peer knows this device: then the last server time counts, else this machine's clock,
// in whole seconds. Nothing waits for a server. Throws BAD_TIME for what is no time.
import type { Clock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { toMillis } from '../pipeline/core'
import type { TransmitOptions } from './types'

export class NodeTime {
  readonly #clock: Clock
  readonly #threshold: () => number
  #server: { readonly seconds: number; readonly at: number } | null = null

  /** `threshold`: UNIX seconds below this are no date */
  constructor(clock: Clock, threshold: () => number) {
    this.#clock = clock
    this.#threshold = threshold
  }

  /** The time of a server. */
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
