// Shared by TCP and MQTT: connecting with a deadline, writing with back-pressure, the meaning of the system's errors.
// Addresses only, so that Node never calls getaddrinfo (decision 0024).
import { connect, type Socket } from 'node:net'
import { errno, OsError } from '../lib/errors'
import { type HostAddress, hostPort } from '../links/resolve'
import { wayText } from './system-errors'

/** a peer that vanished is detected after this plus ten probes one second apart */
const KEEP_ALIVE_MS = 30_000

/** Settings of every stream: no delay for more data, and keep-alive, which detects that the peer is gone. */
export function tune(socket: Socket): void {
  socket.setNoDelay(true)
  socket.setKeepAlive(true, KEEP_ALIVE_MS)
}

/** A connection to that address. Throws NETWORK with the reason, also after `timeoutMs`. */
export function connectSocket({ address, family }: HostAddress, port: number, timeoutMs: number): Promise<Socket> {
  // no within(): the event itself closes the socket or removes its listener
  return new Promise((resolve, reject) => {
    const socket = connect({ host: address, port, family, allowHalfOpen: true })
    const fail = (text: string, cause?: unknown): void => {
      clearTimeout(deadline)
      socket.destroy()
      reject(new OsError('NETWORK', text, { cause }))
    }
    const deadline = setTimeout(
      () => fail(`${hostPort(address, port)} does not answer within ${timeoutMs / 1000} s`),
      timeoutMs,
    )
    socket.once('error', error => fail(streamText(error, hostPort(address, port)), error))
    socket.once('connect', () => {
      clearTimeout(deadline)
      socket.removeAllListeners('error')
      tune(socket)
      resolve(socket)
    })
  })
}

/** A system error of a connection as a sentence; `where` names the peer. */
export function streamText(error: unknown, where: string): string {
  const way = wayText(error, where, 'connecting to')
  if (way) return way
  const code = errno(error)
  if (code === 'ECONNRESET' || code === 'EPIPE') return `${where} cut the connection`
  if (code === 'ETIMEDOUT') return `${where} does not respond any more`
  return `the connection to ${where} failed: ${code ?? String(error)}`
}

/** The address of a peer in packet origins; an IPv4 peer of an IPv6 socket is written as IPv4. */
export const peerHost = (socket: Socket): string => (socket.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/i, '')

/** unsent bytes in the process above which a packet waits */
const HIGH_WATER = 256 * 1024
/** limit of packets that wait for space; more are refused */
const MAX_WAITING = 512

interface QueuedWrite {
  readonly bytes: Uint8Array
  readonly settle: (taken: boolean) => void
}

/**
 * Writes to one socket in order. Above a bound of unsent bytes, packets wait for space; a peer that accepts nothing for
 * `timeoutMs` is reported as stuck, once.
 */
export class StreamWriter {
  readonly #socket: Socket
  readonly #timeoutMs: number
  readonly #stuck: () => void
  #waiting: QueuedWrite[] = []
  #deadline: NodeJS.Timeout | undefined

  constructor(socket: Socket, timeoutMs: number, stuck: () => void) {
    this.#socket = socket
    this.#timeoutMs = timeoutMs
    this.#stuck = stuck
    socket.on('drain', () => this.#drained())
    socket.on('close', () => this.#settleAll())
  }

  /** Resolves true when the bytes were passed to the socket; they must not change after the call. */
  write(bytes: Uint8Array): Promise<boolean> {
    if (!this.#socket.writable) return NOT_TAKEN
    if (this.#waiting.length === 0 && this.#socket.writableLength < HIGH_WATER) {
      this.#socket.write(bytes)
      return TAKEN
    }
    if (this.#waiting.length >= MAX_WAITING) return NOT_TAKEN
    this.#deadline ??= setTimeout(this.#stuck, this.#timeoutMs)
    return new Promise(settle => this.#waiting.push({ bytes, settle }))
  }

  #drained(): void {
    clearTimeout(this.#deadline)
    this.#deadline = undefined
    let k = 0
    for (; k < this.#waiting.length && this.#socket.writableLength < HIGH_WATER; k++) {
      const { bytes, settle } = this.#waiting[k]!
      this.#socket.write(bytes)
      settle(true)
    }
    this.#waiting.splice(0, k)
    if (this.#waiting.length > 0) this.#deadline = setTimeout(this.#stuck, this.#timeoutMs)
  }

  #settleAll(): void {
    clearTimeout(this.#deadline)
    for (const { settle } of this.#waiting.splice(0)) settle(false)
  }
}

const TAKEN = Promise.resolve(true)
const NOT_TAKEN = Promise.resolve(false)
