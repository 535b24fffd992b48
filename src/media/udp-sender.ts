// Packets to one peer by UDP. The socket is connected, so the kernel drops what others send us, tells us when nobody
// listens there, and sends fastest. What fails: nobody there (counted, `degraded` until a packet comes back or no refusal
// follows a packet for a second), no network (`lost`, the supervisor retries), a full send queue (false, counted), a name
// that changes its address (a new socket takes over), a name server that is out (the last address is kept).
import type { Socket } from 'node:dgram'
import type { Clock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { Medium, OpenableEvents, PacketHandler, PacketOrigin } from '../links/contracts'
import { type HostAddress, HostResolver, hostPort } from './resolve'
import { isMomentary, isRefusal, MAX_DATAGRAM, makeSocket, peerText, until } from './udp-socket'

export interface UdpSenderOptions {
  /** name or IP address */
  host: string
  port: number
  /** advice to whoever makes packets; up to MAX_DATAGRAM goes through, in fragments */
  maxPacket: number
  receiveBufferBytes: number
  clock: Clock
  logger: Logger
  resolver?: HostResolver
}

/** packets handed to the kernel and not yet reported back; more are refused, so that a stuck device costs no memory */
const MAX_PENDING = 512
/** a refusal comes within the round trip; after this long without one the packet was taken */
const REFUSAL_MS = 1000

export class UdpSender implements Medium {
  readonly medium = 'UDP'
  readonly maxPacket: number
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #options: UdpSenderOptions
  readonly #resolver: HostResolver
  #handler: PacketHandler = () => undefined
  #events: OpenableEvents | undefined
  #socket: Socket | undefined
  #peer: HostAddress | undefined
  #origin: PacketOrigin | undefined
  #pending = 0
  #moving = false
  /** a refusal was told; when the first packet after it went out, 0 while none did */
  #refused = false
  #afterRefusal = 0

  constructor(
    readonly name: string,
    options: UdpSenderOptions,
  ) {
    this.#options = options
    this.maxPacket = options.maxPacket
    this.#resolver = options.resolver ?? new HostResolver({ clock: options.clock, logger: options.logger })
  }

  /** the peer's address in use, for example '192.0.2.1:8080'; undefined before the first open */
  get address(): string | undefined {
    return this.#peer && hostPort(this.#peer.address, this.#options.port)
  }

  /** One handler; the last one set counts. */
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const peer = await this.#resolver.resolve(this.#options.host)
    const socket = await this.#connect(peer)
    if (this.#events !== events) {
      socket.close()
      throw new OsError('LINK_DOWN', 'closed while opening')
    }
    this.#take(socket, peer)
  }

  async close(): Promise<void> {
    this.#events = undefined
    const socket = this.#socket
    this.#socket = undefined
    this.#refused = false
    if (socket) await closed(socket)
  }

  /** `packet` must stay as it is until the promise settles: the kernel may take it later. */
  send(packet: Uint8Array): Promise<boolean> {
    const socket = this.#socket
    if (!socket || packet.length > MAX_DATAGRAM || this.#pending >= MAX_PENDING) {
      this.counters.errors++
      return Promise.resolve(false)
    }
    if (!this.#resolver.known(this.#options.host)) void this.#follow()
    if (this.#refused) this.#hope()
    this.#pending++
    return new Promise(resolve => {
      const done = (error: Error | null): void => {
        this.#pending--
        if (error) this.#failed(socket, error)
        else this.counters.tx++
        resolve(!error)
      }
      try {
        socket.send(packet, done)
      } catch (error) {
        done(error as Error)
      }
    })
  }

  async #connect(peer: HostAddress): Promise<Socket> {
    const socket = makeSocket(peer.family, this.#options.receiveBufferBytes)
    try {
      await until(socket, 'connect', () => socket.connect(this.#options.port, peer.address))
    } catch (error) {
      socket.close()
      throw new OsError('NETWORK', peerText(error, peer.address, this.#options.port), { cause: error })
    }
    return socket
  }

  #take(socket: Socket, peer: HostAddress): void {
    this.#socket = socket
    this.#peer = peer
    this.#origin = {
      medium: this.medium,
      address: hostPort(peer.address, this.#options.port),
      reply: packet => this.send(packet),
    }
    socket.on('error', error => this.#failed(socket, error))
    socket.on('message', message => this.#received(socket, message))
  }

  #received(socket: Socket, message: Uint8Array): void {
    if (socket !== this.#socket || !this.#origin) return
    this.counters.rx++
    if (this.#refused) this.#well()
    try {
      this.#handler(message, this.#origin)
    } catch (error) {
      this.counters.errors++
      this.#options.logger.error(`a packet was not handled: ${asOsError(error).message}`)
    }
  }

  #failed(socket: Socket, error: unknown): void {
    this.counters.errors++
    if (socket !== this.#socket || isMomentary(error)) return
    const text = peerText(error, this.#peer?.address ?? this.#options.host, this.#options.port)
    if (!isRefusal(error)) {
      this.#events?.lost(text)
      return
    }
    this.#refused = true
    this.#afterRefusal = 0
    this.#events?.degraded(text)
  }

  /** A peer that only receives never answers: that no refusal follows our packets has to do. */
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

  /** The name's time is over: asks again, and moves to a new socket when the address changed. Never throws. */
  async #follow(): Promise<void> {
    if (this.#moving) return
    this.#moving = true
    const events = this.#events
    try {
      const peer = await this.#resolver.resolve(this.#options.host)
      if (events !== this.#events || !events || peer.address === this.#peer?.address) return
      const socket = await this.#connect(peer)
      const old = this.#socket
      if (events !== this.#events || !old) {
        socket.close()
        return
      }
      this.#options.logger.info(`${this.#options.host} is now ${peer.address}`)
      this.#take(socket, peer)
      if (this.#refused) this.#well()
      await closed(old)
    } catch (error) {
      this.counters.errors++
      this.#options.logger.warn(asOsError(error).message)
    } finally {
      this.#moving = false
    }
  }
}

/** Closes a socket that may be closed already; settles when the port is free. */
export const closed = (socket: Socket): Promise<void> =>
  new Promise(resolve => {
    try {
      socket.close(() => resolve())
    } catch {
      resolve() // it was closed before, which is what we want
    }
  })
