// A slave on a bus of several: what is to be sent waits until the master asks this address, goes out within the bytes the
// master gives, and then ends its turn. It never speaks without a poll, so two slaves cannot talk over each other.
//
// What other slaves say in their turns is not for this one; a turn is over with its end, or when the line was silent. A slave
// that comes so late that another station was polled meanwhile (a busy machine) keeps its packets for its next turn.
//
// What fails: no master asks (degraded after QUIET_MS, packets refused after WAIT_MS), no address yet (degraded).
import type { LinkCounters, Medium, OpenableEvents, PacketHandler, PacketOrigin } from '../../src/links/contracts'
import { buildTurnEnd, isTurnEnd, parsePoll } from '../../src/protocol/polling-turns'
import { Outbox, type TurnParts } from './bus'

/** a master that is there asks more often, even an address that was silent for long */
const QUIET_MS = 90_000
/** two clocks, and what adapters hold back */
const ALMOST = 0.8

interface SlaveOptions {
  name: string
  /** names the bus, for example its port */
  bus: string
  /** the address it answers to, null: none yet */
  address: () => number | null
  /** as the master's: after so long a silence a turn is over */
  turnTimeoutMs: number
  /** the end of another one's turn is to be heard */
  expectEnd: (seq: number) => void
}

export class SlaveMedium implements Medium {
  readonly name: string
  readonly medium = 'RS485'
  readonly #parts: TurnParts
  readonly #options: SlaveOptions
  readonly #outbox: Outbox
  readonly #tally = { turns: 0, of_others: 0, late_turns: 0 }
  #handler: PacketHandler = () => undefined
  #events: OpenableEvents | undefined
  #cancelQuiet: (() => void) | undefined
  #complaining = false
  /** another one has the turn */
  #foreign = false
  /** counts the polls heard, for any station */
  #polls = 0
  #heardAt = 0

  constructor(options: SlaveOptions, parts: TurnParts) {
    this.name = options.name
    this.#options = options
    this.#parts = parts
    this.#outbox = new Outbox(parts.clock, parts.timers)
    parts.inner.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get maxPacket(): number {
    return this.#parts.inner.maxPacket
  }

  get counters(): LinkCounters {
    const { detail, ...counters } = this.#parts.inner.counters
    const { refused, expired } = this.#outbox.tally
    return { ...counters, detail: { ...detail, ...this.#tally, waiting: this.#outbox.length, refused, expired } }
  }

  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.#parts.inner.open(events)
    this.#events = events
    this.#complaining = false
    this.#quiet()
    if (this.#options.address() === null) this.#complain('no address on the bus yet: give the option address, or an id')
  }

  async close(): Promise<void> {
    this.#events = undefined
    this.#cancelQuiet?.()
    this.#outbox.clear()
    await this.#parts.inner.close()
  }

  onReturn(back: () => void): () => void {
    return this.#parts.inner.onReturn?.(back) ?? (() => undefined)
  }

  send(packet: Uint8Array): Promise<boolean> {
    if (!this.#events || packet.length === 0 || packet.length > this.maxPacket) return Promise.resolve(false)
    return this.#outbox.add(packet)
  }

  /** Something came in, whatever it is. */
  heard(): void {
    const now = this.#parts.clock.mono()
    if (now - this.#heardAt >= ALMOST * this.#options.turnTimeoutMs) this.#foreign = false
    this.#heardAt = now
  }

  #received(packet: Uint8Array, origin: PacketOrigin): void {
    const poll = parsePoll(packet)
    if (poll) {
      this.#polls++
      this.#foreign = poll.aid !== this.#options.address()
      if (this.#foreign) this.#options.expectEnd(poll.seq)
      else void this.#turn(poll.seq, poll.aid, poll.bytes)
    } else if (isTurnEnd(packet)) this.#foreign = false
    else if (this.#foreign) this.#tally.of_others++
    else {
      const reply = (answer: Uint8Array): Promise<boolean> => this.send(answer)
      this.#handler(packet, { ...origin, address: `${this.#options.bus}#master`, reply })
    }
  }

  async #turn(seq: number, aid: number, bytes: number): Promise<void> {
    const { inner, frameSize } = this.#parts
    const turn = this.#polls
    this.#tally.turns++
    this.#quiet()
    if (this.#complaining) this.#complain('')
    let left = bytes
    for (let sent = 0; this.#outbox.first; sent++) {
      const size = frameSize(this.#outbox.first)
      if (size > left && sent > 0) break
      left -= size
      if (!(await this.#mayGoOn(turn))) return
      if (!(await this.#outbox.sendFirst(packet => inner.send(packet)))) return // the line is gone, or never silent
    }
    if (await this.#mayGoOn(turn)) await inner.send(buildTurnEnd(seq, aid, this.#outbox.length))
  }

  /** Waits until the line is free; false when the master has polled again meanwhile, so that this turn is over. */
  async #mayGoOn(turn: number): Promise<boolean> {
    const free = await this.#parts.silence().then(
      () => true,
      () => false, // never silent: the master sees a missed turn
    )
    if (free && this.#events && turn === this.#polls) return true
    this.#tally.late_turns++
    return false
  }

  /** Polled now; complains when polls no longer come. */
  #quiet(): void {
    this.#cancelQuiet?.()
    this.#cancelQuiet = this.#parts.timers.after(QUIET_MS, () => {
      const address = this.#options.address()
      this.#complain(`no master has polled ${address ?? 'this station'} for ${QUIET_MS / 1000} s`)
    })
  }

  #complain(reason: string): void {
    this.#complaining = reason !== ''
    this.#events?.degraded(reason)
  }
}
