// UDP by the addon: up to 64 packets per system call in both directions, one call per wake-up of the loop. At 100,000
// packets/s on one core there is no time for work per packet, so packets are views of one slab that all ports share (it
// is read only during the call that fills it), and peers are identified by their raw address.
//
// Errors: the send buffer is full (packets are copied and wait until the socket is writable); the device's queue is
// full (ENOBUFS: they wait for a timer, because there is no event); an error that the peer or a router sent (reported
// like in dgram). A handler that closes the port gets no further packet of the batch.
import { constants } from 'node:os'
import {
  AGAIN,
  BATCH,
  type Native,
  type NativeSocket,
  NO_BUFFERS,
  PEER_BYTES,
  READABLE,
  systemError,
  WRITABLE,
} from '../../native'
import { PeerTable } from './peers'
import { MAX_PENDING, type UdpPeer, type UdpPort, type UdpPortEvents, type UdpPortOptions } from './port'

/** the largest IPv6 datagram plus an offset, so that packets of one batch do not share the same cache lines */
const SLOT = 65_536 + 256
/** retry delay after a full device queue */
const RETRY_MS = 5
/** packets and bytes per send call */
const SEND_PACKETS = 256
const SEND_BYTES = 256 * 1024
/** prepared views per slot: the packets of a template have one or a few lengths */
const VIEWS = 16

const TOO_LONG = -constants.errno.EMSGSIZE
const TAKEN = Promise.resolve(true)
const REFUSED = Promise.resolve(false)

/** Buffers for received packets. Untouched memory is not allocated. */
class Inbox {
  readonly slab = new Uint8Array(BATCH * SLOT)
  readonly lengths = new Uint32Array(BATCH)
  readonly peers = new Uint8Array(BATCH * PEER_BYTES)
  readonly words = new Uint32Array(this.peers.buffer)
  readonly #views: (Uint8Array | undefined)[] = new Array(BATCH * VIEWS)

  view(slot: number, length: number): Uint8Array {
    const place = slot * VIEWS + (length & (VIEWS - 1))
    const known = this.#views[place]
    if (known?.length === length) return known
    const view = this.slab.subarray(slot * SLOT, slot * SLOT + length)
    this.#views[place] = view
    return view
  }
}

/** Buffers for packets to send. */
class Outbox {
  readonly slab = new Uint8Array(SEND_BYTES)
  readonly offsets = new Uint32Array(SEND_PACKETS)
  readonly lengths = new Uint32Array(SEND_PACKETS)

  /** Copies packets from `first` on, as many as fit. Returns their number. */
  fill(packets: readonly Uint8Array[], first: number): number {
    let at = 0
    let count = 0
    for (let k = first; k < packets.length && count < SEND_PACKETS; k++) {
      const packet = packets[k]!
      if (at + packet.length > SEND_BYTES) break
      this.slab.set(packet, at)
      this.offsets[count] = at
      this.lengths[count++] = packet.length
      at += packet.length
    }
    return count
  }
}

let inbox: Inbox | undefined
let outbox: Outbox | undefined

interface QueuedDatagram {
  packet: Uint8Array
  to: UdpPeer | undefined
  settle: (taken: boolean) => void
}

/** Throws the system's error. */
export function openBatch(options: UdpPortOptions, addon: Native): UdpPort {
  const { family, way, address, port, receiveBufferBytes, events } = options
  const socket = addon.udpSocket(family, receiveBufferBytes)
  try {
    socket[way](address, port)
    return new BatchPort(socket, way === 'bind' ? new PeerTable(addon) : undefined, events)
  } catch (error) {
    socket.close()
    throw error
  }
}

class BatchPort implements UdpPort {
  readonly port: number
  readonly receiveBuffer: number
  readonly #socket: NativeSocket
  readonly #peers: PeerTable | undefined
  readonly #events: UdpPortEvents
  readonly #waiting: QueuedDatagram[] = []
  #retry: NodeJS.Timeout | undefined
  #dropped = 0
  #open = true

