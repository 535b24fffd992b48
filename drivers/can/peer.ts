// Packets to and from one peer: an ISO-TP socket with one pair of ids. The kernel sends one packet at a time, so
// further packets are queued here, in order.
//
// Errors:
// - The device's queue is full (ENOBUFS): retried by a timer, nothing is lost.
// - The peer does not accept a packet (ECOMM after one or two seconds): false, and `silent` until one succeeds.
// - A packet times out: false, and the socket is reopened.
// - A reception is interrupted: counted.
// - The interface is lost: `lost`, and all queued packets resolve false.
import { constants } from 'node:os'
import type { Clock } from '../../src/lib/clock'
import { OsError } from '../../src/lib/errors'
import type { Logger } from '../../src/lib/logger'
import type { Timers } from '../../src/lib/timers'
import type { LinkCounters, Medium, OpenableEvents, PacketOrigin } from '../../src/links/contracts'
import { deliver, PacketReceiver } from '../../src/links/deliver'
import { AGAIN, NO_BUFFERS, READABLE, systemError, WRITABLE } from '../../src/native'
import { type IsotpOptions, IsotpSocket } from '../../src/native/can'

export interface PeerSettings {
  readonly interface: string
  readonly isotp: IsotpOptions
  readonly maxPacket: number
  readonly sendTimeoutMs: number
}

export type PeerSocket = Pick<IsotpSocket, 'receive' | 'send' | 'error' | 'watch' | 'rewatch' | 'close' | 'dropped'>

export interface PeerParts {
  readonly clock: Clock
  readonly timers: Timers
  readonly logger: Logger
  /** why a socket error (minus errno) means that the interface is lost; undefined: it does not */
  readonly loss: (result: number) => string | undefined
  /** tests pass their own */
  readonly openSocket?: (name: string, options: IsotpOptions) => PeerSocket
}

interface QueuedMessage {
  readonly packet: Uint8Array
  readonly settle: (taken: boolean) => void
  tries: number
}

/** limits of the queue, in packets and bytes; the bytes also bound what X29 has in transit */
const MAX_WAITING = 1024
const MAX_WAITING_BYTES = 256 * 1024
/** retry delay after a full device queue: the time of a few frames on a slow bus */
const RETRY_MS = 5
/** ENOBUFS in the middle of a packet is not reported and the kernel drops the packet: resend it this many times */
const MAX_TRIES = 5
const LATELY_MS = 5000
/** packets per wake-up */
const SLOTS = 8

const { EBADMSG, EMSGSIZE } = constants.errno
/** the peer is silent, or the bus did not accept a frame of the packet; Node has no name for it */
const ECOMM = 70
/** errors that end a failed transmission */
const FAILED_SEND = new Set([-ECOMM, -EMSGSIZE, -EBADMSG])

/** receive buffer: shared, because a packet is valid only during the call */
let inbox = new Uint8Array(0)
const lengths = new Uint32Array(SLOTS)
/** when the queue of each interface was last full */
const lastFull = new Map<string, number>()

const isotpSocket = (name: string, options: IsotpOptions): PeerSocket => {
  try {
    return IsotpSocket.open(name, options)
  } catch (cause) {
    const errno = cause instanceof OsError ? cause.details.errno : undefined
    if (errno !== 'EPROTONOSUPPORT' && errno !== 'EAFNOSUPPORT') throw cause
    const hint = 'modprobe can-isotp (and add can-isotp to /etc/modules)'
    throw new OsError('LINK_DOWN', `the kernel has no ISO-TP: ${hint}`, { cause, hint })
  }
}

export class CanPeer extends PacketReceiver implements Medium {
  readonly medium = 'CAN'
  readonly maxPacket: number
  readonly #tally = { rx: 0, tx: 0, errors: 0 }
  /** waits for a full queue, packets the peer did not accept, interrupted receptions */
  readonly #detail = { queue_full: 0, not_taken: 0, rx_broken: 0 }
  readonly #settings: PeerSettings
  readonly #parts: PeerParts
  readonly #origin: PacketOrigin
  #events: OpenableEvents | undefined
  #socket: PeerSocket | undefined
  readonly #waiting: QueuedMessage[] = []
  #waitingBytes = 0
  /** the kernel is sending the first packet of the queue */
  #busy = false
  #cancelRetry: (() => void) | undefined
  #cancelLate: (() => void) | undefined
  #dropped = 0
  #silent = false

