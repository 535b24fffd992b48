// The master of a multi-drop bus: polls one station after the other (a PING that names it, see protocol/turns), waits
// for the end of its turn, and sends its own packets in between. Only the polled station may send, so packets do not
// collide.
//
// Errors: a station that does not start, or stops in the middle, costs one turn time-out; after three of these it is
// polled less and less often, down to every 15 s, and named in the link's reason. Another master on the bus is detected
// by polls that are not ours: this master then stops for a while and checks again, so that only one of two masters
// continues; since each listens before its first poll, it is the one that came first.
import type { LinkCounters, OpenableEvents, PacketOrigin } from '../../src/links/contracts'
import { SequenceCounter } from '../../src/protocol/control'
import { buildPoll, isPoll, isTurnEnd, POLL_SIZE, parseTurnEnd, TURN_END_SIZE } from '../../src/protocol/polling-turns'
import { COMMAND } from '../../src/wire/commands'
import { TurnMedium, type TurnParts } from './bus'

interface MasterOptions {
  name: string
  /** identifies the bus, for example its port */
  bus: string
  slaves: readonly number[]
  turnTimeoutMs: number
  turnBytes: number
  pollIntervalMs: number
  /** runs a turn while no other user of the port sends requests */
  exclusive: <T>(run: () => Promise<T>) => Promise<T>
}

class Station {
  misses = 0
  /** time of the next poll */
  dueAt = 0
  waiting = 0
  constructor(readonly aid: number) {}
}

const MISSES = 3
const RAREST_MS = 15_000
/** own packets between two turns, so that stations still get theirs */
const OWN_PACKETS = 8
/** after a poll of another master: do not poll for this time, up to twice as long */
const FOREIGN_MS = 5000
/** longest listening time before the first poll */
const LISTEN_MS = 1000
/** a turn with more than this multiple of its byte limit has overrun */
const OVERRUN = 2
/** own polls that are recognized later: an echo may arrive after the line has stopped expecting it */
const KNOWN_POLLS = 64

export class MasterMedium extends TurnMedium {
  readonly #options: MasterOptions
  readonly #stations: Station[]
  readonly #seq: SequenceCounter
  readonly #tally = { turns: 0, missed_turns: 0, cut_turns: 0, foreign_polls: 0 }
  #run = 0
  #wake: () => void = () => undefined
  /** the current turn: its station, number of its poll, and a callback for its end */
  #turn: { aid: number; seq: number; ended: (waiting: number) => void; heard: () => void } | undefined
  /** our own most recent polls */
  readonly #polls: Uint8Array[] = []
  #silentUntil = 0
  #complaint = ''
  #loop: Promise<void> = Promise.resolve()

