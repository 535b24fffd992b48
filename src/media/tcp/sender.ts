// Packets to one peer by TCP. The first packet decides the form: a probe of the delivery exchange (X29) opens a stream
// of framed packets in both directions, which stays open; any other packet is sent like the reference does, one
// connection per packet, and so is everything with `delivery: "best_effort"`. Errors: no connection or no trust (open
// throws; a later packet reports the link lost); a peer that accepts or answers nothing (lost after `send_timeout_s`);
// a stream out of step or closed (lost).

import type { Socket } from 'node:net'
import { asOsError, closedWhileOpening } from '../../lib/errors'
import { SerialQueue } from '../../lib/serial-queue'
import type { DriverContext, Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { deliver, PacketReceiver } from '../../links/deliver'
import { HostResolver, hostPort } from '../../links/resolve'
import { DELIVERY_FRAME } from '../../protocol/control'
import { DeliveryStream } from '../../protocol/delivery'
import { isProbe } from '../../protocol/delivery/frame'
import { connectSocket, StreamWriter, streamText } from '../stream-socket'
import { clientTls, secureSocket, tlsError, tlsSettings } from '../tls'
import type { TcpOptions } from './tcp-options'

/** an unused connection is closed after this: a reference's listener serves one at a time */
const FRESH_MS = 500
/** how long answers on a packet's own connection are awaited, while later packets are sent */
const LINGER_MS = 2000
const MAX_LINGERING = 16
/** packets that wait for the previous packet's connection; more are refused */
const MAX_QUEUED = 64

interface Framed {
  readonly socket: Socket
  readonly stream: DeliveryStream
  readonly writer: StreamWriter
}

export class TcpSender extends PacketReceiver implements Medium {
  readonly medium = 'TCP'
  readonly maxPacket: number
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #options: TcpOptions & { host: string }
  readonly #context: DriverContext
  readonly #resolver: HostResolver
  #events: OpenableEvents | undefined
  /** the connection of the opening, until the first packet uses it */
  #fresh: { socket: Socket; timer: NodeJS.Timeout } | undefined
  #framed: Framed | undefined
  readonly #lingering = new Set<Socket>()
  #origin: PacketOrigin
  /** serializes connecting; packets are sent in order */
  readonly #turns = new SerialQueue()
  #queued = 0
  /** since when the framed peer owes an answer to a probe or a delivery frame, mono ms; 0: it does not */
  #owes = 0
  #watch: NodeJS.Timeout | undefined

  constructor(
    readonly name: string,
    options: TcpOptions & { host: string },
    context: DriverContext & { resolver?: HostResolver },
  ) {
    super()
    this.#options = options
    this.#context = context
    this.maxPacket = options.max_packet
    this.#resolver = context.resolver ?? new HostResolver({ clock: context.clock, logger: context.logger })
    this.#origin = this.#originAt(hostPort(options.host, options.port))
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const socket = await this.#connect()
    if (this.#events !== events) {
      socket.destroy()
      throw closedWhileOpening()
    }
    const timer = setTimeout(() => this.#takeFresh()?.destroy(), FRESH_MS)
    this.#fresh = { socket, timer }
    socket.once('close', () => {
      if (this.#fresh?.socket === socket) this.#takeFresh()
    })
    socket.on('error', () => undefined) // 'close' follows, and the next packet opens its own connection
  }

  async close(): Promise<void> {
    this.#events = undefined
    clearInterval(this.#watch)
    this.#takeFresh()?.destroy()
    this.#framed?.socket.destroy()
    this.#framed = undefined
    for (const socket of this.#lingering) socket.destroy()
    this.#lingering.clear()
  }

  /** Resolves true when the packet was passed to a connection; the framed stream copies it, a plain one does not. */
  send(packet: Uint8Array): Promise<boolean> {
    if (!this.#events || packet.length === 0 || packet.length > this.maxPacket) return this.#refuse()
    if (this.#framed) return this.#write(this.#framed, packet)
    if (this.#queued >= MAX_QUEUED) return this.#refuse()
    this.#queued++
    const events = this.#events
    return this.#turns.run(async () => {
      this.#queued--
      if (this.#events !== events) return this.#refuse()
      if (this.#framed) return this.#write(this.#framed, packet)
      try {
        return await this.#first(packet)
      } catch (error) {
        if (this.#events === events) events.lost(asOsError(error).message)
        return this.#refuse()
      }
    })
  }

  /** On the framed stream several packets are sent in one write. */
  async sendBatch(packets: readonly Uint8Array[]): Promise<number> {
    const framed = this.#framed
    framed?.socket.cork()
    const results = packets.map(packet => this.send(packet))
    framed?.socket.uncork()
    let taken = 0
    for (const result of results) {
      if (!(await result)) break
      taken++
    }
    return taken
  }

  async #connect(): Promise<Socket> {
    const { host, port, connect_timeout_s } = this.#options
    const peer = await this.#resolver.resolve(host)
    const where = hostPort(peer.address, port)
    const end = this.#context.clock.mono() + connect_timeout_s * 1000
    const tls = tlsSettings(this.#options.tls)
    const client = tls && clientTls(tls, host, this.#context)
    const socket = await connectSocket(peer, port, connect_timeout_s * 1000)
    this.#origin = this.#originAt(where)
    if (!client) return socket
    return secureSocket(socket, client, hostPort(host, port), Math.max(1000, end - this.#context.clock.mono()))
  }

  /** Sends a packet while there is no stream: a probe opens one, any other packet uses the connection alone. */
  async #first(packet: Uint8Array): Promise<boolean> {
    const events = this.#events
    const socket = this.#takeFresh() ?? (await this.#connect())
    if (this.#events !== events || !events) {
      socket.destroy()
      return this.#refuse()
    }
    if (this.#options.delivery !== 'best_effort' && isProbe(packet)) {
      this.#framed = this.#frame(socket, events)
      return this.#write(this.#framed, packet)
    }
    return this.#plain(socket, packet)
  }

  #frame(socket: Socket, events: OpenableEvents): Framed {
    const { host, port, max_packet, send_timeout_s } = this.#options
    const where = hostPort(host, port)
    const stream = new DeliveryStream({ role: 'client', maxPacket: max_packet, onPacket: p => this.#received(p) })
    const lost = (reason: string): void => {
      if (this.#framed?.socket !== socket) return
      this.#framed = undefined
      clearInterval(this.#watch)
      this.counters.errors++
      socket.destroy()
      if (this.#events === events) events.lost(reason)
    }
    socket.on('data', chunk => {
      this.#owes = 0
      try {
        stream.push(chunk)
      } catch (error) {
        lost(`${where}: ${asOsError(error).message}`)
      }
    })
    socket.on('end', () => lost(`${where} closed the connection`))
    socket.on('close', () => lost(`${where} closed the connection`))
    socket.on('error', error => lost(this.#text(error, where)))
    // writes to a connection whose other end is gone would vanish for a quarter of an hour
    this.#owes = 0
    const silent = (): void => lost(`${where} accepts or answers nothing for ${send_timeout_s} s`)
    this.#watch = setInterval(
      () => {
        if (this.#owes > 0 && this.#context.clock.mono() - this.#owes >= send_timeout_s * 1000) silent()
      },
      Math.min(1000, send_timeout_s * 500),
    )
    this.#watch.unref()
    return { socket, stream, writer: new StreamWriter(socket, send_timeout_s * 1000, silent) }
  }

  async #write({ stream, writer }: Framed, packet: Uint8Array): Promise<boolean> {
    if (this.#owes === 0 && (packet[0] === DELIVERY_FRAME || isProbe(packet))) this.#owes = this.#context.clock.mono()
    const taken = await writer.write(stream.wrap(packet))
    if (!taken) return this.#refuse()
    this.counters.tx++
    return true
  }

  /** Resolves when everything is written and the end is sent; the peer may answer for a while after that. */
  #plain(socket: Socket, packet: Uint8Array): Promise<boolean> {
    const { host, port, max_packet, send_timeout_s } = this.#options
    const where = hostPort(host, port)
    const answer = new DeliveryStream({ role: 'client', maxPacket: max_packet, onPacket: p => this.#received(p) })
    if (this.#lingering.size >= MAX_LINGERING) this.#lingering.values().next().value?.destroy()
    this.#lingering.add(socket)
    const deadline = setTimeout(() => socket.destroy(), send_timeout_s * 1000)
    return new Promise(resolve => {
      let written = false
      socket.on('data', chunk => {
        try {
          answer.push(chunk)
        } catch (error) {
          this.counters.errors++
          this.#context.logger.warn(`${where}: ${asOsError(error).message}`)
          socket.destroy()
        }
      })
      socket.once('end', () => {
        answer.end()
        if (written) socket.destroy()
      })
      // a reference that read only a part resets; what was written counts as sent
      socket.on('error', error => {
        this.counters.errors++
        this.#context.logger.warn(this.#text(error, where))
      })
      socket.once('close', () => {
        clearTimeout(deadline)
        this.#lingering.delete(socket)
        if (!written) resolve(this.#refuse())
      })
      socket.end(packet, () => {
        if (socket.errored) return
        written = true
        this.counters.tx++
        clearTimeout(deadline)
        setTimeout(() => socket.destroy(), LINGER_MS).unref()
        resolve(true)
      })
    })
  }

  #received(packet: Uint8Array): void {
    deliver(packet, this.#origin, this.handler, this.counters, this.#context.logger)
  }

  #takeFresh(): Socket | undefined {
    const fresh = this.#fresh
    this.#fresh = undefined
    if (!fresh) return undefined
    clearTimeout(fresh.timer)
    return fresh.socket.writable && !fresh.socket.readableEnded ? fresh.socket : undefined
  }

  #originAt(address: string): PacketOrigin {
    return { medium: this.medium, address, reply: packet => this.send(packet) }
  }

  /** OpenSSL errors after the handshake (in TLS 1.3 a refused client certificate is reported late) have their own texts. */
  #text(error: unknown, where: string): string {
    const openssl = /^(?:ERR_SSL|ERR_TLS|EPROTO)/.test(String((error as { code?: unknown }).code))
    return openssl ? tlsError(error, where).message : streamText(error, where)
  }

  #refuse(): Promise<boolean> {
    this.counters.errors++
    return Promise.resolve(false)
  }
}
