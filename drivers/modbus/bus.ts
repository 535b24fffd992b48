// One Modbus bus: its sources take turns, and a slave that does not answer costs only its own time-out (R17). After two
// time-outs in a row the slave is silent: every two seconds one silent slave of the bus is polled, in turn, so that a
// returning one is found soon, using at most a tenth of the bus time. Meanwhile requests to silent slaves fail
// immediately, and the other slaves continue. A damaged answer is requested again.
//
// A serial answer does not say to which request it belongs. A late answer must not be taken for the next one, so a
// slave that was late is not polled again until another time-out has passed, and answers in between are dropped.

import type { Clock } from '../../src/lib/clock'
import { asOsError, type OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import { judge } from './codec'
import { badReply, type ModbusTransport, noReply } from './transport'

interface Slave {
  /** time-outs in a row */
  missed: number
  /** monotonic time before which it is not polled */
  until: number
  /** the last error */
  reason: OsError
  /** when a request to it was last sent, and when one was last wanted */
  probedAt: number
  requestedAt: number
}

interface QueryOptions {
  timeoutMs: number
  /** retries after a damaged answer */
  retries: number
}

/** poll interval of silent slaves, longer if polling would exceed a tenth of the bus time */
const PROBE_MS = 2000
const PROBE_PART = 0.1
/** a silent slave wanted within this time is polled before others that were polled later */
const CONTENDS_MS = 2 * PROBE_MS
/** exception codes by which a gateway reports "no answer" */
const GATEWAY_SILENCE = new Set([10, 11])

export class ModbusBus {
  readonly counters = { requests: 0, timeouts: 0, damaged: 0, exceptions: 0, skipped: 0 }
  readonly #slaves = new Map<number, Slave>()
  /** monotonic time of the next poll of a silent slave */
  #probeAt = Number.NEGATIVE_INFINITY
  readonly #turns = new SerialQueue()

  constructor(
    readonly transport: ModbusTransport,
    readonly clock: Clock,
  ) {}

  /**
   * The answer of slave `unit`: data or exception, in a new buffer. Throws NO_REPLY (immediately while the slave is not
   * polled), BAD_REPLY, LINK_DOWN.
   */
  query(unit: number, request: Uint8Array, options: QueryOptions): Promise<Uint8Array> {
    return this.#turns.run(() => this.#query(unit, request, options))
  }

  /** Forgets which slaves are silent: the bus was reopened. */
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
    // TCP answers are numbered: a late one is not taken for the next
    const until = now + (this.transport.confuses ? timeoutMs : 0)
    if (missed > 1) this.#probeAt = began + Math.max(PROBE_MS, (now - began) / PROBE_PART)
    this.#slaves.set(unit, { missed, until, reason, probedAt: began, requestedAt: began })
  }
}
