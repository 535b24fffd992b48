// Receives the frames of a plan on one CAN interface and passes on their signals. The kernel filters by id; bus.ts
// reports the state of the bus.
//
// Errors:
// - No addon, no such interface, or an interface that is down: open throws, with what to do.
// - An interface that goes down, or a bus that stays off: lost.
// - Frames that arrive faster than they are read: counted, degraded for a minute.
// - A J1939 message that two stations send: its signals are ERROR while both send, or until one station is chosen,
//   because two sensors must not mix under one name.

import type { Clock } from '../../../src/lib/clock'
import { counted } from '../../../src/lib/counted'
import type { OpenableEvents } from '../../../src/links/contracts'
import { AGAIN, READABLE } from '../../../src/native'
import {
  CAN_EFF,
  CAN_EFF_MASK,
  CAN_ERR,
  CAN_RTR,
  CAN_SFF_MASK,
  type CanFilter,
  CanFrames,
  CanRaw,
  type CanRawOptions,
} from '../../../src/native/can'
import type { Feed, Take } from '../../kit/latest-source'
import { type BusEdges, type CanBus, kernelEdges, lossOf } from '../bus'
import { MessageDecoder } from './codec'
import { destinationOf, pgnMask, pgnOf, sourceOf } from './j1939'
import { keyOf, type PlannedMessage, type SignalPlan } from './plan'
import { J1939Transport, TP_CONTROL, TP_DATA } from './transport'

/** The kernel functions used here; tests pass their own. */
export interface CanPorts extends BusEdges {
  open(name: string, options: CanRawOptions): CanPort
}
export type CanPort = Pick<CanRaw, 'receive' | 'watch' | 'close' | 'dropped' | 'receiveBuffer'>

export const kernelPorts: CanPorts = { ...kernelEdges, open: (name, options) => CanRaw.open(name, options) }

/** kernel limit per socket (CAN_RAW_FILTER_MAX) */
const MAX_FILTERS = 512
/** batches per wake-up, so that a busy bus leaves time for other work */
const MAX_ROUNDS = 8
/** how long lost frames are reported */
const REPORTED_MS = 60_000

interface MessageState {
  readonly planned: PlannedMessage
  readonly decoder: MessageDecoder
  /** the newest frame's data */
  readonly last: Uint8Array
  lastLength: number
  /** the sender and time (monotonic ms) of the newest frame; -1: none yet */
  source: number
  at: number
  /** another station sends it too, with the time of its last frame */
  mixed: string | undefined
  mixedAt: number
}

interface CanFeedOptions {
  interface: string
  plan: SignalPlan
  fd?: boolean | undefined
  checkRange: boolean
  sourceAddress?: number | undefined
  maxAgeMs: number
  /** bytes the kernel may buffer */
  receiveBuffer: number
  clock: Clock
  ports: CanPorts
  bus: CanBus
  detail: FrameCounts
}

/**
 * frames received, signals skipped because a frame was too short, incomplete long messages, messages of two stations,
 * frames lost because they were not read in time, size of the kernel's buffer as it counts it: twice the data bytes
 */
export interface FrameCounts extends Record<string, number> {
  frames: number
  short: number
  incomplete: number
  mixed: number
  dropped: number
  receive_buffer: number
}

export class CanFeed implements Feed {
  readonly detail: FrameCounts
  readonly #options: CanFeedOptions
  readonly #entries: readonly MessageState[]
  /** of every channel */
  readonly #entryOf: MessageState[] = []
  readonly #standard = new Map<number, MessageState>()
  readonly #extended = new Map<number, MessageState>()
  /** by parameter group; if several messages share one, the source in the id distinguishes them */
  readonly #groups = new Map<number, MessageState[]>()
  readonly #frames = new CanFrames()
  readonly #transport: J1939Transport
  #port: CanPort | undefined
  #take: Take = () => undefined
  #events: OpenableEvents | undefined
  /** what is wrong with the bus; when frames were last lost, and how many since the opening */
  #busReason = ''
  #droppedAt = Number.NEGATIVE_INFINITY
  #dropped = 0

