// What master and slave on a bus of several have in common: packets that wait for their turn, bounded and counted.
import type { Clock } from '../../src/lib/clock'
import type { Logger } from '../../src/lib/logger'
import type { Timers } from '../../src/lib/timers'
import type { Medium } from '../../src/links/contracts'

export interface TurnParts {
  /** packets in frames on the half-duplex line */
  inner: Medium
  /** resolves when the line is silent; rejects with TIMEOUT when that takes too long */
  silence: () => Promise<void>
  clock: Clock
  timers: Timers
  logger: Logger
  random: () => number
  /** bytes of the frame around a packet */
  frameSize: (packet: Uint8Array) => number
  /** milliseconds that many bytes take on the line */
  lineMs: (bytes: number) => number
}

/** packets that wait at most, and how long: who sent them has long sent them again then */
const MAX_WAITING = 64
const WAIT_MS = 10_000

interface Waiting {
  readonly packet: Uint8Array
  readonly until: number
  readonly done: (sent: boolean) => void
}

export class Outbox {
  readonly tally = { refused: 0, expired: 0 }
  readonly #clock: Clock
  readonly #timers: Timers
  #waiting: Waiting[] = []
  #cancel: (() => void) | undefined

  constructor(clock: Clock, timers: Timers) {
    this.#clock = clock
    this.#timers = timers
  }

  get length(): number {
    return this.#waiting.length
  }

  get first(): Uint8Array | undefined {
    return this.#waiting[0]?.packet
  }

  /** Resolves true when it was sent, false when its turn did not come in time or too many wait. */
  add(packet: Uint8Array): Promise<boolean> {
    if (this.#waiting.length >= MAX_WAITING) {
      this.tally.refused++
      return Promise.resolve(false)
    }
    return new Promise(resolve => {
      // the caller's buffer may be used again before its turn comes
      this.#waiting.push({ packet: packet.slice(), until: this.#clock.mono() + WAIT_MS, done: resolve })
      if (!this.#cancel) this.#expireLater()
    })
  }

  /** Sends the first one by `send` and tells its sender. */
  async sendFirst(send: (packet: Uint8Array) => Promise<boolean>): Promise<boolean> {
    const first = this.#waiting.shift()
    if (!first) return false
    const sent = await send(first.packet)
    first.done(sent)
    return sent
  }

  clear(): void {
    this.#cancel?.()
    this.#cancel = undefined
    const waiting = this.#waiting
    this.#waiting = []
    for (const { done } of waiting) done(false)
  }

  #expireLater(): void {
    const [first] = this.#waiting
    this.#cancel = first && this.#timers.after(Math.max(1, first.until - this.#clock.mono()), () => this.#expire())
  }

  #expire(): void {
    const now = this.#clock.mono()
    while (this.#waiting[0] && this.#waiting[0].until <= now) {
      this.tally.expired++
      this.#waiting.shift()!.done(false)
    }
    this.#expireLater()
  }
}
