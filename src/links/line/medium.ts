// A medium over a byte stream: packets in frames on a Line (decision 0029). Serial drivers only need to pass in their port.
//
// Errors: the line itself reports that it cannot be opened or is lost; a failed write is `false` and counted; more
// writes than the line accepts are refused, so that a stuck port needs no memory. Bytes that are no packet are ignored
// and counted in `deframer.counters`. Answers are accepted only for requests sent here in the last minute.

import type { Clock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import type { Timers } from '../../lib/timers'
import { controlSeq } from '../../protocol/control'
import { OpenRequests } from '../../protocol/handshake/open-requests'
import { COMMAND } from '../../wire/commands'
import { frameSerial } from '../../wire/serial'
import type { Line, LinkCounters, Medium, OpenableEvents, PacketOrigin } from '../contracts'
import { deliver, PacketReceiver } from '../deliver'
import { CobsDeframer, frameCobs } from './cobs'
import { type Deframer, SerialDeframer } from './deframer'

export type LineFraming = 'uart' | 'rs485' | 'cobs'

interface LineMediumOptions {
  /** as the specification names it: UART, RS485 … */
  medium: string
  framing: LineFraming
  /** largest packet in bytes, without the frame */
  maxPacket: number
  clock: Clock
  timers: Timers
  logger: Logger
  /** silence that ends a packet; longer than the gaps between a sender's bytes */
  gapMs?: number
  /** the address in packet origins; left out: the line's name */
  address?: string
  /** counters of the line below, by name */
  detail?: () => Readonly<Record<string, number>>
}

/** frames passed to the line and not yet accepted */
const MAX_PENDING = 64
const DEFAULT_GAP_MS = 20

/** the answer to each request; a NACK answers them all */
const ANSWERS = new Map<number, number>([
  [COMMAND.ID_REQUEST, COMMAND.ID_ASSIGN],
  [COMMAND.ID_POOL_REQ, COMMAND.ID_POOL_RES],
  [COMMAND.PING, COMMAND.PONG],
  [COMMAND.TIME_REQUEST, COMMAND.TIME_RESPONSE],
  [COMMAND.ID_ASSIGN, COMMAND.HANDSHAKE_ACK],
  [COMMAND.ID_POOL_RES, COMMAND.HANDSHAKE_ACK],
])

export class LineMedium extends PacketReceiver implements Medium {
  readonly name: string
  readonly medium: string
  readonly maxPacket: number
  readonly #counters = { rx: 0, tx: 0, errors: 0 }
  readonly deframer: Deframer
  readonly #line: Line
  readonly #options: LineMediumOptions
  /** requests of either side: the two ends number them independently, so an answer is also matched by its command */
  readonly #requests: Map<number, OpenRequests>
  readonly #origin: PacketOrigin
  #cancelGap: (() => void) | undefined
  #pending = 0

  constructor(line: Line, options: LineMediumOptions) {
    super()
    this.name = line.name
    this.medium = options.medium
    this.maxPacket = options.maxPacket
    this.#line = line
    this.#options = options
    this.#requests = new Map([...new Set(ANSWERS.values())].map(answer => [answer, new OpenRequests(options.clock)]))
    const onPacket = (packet: Uint8Array): void => this.#received(packet)
    const { framing, maxPacket } = options
    this.deframer =
      framing === 'cobs'
        ? new CobsDeframer({ maxPacket, onPacket })
        : new SerialDeframer(framing, { maxPacket, onPacket, isOpen: (answer, seq) => this.#isOpen(answer, seq) })
    this.#origin = { medium: this.medium, address: options.address ?? line.name, reply: packet => this.send(packet) }
    line.onData(
      chunk => this.#data(chunk),
      () => this.deframer.damaged(),
    )
  }

  /** `noise_bytes`: bytes that belonged to no packet; `damaged_bytes` of a serial port: see Line.onData. */
  get counters(): LinkCounters {
    const { bytes, taken, crowded } = this.deframer.counters
    return {
      ...this.#counters,
      detail: { noise_bytes: bytes - taken, crowded, ...this.#line.counters.detail, ...this.#options.detail?.() },
    }
  }

  async open(events: OpenableEvents): Promise<void> {
    this.deframer.reset()
    await this.#line.open(events)
  }

  close(): Promise<void> {
    this.#cancelGap?.()
    return this.#line.close()
  }

  onReturn(back: () => void): () => void {
    return this.#line.onReturn?.(back) ?? (() => undefined)
  }

  async send(packet: Uint8Array): Promise<boolean> {
    if (packet.length === 0 || packet.length > this.maxPacket || this.#pending >= MAX_PENDING) {
      this.#counters.errors++
      return false
    }
    const { framing, logger } = this.#options
    const frame = framing === 'cobs' ? frameCobs(packet) : frameSerial(packet, framing)
    const answer = ANSWERS.get(packet[0]!)
    if (answer !== undefined) this.#requests.get(answer)?.opened(controlSeq(packet), answer)
    this.#pending++
    try {
      await this.#line.write(frame)
      this.#counters.tx++
      return true
    } catch (error) {
      this.#counters.errors++
      logger.warn(`not sent: ${asOsError(error).message}`)
      return false
    } finally {
      this.#pending--
    }
  }

  /** Also accepts the answer to a request that was received, not sent, here (a multi-drop bus). */
  expectAnswer(answer: number, seq: number): void {
    this.#requests.get(answer)?.opened(seq, answer)
  }

  #isOpen(answer: number, seq: number): boolean {
    if (answer !== COMMAND.HANDSHAKE_NACK) return (this.#requests.get(answer)?.age(seq, answer) ?? null) !== null
    for (const [command, requests] of this.#requests) if (requests.age(seq, command) !== null) return true
    return false
  }

  #data(chunk: Uint8Array): void {
    this.#cancelGap?.()
    this.#cancelGap = undefined
    this.deframer.push(chunk)
    if (!this.deframer.waiting) return
    this.#cancelGap = this.#options.timers.after(this.#options.gapMs ?? DEFAULT_GAP_MS, () => this.deframer.idle())
  }

  #received(packet: Uint8Array): void {
    deliver(packet, this.#origin, this.handler, this.#counters, this.#options.logger)
  }
}
