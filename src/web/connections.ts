// Bounds the open connections and what they may hold (S9, S15). One address has a quarter of all places, so that a flood from
// it leaves room for others: beyond that, its own connection that has been idle for longest is closed for the new one. At the
// limit of all, the longest idle one of any address is closed, or else one of the address that holds most.
//
// Requests of one connection are answered one after the other; a few may wait, a connection that sends more without reading
// is cut, and the rest of what it sent is not parsed. So is a reader that stalls, and where all readers together leave too
// much unread, the one that leaves most.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { systemTimers, type Timers } from '../lib/timers'
import { addressKey } from './login-throttle'

/** requests of one connection: the one that is answered, and those behind it */
const MAX_REQUESTS = 8
/** connections that one address may hold however small the limit is */
const LEAST_SHARE = 8
/** what the HTTP parser takes as a failure, so that it parses no further */
const PARSER_FAILS = -1
/** bytes that all readers together may leave unread */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024
/** a reader that takes nothing for so many looks is cut */
const STALLED_LOOKS = 3
/** an answer, but for event streams, is read within so many looks */
const LONGEST_LOOKS = 24

interface Open {
  readonly socket: Socket
  readonly address: string
  /** where answers are written: the encrypted one where there is TLS */
  stream: Socket
  /** the answer in the making, and those that wait for it */
  readonly waiting: (() => void)[]
  /** what was unread at the last look, and for how many looks nothing of it went or something was left */
  unread: number
  stalled: number
  left: number
}

/** The same for a connection and for the encrypted one on top of it. */
const peerOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

/** Bytes that wait for a reader, those included that the system has not taken yet. */
const unreadOf = ({ stream }: Open): number =>
  stream.writableLength +
  ((stream as unknown as { _handle?: { writeQueueSize?: number } })._handle?.writeQueueSize ?? 0)

interface ConnectionsOptions {
  readonly limit: number
  /** a reader that takes nothing for this long is cut */
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
  /** connections cut because they send without reading, or read too slowly */
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

  /** Answers a request in its turn. One of a connection that is cut already is left alone. */
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

  /** Closes what is idle now, and the others after their answer. */
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
    // end, not destroy: the last bytes of the answer may still be on their way
    else if (this.#closing) open.socket.end()
  }

  #cut(open: Open): void {
    this.cut++
    open.waiting.length = 0
    // one chunk may hold a thousand more requests, each with objects of its own; destroy() alone does not end its parsing
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

  /** True where one more of this address may stay, if need be because another one went. */
  #hasRoom(newcomer: string): boolean {
    const { limit } = this.#options
    const held = new Map<string, number>([[newcomer, 0]])
    for (const { address } of this.#open.values()) held.set(address, (held.get(address) ?? 0) + 1)
    if (held.get(newcomer)! >= Math.max(LEAST_SHARE, limit / 4))
      return this.#dropFirst(open => this.#isIdle(open, newcomer))
    if (this.#open.size < limit) return true
    const most = Math.max(...held.values())
    return (
      this.#dropFirst(open => this.#isIdle(open)) ||
      (held.get(newcomer)! + 1 < most && this.#dropFirst(({ address }) => held.get(address) === most))
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
