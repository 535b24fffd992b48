// Observers of sent records: a command that transmits gets the packet of its record, plugins get every packet.

import type { Delivery } from './window'

export interface SentInfo {
  /** the packet as sent, without its envelope */
  readonly packet: Uint8Array
  /** `awaited`: it was sent and an answer is pending, which is reported too */
  readonly state: 'sent' | 'awaited' | 'acknowledged'
}

const STATE = { exchange: 'awaited', medium: 'acknowledged', best_effort: 'sent' } as const

export class SentWatchers {
  /** called for every packet; its bytes are only valid during the call */
  every: ((packet: Uint8Array, medium: string) => void) | undefined
  readonly #waiting = new Map<number, (info: SentInfo) => void>()
  /** packets of watched records that wait for an answer */
  readonly #awaited = new Map<number, Uint8Array>()

  watch(seq: number, notify: (info: SentInfo) => void): void {
    this.#waiting.set(seq, notify)
  }

  unwatch(seq: number): void {
    this.#waiting.delete(seq)
    this.#awaited.delete(seq)
  }

  /** A packet was sent. */
  sent(seq: number, packet: Uint8Array, medium: string, delivery: Delivery): void {
    this.every?.(packet, medium)
    const state = STATE[delivery]
    if (!this.#waiting.has(seq)) return
    if (state === 'awaited') {
      this.#awaited.set(seq, packet)
      this.#waiting.get(seq)!({ packet, state })
    } else this.#last(seq, { packet, state })
  }

  /** The upstream has the record. */
  acknowledged(seq: number): void {
    const packet = this.#awaited.get(seq)
    if (packet) this.#last(seq, { packet, state: 'acknowledged' })
  }

  #last(seq: number, info: SentInfo): void {
    const notify = this.#waiting.get(seq)
    this.unwatch(seq)
    notify?.(info)
  }
}
