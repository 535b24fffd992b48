// Packets of any peer by QUIC on one UDP port of this machine. Errors:
// - No build (NO_DRIVER), no certificate (CONFIG_INVALID, TLS_FILE), the port is in use (PORT_BUSY …): open throws.
// - A peer does not complete its handshake: removed after connect_timeout_ms. A silent peer: removed after
//   idle_timeout_ms.
// - More peers than max_connections: not answered, counted.
// - A peer continues a connection of an earlier run of this listener: it gets a stateless reset and reconnects
//   immediately; the token is derived from the listener's key, so nothing needs to be stored.
// While many handshakes are incomplete, a new peer must first prove its address (Retry, RFC 9000, 8.1.2), so that
// forged addresses can occupy only part of the connections.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { RemoteInfo, Socket } from 'node:dgram'
import { closedWhileOpening } from '../../lib/errors'
import type { Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { deliver, PacketReceiver } from '../../links/deliver'
import { HostResolver, hostPort } from '../../links/resolve'
import { listenError } from '../system-errors'
import { type TlsMaterial, tlsMaterial } from '../tls/settings'
import type { TlsSettings } from '../tls/tls-options'
import { closed, makeSocket, until } from '../udp/socket'
import { QuicConnection } from './connection'
import { type HostPort, INITIAL, type QuicLibrary, quicLibrary } from './native'
import type { QuicContext, QuicOptions } from './quic-options'
import { needCertificate, quicTls, serverConfig } from './settings'

const ID_LENGTH = 16
/** the common part of all ids of one connection: the library issues further ids */
const KEY_LENGTH = 8
/** the shortest datagram that may open a connection (RFC 9000, 14.1) */
const LEAST_INITIAL = 1200
/** the shortest datagram that is answered by a reset, and the shortest reset (RFC 9000, 10.3) */
const LEAST_RESET = 43
/** resets per second, so that no sender can make us send much */
const RESETS_PER_SECOND = 50
/** number of incomplete handshakes from which addresses must be proved; fewer if few peers are allowed */
const UNPROVED = 32
/** lifetime of an address proof */
const PROOF_MS = 10_000
const RECEIVE_BUFFER = 4 * 1024 * 1024

interface Running {
  readonly socket: Socket
  readonly library: QuicLibrary
  readonly local: HostPort
  readonly material: TlsMaterial
  /** secret of connection ids and reset tokens */
  readonly secret: Buffer
}

export class QuicListener extends PacketReceiver implements Medium {
  readonly medium = 'QUIC'
  /** connections started, refused because there were too many, ended before their handshake; retries and resets sent; noise */
  readonly tally = { accepted: 0, too_many: 0, failed: 0, retries: 0, resets: 0, strange: 0 }
  readonly counters = { rx: 0, tx: 0, errors: 0, detail: this.tally }
  readonly #options: QuicOptions
  readonly #context: QuicContext
  readonly #tls: TlsSettings
  readonly #resolver: HostResolver
  readonly #peers = new Map<string, Peer>()
  #events: OpenableEvents | undefined
  #running: Running | undefined
  /** incomplete handshakes */
  #unfinished = 0
  #resetsLeft = RESETS_PER_SECOND
  #resetsSince = 0

  constructor(
    readonly name: string,
    options: QuicOptions,
    context: QuicContext,
  ) {
    super()
    this.#options = options
    this.#context = context
    this.#tls = quicTls(options, name)
    needCertificate(this.#tls, name)
    this.#resolver = context.resolver ?? new HostResolver(context)
  }

  /** packets up to this size are received and answered */
  get maxPacket(): number {
    return this.#options.max_packet
  }

  /** the local port; undefined while closed */
  get port(): number | undefined {
    return this.#running?.socket.address().port
  }

  /** peers connected now */
  get connections(): number {
    return this.#peers.size
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { listen_host, port } = this.#options
    const library = quicLibrary()
    const material = tlsMaterial(this.#tls)
    const { address, family } = await this.#resolver.resolve(listen_host)
    const socket = makeSocket(family, RECEIVE_BUFFER)
    try {
      await until(socket, 'listening', () => socket.bind({ address, port, exclusive: true }))
    } catch (error) {
      socket.close()
      throw listenError('UDP', error, address, port)
    }
    if (this.#events !== events) {
      socket.close()
      throw closedWhileOpening()
    }
    const secret = createHash('sha256').update('os-node quic').update(material.key!).digest()
    const running: Running = {
      socket,
      library,
      material,
      secret,
      local: { host: address, port: socket.address().port },
    }
    this.#running = running
    socket.on('message', (message, from) => this.#received(running, message, from))
    socket.on('error', error => {
      this.counters.errors++
      events.lost(`UDP port ${port} failed: ${error.message}`)
    })
  }

  async close(): Promise<void> {
    this.#events = undefined
    for (const peer of [...this.#peers.values()]) peer.connection.close('the listener closes')
    this.#peers.clear()
    const running = this.#running
    this.#running = undefined
    if (running) await closed(running.socket)
  }

  /** A listener has no single peer: always false. Answers go through the origin of a packet. */
  send(): Promise<boolean> {
    this.counters.errors++
    return Promise.resolve(false)
  }

  #received(running: Running, message: Buffer, from: RemoteInfo): void {
    if (running !== this.#running) return
    const isShort = (message[0]! & 0x80) === 0
    if (isShort) {
      if (message.length <= ID_LENGTH) {
        this.tally.strange++
        return
      }
      const peer = this.#peers.get(message.toString('latin1', 1, 1 + KEY_LENGTH))
      if (peer) peer.connection.received(message, { host: from.address, port: from.port })
      else this.#reset(running, message, from)
      return
    }
    this.#long(running, message, from)
  }

  /** A packet of a handshake. */
  #long(running: Running, message: Buffer, from: RemoteInfo): void {
    const { library, secret, socket } = running
    let header: ReturnType<QuicLibrary['Header']['fromSlice']>
    try {
      header = library.Header.fromSlice(message, ID_LENGTH)
    } catch {
      this.tally.strange++ // noise of the Internet
      return
    }
    const remote = { host: from.address, port: from.port }
    // the id is derived from the client's first one, so a repeated opening finds its connection
    const id = createHmac('sha256', secret).update(header.dcid).update(hostPort(remote.host, remote.port)).digest()
    const scid = id.subarray(0, ID_LENGTH)
    const known = this.#peers.get(keyOf(Buffer.from(header.dcid))) ?? this.#peers.get(keyOf(scid))
    if (known) {
      known.connection.received(message, remote)
      return
    }
    if (header.ty !== INITIAL || message.length < LEAST_INITIAL) {
      this.tally.strange++
      return
    }
    if (!library.versionIsSupported(header.version)) {
      const answer = new Uint8Array(LEAST_INITIAL)
      const length = library.negotiateVersion(header.scid, header.dcid, answer)
      // loss is the same as for any datagram
      socket.send(answer.subarray(0, length), from.port, from.address, () => undefined)
      return
    }
    if (this.#peers.size >= this.#options.max_connections) {
      this.tally.too_many++
      this.counters.errors++
      return
    }
    const { token } = header
    if (token.length > 0) {
      const first = this.#proved(secret, Buffer.from(header.dcid), remote, Buffer.from(token))
      // its id is the one in the Retry
      if (first) this.#accept(running, Buffer.from(header.dcid), remote, message, first)
      else this.tally.strange++
      return
    }
    if (this.#unfinished < Math.min(UNPROVED, this.#options.max_connections / 4))
      this.#accept(running, scid, remote, message, null)
    else this.#retry(running, header, scid, remote)
  }

  /** Requires a peer to retry with a proof of its address. Nothing is stored, and the answer is shorter than the request. */
  #retry(
    { library, secret, socket }: Running,
    { scid, dcid, version }: { scid: Uint8Array; dcid: Uint8Array; version: number },
    id: Buffer,
    { host, port }: HostPort,
  ): void {
    const front = Buffer.alloc(8 + dcid.length)
    front.writeDoubleBE(this.#context.clock.mono() + PROOF_MS)
    front.set(dcid, 8)
    const token = Buffer.concat([front, proofOf(secret, front, id, { host, port })])
    const answer = new Uint8Array(LEAST_INITIAL)
    const length = library.retry(scid, dcid, id, token, version, answer)
    this.tally.retries++
    socket.send(answer.subarray(0, length), port, host, () => undefined) // loss is the same as for any datagram
  }

  /** The id of the packet that a Retry answered, if `token` is ours, for this address and id, and not too old; else null. */
  #proved(secret: Buffer, id: Buffer, remote: HostPort, token: Buffer): Buffer | null {
    const front = token.subarray(0, -PROOF_LENGTH)
    if (front.length < 8) return null
    const own = timingSafeEqual(token.subarray(-PROOF_LENGTH), proofOf(secret, front, id, remote))
    return own && this.#context.clock.mono() <= front.readDoubleBE(0) ? front.subarray(8) : null
  }

  /** `first`: the id of the packet that a Retry answered. */
  #accept(running: Running, scid: Buffer, remote: HostPort, message: Buffer, first: Buffer | null): void {
    const { library, local, material, socket } = running
    const key = keyOf(scid)
    const config = serverConfig(library, material, this.#options, tokenOf(running.secret, scid))
    const quic = library.Connection.accept(scid, first, local, remote, config)
    this.tally.accepted++
    this.#unfinished++
    let established = false
    const late = setTimeout(() => connection.close('the handshake took too long'), this.#options.connect_timeout_ms)
    const connection = new QuicConnection(quic, {
      role: 'server',
      transmit: (datagram, to, free) => this.#transmit(socket, datagram, to, free),
      onPacket: packet => this.#packet(packet, peer),
      onEstablished: () => {
        established = true
        this.#unfinished--
        clearTimeout(late)
      },
      onOver: (_connection, reason) => {
        clearTimeout(late)
        if (!established) {
          this.#unfinished--
          this.tally.failed++
          this.counters.errors++
        }
        if (this.#peers.get(key) === peer) this.#peers.delete(key)
        this.#context.logger.debug(`${peer.address}: ${reason}`)
      },
    })
    const peer = new Peer(
      connection,
      hostPort(remote.host.replace(/^::ffff:(?=\d+\.)/i, ''), remote.port),
      this.counters,
    )
    this.#peers.set(key, peer)
    connection.received(message, remote)
  }

  #packet(packet: Uint8Array, peer: Peer): void {
    deliver(packet, peer.origin(), this.handler, this.counters, this.#context.logger)
  }

  #transmit(socket: Socket, datagram: Uint8Array, to: HostPort, free: () => void): void {
    try {
      socket.send(datagram, to.port, to.host, error => {
        free()
        if (error) this.counters.errors++
      })
    } catch {
      free() // the socket was closed meanwhile
    }
  }

  /**
   * Informs the peer of an unknown connection that it has ended. Never longer than the datagram it answers: no loops, no
   * amplification.
   */
  #reset({ socket, secret }: Running, message: Buffer, from: RemoteInfo): void {
    if (message.length < LEAST_RESET) return
    const now = this.#context.clock.mono()
    if (now - this.#resetsSince >= 1000) {
      this.#resetsSince = now
      this.#resetsLeft = RESETS_PER_SECOND
    }
    if (this.#resetsLeft-- <= 0) return
    this.tally.resets++
    const id = message.subarray(1, 1 + ID_LENGTH)
    const answer = createHash('sha256').update(message).digest().subarray(0, 25)
    answer[0] = (answer[0]! & 0x3f) | 0x40
    const reset = Buffer.concat([answer, tokenOf(secret, id)])
    socket.send(reset, from.port, from.address, () => undefined) // loss is the same as for any datagram
  }
}

const keyOf = (id: Buffer): string => id.toString('latin1', 0, KEY_LENGTH)

const PROOF_LENGTH = 16

const proofOf = (secret: Buffer, front: Buffer, id: Buffer, { host, port }: HostPort): Buffer =>
  createHmac('sha256', secret)
    .update(`retry ${hostPort(host, port)} `)
    .update(id)
    .update(front)
    .digest()
    .subarray(0, PROOF_LENGTH)

const tokenOf = (secret: Buffer, id: Uint8Array): Buffer =>
  createHmac('sha256', secret).update('reset').update(id).digest().subarray(0, 16)

/** A connected peer, and the way to answer it. */
class Peer {
  #datagramOrigin: PacketOrigin | undefined

  constructor(
    readonly connection: QuicConnection,
    readonly address: string,
    readonly counters: { tx: number; errors: number },
  ) {}

  /** The same object for every datagram; a packet of a plain stream is answered on that stream. */
  origin(): PacketOrigin {
    const { stream } = this.connection
    if (stream !== null && this.connection.datagramSize === null)
      return this.#made(packet => this.connection.streams.answerPlain(packet, stream))
    this.#datagramOrigin ??= this.#made(packet => this.connection.send(packet))
    return this.#datagramOrigin
  }

  #made(send: (packet: Uint8Array) => Promise<boolean>): PacketOrigin {
    return {
      medium: 'QUIC',
      address: this.address,
      reply: async packet => {
        const sent = await send(packet)
        if (sent) this.counters.tx++
        else this.counters.errors++
        return sent
      },
    }
  }
}
