// Packets on the streams of one QUIC connection, for packets that do not fit into a datagram. Between os-node peers it
// is stream 0 in the form of X29: the client's first bytes are a probe, the other end answers with PONG, and from then
// on both send `len u16` + packet. The medium consumes these two packets. A peer whose stream begins differently (the
// reference) sends one plain packet on it, up to its end; a peer that accepts no datagrams gets packets in that form
// too.
//
// Errors: a peer out of step (`broken` is called: the owner closes the connection); too many queued bytes (the packet
// is refused); more streams than the peer allows (refused).
import { asOsError } from '../../lib/errors'
import { DeliveryStream } from '../../protocol/delivery'
import { buildProbe, buildProbeReply, isProbe, isProbeReply } from '../../protocol/delivery/frame'
import type { QuicState } from './native'
import { MAX_PACKET } from './quic-options'

/** limit of bytes that wait for the peer's window, besides the one packet that is always allowed */
const MAX_WAITING = 1024 * 1024

const MAX_EARLY = 8

interface Outgoing {
  readonly id: number
  readonly fin: boolean
  bytes: Uint8Array
  readonly done: (sent: boolean) => void
}

interface Incoming {
  readonly stream: DeliveryStream
  /** the probe or PONG at its start was received */
  begun: boolean
}

export class QuicStreams {
  readonly #connection: QuicState
  readonly #role: 'client' | 'server'
  readonly #onPacket: (packet: Uint8Array) => void
  readonly #broken: (reason: string) => void
  readonly #incoming = new Map<number, Incoming>()
  readonly #queue: Outgoing[] = []
  /** a listener's packets for a stream that its peer has not opened yet */
  readonly #early: { packet: Uint8Array; done: (sent: boolean) => void }[] = []
  /** called when the peer's first bytes were its PONG: it is os-node and completed the handshake */
  onBegun: () => void = () => undefined
  #waiting = 0
  #nextPlain = 0

  constructor(
    connection: QuicState,
    role: 'client' | 'server',
    onPacket: (packet: Uint8Array) => void,
    broken: (reason: string) => void,
  ) {
    this.#connection = connection
    this.#role = role
    this.#onPacket = onPacket
    this.#broken = broken
  }

  /** Sends the client's first bytes, so that both ends may write from now on. */
  begin(): void {
    const { stream } = this.#of(0)
    this.#put(0, stream.wrap(buildProbe(1)), false, () => undefined)
  }

  /** Sends a packet between os-node peers. False: the peer's stream is missing or of another form, or the queue is full. */
  send(packet: Uint8Array): Promise<boolean> {
    const stream = this.#incoming.get(0)?.stream
    if (packet.length === 0 || packet.length > MAX_PACKET) return Promise.resolve(false)
    if (this.#role === 'client' || stream?.mode === 'framed')
      return stream ? this.#queued(0, stream.wrap(packet), false) : Promise.resolve(false)
    // a peer that accepts datagrams opens its stream immediately, but its first bytes may arrive after a datagram
    if ((stream && stream.mode !== 'opening') || this.#early.length >= MAX_EARLY) return Promise.resolve(false)
    return new Promise(done => this.#early.push({ packet: Uint8Array.from(packet), done }))
  }

  /** Sends a packet to a peer that accepts no datagrams: on a separate stream, up to its end. */
  sendPlain(packet: Uint8Array): Promise<boolean> {
    if (packet.length === 0 || this.#connection.peerStreamsLeftBidi() === 0) return Promise.resolve(false)
    const id = this.#nextPlain
    this.#nextPlain += 4
    return this.#queued(id, packet, true)
  }

  /** Sends the one answer to a plain packet, on the stream it arrived on. */
  answerPlain(packet: Uint8Array, id: number): Promise<boolean> {
    return this.#queued(id, packet, true)
  }

  /** Reads received data. `scratch` is used for one read at a time. `onStream`: the stream of the packets that follow. */
  read(scratch: Uint8Array, onStream: (id: number) => void): void {
    for (const id of this.#connection.readable()) {
      onStream(id)
      const incoming = this.#of(id)
      try {
        for (;;) {
          const got = this.#connection.streamRecv(id, scratch)
          if (got === null) break
          const [length, end] = got
          incoming.stream.push(scratch.subarray(0, length))
          if (!end) continue
          incoming.stream.end()
          this.#incoming.delete(id)
          break
        }
      } catch (error) {
        this.#incoming.delete(id)
        // a reset stream affects only itself; one out of step ends the connection
        if (incoming.stream.mode === 'broken') this.#broken(asOsError(error).message)
      }
    }
  }

  /** Sends queued data, as far as the peer's window allows. */
  write(): void {
    while (this.#queue.length > 0) {
      const first = this.#queue[0]!
      let took: number | null
      try {
        took = this.#connection.streamSend(first.id, first.bytes, first.fin)
      } catch {
        took = -1 // the stream or the connection has ended: the packet counts as not sent
      }
      if (took === null || (took === 0 && first.bytes.length > 0)) return
      if (took > 0) this.#waiting -= took
      if (took >= 0 && took < first.bytes.length) {
        first.bytes = first.bytes.subarray(took)
        return
      }
      if (took < 0) this.#waiting -= first.bytes.length
      this.#queue.shift()
      first.done(took >= 0)
    }
  }

  /** The connection has ended: queued packets were not sent. */
  end(): void {
    for (const { done } of [...this.#queue.splice(0), ...this.#early.splice(0)]) done(false)
    this.#waiting = 0
  }

  #queued(id: number, bytes: Uint8Array, fin: boolean): Promise<boolean> {
    if (this.#waiting > 0 && this.#waiting + bytes.length > MAX_WAITING) return Promise.resolve(false)
    return new Promise(done => this.#put(id, bytes, fin, done))
  }

  #put(id: number, bytes: Uint8Array, fin: boolean, done: (sent: boolean) => void): void {
    this.#queue.push({ id, bytes, fin, done })
    this.#waiting += bytes.length
    this.write()
  }

  #of(id: number): Incoming {
    let incoming = this.#incoming.get(id)
    if (!incoming) {
      const made: Incoming = {
        begun: false,
        stream: new DeliveryStream({ role: this.#role, onPacket: packet => this.#took(made, packet) }),
      }
      incoming = made
      this.#incoming.set(id, incoming)
    }
    return incoming
  }

  #took(incoming: Incoming, packet: Uint8Array): void {
    if (!incoming.begun && incoming.stream.mode === 'framed') {
      incoming.begun = true
      if (this.#role === 'server' && isProbe(packet)) {
        this.#put(0, incoming.stream.wrap(buildProbeReply((packet[1]! << 8) | packet[2]!, 0)), false, () => undefined)
        for (const early of this.#early.splice(0)) this.#put(0, incoming.stream.wrap(early.packet), false, early.done)
        return
      }
      if (isProbeReply(packet)) {
        this.onBegun()
        return
      }
    }
    this.#onPacket(packet)
  }
}
