// Sends packets to one target, in order. Bounded: packets beyond the limit are dropped and counted. A target that does not
// answer only delays its own packets; the transporter reopens it with the next one.

import { asOsError } from '../../lib/errors'
import { SerialQueue } from '../../lib/serial-queue'
import type { Transporter } from '../../node/transporters'

export interface TargetCounters {
  sent: number
  failed: number
  /** the queue was full */
  dropped: number
  pending: number
  last_error?: string
}

export class ForwardQueue {
  readonly counters: TargetCounters = { sent: 0, failed: 0, dropped: 0, pending: 0 }
  readonly #open: () => Transporter | null
  readonly #limit: number
  #transporter: Transporter | null = null
  readonly #turns = new SerialQueue()
  #closed = false

  constructor(open: () => Transporter | null, limit: number) {
    this.#open = open
    this.#limit = limit
  }

  /** True if the medium accepted the packet. The bytes are not copied. Never throws. */
  send(packet: Uint8Array): Promise<boolean> {
    const { counters } = this
    if (this.#closed || counters.pending >= this.#limit) {
      counters.dropped++
      return Promise.resolve(false)
    }
    counters.pending++
    return this.#turns.run(() => this.#attempt(packet))
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#transporter?.close()
  }

  async #attempt(packet: Uint8Array): Promise<boolean> {
    const { counters } = this
    counters.pending--
    try {
      if (this.#closed) return this.#failed('stopped')
      this.#transporter ??= this.#open()
      if (!this.#transporter) return this.#failed('this medium is off or has no driver')
      if (!(await this.#transporter.send(packet)))
        return this.#failed(this.#transporter.lastError?.message ?? 'not accepted')
      counters.sent++
      delete counters.last_error
      return true
    } catch (error) {
      return this.#failed(asOsError(error).message)
    }
  }

  #failed(reason: string): false {
    this.counters.failed++
    this.counters.last_error = reason
    return false
  }
}
