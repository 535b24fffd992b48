// One Modbus bus: sources that read slaves on it take turns, and a slave that does not answer costs one time-out, its own (R17).
// After two time-outs in a row the slave is silent: one silent slave of the bus is polled every two seconds, in turn, so that one
// that comes back is heard soon, and never for more than a tenth of the bus time. Requests to it fail at once meanwhile and the
// others go on. A damaged answer is requested again.
//
// A serial answer has no number that says which request it belongs to. One that comes late must not be taken for the next
// one, so a slave that was late is not polled again before another time-out has passed, and what comes meanwhile is dropped.

import type { Clock } from '../../src/lib/clock'
import { asOsError, type OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import { judge } from './codec'
import { badReply, noReply, type Transport } from './transport'

interface Slave {
  /** time-outs in a row */
  missed: number
  /** not to be polled before this, on the monotonic clock */
  until: number
  /** what it did last */
  reason: OsError
  /** when a request to it was last sent, and last wanted */
  probedAt: number
  requestedAt: number
}

interface QueryOptions {
  timeoutMs: number
  /** how often a damaged answer is requested again */
  retries: number
}

/** one silent slave of the bus is polled this often, and more rarely where that takes more than a tenth of the time */
const PROBE_MS = 2000
const PROBE_PART = 0.1
/** a silent slave wanted within this time has its turn before one that was polled later */
const CONTENDS_MS = 2 * PROBE_MS
/** the gateway's own words for "no answer" */
const GATEWAY_SILENCE = new Set([10, 11])

export class ModbusBus {
  readonly counters = { requests: 0, timeouts: 0, damaged: 0, exceptions: 0, skipped: 0 }
  readonly #slaves = new Map<number, Slave>()
  /** when a silent slave may be polled, on the monotonic clock */
  #probeAt = Number.NEGATIVE_INFINITY
  readonly #turns = new SerialQueue()

  constructor(
    readonly transport: Transport,
    readonly clock: Clock,
  ) {}

  /**
   * The answer of slave `unit`: data or exception, in memory of its own. Throws NO_REPLY, also at once while the slave is
   * left alone, BAD_REPLY, LINK_DOWN.
   */
  query(unit: number, request: Uint8Array, options: QueryOptions): Promise<Uint8Array> {
    return this.#turns.run(() => this.#query(unit, request, options))
  }

  /** Forgets who did not answer: the bus was opened anew. */
  reset(): void {
    this.#slaves.clear()
    this.#probeAt = Number.NEGATIVE_INFINITY
  }

  async #query(unit: number, request: Uint8Array, { timeoutMs, retries }: QueryOptions): Promise<Uint8Array> {
    const began = this.clock.mono()
    const known = this.#slaves.get(unit)
    if (known && !this.#mayAsk(known, began)) {
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
        this.#leaveAlone(unit, timeoutMs, error, began)
        throw error
      }
    }
  }

  #mayAsk(slave: Slave, now: number): boolean {
    slave.requestedAt = now
    if (now < slave.until) return false
    if (slave.missed === 1) return true
    if (now < this.#probeAt) return false
    const others = [...this.#slaves.values()].filter(other => other.missed > 1 && other.probedAt < slave.probedAt)
    return others.every(other => now - other.requestedAt >= CONTENDS_MS)
  }

  #leaveAlone(unit: number, timeoutMs: number, reason: OsError, began: number): void {
    const missed = (this.#slaves.get(unit)?.missed ?? 0) + 1
    const now = this.clock.mono()
    // a connection numbers its answers: no late one is taken for the next
    const until = now + (this.transport.confuses ? timeoutMs : 0)
    if (missed > 1) this.#probeAt = began + Math.max(PROBE_MS, (now - began) / PROBE_PART)
    this.#slaves.set(unit, { missed, until, reason, probedAt: began, requestedAt: began })
  }
}
