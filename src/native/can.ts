// CAN by the addon: raw frames, many per system call, in slots of the caller, and ISO-TP sockets, which transport
// complete packets (state of an interface: can-link.ts). Opening throws an OsError (NOT_FOUND: no such interface,
// E_NO_ADDON, LINK_DOWN with the system's error in details.errno). Hot-path calls return minus errno: NO_BUFFERS is a
// full device queue, without an event when it has space; an interface that goes down is reported once by the next
// receive (ENETDOWN, ENODEV).
import type { CanAddon, Descriptor } from './addon'
import { nativeError } from './errors'
import { native } from './index'
import { NativeSocket } from './socket'

export { canLink, linkChanges } from './can-link'

/** flags of an id, and the mask of its other bits */
export const CAN_EFF = 0x8000_0000
export const CAN_RTR = 0x4000_0000
export const CAN_ERR = 0x2000_0000
export const CAN_SFF_MASK = 0x7ff
export const CAN_EFF_MASK = 0x1fff_ffff
/** flags of an FD frame: data at the higher bit rate; it is an FD frame */
export const CANFD_BRS = 1
export const CANFD_FDF = 4
/** bytes of a slot: id u32, length, flags, way, 0, data */
export const CAN_SLOT = 72
/** maximum frames per call */
export const CAN_BATCH = 64

/** Frames in one buffer, as the kernel writes and reads them. Slots are numbered from 0. */
export class CanFrames {
  readonly bytes: Uint8Array
  /** time of reception: ms since 1970, with fractions */
  readonly times: Float64Array
  /** the same by the controller's own clock, with any origin; 0 if it has none. Empty unless requested */
  readonly hardware: Float64Array | null
  readonly #words: Uint32Array
  /** views of the data of each slot, by length */
  readonly #views: (Uint8Array | undefined)[]

  constructor(
    readonly capacity = CAN_BATCH,
    { hardware = false }: { hardware?: boolean } = {},
  ) {
    this.bytes = new Uint8Array(capacity * CAN_SLOT)
    this.times = new Float64Array(capacity)
    this.hardware = hardware ? new Float64Array(capacity) : null
    this.#words = new Uint32Array(this.bytes.buffer)
    this.#views = new Array(capacity * 65)
  }

  /** with the flags CAN_EFF, CAN_RTR and CAN_ERR */
  id(slot: number): number {
    return this.#words[slot * (CAN_SLOT / 4)]!
  }

  length(slot: number): number {
    return this.bytes[slot * CAN_SLOT + 4]!
  }

  /** CANFD_… bits; 0 for a classic frame */
  flags(slot: number): number {
    return this.bytes[slot * CAN_SLOT + 5]!
  }

  /** 0: from the bus; 1: from this machine; 3: from this socket */
  way(slot: number): number {
    return this.bytes[slot * CAN_SLOT + 6]!
  }

  /** The data of a slot: a view, valid until the slot is filled again. Allocates once per slot and length. */
  data(slot: number): Uint8Array {
    const length = Math.min(this.length(slot), 64)
    const place = slot * 65 + length
    const known = this.#views[place]
    if (known) return known
    const at = slot * CAN_SLOT + 8
    const view = this.bytes.subarray(at, at + length)
    this.#views[place] = view
    return view
  }

  /** Writes a frame; `flags` with CANFD_FDF makes it an FD frame, of 0–8, 12, 16, 20, 24, 32, 48 or 64 bytes. */
  set(slot: number, id: number, data: Uint8Array, flags = 0): void {
    const at = slot * CAN_SLOT
    this.#words[at / 4] = id
    this.bytes[at + 4] = data.length
    this.bytes[at + 5] = flags
    this.bytes[at + 6] = 0
    this.bytes[at + 7] = 0
    this.bytes.set(data, at + 8)
  }
}

/** Accepts a frame if `frame.id & mask == id & mask`; flags are bits of the id too. */
export interface CanFilter {
  readonly id: number
  readonly mask: number
  /** accepts frames that do not match */
  readonly invert?: boolean
}

export interface CanRawOptions {
  /** frames to receive; left out: everything; an empty list: only error frames */
  filters?: readonly CanFilter[]
  /** FD frames too */
  fd?: boolean
  /** classes of error frames to receive (CAN_EFF_MASK: all); default none */
  errorMask?: number
  /** size of the kernel's receive buffer; a frame takes about 800 bytes */
  receiveBuffer?: number
  /** also receives what this socket sends, when it is on the bus */
  own?: boolean
  /** false: other sockets of this machine do not receive what it sends */
  loopback?: boolean
}

const INVERT = 0x2000_0000
const OPEN_FD = 1
const OPEN_OWN = 2
const OPEN_NO_LOOPBACK = 4

/** Shared by raw and ISO-TP sockets. */
class CanSocket {
  protected readonly addon: CanAddon
  protected readonly descriptor: Descriptor
  protected readonly socket: NativeSocket

