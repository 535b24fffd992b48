// UDP over IPv4 over SLIP on a byte stream: the native link of boards with uIP, Contiki or lwIP on a serial port. The
// kernel's network is not involved: headers and checksums are made here.
//
// Errors: the line reports that it cannot be opened or is lost. A packet larger than the peer's MTU is refused: send()
// is false, it is counted and logged with both sizes, because such a board would lose a fragment. Invalid received data
// is dropped and counted by reason in `counters.detail`. A listening end answers echo requests, so that the board can
// ping it.

import { asOsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import { LruMap } from '../../src/lib/lru-map'
import type { Line, LinkCounters, Medium, OpenableEvents, PacketOrigin } from '../../src/links/contracts'
import { deliver, PacketReceiver } from '../../src/links/deliver'
import {
  decode,
  type Endpoint,
  encodeEchoReply,
  encodeSlip,
  encodeUdp,
  type FrameRefusal,
  HEADERS,
  ipText,
  type ReceivedDatagram,
  SlipDecoder,
  slipSize,
} from './codec'

interface SlipOptions {
  /** UIP or IWIP */
  medium: string
  mtu: number
  own: Endpoint
  /** destination of send(); absent if it only listens */
  peer?: Endpoint
  logger: Logger
}

/** frames passed to the line and not yet accepted; bounds the memory for a stuck port */
const MAX_PENDING = 64
/** peers whose return address is remembered; a board has one address */
const MAX_ORIGINS = 256

export class SlipMedium extends PacketReceiver implements Medium {
  readonly name: string
  readonly medium: string
  readonly maxPacket: number
  readonly #line: Line
  readonly #options: SlipOptions
  readonly #decoder: SlipDecoder
  readonly #tally = { rx: 0, tx: 0, errors: 0 }
  readonly #dropped: Record<FrameRefusal | 'too_large' | 'other_port', number> = {
    bad_header: 0,
    bad_checksum: 0,
    fragments: 0,
    other_protocol: 0,
    other_address: 0,
    other_port: 0,
    too_large: 0,
  }
  readonly #datagram: Uint8Array
  readonly #origins = new LruMap<string, PacketOrigin>(MAX_ORIGINS)
  #open = false
  #pending = 0
  #id = 0
  #reportedLength = 0

  constructor(line: Line, options: SlipOptions) {
    super()
    this.name = line.name
    this.medium = options.medium
    this.maxPacket = options.mtu - HEADERS
    this.#line = line
    this.#options = options
    this.#datagram = new Uint8Array(options.mtu)
    this.#decoder = new SlipDecoder(options.mtu, frame => this.#frame(frame))
    line.onData(
      chunk => this.#decoder.push(chunk),
      () => this.#decoder.damaged(),
    )
  }

  get counters(): LinkCounters {
    const { broken } = this.#decoder
    const detail = Object.fromEntries(
      Object.entries({ broken_frames: broken, ...this.#line.counters.detail, ...this.#dropped }).filter(
        ([, count]) => count > 0,
      ),
    )
    return Object.keys(detail).length === 0 ? this.#tally : { ...this.#tally, detail }
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#decoder.reset()
    await this.#line.open(events)
    this.#open = true
  }

  close(): Promise<void> {
    this.#open = false
    return this.#line.close()
  }

  send(packet: Uint8Array): Promise<boolean> {
    const { peer } = this.#options
    if (peer) return this.#send(packet, peer)
    this.#tally.errors++
    return Promise.resolve(false)
  }

  async #send(packet: Uint8Array, to: Endpoint): Promise<boolean> {
    if (packet.length > this.maxPacket) {
      this.#dropped.too_large++
      this.#tally.errors++
      // log once per size, not per packet
      if (this.#reportedLength !== packet.length)
        this.#options.logger.warn(
          `PACKET_TOO_LARGE: ${packet.length} bytes to ${ipText(to.ip)}, which takes ${this.maxPacket} (mtu ${this.#options.mtu})`,
        )
      this.#reportedLength = packet.length
      return false
    }
    const size = encodeUdp(packet, this.#options.own, to, this.#nextId(), this.#datagram)
    const taken = await this.#write(this.#datagram.subarray(0, size))
    if (taken) this.#tally.tx++
    return taken
  }

  /** The datagram is copied to the line's buffer when this returns, before its promise resolves. */
  async #write(datagram: Uint8Array): Promise<boolean> {
    if (!this.#open || this.#pending >= MAX_PENDING) {
      this.#tally.errors++
      return false
    }
    const frame = new Uint8Array(slipSize(datagram.length))
    const used = encodeSlip(datagram, frame)
    this.#pending++
    try {
      await this.#line.write(frame.subarray(0, used))
      return true
    } catch (error) {
      this.#tally.errors++
      this.#options.logger.warn(`not sent: ${asOsError(error).message}`)
      return false
    } finally {
      this.#pending--
    }
  }

  #nextId(): number {
    this.#id = (this.#id + 1) & 0xffff
    return this.#id
  }

  #frame(frame: Uint8Array): void {
    const { own, peer, logger } = this.#options
    const came = decode(frame, own.ip)
    if (typeof came === 'string') this.#dropped[came]++
    else if (came.kind === 'echo') this.#echo(came)
    else if (came.port !== own.port) this.#dropped.other_port++
    else if (peer && (came.from.ip !== peer.ip || came.from.port !== peer.port)) this.#dropped.other_address++
    else deliver(came.payload, this.#origin(came.from), this.handler, this.#tally, logger)
  }

  #echo({ payload, from }: ReceivedDatagram): void {
    if (this.#options.peer || payload.length + 20 > this.#options.mtu) return
    const size = encodeEchoReply(payload, this.#options.own.ip, from.ip, this.#nextId(), this.#datagram)
    void this.#write(this.#datagram.subarray(0, size))
  }

  #origin(from: Endpoint): PacketOrigin {
    const address = `${ipText(from.ip)}:${from.port}`
    let origin = this.#origins.get(address)
    if (!origin) {
      origin = { medium: this.medium, address, reply: packet => this.#send(packet, from) }
      this.#origins.set(address, origin)
    }
    return origin
  }
}
