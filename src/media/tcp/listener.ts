// Connections of any peer by TCP on one port of this machine, with TLS if configured. Errors: the port is in use or not
// permitted (open throws, with what to do); the certificate files (open throws); too many connections, in total or of
// one address (the new one is closed, counted); a connection that is slow, out of step or reset (that one is closed,
// counted); a handler that throws (logged, counted). One sweep per second checks the time limits of all connections, so
// ten thousand idle ones cost nothing (S9).

import { createServer, type Server, type Socket } from 'node:net'
import { asOsError, closedWhileOpening, errno, OsError } from '../../lib/errors'
import type { DriverContext, Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { deliver, PacketReceiver } from '../../links/deliver'
import { HostResolver } from '../../links/resolve'
import { peerHost, tune } from '../stream-socket'
import { listenError } from '../system-errors'
import { tlsSettings } from '../tls'
import { TlsServer } from '../tls/server'
import { TcpConnection } from './connection'
import type { TcpOptions } from './tcp-options'

/** limit of buffered bytes of all connections; above it the largest are closed */
const MAX_MEMORY = 32 * 1024 * 1024
const SWEEP_MS = 1000

export class TcpListener extends PacketReceiver implements Medium {
  readonly medium = 'TCP'
  readonly maxPacket: number
  /** connections accepted, and closed early by us: the reasons */
  readonly tally = {
    accepted: 0,
    too_many: 0,
    cut: 0,
    broken: 0,
    timeout: 0,
    idle: 0,
    failed: 0,
    memory: 0,
    tls: 0,
  }
  readonly counters = { rx: 0, tx: 0, errors: 0, detail: this.tally }
  readonly #options: TcpOptions
  readonly #context: DriverContext
  readonly #resolver: HostResolver
  #events: OpenableEvents | undefined
  #server: Server | undefined
  #tls: TlsServer | undefined
  #sweep: NodeJS.Timeout | undefined
  readonly #sockets = new Set<Socket>()
  readonly #connections = new Set<TcpConnection>()
  readonly #perAddress = new Map<string, number>()

  constructor(
    readonly name: string,
    options: TcpOptions,
    context: DriverContext & { resolver?: HostResolver },
  ) {
    super()
    this.#options = options
    this.#context = context
    this.maxPacket = options.max_packet
    this.#resolver = context.resolver ?? new HostResolver({ clock: context.clock, logger: context.logger })
  }

  /** the local port; undefined while closed */
  get port(): number | undefined {
    const address = this.#server?.address()
    return typeof address === 'object' && address ? address.port : undefined
  }

  /** current connections, handshakes included */
  get connections(): number {
    return this.#sockets.size
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { listen_host, port, receive_timeout_s } = this.#options
    const settings = tlsSettings(this.#options.tls)
    if (settings && settings.cert === undefined)
      throw new OsError('TLS_FILE', 'to listen with TLS, tls.cert and tls.key are needed')
    const tls = settings ? new TlsServer(settings, this.#context, receive_timeout_s * 1000) : undefined
    const { address, family } = await this.#resolver.resolve(listen_host)
    const server = createServer({ allowHalfOpen: true }, socket => this.#accept(socket))
    await new Promise<void>((resolve, reject) => {
      server.once('error', error => reject(listenError('TCP', error, address, port)))
      server.listen({ host: address, port, exclusive: true, ipv6Only: false, backlog: 511 }, resolve)
    }).catch(error => {
      server.close()
      throw error
    })
    if (this.#events !== events) {
      server.close()
      throw closedWhileOpening()
    }
    server.removeAllListeners('error')
    server.on('error', error => this.#serverFailed(error, family))
    this.#server = server
    this.#tls = tls
    this.#sweep = setInterval(() => this.#check(), SWEEP_MS)
    this.#sweep.unref()
  }

  async close(): Promise<void> {
    this.#events = undefined
    clearInterval(this.#sweep)
    const server = this.#server
    this.#server = undefined
    const closed = [...this.#sockets].map(socket => {
      const gone = new Promise<void>(resolve => socket.once('close', () => resolve()))
      socket.destroy()
      return gone
    })
    if (server) closed.push(new Promise(resolve => server.close(() => resolve())))
    await Promise.all(closed)
  }

  /** A listener has no single peer: always false. Answers go through the origin of a packet. */
  send(): Promise<boolean> {
    this.counters.errors++
    return Promise.resolve(false)
  }

  #accept(socket: Socket): void {
    const host = peerHost(socket)
    const { max_connections, max_per_address } = this.#options
    const ofHost = this.#perAddress.get(host) ?? 0
    socket.on('error', () => undefined) // the user of the socket gets it, and 'close' follows
    if (this.#sockets.size >= max_connections || ofHost >= max_per_address) {
      this.tally.too_many++
      this.counters.errors++
      this.#context.logger.warn(`connection from ${host} refused: too many connections`)
      socket.destroy()
      return
    }
    this.tally.accepted++
    this.#sockets.add(socket)
    this.#perAddress.set(host, ofHost + 1)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      const left = (this.#perAddress.get(host) ?? 1) - 1
      if (left > 0) this.#perAddress.set(host, left)
      else this.#perAddress.delete(host)
    })
    tune(socket)
    if (!this.#tls) this.#serve(socket)
    else
      this.#tls.accept(
        socket,
        secure => this.#serve(secure),
        error => {
          this.tally.tls++
          this.counters.errors++
          this.#context.logger.warn(`${host}: ${error.message}`)
        },
      )
  }

  #serve(socket: Socket): void {
    const { max_packet, receive_timeout_s, idle_timeout_s } = this.#options
    const connection = new TcpConnection(socket, {
      maxPacket: max_packet,
      receiveTimeoutMs: receive_timeout_s * 1000,
      idleTimeoutMs: idle_timeout_s * 1000,
      mono: () => this.#context.clock.mono(),
      onPacket: (packet, origin) => this.#received(packet, origin),
      onReply: taken => {
        if (taken) this.counters.tx++
        else this.counters.errors++
      },
      onEnd: reason => {
        this.tally[reason]++
        this.counters.errors++
      },
    })
    this.#connections.add(connection)
    socket.once('close', () => this.#connections.delete(connection))
  }

  #received(packet: Uint8Array, origin: PacketOrigin): void {
    deliver(packet, origin, this.handler, this.counters, this.#context.logger)
  }

  #check(): void {
    const now = this.#context.clock.mono()
    let memory = 0
    for (const connection of this.#connections) {
      connection.check(now)
      memory += connection.memory
    }
    if (memory <= MAX_MEMORY) return
    const largest = [...this.#connections].sort((a, b) => b.memory - a.memory)
    for (const connection of largest) {
      if (memory <= MAX_MEMORY) break
      memory -= connection.memory
      connection.end('memory')
    }
  }

  /** Out of descriptors or memory for a moment: connections wait in the kernel; any other error ends the listening. */
  #serverFailed(error: Error, family: 4 | 6): void {
    this.counters.errors++
    if (['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'ECONNABORTED'].includes(errno(error) ?? ''))
      this.#context.logger.warn(`a connection was not accepted: ${asOsError(error).message}`)
    else this.#events?.lost(`listening on TCP (IPv${family}) failed: ${error.message}`)
  }
}