  protected constructor(addon: CanAddon, opened: Descriptor | number, name: string) {
    if (typeof opened === 'number') throw nativeError(opened, 'CAN socket', name)
    this.addon = addon
    this.descriptor = opened
    this.socket = new NativeSocket(addon, opened)
  }

  /** Calls `wake` with READABLE, WRITABLE or both whenever they apply, until closed. Throws the system's error. */
  watch(events: number, wake: (events: number) => void): void {
    this.socket.watch(events, wake)
  }

  /** Changes the watched events. */
  rewatch(events: number): void {
    this.socket.rewatch(events)
  }

  /** frames lost because the receive buffer was full; throws on a closed socket */
  get dropped(): number {
    return this.socket.state().dropped
  }

  /** size of the kernel's receive buffer as it counts it: twice the requested size; throws on a closed socket */
  get receiveBuffer(): number {
    return this.socket.state().receiveBuffer
  }

  /** Safe to call twice. */
  close(): void {
    this.socket.close()
  }
}

export class CanRaw extends CanSocket {
  /** A raw socket on one interface ('can0'). Throws NOT_FOUND, E_NO_ADDON or LINK_DOWN. */
  static open(name: string, options: CanRawOptions = {}): CanRaw {
    const { addon } = native()
    const { filters, fd = false, own = false, loopback = true, errorMask = 0, receiveBuffer = 0 } = options
    const flags = (fd ? OPEN_FD : 0) | (own ? OPEN_OWN : 0) | (loopback ? 0 : OPEN_NO_LOOPBACK)
    const pairs = filters?.flatMap(({ id, mask, invert }) => [(invert ? id | INVERT : id) >>> 0, mask >>> 0])
    const list = pairs ? Uint32Array.from(pairs) : null
    return new CanRaw(addon, addon.openCanRaw(name, flags, errorMask | 0, receiveBuffer, list), name)
  }

  /** Receives up to `frames.capacity` (at most CAN_BATCH) frames into slots 0, 1 … Returns their number, or minus errno. */
  receive(frames: CanFrames): number {
    return this.addon.receiveCan(this.descriptor, frames.bytes, frames.times, frames.hardware)
  }

  /**
   * Sends slots `first` to `first + count - 1` in order. Returns the number sent, or minus errno if the first one
   * failed (NO_BUFFERS: retry a little later).
   */
  send(frames: CanFrames, first: number, count: number): number {
    return this.addon.sendCan(this.descriptor, frames.bytes, first, count)
  }
}

export interface IsotpOptions {
  /** ids with CAN_EFF if they have 29 bits */
  txId: number
  rxId: number
  /** FD frames with this many data bytes (16, 32, 64 …), at the higher bit rate if `brs`; left out: classic frames */
  fd?: { dataBytes: number; brs: boolean }
  /** byte that pads frames to their full length; left out: no padding */
  padding?: number
  /** our flow control for the sender: frames before it waits for us again (0: no limit) … */
  blockSize?: number
  /** … and its delay between two frames, as on the wire: 0–127 ms, 0xf1–0xf9: 100–900 µs */
  stMin?: number
  receiveBuffer?: number
}

const ISOTP_TX_PADDING = 0x004
const MTU_CLASSIC = 16
const MTU_FD = 72

export class IsotpSocket extends CanSocket {
  /**
   * A socket for one pair of ids on one interface. Throws like CanRaw.open; details.errno EPROTONOSUPPORT: no module
   * can-isotp.
   */
  static open(name: string, options: IsotpOptions): IsotpSocket {
    const { addon } = native()
    const { txId, rxId, fd, padding, blockSize = 0, stMin = 0, receiveBuffer = 0 } = options
    const settings = Uint32Array.of(
      txId,
      rxId,
      padding === undefined ? 0 : ISOTP_TX_PADDING,
      padding ?? 0,
      0,
      blockSize,
      stMin,
      0,
      fd ? MTU_FD : MTU_CLASSIC,
      fd?.dataBytes ?? 8,
      fd?.brs ? CANFD_BRS : 0,
    )
    return new IsotpSocket(addon, addon.openIsotp(name, settings, receiveBuffer), name)
  }

  /** Like NativeSocket.receive. Also returns the error of a transmission (-ECOMM: the peer is silent) or of a reception. */
  receive(slab: Uint8Array, lengths: Uint32Array): number {
    return this.socket.receive(slab, lengths, null)
  }

  /**
   * Starts to send one packet. Returns its length or minus errno: AGAIN while the previous one is in transit (WRITABLE
   * reports its end), NO_BUFFERS when the device's queue is full.
   */
  send(packet: Uint8Array): number {
    return this.socket.sendOne(packet)
  }

  /** 0, or minus a pending error; each is reported once. */
  error(): number {
    return this.addon.socketError(this.descriptor)
  }
}
