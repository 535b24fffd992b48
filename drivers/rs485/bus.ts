// Shared by master and slave on a multi-drop bus: the bounded and counted queue of packets, and what their media have in
// common.
import type { Clock } from '../../src/lib/clock'
import type { Logger } from '../../src/lib/logger'
import type { Timers } from '../../src/lib/timers'
import type { LinkCounters, Medium, OpenableEvents } from '../../src/links/contracts'
import { PacketReceiver } from '../../src/links/deliver'

export interface TurnParts {
  /** packets in frames on the half-duplex line */
  inner: Medium
  /** resolves when the line is silent; rejects with TIMEOUT if that takes too long */
  silence: () => Promise<void>
  clock: Clock
  timers: Timers
  logger: Logger
  random: () => number
  /** bytes of the frame around a packet */
  frameSize: (packet: Uint8Array) => number
  /** milliseconds on the line for that many bytes */
  lineMs: (bytes: number) => number
}

/** limits of the queue, in packets and time: senders have retransmitted long before that */
const MAX_WAITING = 64
const WAIT_MS = 10_000

interface TurnPacket {
  readonly packet: Uint8Array
  readonly until: number
  readonly done: (sent: boolean) => void
}

export class TurnQueue {
  readonly tally = { refused: 0, expired: 0 }
  readonly #clock: Clock
  readonly #timers: Timers
  #waiting: TurnPacket[] = []
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

  /** Resolves true when the packet was sent, false when it timed out or the queue is full. */
  add(packet: Uint8Array): Promise<boolean> {
    if (this.#waiting.length >= MAX_WAITING) {
      this.tally.refused++
      return Promise.resolve(false)
    }
    return new Promise(resolve => {
      // the caller may reuse its buffer before the packet is sent
      this.#waiting.push({ packet: packet.slice(), until: this.#clock.mono() + WAIT_MS, done: resolve })
      if (!this.#cancel) this.#expireLater()
    })
  }

  /** Sends the first packet by `send` and resolves its sender's promise. */
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

export abstract class TurnMedium extends PacketReceiver implements Medium {
  readonly medium = 'RS485'
  protected readonly queue: TurnQueue
  /** undefined: closed */
  protected events: OpenableEvents | undefined

  constructor(
    readonly name: string,
    protected readonly parts: TurnParts,
  ) {
    super()
    this.queue = new TurnQueue(parts.clock, parts.timers)
  }

  abstract get counters(): LinkCounters
  abstract open(events: OpenableEvents): Promise<void>
  abstract close(): Promise<void>

  get maxPacket(): number {
    return this.parts.inner.maxPacket
  }

  onReturn(back: () => void): () => void {
    return this.parts.inner.onReturn?.(back) ?? (() => undefined)
  }

  send(packet: Uint8Array): Promise<boolean> {
    if (!this.events || packet.length === 0 || packet.length > this.maxPacket) return Promise.resolve(false)
    return this.queue.add(packet)
  }

  protected countersWith(own: Readonly<Record<string, number>>): LinkCounters {
    const { detail, ...counters } = this.parts.inner.counters
    return { ...counters, detail: { ...detail, ...own, ...this.queue.tally } }
  }
}
