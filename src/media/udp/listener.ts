// Packets of any peer by UDP on one port of this machine. Errors: the port is in use or not permitted (open throws,
// with what to do); the interface is removed (`lost`); a handler throws (logged, counted, the next packet is handled).
// An unconnected socket gets no ICMP errors of its replies. Hot path: 40,000 packets/s on one core, so a peer's packets
// share one origin object.

import { asOsError, closedWhileOpening } from '../../lib/errors'
import type { LinkCounters, Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { deliver, PacketReceiver } from '../../links/deliver'
import { HostResolver, hostPort } from '../../links/resolve'
import { listenError } from '../system-errors'
import { openPort } from './open'
import type { UdpPeer, UdpPort } from './port'
import { MAX_DATAGRAM, type UdpPartOptions } from './udp-options'

export class UdpListener extends PacketReceiver implements Medium {
  readonly medium = 'UDP'
  readonly maxPacket: number
  readonly #tally = { rx: 0, tx: 0, errors: 0 }
  /** of ports closed earlier */
  #dropped = 0
  readonly #options: UdpPartOptions
  readonly #resolver: HostResolver
  #events: OpenableEvents | undefined
  #port: UdpPort | undefined

  constructor(
    readonly name: string,
    options: UdpPartOptions,
  ) {
    super()
    this.#options = options
    this.maxPacket = options.maxPacket
    this.#resolver = options.resolver ?? new HostResolver({ clock: options.clock, logger: options.logger })
  }

  /** the local port; undefined while closed */
  get port(): number | undefined {
    return this.#port?.port
  }

  /** `dropped`: packets the kernel had no space for; present only if there were any, and only with the addon */
  get counters(): LinkCounters {
    const dropped = this.#dropped + (this.#port?.dropped ?? 0)
    return dropped === 0 ? this.#tally : { ...this.#tally, dropped }
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { host, port, receiveBufferBytes, batch = 'auto', logger } = this.#options
    const { address, family } = await this.#resolver.resolve(host)
    const opened = await openPort(
      {
        family,
        way: 'bind',
        address,
        port,
        receiveBufferBytes,
        events: {
          packet: (packet, peer) => this.#received(packet, peer!),
          sent: count => {
            this.#tally.tx += count
          },
          sendFailed: () => {
            this.#tally.errors++
          },
          failed: error => {
            this.#tally.errors++
            events.lost(`UDP port ${port} failed: ${asOsError(error).message}`)
          },
        },
      },
      batch,
    ).catch(error => {
      throw listenError('UDP', error, address, port)
    })
    if (this.#events !== events) {
      await opened.close()
      throw closedWhileOpening()
    }
    this.#port = opened
    if (opened.receiveBuffer < receiveBufferBytes)
      logger.info(
        `the receive buffer has ${opened.receiveBuffer} bytes instead of ${receiveBufferBytes}: raise net.core.rmem_max`,
      )
  }

  async close(): Promise<void> {
    this.#events = undefined
    const port = this.#port
    this.#port = undefined
    if (!port) return
    await port.close()
    this.#dropped += port.dropped ?? 0
  }

  /** A listener has no single peer: always false. Answers go through the origin of a packet. */
  send(): Promise<boolean> {
    this.#tally.errors++
    return Promise.resolve(false)
  }

  #received(packet: Uint8Array, peer: UdpPeer): void {
    if (!this.#port) return
    const origin = (peer.origin ??= new UdpOrigin(peer, this.#reply))
    deliver(packet, origin, this.handler, this.#tally, this.#options.logger)
  }

  readonly #reply = (packet: Uint8Array, peer: UdpPeer): Promise<boolean> => {
    if (this.#port && packet.length <= MAX_DATAGRAM) return this.#port.send(packet, peer)
    this.#tally.errors++
    return Promise.resolve(false)
  }
}

class UdpOrigin implements PacketOrigin {
  readonly medium = 'UDP'
  #address: string | undefined

  constructor(
    readonly peer: UdpPeer,
    readonly answer: (packet: Uint8Array, peer: UdpPeer) => Promise<boolean>,
  ) {}

  /** made on demand; an IPv4 peer of an IPv6 socket is written as IPv4 */
  get address(): string {
    this.#address ??= hostPort(this.peer.address.replace(/^::ffff:(?=\d+\.)/i, ''), this.peer.port)
    return this.#address
  }

  reply(packet: Uint8Array): Promise<boolean> {
    return this.answer(packet, this.peer)
  }
}
