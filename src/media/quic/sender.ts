// Packets to one peer by QUIC: one connection, datagrams for packets that fit, a stream for all others. A lost
// connection is reported; the supervisor opens the next one. Errors: no build (NO_DRIVER); no route or no answer
// (NETWORK, NO_REPLY); the peer's certificate (TLS_…; nothing was sent then); a peer that went away (`lost`, within
// idle_timeout_ms, or immediately if it says so or was restarted); a full queue (false, counted).

import { randomBytes, X509Certificate } from 'node:crypto'
import type { Socket } from 'node:dgram'
import { rootCertificates } from 'node:tls'
import { asOsError, closedWhileOpening, OsError } from '../../lib/errors'
import type { Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { deliver, PacketReceiver } from '../../links/deliver'
import { HostResolver, hostPort, literalAddress } from '../../links/resolve'
import { clockBehind } from '../tls'
import { judgeChain } from '../tls/chain'
import { parseCertificates, type TlsMaterial } from '../tls/settings'
import type { TlsSettings } from '../tls/tls-options'
import { closed, isMomentary, makeSocket, peerText, until } from '../udp/socket'
import { QuicConnection } from './connection'
import { type QuicConfig, type QuicLibrary, quicLibrary } from './native'
import type { QuicContext, QuicOptions } from './quic-options'
import { clientConfig, quicTls } from './settings'

/** every path carries at least this; the true size is known after the connection is established */
const FIRST_MAX_PACKET = 1200
/** time to wait for the peer's first bytes; a peer that sends none is not os-node, but may work */
const CONFIRM_MS = 2000
/** a peer whose machine refuses packets and which stays silent for this long is gone */
const REFUSED_MS = 2000
const RECEIVE_BUFFER = 1024 * 1024

export class QuicSender extends PacketReceiver implements Medium {
  readonly medium = 'QUIC'
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #options: QuicOptions & { host: string }
  readonly #context: QuicContext
  readonly #tls: TlsSettings
  readonly #resolver: HostResolver
  #events: OpenableEvents | undefined
  #socket: Socket | undefined
  #connection: QuicConnection | undefined
  #origin: PacketOrigin | undefined
  #keepAlive: NodeJS.Timeout | undefined
  /** set after a refusal (no listener there); runs until the peer is heard again */
  #refused: NodeJS.Timeout | undefined
  #up = false

  constructor(
    readonly name: string,
    options: QuicOptions & { host: string },
    context: QuicContext,
  ) {
    super()
    this.#options = options
    this.#context = context
    this.#tls = quicTls(options, name)
    this.#resolver = context.resolver ?? new HostResolver(context)
  }

  /** As the path allows now; larger packets are sent on a stream. */
  get maxPacket(): number {
    const { max_packet } = this.#options
    return Math.min(
      this.#connection?.established ? (this.#connection.datagramSize ?? max_packet) : FIRST_MAX_PACKET,
      max_packet,
    )
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { host, port } = this.#options
    const library = quicLibrary()
    const behind = clockBehind(this.#context)
    const { config, material } = clientConfig(library, this.#tls, this.#options, behind)
    const peer = await this.#resolver.resolve(host)
    this.#stillWanted(events)
    const socket = makeSocket(peer.family, RECEIVE_BUFFER)
    this.#socket = socket
    try {
      await until(socket, 'connect', () => socket.connect(port, peer.address))
    } catch (error) {
      throw new OsError('NETWORK', peerText(error, peer.address, port), { cause: error })
    }
    this.#stillWanted(events)
    this.#origin = { medium: this.medium, address: hostPort(peer.address, port), reply: packet => this.send(packet) }
    await this.#handshake(library, config, socket, peer.address, behind ? this.#trust(material) : null)
    this.#stillWanted(events)
    this.#up = true
  }

  /** Resolves when the peer accepted the connection; rejects with the reason. Its later end is `lost`. */
  #handshake(
    library: QuicLibrary,
    config: QuicConfig,
    socket: Socket,
    peer: string,
    trust: { trusted: X509Certificate[]; now: number } | null,
  ): Promise<void> {
    const { host, port, connect_timeout_ms, idle_timeout_ms } = this.#options
    const name = this.#tls.servername ?? host.replace(/\.$/, '')
    const { address, port: localPort } = socket.address()
    const [local, remote] = [
      { host: address, port: localPort },
      { host: peer, port },
    ]
    return new Promise((resolve, reject) => {
      const sni = literalAddress(name) ? null : name
      const quic = library.Connection.connect(sni, randomBytes(16), local, remote, config)
      let failure: OsError | undefined
      let wait = setTimeout(() => connection.close('no answer'), connect_timeout_ms)
      const connection = new QuicConnection(quic, {
        role: 'client',
        transmit: (datagram, _to, free) => this.#transmit(socket, datagram, free),
        onPacket: packet => this.#received(packet),
        onEstablished: ({ datagramSize, streams }) => {
          clearTimeout(wait)
          try {
            if (!this.#tls.insecure) judgePeer(quic.peerCertChain() ?? [], name, trust)
          } catch (error) {
            failure = asOsError(error)
            throw failure
          }
          this.#keepAlive = setInterval(() => connection.keepAlive(), idle_timeout_ms / 3)
          if (datagramSize === null) return resolve()
          // wait until the peer accepts the handshake too: it may reject our certificate
          wait = setTimeout(resolve, CONFIRM_MS)
          streams.onBegun = () => {
            clearTimeout(wait)
            resolve()
          }
          streams.begin()
        },
        onOver: (_connection, reason) => {
          clearTimeout(wait)
          this.#stopTimers()
          reject(failure ?? whyNot(connection, reason, name))
          if (this.#connection === connection && this.#up) this.#events?.lost(reason)
        },
      })
      this.#connection = connection
      socket.on('message', (message, from) => {
        clearTimeout(this.#refused)
        this.#refused = undefined
        connection.received(message, { host: from.address, port: from.port })
      })
      socket.on('error', error => {
        this.counters.errors++
        if (isMomentary(error)) return
        if (connection.established) {
          // anyone on the path can forge this: it counts only if the peer stays silent
          this.#refused ??= setTimeout(() => connection.close(peerText(error, peer, port)), REFUSED_MS)
          return
        }
        failure ??= new OsError('NETWORK', peerText(error, peer, port), { cause: error })
        connection.close('no route')
      })
      connection.start()
    })
  }

  async close(): Promise<void> {
    this.#events = undefined
    const [connection, socket] = [this.#connection, this.#socket]
    this.#connection = undefined
    this.#socket = undefined
    this.#up = false
    this.#stopTimers()
    connection?.close('closed')
    if (socket) await closed(socket)
  }

  /** Sends one packet; true when the connection accepted it. A datagram is copied immediately. */
  async send(packet: Uint8Array): Promise<boolean> {
    const sent = packet.length <= this.#options.max_packet && ((await this.#connection?.send(packet)) ?? false)
    if (sent) this.counters.tx++
    else this.counters.errors++
    return sent
  }

  #stopTimers(): void {
    clearInterval(this.#keepAlive)
    clearTimeout(this.#refused)
    this.#refused = undefined
  }

  #stillWanted(events: OpenableEvents): void {
    if (this.#events !== events) throw closedWhileOpening()
  }

  #received(packet: Uint8Array): void {
    deliver(packet, this.#origin!, this.handler, this.counters, this.#context.logger)
  }

  #transmit(socket: Socket, datagram: Uint8Array, free: () => void): void {
    try {
      socket.send(datagram, error => {
        free()
        if (error) this.counters.errors++
      })
    } catch {
      free() // the socket was closed meanwhile; QUIC retransmits what matters
    }
  }

  #trust(material: TlsMaterial): { trusted: X509Certificate[]; now: number } {
    const { clock, trueNow } = this.#context
    const trusted = material.ca ? parseCertificates(material.ca) : rootCertificates.map(pem => new X509Certificate(pem))
    return { trusted, now: trueNow?.() ?? clock.wall() }
  }
}

/** The reason of a failed handshake. */
function whyNot({ quic }: QuicConnection, reason: string, name: string): OsError {
  const alert = (quic.localError()?.errorCode ?? 0) - 256
  if (alert === 45)
    return new OsError('TLS_EXPIRED', `the certificate of ${name} has expired, or is not valid yet`, {
      hint: 'renew the certificate of the peer; check both clocks',
    })
  if (alert === 48)
    return new OsError('TLS_UNTRUSTED', `the authority of the certificate of ${name} is not trusted here`)
  if (alert === 42) return new OsError('TLS_NAME', `the certificate of ${name} is for another name`)
  if (alert >= 0 || quic.peerError()) return new OsError('TLS_HANDSHAKE', `QUIC with ${name} failed: ${reason}`)
  return new OsError('NO_REPLY', `${name} does not answer by QUIC`, {
    hint: 'check address and port, and that UDP passes the firewalls between',
  })
}

/** Checks the name, and the chain if the library could not (the clock is behind). Throws TLS_…. */
function judgePeer(
  chain: readonly Uint8Array[],
  name: string,
  own: { trusted: X509Certificate[]; now: number } | null,
): void {
  const [leaf, ...sent] = chain.map(der => new X509Certificate(der))
  if (!leaf) throw new OsError('TLS_UNTRUSTED', `${name} shows no certificate`)
  const address = literalAddress(name)
  if ((address ? leaf.checkIP(address.address) : leaf.checkHost(name)) === undefined)
    throw new OsError('TLS_NAME', `the certificate of ${name} is for ${leaf.subjectAltName ?? leaf.subject}`)
  if (own) judgeChain({ leaf, sent, purpose: 'server', ...own })
}