  constructor(options: CanFeedOptions) {
    this.#options = options
    this.detail = options.detail
    const { plan, checkRange } = options
    this.#entries = plan.messages.map(planned => ({
      planned,
      decoder: new MessageDecoder(planned.message, planned.channels, { j1939: planned.j1939, checkRange }),
      last: new Uint8Array(Math.max(64, planned.message.length)),
      lastLength: 0,
      source: -1,
      at: 0,
      mixed: undefined,
      mixedAt: 0,
    }))
    for (const entry of this.#entries) {
      const { planned } = entry
      for (const place of planned.channels.values()) this.#entryOf[place] = entry
      const key = keyOf(planned)
      if (planned.j1939) this.#groups.set(key, [...(this.#groups.get(key) ?? []), entry])
      else if (planned.message.format === 'standard') this.#standard.set(key, entry)
      else this.#extended.set(key, entry)
    }
    this.#transport = new J1939Transport(
      pgn => this.#groups.has(pgn),
      (pgn, source, data) => this.#group(pgn, source, data),
    )
  }

  async open(events: OpenableEvents, take: Take): Promise<void> {
    this.#take = take
    for (const entry of this.#entries) {
      entry.source = -1
      entry.mixed = undefined
    }
    const { interface: name, bus, fd, ports, receiveBuffer } = this.#options
    this.#busReason = ''
    this.#dropped = 0
    this.#droppedAt = Number.NEGATIVE_INFINITY
    this.#events = events
    try {
      bus.open({ lost: reason => this.#lost(reason), degraded: reason => this.#say(reason) }, fd === true)
      const long = this.#entries.some(({ planned }) => !planned.j1939 && planned.message.length > 8)
      const port = ports.open(name, { filters: this.filters(), fd: fd ?? long, receiveBuffer })
      this.#port = port
      this.detail.receive_buffer = port.receiveBuffer
      port.watch(READABLE, () => this.#receive(port))
    } catch (error) {
      await this.close()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#events = undefined
    this.#options.bus.close()
    this.#port?.close()
    this.#port = undefined
  }

  /** Checks for lost frames; call it regularly. */
  check(): void {
    if (!this.#port) return
    const now = this.#options.clock.mono()
    const more = this.#port.dropped - this.#dropped
    const reported = this.#droppedAt !== Number.NEGATIVE_INFINITY
    if (more > 0) {
      this.#dropped += more
      this.detail.dropped += more
      this.#droppedAt = now
    } else if (reported && now - this.#droppedAt > REPORTED_MS) this.#droppedAt = Number.NEGATIVE_INFINITY
    else return
    this.#say(this.#busReason)
  }

  #say(reason: string): void {
    this.#busReason = reason
    const { interface: name, receiveBuffer } = this.#options
    const { dropped, receive_buffer } = this.detail
    const how =
      receive_buffer < receiveBuffer
        ? `the receive buffer has ${receive_buffer} bytes instead of ${receiveBuffer}: raise net.core.rmem_max`
        : 'choose fewer signals, or raise receive_buffer_bytes'
    const lost =
      this.#droppedAt === Number.NEGATIVE_INFINITY
        ? ''
        : `${counted(dropped, 'frame')} of ${name} not read in time; ${how}`
    this.#events?.degraded([reason, lost].filter(Boolean).join('; '))
  }

  #lost(reason: string): void {
    const events = this.#events
    void this.close()
    events?.lost(reason)
  }

  raw(index: number): string {
    const entry = this.#entryOf[index]!
    return Buffer.from(entry.last.subarray(0, entry.lastLength)).toString('hex')
  }

  /** The kernel's filters: each id, each parameter group of any station or of one. */
  filters(): CanFilter[] {
    const { sourceAddress } = this.#options
    const whose = sourceAddress === undefined ? 0 : 0xff
    const flags = CAN_EFF + CAN_RTR
    const group = (pgn: number): CanFilter => ({
      id: CAN_EFF + (pgn << 8) + (sourceAddress ?? 0),
      mask: flags + pgnMask(pgn) + whose,
    })
    const filters = [
      ...[...this.#standard.keys()].map(id => ({ id, mask: flags + CAN_SFF_MASK })),
      ...[...this.#extended.keys()].map(id => ({ id: CAN_EFF + id, mask: flags + CAN_EFF_MASK })),
      ...[...this.#groups.keys()].map(group),
    ]
    const long = this.#entries.some(({ planned }) => planned.j1939 && planned.message.length > 8)
    if (long) filters.push(group(TP_CONTROL), group(TP_DATA))
    return filters.length > MAX_FILTERS ? [{ id: 0, mask: 0 }] : filters
  }

  #receive(port: CanPort): void {
    for (let round = 0; round < MAX_ROUNDS && port === this.#port; round++) {
      const count = port.receive(this.#frames)
      if (count === AGAIN) return
      if (count < 0) {
        const { interface: name, bus, ports } = this.#options
        const loss = lossOf(name, count, ports)
        if (loss === undefined) return
        bus.missed()
        this.#lost(loss)
        return
      }
      for (let slot = 0; slot < count; slot++) this.#frame(this.#frames.id(slot), this.#frames.data(slot))
      if (count < this.#frames.capacity) return
    }
  }

  #frame(id: number, data: Uint8Array): void {
    if ((id & (CAN_ERR | CAN_RTR)) !== 0) return
    this.detail.frames++
    if (id < CAN_EFF) {
      const entry = this.#standard.get(id & CAN_SFF_MASK)
      if (entry) this.#decode(entry, -1, data)
      return
    }
    const plain = id & CAN_EFF_MASK
    const entry = this.#extended.get(plain)
    if (entry) this.#decode(entry, -1, data)
    if (this.#groups.size === 0) return
    const pgn = pgnOf(plain)
    const source = sourceOf(plain)
    if (source !== (this.#options.sourceAddress ?? source)) return
    const before = this.#transport.incomplete
    if (pgn === TP_CONTROL) this.#transport.control(source, destinationOf(plain), data, this.#options.clock.mono())
    else if (pgn === TP_DATA) this.#transport.data(source, destinationOf(plain), data, this.#options.clock.mono())
    this.detail.incomplete += this.#transport.incomplete - before
    this.#group(pgn, source, data)
  }

  /** A message of a parameter group, from one frame or reassembled. */
  #group(pgn: number, source: number, data: Uint8Array): void {
    const entries = this.#groups.get(pgn)
    if (!entries) return
    if (entries.length === 1) this.#decode(entries[0]!, source, data)
    else
      for (const entry of entries) if (sourceOf(entry.planned.message.id) === source) this.#decode(entry, source, data)
  }

  #decode(entry: MessageState, source: number, data: Uint8Array): void {
    const now = this.#options.clock.mono()
    const { maxAgeMs } = this.#options
    if (source >= 0 && entry.source >= 0 && entry.source !== source && now - entry.at < maxAgeMs) {
      if (entry.mixed === undefined) {
        this.detail.mixed++
        entry.mixed = `is sent by stations ${entry.source} and ${source}: choose one with source_address`
      }
      entry.mixedAt = now
    } else if (now - entry.mixedAt >= maxAgeMs) entry.mixed = undefined
    entry.source = source
    entry.at = now
    if (entry.mixed !== undefined) {
      for (const place of entry.planned.channels.values()) this.#take(place, null, entry.mixed)
      return
    }
    entry.lastLength = Math.min(data.length, entry.last.length)
    entry.last.set(data.length > entry.last.length ? data.subarray(0, entry.last.length) : data)
    const before = entry.decoder.short
    entry.decoder.decode(data, this.#take)
    this.detail.short += entry.decoder.short - before
  }
}
