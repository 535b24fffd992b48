// The UDP substitute for Bluetooth of the reference: raw packets, one per datagram, to and from 127.0.0.1:5454. Used
// only if the options name it (decision 0037). Errors: the port is in use (PORT_BUSY); no listener at the other end (counted,
// degraded until a packet arrives).
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { isIP } from 'node:net'
import { asOsError, errno, OsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import type { Medium, OpenableEvents } from '../../src/links/contracts'
import { deliver, PacketReceiver } from '../../src/links/deliver'

interface ShimOptions {
  listen: boolean
  /** IP address */
  host: string
  port: number
  maxPacket: number
  logger: Logger
}

export class UdpShim extends PacketReceiver implements Medium {
  readonly medium = 'Bluetooth'
  readonly maxPacket: number
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #options: ShimOptions
  #socket: Socket | undefined
  #events: OpenableEvents | undefined
  #refused = false

  /** Throws CONFIG_INVALID when the host is not an IP address: a name would need a lookup for every packet. */
  constructor(
    readonly name: string,
    options: ShimOptions,
  ) {
    super()
    if (isIP(options.host) === 0)
      throw new OsError('CONFIG_INVALID', `options of ${name}: host: the shim needs an IP address`, {
        details: { link: name, keys: ['host'] },
      })
    this.maxPacket = options.maxPacket
    this.#options = options
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { listen, host, port } = this.#options
    const socket = createSocket(isIP(host) === 6 ? 'udp6' : 'udp4')
    this.#socket = socket
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once('error', reject)
        socket.once(listen ? 'listening' : 'connect', () => resolve())
        if (listen) socket.bind({ address: host, port, exclusive: true })
        else socket.connect(port, host)
      })
    } catch (cause) {
      const busy = errno(cause) === 'EADDRINUSE'
      await this.close()
      throw new OsError(busy ? 'PORT_BUSY' : 'NETWORK', `${host}:${port}: ${asOsError(cause).message}`, { cause })
    }
    socket.removeAllListeners('error')
    socket.on('error', error => this.#failed(error))
    socket.on('message', (message, from) => this.#received(socket, message, from))
  }

  async close(): Promise<void> {
    const socket = this.#socket
    this.#socket = undefined
    this.#events = undefined
    this.#refused = false
    if (socket) await new Promise<void>(resolve => socket.close(() => resolve()))
  }

  send(packet: Uint8Array): Promise<boolean> {
    const { listen } = this.#options
    if (!this.#socket || listen || packet.length > this.maxPacket) {
      this.counters.errors++
      return Promise.resolve(false)
    }
    return this.#write(this.#socket, packet)
  }

  #write(socket: Socket, packet: Uint8Array, to?: RemoteInfo): Promise<boolean> {
    return new Promise(resolve => {
      const done = (error: Error | null): void => {
        if (error) this.#failed(error)
        else this.counters.tx++
        resolve(!error)
      }
      if (to) socket.send(packet, to.port, to.address, done)
      else socket.send(packet, done)
    })
  }

  #received(socket: Socket, message: Uint8Array, from: RemoteInfo): void {
    if (this.#refused) this.#events?.degraded('')
    this.#refused = false
    const origin = {
      medium: this.medium,
      address: `${from.address}:${from.port}`,
      reply: (packet: Uint8Array) => this.#write(socket, packet, this.#options.listen ? from : undefined),
    }
    deliver(message, origin, this.handler, this.counters, this.#options.logger)
  }

  #failed(error: Error): void {
    this.counters.errors++
    if (errno(error) !== 'ECONNREFUSED') {
      this.#events?.lost(error.message)
      return
    }
    this.#refused = true
    this.#events?.degraded(`no listener at ${this.#options.host}:${this.#options.port}`)
  }
}
