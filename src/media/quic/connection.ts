// One QUIC connection and its timer: the library's state machine between a socket and the packets. It sends the
// library's datagrams once per turn of the event loop, calls the library when its timer is due, and passes on packets.
// Both ends use it.
//
// Errors: a failed handshake, or an end by the peer (`over` is called once, with the reason); a full send queue (the
// packet is refused). Nothing throws. Hot path: 30,000 packets/s; the buffers are shared, and a datagram is copied
// once, by the library.
import { asOsError } from '../../lib/errors'
import type { ConnectionError, HostPort, QuicState } from './native'
import { UDP_PAYLOAD } from './settings'
import { QuicStreams } from './stream'

interface ConnectionParts {
  readonly role: 'client' | 'server'
  /** sends one UDP datagram; the buffer belongs to the callee until `free` is called */
  transmit(datagram: Uint8Array, to: HostPort, free: () => void): void
  onPacket(packet: Uint8Array, connection: QuicConnection): void
  /** called once, after the handshake and before the first packet; a throw ends the connection */
  onEstablished(connection: QuicConnection): void
  /** called once at the end, with the reason, and whether the peer just went silent */
  onOver(connection: QuicConnection, reason: string): void
}

/** replaces an application's reason before the handshake is done (RFC 9000, 10.2.3) */
const CLOSED_EARLY = 12

const scratch = new Uint8Array(65_536)
/** buffers of sent datagrams, reused when the kernel has copied them */
const pool: Uint8Array[] = []
const POOL = 256
/** UDP datagrams sent before other work can run */
const BURST = 64

export class QuicConnection {
  readonly streams: QuicStreams
  /** stream of the current packet; null: it arrived as a datagram */
  stream: number | null = null
  #established = false
  #over = false
  /** why this end closes it */
  #closing: string | undefined
  #flushing = false
  #timer: NodeJS.Timeout | undefined
  #timerAt = 0

  constructor(
    readonly quic: QuicState,
    private readonly parts: ConnectionParts,
  ) {
    this.streams = new QuicStreams(
      quic,
      parts.role,
      packet => parts.onPacket(packet, this),
      reason => this.close(reason),
    )
  }

  get established(): boolean {
    return this.#established && !this.#over
  }

  /** the largest packet that fits into a datagram now; null: the peer accepts none */
  get datagramSize(): number | null {
    return this.quic.dgramMaxWritableLen()
  }

  /** Handles one UDP datagram of this connection; its bytes are overwritten. */
  received(datagram: Uint8Array, from: HostPort): void {
    if (this.#over) return
    try {
      this.quic.recv(datagram, from)
    } catch {
      // a foreign datagram is dropped; a failed handshake shows below as an error of the connection
    }
    this.#look()
    this.#soon()
  }

  /** Sends one packet: as a datagram if it fits, else on a stream. */
  send(packet: Uint8Array): Promise<boolean> {
    if (!this.established || packet.length === 0) return Promise.resolve(false)
    const size = this.quic.dgramMaxWritableLen()
    if (size !== null && packet.length <= size) {
      if (this.quic.isDgramSendQueueFull()) {
        this.#flush() // a flush may free space
        if (this.#over || this.quic.isDgramSendQueueFull()) return Promise.resolve(false)
      }
      try {
        this.quic.dgramSend(packet)
      } catch {
        return Promise.resolve(false) // the peer's limit shrank meanwhile
      }
      this.#soon()
      return Promise.resolve(true)
    }
    const sent =
      size === null && this.parts.role === 'client' ? this.streams.sendPlain(packet) : this.streams.send(packet)
    this.#soon()
    return sent
  }

  /** Makes the peer answer, so that both ends know the path works. */
  keepAlive(): void {
    if (!this.established) return
    this.quic.sendAckEliciting()
    this.#soon()
  }

  /** Informs the peer and ends the connection. */
  close(reason: string): void {
    if (this.#over) return
    this.#closing = reason
    try {
      this.quic.close(Buffer.from(reason.slice(0, 100)))
    } catch {
      // already closed
    }
    this.#flush()
    this.#end(reason)
  }

  /** Sends the library's datagrams immediately. */
  start(): void {
    this.#flush()
  }

  #soon(): void {
    if (this.#flushing) return
    this.#flushing = true
    setImmediate(() => {
      this.#flushing = false
      this.#flush()
    })
  }

  #look(): void {
    const { quic } = this
    if (quic.isClosed() || quic.isDraining() || quic.localError() || quic.peerError()) {
      this.#flush()
      this.#end(this.#reason())
      return
    }
    if (!this.#established && quic.isEstablished()) {
      this.#established = true
      try {
        this.parts.onEstablished(this)
      } catch (error) {
        this.close(asOsError(error).message)
        return
      }
    }
    if (!this.#established) return
    this.streams.read(scratch, id => {
      this.stream = id
    })
    this.stream = null
    while (!this.#over) {
      const length = this.quic.dgramRecv(scratch)
      if (length === null) break
      this.parts.onPacket(scratch.subarray(0, length), this)
    }
    if (!this.#over) this.streams.write()
  }

  #flush(): void {
    if (this.#over) return
    for (let k = 0; k < BURST; k++) {
      const buffer = pool.pop() ?? new Uint8Array(UDP_PAYLOAD)
      let next: ReturnType<QuicState['send']> = null
      try {
        next = this.quic.send(buffer)
      } catch {
        // the library closed the connection because of it: the timer below notices
      }
      if (next === null) {
        pool.push(buffer)
        this.#arm()
        return
      }
      this.parts.transmit(buffer.subarray(0, next[0]), next[1], () => {
        if (pool.length < POOL) pool.push(buffer)
      })
    }
    this.#soon()
    this.#arm()
  }

  /** One timer, changed only if it would fire too late: most datagrams postpone it. */
  #arm(): void {
    const wait = this.quic.timeout()
    if (wait === null) {
      if (this.quic.isClosed()) this.#end(this.#reason())
      return
    }
    const at = performance.now() + wait + 1
    if (this.#timer && this.#timerAt <= at) return
    clearTimeout(this.#timer)
    this.#timerAt = at
    this.#timer = setTimeout(() => this.#due(), Math.ceil(wait) + 1)
  }

  #due(): void {
    this.#timer = undefined
    if (this.#over) return
    this.quic.onTimeout() // no effect if it is too early
    if (this.quic.isClosed() || this.quic.isDraining()) this.#end(this.#reason())
    else this.#flush()
  }

  #end(reason: string): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    this.streams.end()
    this.parts.onOver(this, reason)
  }

  #reason(): string {
    const { quic } = this
    if (this.#closing !== undefined) return this.#closing
    if (quic.isTimedOut()) return this.#established ? 'the peer is silent' : 'the peer does not answer'
    const [local, peer] = [quic.localError(), quic.peerError()]
    if (peer) return `closed by the peer: ${reasonOf(peer)}`
    return local ? reasonOf(local) : 'reset by the peer, which does not know the connection any more'
  }
}

function reasonOf({ isApp, errorCode, reason }: ConnectionError): string {
  const text = Buffer.from(reason)
    .toString('utf8')
    .replace(/[^\x20-\x7e]/g, '?')
  if (isApp) return text || `code ${errorCode}`
  if (errorCode === CLOSED_EARLY) return 'closed while connecting'
  return text || (errorCode >= 256 ? `TLS alert ${errorCode - 256}` : `QUIC error ${errorCode}`)
}
