// IWIP without a serial line: UDP over IPv4 on this machine's network, to boards with lwIP, within the size limits of
// such a board. Everything except the size is left to the UDP medium, which is passed in.
//
// Errors: those of the UDP medium; and a packet larger than one datagram of the peer's MTU is refused and counted, in
// both directions, because the kernel would send fragments, and many lwIP boards are built without reassembly. For the
// same reason the link does not open over an interface with a smaller MTU (LINK_DOWN, with what to do).
import { OsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import type { LinkCounters, Medium, OpenableEvents, PacketHandler, PacketOrigin } from '../../src/links/contracts'
import { HEADERS } from './codec'
import type { Way } from './route'

export class BoundedMedium implements Medium {
  readonly name: string
  readonly maxPacket: number
  readonly #inner: Medium
  readonly #logger: Logger
  readonly #origins = new WeakMap<PacketOrigin, PacketOrigin>()
  #tooLarge = 0
  #reportedLength = 0

  readonly #way: () => Promise<Way | null>

  /**
   * `medium`: its name; `maxPacket`: bytes of the largest packet without headers; `way`: the interface that leads to
   * the peer, null if unknown.
   */
  constructor(
    inner: Medium,
    readonly medium: string,
    maxPacket: number,
    logger: Logger,
    way: () => Promise<Way | null>,
  ) {
    this.#way = way
    this.name = inner.name
    this.maxPacket = maxPacket
    this.#inner = inner
    this.#logger = logger
  }

  get counters(): LinkCounters {
    const { counters } = this.#inner
    if (this.#tooLarge === 0) return counters
    const detail = { ...counters.detail, too_large: this.#tooLarge }
    return { ...counters, errors: counters.errors + this.#tooLarge, detail }
  }

  onPacket(handler: PacketHandler): void {
    this.#inner.onPacket((packet, origin) => handler(packet, this.#origin(origin)))
  }

  async open(events: OpenableEvents): Promise<void> {
    const mtu = this.maxPacket + HEADERS
    const way = await this.#way()
    if (way && way.mtu < mtu)
      throw new OsError('LINK_DOWN', `${way.interface} takes ${way.mtu} bytes in one piece, and mtu is ${mtu}`, {
        hint: `say "mtu": ${way.mtu} in the options of ${this.name}`,
      })
    await this.#inner.open(events)
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  send(packet: Uint8Array): Promise<boolean> {
    return this.#fits(packet) ? this.#inner.send(packet) : Promise.resolve(false)
  }

  #fits(packet: Uint8Array): boolean {
    if (packet.length <= this.maxPacket) return true
    this.#tooLarge++
    if (this.#reportedLength !== packet.length)
      this.#logger.warn(`PACKET_TOO_LARGE: ${packet.length} bytes, the peer takes ${this.maxPacket} in one datagram`)
    this.#reportedLength = packet.length
    return false
  }

  #origin(from: PacketOrigin): PacketOrigin {
    let origin = this.#origins.get(from)
    if (!origin) {
      origin = {
        medium: this.medium,
        address: from.address,
        reply: packet => (this.#fits(packet) ? from.reply(packet) : Promise.resolve(false)),
      }
      this.#origins.set(from, origin)
    }
    return origin
  }
}
