// A datagram socket of the addon: many packets per system call, in buffers of the caller. Opening throws the system's
// error like node; hot-path calls return minus errno instead, so that a full queue costs nothing. After close() every
// call is -EBADF. The garbage collector closes a socket without a watcher; all are closed when the thread ends.
import { constants } from 'node:os'
import type { Descriptor, SocketAddon } from './addon'
import { systemError } from './errors'

export const READABLE = 1
export const WRITABLE = 2
/** bytes of one peer's address */
export const PEER_BYTES = 28
/** maximum packets of one receive() */
export const BATCH = 64

const { errno } = constants
/** nothing to read, or no space: wait for watch() */
export const AGAIN = -errno.EAGAIN
/** the device's queue is full; no event reports when it has space */
export const NO_BUFFERS = -errno.ENOBUFS

interface SocketState {
  port: number
  /** as the kernel counts it, with its own overhead: twice what was requested */
  receiveBuffer: number
  sendBuffer: number
  /** packets lost because the receive buffer was full */
  dropped: number
}

export class NativeSocket {
  readonly #addon: SocketAddon
  readonly #socket: Descriptor

  /** `opened` is the addon's result. Throws if it is an error. */
  constructor(addon: SocketAddon, opened: Descriptor | number) {
    if (typeof opened === 'number') throw systemError(opened, 'socket')
    this.#addon = addon
    this.#socket = opened
  }

  bind(address: string, port: number): void {
    this.#check(this.#addon.bindUdp(this.#socket, address, port), 'bind')
  }

  /** From then on only packets of this peer are received, and the next call returns its ICMP errors. */
  connect(address: string, port: number): void {
    this.#check(this.#addon.connectUdp(this.#socket, address, port), 'connect')
  }

  /** Throws on a closed socket. */
  state(): SocketState {
    const out = new Uint32Array(4)
    this.#check(this.#addon.socketState(this.#socket, out), 'getsockopt')
    const [port, receiveBuffer, sendBuffer, dropped] = out as unknown as [number, number, number, number]
    return { port, receiveBuffer, sendBuffer, dropped }
  }

  /**
   * Receives up to `lengths.length` (at most BATCH) packets; packet k begins at k × slab.length / lengths.length.
   * `peers` gets PEER_BYTES for each. Returns their number, or minus errno (AGAIN: none).
   */
  receive(slab: Uint8Array, lengths: Uint32Array, peers: Uint8Array | null): number {
    return this.#addon.receive(this.#socket, slab, lengths, peers)
  }

  /**
   * Sends `count` packets from `slab` in order, to the connected peer or each to its address in `peers`. Returns the
   * number sent, or minus errno if the first one failed.
   */
  send(
    slab: Uint8Array,
    offsets: Uint32Array,
    lengths: Uint32Array,
    count: number,
    peers: Uint8Array | null = null,
  ): number {
    return this.#addon.send(this.#socket, slab, offsets, lengths, count, peers)
  }

  /** Sends one packet. Returns its length, or minus errno. */
  sendOne(packet: Uint8Array, peer: Uint8Array | null = null): number {
    return this.#addon.sendOne(this.#socket, packet, peer)
  }

  /** Calls `wake` with READABLE, WRITABLE or both whenever they apply, until closed. */
  watch(events: number, wake: (events: number) => void): void {
    this.#check(this.#addon.watch(this.#socket, events, wake), 'poll')
  }

  /** Changes the watched events. */
  rewatch(events: number): void {
    this.#check(this.#addon.watch(this.#socket, events, null), 'poll')
  }

  /** The port is free when this returns; safe to call twice. */
  close(): void {
    this.#addon.close(this.#socket)
  }

  #check(result: number, call: string): void {
    if (result < 0) throw systemError(result, call)
  }
}
