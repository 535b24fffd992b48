// Decides when a packet may be sent: the legal budget, other stations on the channel, and the order of packets. Keeps
// the queue, and reports why it waits. Pure except for the injected time and random numbers.
//
// Errors: a packet whose turn would come after its time limit is refused immediately and counted, also if the channel
// is busy until then. Time that was booked but not sent stays booked, because the limit counts what may have been sent.
import type { Clock } from '../../src/lib/clock'
import type { Airtime } from '../../src/links/contracts'
import { DELIVERY_FRAME } from '../../src/protocol/control'
import { COMMAND } from '../../src/wire/commands'
import { symbolMs } from './airtime'
import type { DutyBook } from './airtime-file'
import type { DutyCycle } from './duty'
import type { Modem } from './modem'
import { type QueuedPacket, RadioQueue } from './queue'

interface ChannelParts {
  readonly modem: Modem
  readonly duty: DutyCycle
  /** stores the budget over a restart; null: it is not stored */
  readonly book: DutyBook | null
  readonly clock: Clock
  readonly random: () => number
  /** called with the reason why packets wait; empty: none wait */
  readonly complain: (reason: string) => void
}

interface Next {
  /** null: nothing may be sent before `afterMs` */
  readonly packet: Uint8Array | null
  readonly afterMs: number
}

/** after a packet that gets an answer, the sender waits this long plus the answer's time on the air */
const ANSWER_MS = 300
const ANSWER_BYTES = 24
const ASKS = new Set<number>([
  DELIVERY_FRAME,
  COMMAND.PING,
  COMMAND.ID_REQUEST,
  COMMAND.ID_POOL_REQ,
  COMMAND.TIME_REQUEST,
])
/** back-off: up to this many slots */
const MOST_SLOTS = 32
const HOUR_MS = 3_600_000
/** share of a budget for ordinary data; alarms and answers can use the remainder */
const DATA_SHARE = 0.85

export class LoraChannel {
  readonly counters = { airtime_ms: 0, channel_busy: 0, given_up: 0 }
  readonly queue = new RadioQueue()
  /** approximate duration of listening, ms */
  readonly cadMs: number
  readonly #parts: ChannelParts
  readonly #slotMs: number
  #sending: { job: QueuedPacket; ms: number } | null = null
  /** the channel was busy: send nothing before this time */
  #backoffUntil = Number.NEGATIVE_INFINITY
  /** an answer is expected: send only answers before this time */
  #quietUntil = Number.NEGATIVE_INFINITY
  /** ms of the last packet that exceeded the budget; 0: none */
  #over = 0
  #reportedUntil = Number.NEGATIVE_INFINITY

  constructor(parts: ChannelParts) {
    this.#parts = parts
    const { spreadingFactor, bandwidthHz } = parts.modem.air
    this.cadMs = 2 * symbolMs(spreadingFactor, bandwidthHz)
    this.#slotMs = Math.max(5, parts.modem.airtime(ANSWER_BYTES) / 2)
  }

  /** For senders that plan ahead (see the contract). */
  get airtime(): Airtime {
    const { modem, duty } = this.#parts
    const share = Math.min(1, ...modem.band.limits.map(({ budgetMs, windowMs }) => budgetMs / windowMs))
    return {
      of: bytes => modem.airtime(bytes),
      share,
      waitMs: (bytes, urgent) => {
        const now = this.#parts.clock.mono()
        const ms = modem.airtime(bytes)
        const at = duty.readyAt(ms, now, urgent ? 1 : DATA_SHARE)
        if (at > now) this.#isOver(ms, at, now)
        return at - now
      },
    }
  }

  /** The next packet if it may be sent now; else the time of the next call. */
  next(now: number): Next {
    const { modem, duty } = this.#parts
    this.counters.given_up += this.queue.expire(now)
    this.#report(now)
    for (;;) {
      const job = this.queue.peek()
      if (!job) return { packet: null, afterMs: Number.POSITIVE_INFINITY }
      const ms = modem.airtime(job.packet.length)
      const allowedAt = duty.readyAt(ms, now)
      if (allowedAt > now) this.#isOver(ms, allowedAt, now)
      if (allowedAt > job.until) {
        this.counters.given_up++
        this.queue.done(job, false)
        continue
      }
      const quiet = this.queue.isAnswer(job) ? Number.NEGATIVE_INFINITY : this.#quietUntil
      const at = Math.max(allowedAt, this.#backoffUntil, quiet)
      return at > now ? { packet: null, afterMs: at - now } : { packet: job.packet, afterMs: 0 }
    }
  }

  /** Another station is sending: retry after a random time that grows with each attempt. */
  busy(now: number): void {
    const job = this.queue.peek()
    this.counters.channel_busy++
    const slots = Math.min(MOST_SLOTS, 2 ** (1 + (job ? job.tries++ : 0)))
    this.#backoffUntil = now + this.#slotMs * (1 + Math.floor(this.#parts.random() * slots))
  }

  /** A packet was received: a sender that waits for an answer may send again. */
  heard(now: number): void {
    this.#quietUntil = Math.min(this.#quietUntil, now + this.#slotMs * this.#parts.random())
  }

  /**
   * The packet from next() is sent now. Returns its duration in ms; null: it may not be sent after all, or a more
   * urgent packet arrived while listening.
   */
  begins(packet: Uint8Array, now: number): number | null {
    const { modem, duty, book } = this.#parts
    const job = this.queue.peek()
    if (job?.packet !== packet) return null
    const ms = modem.airtime(packet.length)
    if (duty.readyAt(ms, now) > now) return null
    duty.spend(ms, now)
    book?.spent(ms, now)
    this.counters.airtime_ms += ms
    this.#sending = { job, ms }
    return ms
  }

  /** The transmission has ended, successfully or not; no effect without one. */
  ended(now: number, sent: boolean): void {
    if (!this.#sending) return
    const { job } = this.#sending
    this.#sending = null
    this.#parts.duty.ended(now)
    // leaves time for other stations
    this.#backoffUntil = now + this.#slotMs * (1 + 3 * this.#parts.random())
    if (ASKS.has(job.packet[0]!)) this.#quietUntil = now + ANSWER_MS + 2 * this.#parts.modem.airtime(ANSWER_BYTES)
    this.queue.done(job, sent)
  }

  /** Drops all queued packets. */
  close(): void {
    this.ended(this.#parts.clock.mono(), false)
    this.queue.clear()
    this.#parts.book?.close(this.#parts.clock.mono())
    this.#over = 0
    this.#reportedUntil = Number.NEGATIVE_INFINITY
  }

  #isOver(ms: number, at: number, now: number): void {
    this.#over = ms
    if (at <= this.#reportedUntil || !Number.isFinite(at)) return
    this.#reportedUntil = at + 1000
    const { clock, duty, modem, complain } = this.#parts
    const until = new Date(clock.wall() + (this.#reportedUntil - now)).toISOString().slice(11, 19)
    const limit = duty.usage(now)!
    const rule =
      limit.windowMs === HOUR_MS
        ? `${(limit.budgetMs * 100) / HOUR_MS} % of an hour`
        : `${limit.budgetMs} ms in ${limit.windowMs / 1000} s`
    complain(`duty cycle used up until ${until} UTC (${rule} in band ${modem.band.name} MHz)`)
  }

  #report(now: number): void {
    if (this.#over === 0 || this.#parts.duty.readyAt(this.#over, now, DATA_SHARE) > now) return
    this.#over = 0
    this.#reportedUntil = Number.NEGATIVE_INFINITY
    this.#parts.complain('')
  }
}
