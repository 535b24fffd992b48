// A slave on a multi-drop bus: packets are queued until the master polls this address, sent within the byte limit of
// the poll, and followed by the end of the turn. It never sends without a poll, so two slaves cannot collide.
//
// Packets of other slaves in their turns are ignored; a turn is over at its end packet, or after silence on the line. A
// slave that reacts so late that another station has been polled meanwhile (a busy machine) keeps its packets for its
// next turn.
//
// Errors: no master polls (degraded after QUIET_MS, packets refused after WAIT_MS); no address yet (degraded).
import type { LinkCounters, OpenableEvents, PacketOrigin } from '../../src/links/contracts'
import { buildTurnEnd, isTurnEnd, parsePoll } from '../../src/protocol/polling-turns'
import { TurnMedium, type TurnParts } from './bus'

/** an active master polls more often, even an address that was silent for long */
const QUIET_MS = 90_000
/** safety margin for two clocks and the delay of adapters */
const ALMOST = 0.8

interface SlaveOptions {
  name: string
  /** identifies the bus, for example its port */
  bus: string
  /** the address of this slave, null: none yet */
  address: () => number | null
  /** same as the master's: a turn is over after this much silence */
  turnTimeoutMs: number
  /** the end packet of another station's turn is expected */
  expectEnd: (seq: number) => void
}

export class SlaveMedium extends TurnMedium {
  readonly #options: SlaveOptions
  readonly #tally = { turns: 0, of_others: 0, late_turns: 0 }
  #cancelQuiet: (() => void) | undefined
  #complaining = false
  /** another station has the turn */
  #foreign = false
  /** counts polls of any station */
  #polls = 0
  #heardAt = 0

  constructor(options: SlaveOptions, parts: TurnParts) {
    super(options.name, parts)
    this.#options = options
    parts.inner.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get counters(): LinkCounters {
    return this.countersWith({ ...this.#tally, waiting: this.queue.length })
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.parts.inner.open(events)
    this.events = events
    this.#complaining = false
    this.#quiet()
    if (this.#options.address() === null)
      this.#complain('no address on the bus yet: set the option address, or get an id')
  }

  async close(): Promise<void> {
    this.events = undefined
    this.#cancelQuiet?.()
    this.queue.clear()
    await this.parts.inner.close()
  }

  /** Bytes were received, whatever they are. */
  heard(): void {
    const now = this.parts.clock.mono()
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
      this.handler(packet, { ...origin, address: `${this.#options.bus}#master`, reply })
    }
  }

  async #turn(seq: number, aid: number, bytes: number): Promise<void> {
    const { inner, frameSize } = this.parts
    const turn = this.#polls
    this.#tally.turns++
    this.#quiet()
    if (this.#complaining) this.#complain('')
    let left = bytes
    for (let sent = 0; this.queue.first; sent++) {
      const size = frameSize(this.queue.first)
      if (size > left && sent > 0) break
      left -= size
      if (!(await this.#mayGoOn(turn))) return
      if (!(await this.queue.sendFirst(packet => inner.send(packet)))) return // the line is lost, or never silent
    }
    if (await this.#mayGoOn(turn)) await inner.send(buildTurnEnd(seq, aid, this.queue.length))
  }

  /** Waits until the line is free; false if the master has polled again meanwhile, so that this turn is over. */
  async #mayGoOn(turn: number): Promise<boolean> {
    const free = await this.parts.silence().then(
      () => true,
      () => false, // never silent: for the master this is a missed turn
    )
    if (free && this.events && turn === this.#polls) return true
    this.#tally.late_turns++
    return false
  }

  /** Called at each poll; degrades the link when polls stop. */
  #quiet(): void {
    this.#cancelQuiet?.()
    this.#cancelQuiet = this.parts.timers.after(QUIET_MS, () => {
      const address = this.#options.address()
      this.#complain(`no master has polled ${address ?? 'this station'} for ${QUIET_MS / 1000} s`)
    })
  }

  #complain(reason: string): void {
    this.#complaining = reason !== ''
    this.events?.degraded(reason)
  }
}