  constructor(options: MasterOptions, parts: TurnParts) {
    super(options.name, parts)
    this.#options = options
    this.#stations = [...new Set(options.slaves)].map(aid => new Station(aid))
    this.#seq = new SequenceCounter(Math.floor(parts.random() * 0xffff))
    parts.inner.onPacket((packet, origin) => this.#received(packet, origin))
  }

  get counters(): LinkCounters {
    const dead_slaves = this.#stations.filter(({ misses }) => misses >= MISSES).length
    return this.countersWith({ ...this.#tally, dead_slaves })
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.parts.inner.open(events)
    this.events = events
    this.#complaint = ''
    const { turnTimeoutMs, pollIntervalMs } = this.#options
    // as long as the pause that another active master leaves between two polls
    this.#silentUntil = this.parts.clock.mono() + Math.min(LISTEN_MS, turnTimeoutMs + pollIntervalMs)
    for (const station of this.#stations) {
      station.misses = station.dueAt = station.waiting = 0
    }
    this.#loop = this.#work(++this.#run)
  }

  async close(): Promise<void> {
    this.events = undefined
    this.#run++
    this.#wake()
    this.#turn?.ended(0)
    this.queue.clear()
    await this.parts.inner.close()
    await this.#loop
  }

  override send(packet: Uint8Array): Promise<boolean> {
    const sent = super.send(packet)
    this.#wake()
    return sent
  }

  /** Bytes were received, whatever they are: the polled station is active. */
  heard(): void {
    this.#turn?.heard()
  }

  async #work(run: number): Promise<void> {
    const { clock } = this.parts
    while (run === this.#run) {
      const now = clock.mono()
      const next = this.#next()
      const delayMs = Math.max(next.dueAt, this.#silentUntil) - now
      if (this.queue.length > 0 && now >= this.#silentUntil) await this.#own(run)
      else if (delayMs > 0) await this.#sleep(delayMs)
      // the port is lost
      else await this.#options.exclusive(() => this.#ask(next, run)).catch(() => this.#sleep(FOREIGN_MS))
      if (now >= this.#silentUntil) this.#judge()
    }
  }

  /** The station to poll next: the one that is overdue longest. */
  #next(): Station {
    return this.#stations.reduce((a, b) => (b.dueAt < a.dueAt ? b : a))
  }

  /** Sends own packets; a turn follows even if more are queued. */
  async #own(run: number): Promise<void> {
    await this.#options
      .exclusive(async () => {
        for (let k = 0; k < OWN_PACKETS && this.queue.first && run === this.#run; k++)
          await this.queue.sendFirst(packet => this.parts.inner.send(packet))
      })
      .catch(() => undefined) // the port is lost: clear() refuses the queued packets
    const next = this.#next()
    if (run === this.#run && next.dueAt <= this.parts.clock.mono())
      await this.#options.exclusive(() => this.#ask(next, run)).catch(() => undefined)
  }

  async #ask(station: Station, run: number): Promise<void> {
    if (run !== this.#run) return
    const { inner, clock } = this.parts
    const { turnBytes, pollIntervalMs } = this.#options
    const seq = this.#seq.next()
    this.#tally.turns++
    const over = this.#awaitTurn(station.aid, seq)
    const poll = buildPoll(seq, station.aid, turnBytes)
    this.#polls.push(poll)
    if (this.#polls.length > KNOWN_POLLS) this.#polls.shift()
    const sent = await inner.send(poll)
    if (!sent) this.#turn?.ended(-1)
    const waiting = await over
    if (run !== this.#run) return
    const now = clock.mono()
    if (waiting >= 0) {
      station.misses = 0
      station.waiting = waiting
      // a station with more packets is polled again after the others
      station.dueAt = now + (waiting > 0 ? 1 : pollIntervalMs)
      return
    }
    this.#tally.missed_turns++
    station.misses++
    const rarer = station.misses < MISSES ? 0 : Math.min(RAREST_MS, 1000 * 2 ** Math.min(6, station.misses - MISSES))
    station.dueAt = now + Math.max(pollIntervalMs, rarer)
  }

  /** Resolves the number of packets still queued at the station, or -1 if it did not answer. */
  #awaitTurn(aid: number, seq: number): Promise<number> {
    const { timers, clock, lineMs } = this.parts
    const { turnTimeoutMs, turnBytes } = this.#options
    return new Promise(resolve => {
      let cancel = (): void => undefined
      let spoke = false
      const start = clock.mono()
      const longest = OVERRUN * (lineMs(turnBytes + this.maxPacket) + turnTimeoutMs)
      const ended = (waiting: number): void => {
        cancel()
        if (this.#turn?.seq === seq) this.#turn = undefined
        resolve(waiting)
      }
      const late = (): void => {
        if (spoke) this.#tally.cut_turns++
        // a station that sent something is alive, even if the end of its turn was lost
        ended(spoke ? 0 : -1)
      }
      const wait = (ms: number): void => {
        cancel()
        cancel = timers.after(ms, late)
      }
      const heard = (): void => {
        spoke = true
        if (clock.mono() - start > longest) late()
        else wait(turnTimeoutMs)
      }
      this.#turn = { aid, seq, ended, heard }
      // the poll itself, plus a first packet that an adapter delivers in one piece
      wait(turnTimeoutMs + lineMs(2 * POLL_SIZE + TURN_END_SIZE))
    })
  }

  #received(packet: Uint8Array, origin: PacketOrigin): void {
    if (isPoll(packet)) {
      if (!this.#polls.some(own => Buffer.compare(own, packet) === 0)) this.#foreign()
      return
    }
    const turn = this.#turn
    if (isTurnEnd(packet)) {
      const end = parseTurnEnd(packet)!
      if (turn && end.seq === turn.seq && end.aid === turn.aid) turn.ended(end.waiting)
      return
    }
    // a peer without support for turns answers the PING, which ends its turn
    if (packet[0] === COMMAND.PONG && packet.length === 3 && turn && ((packet[1]! << 8) | packet[2]!) === turn.seq) {
      turn.ended(0)
      return
    }
    const address = turn ? `${this.#options.bus}#${turn.aid}` : origin.address
    this.handler(packet, { ...origin, address, reply: answer => this.send(answer) })
  }

  #foreign(): void {
    const { clock, random } = this.parts
    this.#tally.foreign_polls++
    this.#silentUntil = clock.mono() + FOREIGN_MS * (1 + random())
    this.#turn?.ended(0)
    this.#complain('another master is on this bus: only one may poll')
  }

  /** Reports the stations that do not answer. */
  #judge(): void {
    const dead = this.#stations.filter(({ misses }) => misses >= MISSES).map(({ aid }) => aid)
    this.#complain(dead.length === 0 ? '' : `no answer from ${dead.join(', ')}`)
  }

  #complain(reason: string): void {
    if (reason === this.#complaint) return
    this.#complaint = reason
    this.events?.degraded(reason)
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => {
      const cancel = this.parts.timers.after(Math.max(1, Math.ceil(ms)), resolve)
      this.#wake = () => {
        // another master's poll has priority over our own queue
        if (this.parts.clock.mono() < this.#silentUntil && this.events) return
        cancel()
        resolve()
      }
    })
  }
}
