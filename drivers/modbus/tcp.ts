// Modbus TCP: one connection, one request at a time; transaction numbers match answers to requests. Many devices close
// an idle connection after some seconds: that is no loss, because the next request reconnects.
//
// Errors: no connection within the time limit (LINK_DOWN); no answer in time (NO_REPLY; after three in a row it
// reconnects, since the other end may have forgotten the connection); bytes that are not Modbus (the connection is
// closed, BAD_REPLY).
import { connect, type Socket } from 'node:net'
import { within } from '../../src/lib/deadline'
import { asOsError, errno, OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { OpenableEvents } from '../../src/links/contracts'
import { type HostResolver, hostPort } from '../../src/links/resolve'
import { afterReading } from '../serial'
import { frameTcp, MAX_ANSWER_BYTES, MBAP_BYTES, nextTcp } from './codec'
import { badReply, type ModbusTransport, noReply } from './transport'

interface TcpOptions {
  host: string
  port: number
  connectTimeoutMs: number
  resolver: HostResolver
  timers?: Timers
}

const ROOM = 2 * (MAX_ANSWER_BYTES + MBAP_BYTES)
const KEEPALIVE_MS = 15_000
/** unanswered requests in a row after which it reconnects */
const MANY = 3

interface PendingTransaction {
  transaction: number
  unit: number
  resolve: (answer: Uint8Array) => void
  reject: (error: OsError) => void
}

export class TcpTransport implements ModbusTransport {
  readonly confuses = false
  /** late answers, and connections made */
  readonly counters = { late: 0, connections: 0 }
  readonly #options: TcpOptions
  readonly #timers: Timers
  readonly #buffer = new Uint8Array(ROOM)
  #length = 0
  #socket: Socket | undefined
  #events: OpenableEvents | undefined
  /** counts closings: a connection started before a close does not count for a later opening */
  #closings = 0
  #transaction = 0
  #silent = 0
  #waiting: PendingTransaction | undefined

  constructor(options: TcpOptions) {
    this.#options = options
    this.#timers = afterReading(options.timers)
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#events = events
    await this.#connect()
  }

  async close(): Promise<void> {
    this.#closings++
    this.#events = undefined
    this.#drop('the connection was closed')
  }

  async exchange(unit: number, request: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    if (!this.#events) throw new OsError('LINK_DOWN', 'the connection is closed')
    if (!this.#socket) await this.#again()
    this.#transaction = (this.#transaction + 1) & 0xffff
    const transaction = this.#transaction
    const frame = frameTcp(transaction, unit, request)
    const answered = new Promise<Uint8Array>((resolve, reject) => {
      this.#waiting = { transaction, unit, resolve, reject }
      this.#socket!.write(frame)
    })
    try {
      const answer = await within(this.#timers, timeoutMs, answered, () => Promise.reject(noReply(unit)))
      this.#silent = 0
      return answer
    } catch (thrown) {
      const error = asOsError(thrown)
      if (error.code === 'NO_REPLY' && ++this.#silent >= MANY) this.#drop('the connection is silent')
      throw error
    } finally {
      this.#waiting = undefined
    }
  }

  /** Reconnects after the other end closed the connection; if that fails, the link is lost. */
  async #again(): Promise<void> {
    try {
      await this.#connect()
    } catch (error) {
      this.#events?.lost(asOsError(error).message)
      throw error
    }
  }

  async #connect(): Promise<void> {
    const { host, port, connectTimeoutMs, resolver } = this.#options
    const closings = this.#closings
    const { address, family } = resolver.known(host) ?? (await resolver.resolve(host))
    const where = hostPort(host, port)
    const hint = 'check host and port; some devices accept only one client'
    const socket = connect({
      host: address,
      port,
      family,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEPALIVE_MS,
    })
    const connected = new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve)
      socket.once('error', cause =>
        reject(
          new OsError('LINK_DOWN', `no connection to ${where} (${errno(cause) ?? cause.message})`, { cause, hint }),
        ),
      )
    })
    try {
      await within(this.#timers, connectTimeoutMs, connected, () => {
        throw new OsError('LINK_DOWN', `no connection to ${where} within ${connectTimeoutMs / 1000} s`, { hint })
      })
    } catch (error) {
      socket.on('error', () => undefined) // already reported
      socket.destroy()
      throw error
    }
    if (closings !== this.#closings) {
      socket.destroy()
      throw new OsError('LINK_DOWN', 'closed while connecting')
    }
    this.counters.connections++
    this.#socket = socket
    this.#length = 0
    this.#silent = 0
    socket.on('data', chunk => this.#take(socket, chunk))
    socket.on('error', error => this.#gone(socket, errno(error) ?? error.message))
    socket.on('close', () => this.#gone(socket, 'closed by the other end'))
  }

  #gone(socket: Socket, why: string): void {
    if (socket !== this.#socket) return
    this.#drop(`the connection is gone: ${why}`)
  }

  /** Closes the connection and fails the pending request; the next request reconnects. */
  #drop(why: string): void {
    const socket = this.#socket
    this.#socket = undefined
    this.#silent = 0
    socket?.destroy()
    this.#waiting?.reject(new OsError('NO_REPLY', `no answer from slave ${this.#waiting.unit}: ${why}`))
  }

  #take(socket: Socket, chunk: Uint8Array): void {
    for (let from = 0; from < chunk.length; ) {
      if (socket !== this.#socket) return
      const part = chunk.subarray(from, from + ROOM - this.#length)
      this.#buffer.set(part, this.#length)
      this.#length += part.length
      from += part.length
      for (;;) {
        const frame = nextTcp(this.#buffer, this.#length)
        if (frame === undefined) break
        const waiting = this.#waiting
        if (frame === 'broken') {
          waiting?.reject(badReply(waiting.unit))
          this.#drop('the answer is not Modbus')
          return
        }
        if (waiting?.transaction === frame.transaction) waiting.resolve(this.#buffer.slice(MBAP_BYTES, frame.size))
        else this.counters.late++
        this.#buffer.copyWithin(0, frame.size, this.#length)
        this.#length -= frame.size
      }
    }
  }
}
