// One incoming connection: framed in both directions after a probe, else one plain packet up to its end (X29), answered
// on the same connection. It buffers at most one packet, for a limited time; any error closes only this connection.
import type { Socket } from 'node:net'
import type { PacketOrigin } from '../../links/contracts'
import { hostPort } from '../../links/resolve'
import { DeliveryStream } from '../../protocol/delivery'
import { isData } from '../../wire/commands'
import { peerHost } from '../stream-socket'

/** limit of unread answers in bytes; more answers are refused */
const MAX_UNREAD = 64 * 1024
/** a control packet's answer waits until its data is on flash */
const ANSWER_MS = 5000

type ConnectionEnd = 'cut' | 'broken' | 'timeout' | 'idle' | 'failed' | 'memory'

interface ConnectionParts {
  readonly maxPacket: number
  readonly receiveTimeoutMs: number
  readonly idleTimeoutMs: number
  readonly mono: () => number
  readonly onPacket: (packet: Uint8Array, origin: PacketOrigin) => void
  readonly onReply: (taken: boolean) => void
  readonly onEnd: (reason: ConnectionEnd) => void
}

export class TcpConnection implements PacketOrigin {
  readonly medium = 'TCP'
  readonly address: string
  readonly #socket: Socket
  readonly #parts: ConnectionParts
  readonly #stream: DeliveryStream
  readonly #openedAt: number
  /** time of the last complete packet, and of the last byte since */
  #packetAt: number
  #byteAt: number | undefined
  /** the plain packet is complete: time limit of its answer */
  #answerUntil: number | undefined
  #packets = 0

  constructor(socket: Socket, parts: ConnectionParts) {
    this.#socket = socket
    this.#parts = parts
    this.address = hostPort(peerHost(socket), socket.remotePort ?? 0)
    this.#openedAt = parts.mono()
    this.#packetAt = this.#openedAt
    this.#stream = new DeliveryStream({
      role: 'server',
      maxPacket: parts.maxPacket,
      onPacket: packet => {
        this.#packets++
        parts.onPacket(packet, this)
      },
    })
    socket.on('data', chunk => this.#data(chunk))
    socket.on('end', () => this.#ended())
    // after a plain packet the peer may close before its answer: no error
    socket.on('error', () => {
      if (this.#answerUntil === undefined) this.#parts.onEnd('failed')
    })
  }

  /** bytes held for this connection */
  get memory(): number {
    return this.#stream.memory + this.#socket.writableLength
  }

  /** Sends an answer on this connection; a plain one has only one answer, which ends it. */
  reply = (packet: Uint8Array): Promise<boolean> => {
    const socket = this.#socket
    const unread = socket.writableLength
    const fits = packet.length > 0 && packet.length <= 0xffff && (unread === 0 || unread + packet.length <= MAX_UNREAD)
    const taken = socket.writable && fits
    if (taken) {
      const bytes = this.#stream.wrap(packet)
      // a plain answer is written without a copy, and the caller may reuse its buffer
      if (this.#stream.mode === 'plain') socket.end(bytes.slice())
      else socket.write(bytes)
    }
    this.#parts.onReply(taken)
    return Promise.resolve(taken)
  }

  /** Called about once a second: closes the connection if it is too slow, idle or answered. */
  check(now: number): void {
    const { receiveTimeoutMs, idleTimeoutMs } = this.#parts
    if (this.#answerUntil !== undefined) {
      if (now >= this.#answerUntil) this.#socket.destroy()
    } else if (this.#stream.mode !== 'framed') {
      if (now - this.#openedAt < receiveTimeoutMs) return
      // the packet may be complete, with a sender that waits for its answer before it closes
      this.#ended()
      if (this.#packets === 0) this.#close('timeout')
    } else if (this.#byteAt !== undefined && now - this.#byteAt >= receiveTimeoutMs) this.#close('timeout')
    else if (now - this.#packetAt >= idleTimeoutMs) this.#close('idle')
  }

  /** Closes it for a reason of the listener. */
  end(reason: ConnectionEnd): void {
    this.#close(reason)
  }

  #data(chunk: Uint8Array): void {
    if (this.#answerUntil !== undefined) return
    const before = this.#packets
    try {
      this.#stream.push(chunk)
    } catch {
      this.#close('broken')
      return
    }
    const now = this.#parts.mono()
    if (this.#packets > before) {
      this.#packetAt = now
      this.#byteAt = undefined
    }
    // start of the partial packet; a complete packet sets a mark that the next complete one clears
    if (this.#stream.held > 0) this.#byteAt ??= now
  }

  #ended(): void {
    if (this.#answerUntil !== undefined) return
    const first = this.#stream.first
    this.#answerUntil = this.#parts.mono() + (first !== undefined && !isData(first) ? ANSWER_MS : 0)
    this.#stream.end()
    if (this.#stream.cut > 0) this.#parts.onEnd('cut')
    const waits = this.#stream.mode === 'plain' && this.#answerUntil > this.#parts.mono()
    if (!waits) this.#socket.end()
  }

  #close(reason: ConnectionEnd): void {
    if (!this.#socket.destroyed) this.#parts.onEnd(reason)
    this.#socket.destroy()
  }
}