  constructor(
    readonly name: string,
    settings: PeerSettings,
    parts: PeerParts,
  ) {
    super()
    this.#settings = settings
    this.#parts = parts
    this.maxPacket = settings.maxPacket
    const id = settings.isotp.rxId & 0x1fff_ffff
    this.#origin = {
      medium: this.medium,
      address: `${settings.interface}:0x${id.toString(16)}`,
      reply: packet => this.send(packet),
    }
  }

  /** `dropped`: packets that arrived while we were busy; present only if there were any */
  get counters(): LinkCounters {
    const dropped = this.#dropped + (this.#socket?.dropped ?? 0)
    return { ...this.#tally, ...(dropped > 0 && { dropped }), detail: this.#detail }
  }

  /** Throws LINK_DOWN (with what to do), NOT_FOUND or E_NO_ADDON. */
  async open(events: OpenableEvents): Promise<void> {
    this.#shut()
    this.#events = events
    this.#silent = false
    if (inbox.length < SLOTS * this.maxPacket) inbox = new Uint8Array(SLOTS * this.maxPacket)
    this.#listen()
  }

  async close(): Promise<void> {
    this.#events = undefined
    this.#shut()
    this.#refuse()
  }

  /** False: too large, queue full, or the peer or the bus did not accept it. */
  send(packet: Uint8Array): Promise<boolean> {
    const full = this.#waiting.length >= MAX_WAITING || this.#waitingBytes + packet.length > MAX_WAITING_BYTES
    if (!this.#socket || full || packet.length === 0 || packet.length > this.maxPacket) {
      this.#tally.errors++
      return Promise.resolve(false)
    }
    return new Promise(settle => {
      this.#waiting.push({ packet: new Uint8Array(packet), settle, tries: 0 })
      this.#waitingBytes += packet.length
      if (this.#waiting.length === 1) this.#begin()
    })
  }

  #listen(): void {
    const { interface: name, isotp } = this.#settings
    const socket = (this.#parts.openSocket ?? isotpSocket)(name, isotp)
    this.#socket = socket
    socket.watch(READABLE, events => {
      if (socket !== this.#socket) return
      if (events & READABLE) this.#read(socket)
      if (events & WRITABLE && socket === this.#socket) this.#idle(socket)
    })
  }

  #shut(): void {
    this.#cancelRetry?.()
    this.#cancelLate?.()
    this.#cancelRetry = this.#cancelLate = undefined
    this.#busy = false
    if (!this.#socket) return
    this.#dropped += this.#socket.dropped
    this.#socket.close()
    this.#socket = undefined
  }

  #read(socket: PeerSocket): void {
    const slot = Math.floor(inbox.length / SLOTS)
    const got = socket.receive(inbox, lengths)
    if (got < 0) {
      if (got !== AGAIN) this.#failed(got)
      return
    }
    if (this.#silent) this.#say(false)
    for (let k = 0; k < got && socket === this.#socket; k++) {
      const packet = inbox.subarray(k * slot, k * slot + lengths[k]!)
      deliver(packet, this.#origin, this.handler, this.#tally, this.#parts.logger)
    }
  }

  /** The time limit of the first packet starts now. */
  #begin(): void {
    if (this.#waiting.length === 0) {
      this.#socket?.rewatch(READABLE)
      return
    }
    this.#cancelLate = this.#parts.timers.after(this.#settings.sendTimeoutMs, () => this.#late())
    this.#push()
  }

  /** Passes the first packet to the kernel. */
  #push(): void {
    const first = this.#waiting[0]
    if (!first || !this.#socket) return
    this.#cancelRetry = undefined
    const result = this.#socket.send(first.packet)
    if (result === NO_BUFFERS) {
      this.#detail.queue_full++
      this.#full = this.#parts.clock.mono()
      this.#socket.rewatch(READABLE) // the socket is writable throughout, so watch only for reads
      this.#cancelRetry = this.#parts.timers.after(RETRY_MS, () => this.#push())
      return
    }
    if (result >= 0) this.#busy = true
    else if (result !== AGAIN) {
      if (!this.#gone(result)) this.#done(false)
      return
    }
    this.#socket.rewatch(READABLE | WRITABLE)
  }

  /** The kernel has finished its packet. */
  #idle(socket: PeerSocket): void {
    if (!this.#busy) {
      this.#push()
      return
    }
    const error = socket.error()
    if (error < 0) this.#failed(error)
    else this.#done(true)
  }

  /** Handles an error (minus errno) of a reception, the packet in transit, or the interface. */
  #failed(error: number): void {
    if (this.#gone(error)) return
    if (!this.#busy || !FAILED_SEND.has(error)) {
      this.#detail.rx_broken++
      return
    }
    const first = this.#waiting[0]!
    this.#busy = false
    if (error === -ECOMM && this.#parts.clock.mono() - this.#full < LATELY_MS && ++first.tries < MAX_TRIES) {
      this.#push()
      return
    }
    this.#detail.not_taken++
    this.#parts.logger.debug(`${this.#origin.address}: a packet of ${first.packet.length} bytes: ${codeOf(error)}`)
    this.#say(true)
    this.#done(false)
  }

  /** True when the interface is lost: it is reported, and all queued packets are refused. */
  #gone(error: number): boolean {
    const loss = this.#parts.loss(error)
    if (loss === undefined) return false
    const events = this.#events
    this.#events = undefined
    this.#shut()
    this.#refuse()
    events?.lost(loss)
    return true
  }

  #refuse(): void {
    this.#waitingBytes = 0
    for (const { settle } of this.#waiting.splice(0)) settle(false)
  }

  #done(taken: boolean): void {
    const first = this.#waiting.shift()
    this.#busy = false
    this.#cancelLate?.()
    this.#cancelRetry?.()
    if (!first) return
    this.#waitingBytes -= first.packet.length
    if (taken) {
      this.#tally.tx++
      if (first.packet.length > SINGLE) this.#say(false)
    } else this.#tally.errors++
    first.settle(taken)
    this.#begin()
  }

  /** The peer answers WAIT forever, or the bus accepts nothing: the kernel would never stop retrying. */
  #late(): void {
    this.#detail.not_taken++
    this.#shut()
    try {
      this.#listen()
    } catch (error) {
      this.#events?.lost(error instanceof Error ? error.message : String(error))
    }
    this.#say(true)
    this.#done(false)
  }

  #say(silent: boolean): void {
    if (!silent && !this.#silent) return
    this.#silent = silent
    this.#events?.degraded(silent ? `the peer at ${this.#origin.address} does not take packets` : '')
  }

  get #full(): number {
    return lastFull.get(this.#settings.interface) ?? Number.NEGATIVE_INFINITY
  }

  set #full(now: number) {
    lastFull.set(this.#settings.interface, now)
  }
}

/** a packet up to this size is sent as one FD frame, which no peer answers */
const SINGLE = 62

const codeOf = (error: number): string => systemError(error, 'send').code ?? String(error)
