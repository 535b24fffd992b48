// When a packet may go: the budget of the law, who else is on the air, and whose turn it is. Keeps what waits, and tells why it
// does. Pure but for the time and the chance handed in.
//
// What fails: a packet whose turn would come after it is given up is refused at once and counted; a channel busy until then
// likewise. What was booked and then not sent stays booked: the law counts what may have been on the air.
import type { Clock } from '../../src/lib/clock'
import type { Airtime } from '../../src/links/contracts'
import { DELIVERY_FRAME } from '../../src/protocol/control'
import { COMMAND } from '../../src/wire/commands'
import { symbolMs } from './airtime'
import type { DutyBook } from './airtime-file'
import type { DutyCycle } from './duty'
import type { Modem } from './modem'
import { SendQueue, type Waiting } from './queue'

interface ChannelParts {
  readonly modem: Modem
  readonly duty: DutyCycle
  /** keeps the budget over a restart; null: it is not kept */
  readonly book: DutyBook | null
  readonly clock: Clock
  readonly random: () => number
  /** why packets wait; empty: they do not */
  readonly complain: (reason: string) => void
}

interface Next {
  /** null: nothing may go before `afterMs` */
  readonly packet: Uint8Array | null
  readonly afterMs: number
}

/** what is answered: for so long, and the answer's time on the air, the sender keeps still */
const ANSWER_MS = 300
const ANSWER_BYTES = 24
const ASKS = new Set<number>([
  DELIVERY_FRAME,
  COMMAND.PING,
  COMMAND.ID_REQUEST,
  COMMAND.ID_POOL_REQ,
  COMMAND.TIME_REQUEST,
])
/** back-off: up to so many slots */
const MOST_SLOTS = 32
const HOUR_MS = 3_600_000
/** what ordinary data leaves of a budget for alarms and answers */
const DATA_SHARE = 0.85

export class LoraChannel {
  readonly counters = { airtime_ms: 0, channel_busy: 0, given_up: 0 }
  readonly queue = new SendQueue()
  /** about how long listening takes, ms */
  readonly cadMs: number
  readonly #parts: ChannelParts
  readonly #slotMs: number
  #sending: { job: Waiting; ms: number } | null = null
  /** a busy channel: nothing is sent before */
  #backoffUntil = Number.NEGATIVE_INFINITY
  /** an answer is expected: only answers go before */
  #quietUntil = Number.NEGATIVE_INFINITY
  /** ms of what was last found to be over the budget; 0: nothing */
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

  /** The next packet, when it may go now; else when to ask again. */
  next(now: number): Next {
    const { modem, duty } = this.#parts
    this.counters.given_up += this.queue.expire(now)
    this.#tell(now)
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

  /** Another station sends: another try after a random time, longer with each. */
  busy(now: number): void {
    const job = this.queue.peek()
    this.counters.channel_busy++
    const slots = Math.min(MOST_SLOTS, 2 ** (1 + (job ? job.tries++ : 0)))
    this.#backoffUntil = now + this.#slotMs * (1 + Math.floor(this.#parts.random() * slots))
  }

  /** A packet came in: a sender that waits for an answer may send again. */
  heard(now: number): void {
    this.#quietUntil = Math.min(this.#quietUntil, now + this.#slotMs * this.#parts.random())
  }

  /**
   * The packet that next() named goes on the air now: how long for, in ms; null: it may not, after all, or something more
   * urgent came while the channel was listened to.
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

  /** The sending is over, however it went; without one nothing happens. */
  ended(now: number, sent: boolean): void {
    if (!this.#sending) return
    const { job } = this.#sending
    this.#sending = null
    this.#parts.duty.ended(now)
    // others get their turn
    this.#backoffUntil = now + this.#slotMs * (1 + 3 * this.#parts.random())
    if (ASKS.has(job.packet[0]!)) this.#quietUntil = now + ANSWER_MS + 2 * this.#parts.modem.airtime(ANSWER_BYTES)
    this.queue.done(job, sent)
  }

  /** Everything that waits is given up. */
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

  #tell(now: number): void {
    if (this.#over === 0 || this.#parts.duty.readyAt(this.#over, now, DATA_SHARE) > now) return
    this.#over = 0
    this.#reportedUntil = Number.NEGATIVE_INFINITY
    this.#parts.complain('')
  }
}