  /** Without `peers` the socket is connected. */
  constructor(socket: NativeSocket, peers: PeerTable | undefined, events: UdpPortEvents) {
    this.#socket = socket
    this.#peers = peers
    this.#events = events
    const state = socket.state()
    this.port = state.port
    this.receiveBuffer = state.receiveBuffer
    inbox ??= new Inbox()
    socket.watch(READABLE, this.#wake)
  }

  get dropped(): number {
    if (this.#open) this.#dropped = this.#socket.state().dropped
    return this.#dropped
  }

  send(packet: Uint8Array, to?: UdpPeer): Promise<boolean> {
    if (this.#waiting.length > 0) return this.#later(packet, to)
    const result = this.#socket.sendOne(packet, to?.raw ?? null)
    if (result >= 0) {
      this.#events.sent(1)
      return TAKEN
    }
    if (this.#mustWait(result)) return this.#later(packet, to)
    this.#events.sendFailed(systemError(result, 'send'))
    return REFUSED
  }

  async sendBatch(packets: readonly Uint8Array[]): Promise<number> {
    outbox ??= new Outbox()
    let done = 0
    while (done < packets.length && this.#waiting.length === 0) {
      const count = outbox.fill(packets, done)
      const result = count > 0 ? this.#socket.send(outbox.slab, outbox.offsets, outbox.lengths, count) : TOO_LONG
      if (result > 0) {
        this.#events.sent(result)
        done += result
      } else if (this.#mustWait(result)) break
      else {
        this.#events.sendFailed(systemError(result, 'sendmmsg'))
        return done
      }
    }
    if (done === packets.length) return done
    const late: Promise<boolean>[] = []
    for (; done + late.length < packets.length; ) late.push(this.#later(packets[done + late.length]!, undefined))
    for (const taken of late) {
      if (!(await taken)) break
      done++
    }
    return done
  }

  async close(): Promise<void> {
    if (!this.#open) return
    this.#dropped = this.dropped
    this.#open = false
    clearTimeout(this.#retry)
    this.#socket.close()
    for (const { settle } of this.#waiting.splice(0)) settle(false)
  }

  readonly #wake = (events: number): void => {
    if (events & WRITABLE) this.#flush()
    if (events & READABLE) this.#read()
  }

  /**
   * Reads one batch; the loop calls again immediately if there are more. Promise callbacks of a packet run between two
   * wake-ups, so the garbage of one batch is collected early, which would not happen with several batches per wake-up.
   */
  #read(): void {
    const { slab, lengths, peers, words } = inbox!
    const table = this.#peers
    const got = this.#socket.receive(slab, lengths, table ? peers : null)
    if (got < 0) {
      if (got !== AGAIN) this.#events.failed(systemError(got, 'recvmmsg'))
      return
    }
    for (let k = 0; k < got && this.#open; k++)
      this.#events.packet(inbox!.view(k, lengths[k]!), table?.at(peers, words, k))
  }

  /** Copies the packet until the kernel accepts it; false if too many are queued. */
  #later(packet: Uint8Array, to: UdpPeer | undefined): Promise<boolean> {
    if (!this.#open || this.#waiting.length >= MAX_PENDING) {
      this.#events.sendFailed(systemError(AGAIN, 'send'))
      return REFUSED
    }
    return new Promise(settle => this.#waiting.push({ packet: new Uint8Array(packet), to, settle }))
  }

  /** Sends queued packets in order, until the buffer is full again. */
  #flush(): void {
    clearTimeout(this.#retry)
    let sent = 0
    for (const { packet, to, settle } of this.#waiting) {
      const result = this.#socket.sendOne(packet, to?.raw ?? null)
      if (this.#mustWait(result)) break
      sent++
      if (result >= 0) this.#events.sent(1)
      else this.#events.sendFailed(systemError(result, 'send'))
      settle(result >= 0)
    }
    this.#waiting.splice(0, sent)
    if (this.#open && this.#waiting.length === 0) this.#socket.rewatch(READABLE)
  }

  /** True if this packet must wait; also arranges the retry. */
  #mustWait(result: number): boolean {
    if (result === NO_BUFFERS) {
      clearTimeout(this.#retry)
      this.#retry = setTimeout(() => this.#flush(), RETRY_MS)
      this.#socket.rewatch(READABLE) // the socket is writable throughout, so watch only for reads
    } else if (result === AGAIN) this.#socket.rewatch(READABLE | WRITABLE)
    return result === NO_BUFFERS || result === AGAIN
  }
}
