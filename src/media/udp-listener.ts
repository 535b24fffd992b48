// Packets of anybody by UDP at one port of this machine. What fails: the port is taken or not ours (open throws, with what
// to do), the interface goes (`lost`), a handler that throws (logged, counted, the next packet is taken). ICMP errors of
// replies do not reach an unconnected socket. Hot path: 40,000 packets/s on one core, so the origin of a peer that sends
// again is the same object.
import type { RemoteInfo, Socket } from 'node:dgram'
import type { Clock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import type { Logger } from '../lib/logger'
import type { Medium, OpenableEvents, PacketHandler, PacketOrigin } from '../links/contracts'
import { HostResolver, hostPort } from './resolve'
import { closed } from './udp-sender'
import { bindError, MAX_DATAGRAM, makeSocket, until } from './udp-socket'

export interface UdpListenerOptions {
  /** address of this machine; '::' hears IPv4 as well */
  host: string
  /** 0: any free port, see `port` */
  port: number
  maxPacket: number
  receiveBufferBytes: number
  clock: Clock
  logger: Logger
  resolver?: HostResolver
}

/** replies handed to the kernel and not yet reported back; more are refused */
const MAX_PENDING = 1024

export class UdpListener implements Medium {
  readonly medium = 'UDP'
  readonly maxPacket: number
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #options: UdpListenerOptions
  readonly #resolver: HostResolver
  #handler: PacketHandler = () => undefined
  #events: OpenableEvents | undefined
  #socket: Socket | undefined
  #last: UdpOrigin | undefined
  #pending = 0

  constructor(
    readonly name: string,
    options: UdpListenerOptions,
  ) {
    this.#options = options
    this.maxPacket = options.maxPacket
    this.#resolver = options.resolver ?? new HostResolver({ clock: options.clock, logger: options.logger })
  }

  /** the port listened on; undefined while closed */
  get port(): number | undefined {
    return this.#socket?.address().port
  }

  /** One handler; the last one set counts. */
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { host, port, receiveBufferBytes, logger } = this.#options
    const { address, family } = await this.#resolver.resolve(host)
    const socket = makeSocket(family, receiveBufferBytes)
    try {
      await until(socket, 'listening', () => socket.bind({ address, port, exclusive: true }))
    } catch (error) {
      socket.close()
      throw bindError(error, address, port)
    }
    if (this.#events !== events) {
      socket.close()
      throw new OsError('LINK_DOWN', 'closed while opening')
    }
    this.#socket = socket
    socket.on('message', (message, from) => this.#received(message, from))
    socket.on('error', error => {
      this.counters.errors++
      events.lost(`UDP port ${port} failed: ${error.message}`)
    })
    const given = socket.getRecvBufferSize()
    if (given < receiveBufferBytes)
      logger.info(`the kernel holds ${given} bytes for us, not ${receiveBufferBytes}: raise net.core.rmem_max`)
  }

  async close(): Promise<void> {
    this.#events = undefined
    this.#last = undefined
    const socket = this.#socket
    this.#socket = undefined
    if (socket) await closed(socket)
  }

  /** A listener has no peer of its own: always false. Answers go through the origin of a packet. */
  send(): Promise<boolean> {
    this.counters.errors++
    return Promise.resolve(false)
  }

  #received(message: Uint8Array, from: RemoteInfo): void {
    this.counters.rx++
    let origin = this.#last
    if (origin?.host !== from.address || origin.port !== from.port) {
      origin = new UdpOrigin(from.address, from.port, this.#reply)
      this.#last = origin
    }
    try {
      this.#handler(message, origin)
    } catch (error) {
      this.counters.errors++
      this.#options.logger.error(`a packet of ${origin.address} was not handled: ${asOsError(error).message}`)
    }
  }

  readonly #reply = (packet: Uint8Array, host: string, port: number): Promise<boolean> => {
    const socket = this.#socket
    if (!socket || packet.length > MAX_DATAGRAM || this.#pending >= MAX_PENDING) {
      this.counters.errors++
      return Promise.resolve(false)
    }
    this.#pending++
    return new Promise(resolve => {
      const done = (error: Error | null): void => {
        this.#pending--
        if (error) this.counters.errors++
        else this.counters.tx++
        resolve(!error)
      }
      try {
        socket.send(packet, port, host, done)
      } catch (error) {
        done(error as Error)
      }
    })
  }
}

class UdpOrigin implements PacketOrigin {
  readonly medium = 'UDP'
  #address: string | undefined

  constructor(
    readonly host: string,
    readonly port: number,
    readonly answer: (packet: Uint8Array, host: string, port: number) => Promise<boolean>,
  ) {}

  /** made on demand; an IPv4 peer heard through an IPv6 socket is written as IPv4 */
  get address(): string {
    this.#address ??= hostPort(this.host.replace(/^::ffff:(?=\d+\.)/i, ''), this.port)
    return this.#address
  }

  reply(packet: Uint8Array): Promise<boolean> {
    return this.answer(packet, this.host, this.port)
  }
}
