// A medium that counts as open only after its peer has answered (X29: without an answer the link is `down`, and is retried
// later). So the link's state is also correct for datagram media, which open without sending a packet.
import type { Clock } from '../../lib/clock'
import { OsError } from '../../lib/errors'
import { systemTimers, type Timers } from '../../lib/timers'
import type { Medium } from '../../links/contracts'

/**
 * Answer timeouts of an opening. After three openings without an answer they grow: the peer may be slow instead of absent.
 */
const WAIT_MS = [2000, 2000, 2000, 4000, 8000, 16_000]

/** The part of the exchange's sender that probes. */
interface Probed {
  readonly mode: string
  poll(now: number): Uint8Array | null
  nextDeadline(now: number): number
  sentAt(now: number): void
}

/** Sends the probes of one opening and waits for the answer. A new opening, or cancel(), ends the previous one. */
export class Probing {
  readonly #sender: Probed
  readonly #send: (packet: Uint8Array) => Promise<boolean>
  readonly #clock: Clock
  readonly #timers: Timers
  /** what the medium adds to the answer timeout */
  readonly #answerMs: number
  /** consecutive openings without an answer */
  #unanswered = 0
  #wake = (): void => undefined
  #opening = 0

  constructor(
    sender: Probed,
    send: (packet: Uint8Array) => Promise<boolean>,
    clock: Clock,
    timers: Timers = systemTimers,
    answerMs = 0,
  ) {
    this.#answerMs = answerMs
    this.#sender = sender
    this.#send = send
    this.#clock = clock
    this.#timers = timers
  }

  /** Settles when the peer answered; throws LINK_DOWN if it did not. */
  async ask(): Promise<void> {
    this.cancel()
    const opening = this.#opening
    let end = this.#clock.mono() + WAIT_MS[Math.min(this.#unanswered, WAIT_MS.length - 1)]! + this.#answerMs
    for (let now = this.#clock.mono(); now < end && opening === this.#opening; now = this.#clock.mono()) {
      const ping = this.#sender.poll(now)
      if (ping) {
        await this.#send(ping)
        // a slow medium takes time to send: the answer timeout starts after that
        const sentAt = this.#clock.mono()
        this.#sender.sentAt(sentAt)
        end += sentAt - now
        now = sentAt
      }
      if (this.#sender.mode === 'probing') await this.#sleep(Math.min(end, this.#sender.nextDeadline(now)) - now)
      if (this.#sender.mode !== 'probing' && opening === this.#opening) {
        this.#unanswered = 0
        return
      }
    }
    if (opening === this.#opening) this.#unanswered++
    throw new OsError('LINK_DOWN', 'the upstream does not answer')
  }

  /** The answer arrived. */
  answered(): void {
    this.#wake()
  }

  cancel(): void {
    this.#opening++
    this.#wake()
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.#timers.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
    })
  }
}

/** `probe` settles when the peer answered and throws LINK_DOWN if it did not; `cancel` ends it early. */
export function probedMedium(inner: Medium, probe: () => Promise<void>, cancel: () => void): Medium {
  return {
    name: inner.name,
    medium: inner.medium,
    get maxPacket() {
      return inner.maxPacket
    },
    get counters() {
      return inner.counters
    },
    async open(events) {
      await inner.open(events)
      await probe()
    },
    close() {
      cancel()
      return inner.close()
    },
    send: packet => inner.send(packet),
    onPacket: handler => inner.onPacket(handler),
    onReturn: back => inner.onReturn?.(back) ?? (() => undefined),
  }
}
