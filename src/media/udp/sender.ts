// Packets to one peer by UDP. The socket is connected, so the kernel drops packets of others, reports a missing
// listener, and sends fastest. Errors: no listener (counted, `degraded` until a packet arrives, or a packet stays
// without refusal for a second); no network (`lost`, the supervisor retries); a full send queue (false, counted); a
// name whose address changes (a new socket replaces the old one); a failing name server (the last address stays in
// use).

import { asOsError, closedWhileOpening, OsError } from '../../lib/errors'
import type { Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { deliver, PacketReceiver } from '../../links/deliver'
import { type HostAddress, HostResolver, hostPort } from '../../links/resolve'
import { openPort } from './open'
import type { UdpPort } from './port'
import { isMomentary, isRefusal, peerText } from './socket'
import { MAX_DATAGRAM, type UdpPartOptions } from './udp-options'

/** a refusal arrives within the round trip; after this long without one the packet was accepted */
const REFUSAL_MS = 1000

export class UdpSender extends PacketReceiver implements Medium {
  readonly medium = 'UDP'
  readonly maxPacket: number
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #options: UdpPartOptions
  readonly #resolver: HostResolver
  #events: OpenableEvents | undefined
  #port: UdpPort | undefined
  #peer: HostAddress | undefined
  #origin: PacketOrigin | undefined
  #moving = false
  /** a refusal was reported; time of the first packet after it, 0 if none was sent */
  #refused = false
  #afterRefusal = 0

  constructor(
    readonly name: string,
    options: UdpPartOptions,
  ) {
    super()
    this.#options = options
    this.maxPacket = options.maxPacket
    this.#resolver = options.resolver ?? new HostResolver({ clock: options.clock, logger: options.logger })
  }

  /** the peer's current address, for example '192.0.2.1:8080'; undefined before the first open */
  get address(): string | undefined {
    return this.#peer && hostPort(this.#peer.address, this.#options.port)
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const peer = await this.#resolver.resolve(this.#options.host)
    const port = await this.#connect(peer)
    if (this.#events !== events) {
      await port.close()
      throw closedWhileOpening()
    }
    this.#take(port, peer)
  }

  async close(): Promise<void> {
    this.#events = undefined
    const port = this.#port
    this.#port = undefined
    this.#refused = false
    await port?.close()
  }

  /** `packet` must not change until the promise resolves: the kernel may take it later. */
  send(packet: Uint8Array): Promise<boolean> {
    const port = this.#ready()
    if (port && packet.length <= MAX_DATAGRAM) return port.send(packet)
    this.counters.errors++
    return Promise.resolve(false)
  }

  /**
   * In order; stops at the first packet that is too long or that the kernel refused. The bytes must not change, as with
   * send().
   */
  async sendBatch(packets: readonly Uint8Array[]): Promise<number> {
    const port = this.#ready()
    const tooLong = packets.findIndex(packet => packet.length > MAX_DATAGRAM)
    if (!port || tooLong >= 0) this.counters.errors++
    return port ? port.sendBatch(tooLong < 0 ? packets : packets.slice(0, tooLong)) : 0
  }

  /** The current port; also checks the expiry of the name and of a refusal. */
  #ready(): UdpPort | undefined {
    if (!this.#port) return undefined
    if (!this.#resolver.known(this.#options.host)) void this.#follow()
    if (this.#refused) this.#hope()
    return this.#port
  }

  async #connect({ address, family }: HostAddress): Promise<UdpPort> {
    const { port, receiveBufferBytes, batch = 'auto' } = this.#options
    let opened: UdpPort | undefined
    const events = {
      packet: (packet: Uint8Array) => this.#received(opened, packet),
      sent: (count: number) => {
        this.counters.tx += count
      },
      sendFailed: (error: unknown) => this.#failed(opened, error),
      failed: (error: unknown) => this.#failed(opened, error),
    }
    try {
      opened = await openPort({ family, way: 'connect', address, port, receiveBufferBytes, events }, batch)
      return opened
    } catch (error) {
      throw new OsError('NETWORK', peerText(error, address, port), { cause: error })
    }
  }

  #take(port: UdpPort, peer: HostAddress): void {
    this.#port = port
    this.#peer = peer
    this.#origin = {
      medium: this.medium,
      address: hostPort(peer.address, this.#options.port),
      reply: packet => this.send(packet),
    }
  }

  #received(port: UdpPort | undefined, packet: Uint8Array): void {
    if (!port || port !== this.#port || !this.#origin) return
    if (this.#refused) this.#well()
    deliver(packet, this.#origin, this.handler, this.counters, this.#options.logger)
  }

  #failed(port: UdpPort | undefined, error: unknown): void {
    this.counters.errors++
    if (!port || port !== this.#port || isMomentary(error)) return
    const text = peerText(error, this.#peer?.address ?? this.#options.host, this.#options.port)
    if (!isRefusal(error)) {
      this.#events?.lost(text)
      return
    }
    this.#refused = true
    this.#afterRefusal = 0
    this.#events?.degraded(text)
  }

  /** A peer that only receives never answers, so the absence of a refusal must be enough. */
  #hope(): void {
    const now = this.#options.clock.mono()
    if (this.#afterRefusal === 0) this.#afterRefusal = now
    else if (now - this.#afterRefusal >= REFUSAL_MS) this.#well()
  }

  #well(): void {
    this.#refused = false
    this.#afterRefusal = 0
    this.#events?.degraded('')
  }

  /** The name has expired: resolves it again, and replaces the socket if the address changed. Never throws. */
  async #follow(): Promise<void> {
    if (this.#moving) return
    this.#moving = true
    const events = this.#events
    try {
      const peer = await this.#resolver.resolve(this.#options.host)
      if (events !== this.#events || !events || peer.address === this.#peer?.address) return
      const port = await this.#connect(peer)
      const old = this.#port
      if (events !== this.#events || !old) {
        await port.close()
        return
      }
      this.#options.logger.info(`${this.#options.host} now resolves to ${peer.address}`)
      this.#take(port, peer)
      if (this.#refused) this.#well()
      await old.close()
    } catch (error) {
      this.counters.errors++
      this.#options.logger.warn(asOsError(error).message)
    } finally {
      this.#moving = false
    }
  }
}
