// One Modbus bus: whoever reads slaves on it takes turns, and a slave that does not answer costs one time-out, its own (R17).
// After a time-out the slave is left alone, for as long as the time-out at first, then longer and longer up to a minute;
// requests to it fail at once meanwhile and the others go on. A damaged answer is asked for again.
//
// A serial answer has no number that says which request it belongs to. One that comes late must not be taken for the next
// one, so a slave that was late is not asked again before another time-out has passed, and what comes meanwhile is dropped.
import type { Clock } from '../../src/lib/clock'
import { asOsError, type OsError } from '../../src/lib/errors'
import { judge } from './codec'
import { badReply, noReply, type Transport } from './transport'

interface Slave {
  /** time-outs in a row */
  missed: number
  /** not to be asked before this, on the monotonic clock */
  until: number
  /** what it did last */
  reason: OsError
}

export interface QueryOptions {
  timeoutMs: number
  /** how often a damaged answer is asked for again */
  retries: number
}

/** a dead slave is tried this often at least */
const MOST_PAUSE_MS = 60_000
/** the gateway's own words for "no answer" */
const GATEWAY_SILENCE = new Set([10, 11])

export class Bus {
  readonly counters = { requests: 0, timeouts: 0, damaged: 0, exceptions: 0, skipped: 0 }
  readonly #slaves = new Map<number, Slave>()
  #busy: Promise<unknown> = Promise.resolve()

  constructor(
    readonly transport: Transport,
    readonly clock: Clock,
  ) {}

  /**
   * The answer of slave `unit`: data or exception, in memory of its own. Throws NO_REPLY, also at once while the slave is
   * left alone, BAD_REPLY, LINK_DOWN.
   */
  query(unit: number, request: Uint8Array, options: QueryOptions): Promise<Uint8Array> {
    const run = (): Promise<Uint8Array> => this.#query(unit, request, options)
    const mine = this.#busy.then(run, run)
    this.#busy = mine
    return mine
  }

  /** Forgets who did not answer: the bus was opened anew. */
  reset(): void {
    this.#slaves.clear()
  }

  async #query(unit: number, request: Uint8Array, { timeoutMs, retries }: QueryOptions): Promise<Uint8Array> {
    const known = this.#slaves.get(unit)
    if (known && this.clock.mono() < known.until) {
      this.counters.skipped++
      throw known.reason
    }
    for (let tries = 0; ; tries++) {
      this.counters.requests++
      try {
        const answer = Uint8Array.from(await this.transport.exchange(unit, request, timeoutMs))
        const verdict = judge(request, answer)
        if (verdict === 'wrong') throw badReply(unit)
        if (verdict === 'exception') {
          this.counters.exceptions++
          if (GATEWAY_SILENCE.has(answer[1]!)) throw noReply(unit)
        }
        this.#slaves.delete(unit)
        return answer
      } catch (thrown) {
        const error = asOsError(thrown, 'LINK_DOWN')
        if (error.code === 'BAD_REPLY') {
          this.counters.damaged++
          if (tries < retries) continue
        } else if (error.code === 'NO_REPLY') this.counters.timeouts++
        else throw error
        this.#leaveAlone(unit, timeoutMs, error)
        throw error
      }
    }
  }

  #leaveAlone(unit: number, timeoutMs: number, reason: OsError): void {
    const missed = (this.#slaves.get(unit)?.missed ?? 0) + 1
    // a connection numbers its answers: the first time-out there needs no pause
    const first = this.transport.confuses ? timeoutMs : 0
    const pause = missed === 1 ? first : Math.min(MOST_PAUSE_MS, timeoutMs * 2 ** Math.min(missed, 20))
    this.#slaves.set(unit, { missed, until: this.clock.mono() + pause, reason })
  }
}
