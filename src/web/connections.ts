// Limits the open connections and their memory (S9, S15). One address may use a quarter of all places, so that a flood
// from it leaves room for others: beyond that, its own connection that is idle longest is closed for the new one. At
// the total limit, the connection of any address that is idle longest is closed, or else one of the address with the
// most connections.
//
// Requests of one connection are answered one after the other and a few may be queued; a connection that sends more
// without reading is closed, and its remaining bytes are not parsed. A stalled reader is closed too, and if all readers
// together have too much unread, the one with the most.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { systemTimers, type Timers } from '../lib/timers'
import { addressKey } from './login-throttle'

/** requests of one connection: the current one and the queued ones */
const MAX_REQUESTS = 8
/** connections that one address may have however small the limit is */
const LEAST_SHARE = 8
/** the HTTP parser treats this as an error and stops parsing */
const PARSER_FAILS = -1
/** limit of unread bytes of all readers together */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024
/** a reader that reads nothing for this many checks is closed */
const STALLED_LOOKS = 3
/** an answer, except event streams, must be read within this many checks */
const LONGEST_LOOKS = 24

interface Open {
  readonly socket: Socket
  readonly address: string
  /** the stream for answers: the encrypted one with TLS */
  stream: Socket
  /** the answer in progress, and those queued after it */
  readonly waiting: (() => void)[]
  /** unread bytes at the last check, and the number of checks without progress or with a remainder */
  unread: number
  stalled: number
  left: number
}

/** A key that is the same for a connection and for the encrypted one on top of it. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

/** Unread bytes of a reader, including those that the system has not accepted yet. */
const unreadOf = ({ stream }: Open): number =>
  stream.writableLength +
  ((stream as unknown as { _handle?: { writeQueueSize?: number } })._handle?.writeQueueSize ?? 0)

interface ConnectionsOptions {
  readonly limit: number
  /** a reader that reads nothing for this long is closed */
  readonly stallMs: number
  readonly timers?: Timers
}

export class Connections {
  /** by peer, in the order of their last request */
  readonly #open = new Map<string, Open>()
  readonly #options: ConnectionsOptions
  readonly #timers: Timers
  #cancelLook: (() => void) | undefined
  #closing = false
  /** connections closed or refused at the limit */
  dropped = 0
  /** connections closed because they send without reading, or read too slowly */
  cut = 0

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#timers = options.timers ?? systemTimers
  }

  get size(): number {
    return this.#open.size
  }

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const address = addressKey(socket.remoteAddress ?? '')
      if (!this.#hasRoom(address)) {
        this.dropped++
        socket.destroy()
        return
      }
      const peer = peerOf(socket)
      const mine: Open = { socket, address, stream: socket, waiting: [], unread: 0, stalled: 0, left: 0 }
      this.#open.set(peer, mine)
      socket.once('close', () => {
        mine.waiting.length = 0
        if (this.#open.get(peer) === mine) this.#open.delete(peer)
      })
      this.#lookSoon()
    })
  }

  /** Answers a request in its turn. A request of a closed connection is ignored. */
  enter(req: IncomingMessage, res: ServerResponse, answer: () => void): void {
    const peer = peerOf(req.socket)
    const open = this.#open.get(peer)
    if (!open || req.socket.destroyed) return
    open.stream = req.socket
    open.waiting.push(answer)
    if (open.waiting.length > MAX_REQUESTS) {
      this.#cut(open)
      return
    }
    this.#open.delete(peer)
    this.#open.set(peer, open)
    res.once('close', () => this.#answered(open))
    if (open.waiting.length === 1) this.#begin(open)
  }

  /** Closes idle connections now, and the others after their answer. */
  closeIdle(): void {
    this.#closing = true
    this.#cancelLook?.()
    for (const { socket, waiting } of this.#open.values()) if (waiting.length === 0) socket.destroy()
  }

  #begin(open: Open): void {
    open.left = 0
    open.waiting[0]?.()
    this.#boundUnread()
  }

  #answered(open: Open): void {
    open.waiting.shift()
    if (open.waiting.length > 0) this.#begin(open)
    // end, not destroy: the last bytes of the answer may still be in transit
    else if (this.#closing) open.socket.end()
  }

  #cut(open: Open): void {
    this.cut++
    open.waiting.length = 0
    // one chunk may contain a thousand more requests, each allocating objects; destroy() alone does not stop its
    // parsing
    const { parser } = open.stream as Socket & { parser?: { onIncoming?: () => number } | null }
    if (parser) parser.onIncoming = () => PARSER_FAILS
    open.stream.destroy()
    open.socket.destroy()
  }

  #boundUnread(): void {
    let sum = 0
    let most: Open | undefined
    for (const open of this.#open.values()) {
      if (open.stream.writableLength === 0) continue
      sum += open.stream.writableLength
      if (!most || open.stream.writableLength > most.stream.writableLength) most = open
    }
    if (sum > MAX_UNREAD_BYTES && most) this.#cut(most)
  }

  #lookSoon(): void {
    this.#cancelLook ??= this.#timers.after(this.#options.stallMs / STALLED_LOOKS, () => {
      this.#cancelLook = undefined
      for (const open of this.#open.values()) this.#look(open)
      if (this.#open.size > 0 && !this.#closing) this.#lookSoon()
    })
  }

  #look(open: Open): void {
    const unread = unreadOf(open)
    open.stalled = unread > 0 && unread === open.unread ? open.stalled + 1 : 0
    open.left = unread > 0 ? open.left + 1 : 0
    open.unread = unread
    if (open.stalled >= STALLED_LOOKS || open.left >= LONGEST_LOOKS) this.#cut(open)
  }

  #drop({ socket }: Open, peer: string): true {
    this.#open.delete(peer)
    this.dropped++
    socket.destroy()
    return true
  }

  /** True if one more connection of this address may stay, if necessary after closing another. */
  #hasRoom(address: string): boolean {
    const { limit } = this.#options
    const held = new Map<string, number>([[address, 0]])
    for (const open of this.#open.values()) held.set(open.address, (held.get(open.address) ?? 0) + 1)
    if (held.get(address)! >= Math.max(LEAST_SHARE, limit / 4))
      return this.#dropFirst(open => this.#isIdle(open, address))
    if (this.#open.size < limit) return true
    const most = Math.max(...held.values())
    return (
      this.#dropFirst(open => this.#isIdle(open)) ||
      (held.get(address)! + 1 < most && this.#dropFirst(open => held.get(open.address) === most))
    )
  }

  #isIdle({ waiting, address }: Open, of = address): boolean {
    return waiting.length === 0 && address === of
  }

  #dropFirst(goes: (open: Open) => boolean): boolean {
    for (const [peer, open] of this.#open) if (goes(open)) return this.#drop(open, peer)
    return false
  }
}
