// A datagram socket of the addon: many packets per system call, in buffers of the caller. Opening throws the system's error
// as node does; the calls of the hot path return minus errno instead, so that a full queue costs nothing. After close()
// every call is -EBADF. A socket without a watcher is closed by the garbage collector, all are when the thread ends.
import { constants } from 'node:os'
import type { Descriptor, SocketAddon } from './addon'
import { systemError } from './errors'

export const READABLE = 1
export const WRITABLE = 2
/** bytes of one peer's address */
export const PEER_BYTES = 28
/** packets of one receive() at most */
export const BATCH = 64

const { errno } = constants
/** nothing there, or no room: try again when watch() says so */
export const AGAIN = -errno.EAGAIN
/** the device had no room; nothing will tell when it has */
export const NO_BUFFERS = -errno.ENOBUFS

interface SocketState {
  port: number
  /** as the kernel counts them, with its own overhead: twice what was requested */
  receiveBuffer: number
  sendBuffer: number
  /** packets that came while the receive buffer was full */
  dropped: number
}

export class NativeSocket {
  readonly #addon: SocketAddon
  readonly #socket: Descriptor

  /** `opened` as the addon returned it. Throws when it is an error. */
  constructor(addon: SocketAddon, opened: Descriptor | number) {
    if (typeof opened === 'number') throw systemError(opened, 'socket')
    this.#addon = addon
    this.#socket = opened
  }

  bind(address: string, port: number): void {
    this.#check(this.#addon.bindUdp(this.#socket, address, port), 'bind')
  }

  /** From then on only this peer is heard, and ICMP errors come from the next call. */
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
   * Receives up to `lengths.length` (at most BATCH) packets; packet k begins at k × slab.length / lengths.length. `peers`
   * gets PEER_BYTES for each. Returns how many, or minus errno (AGAIN: none are there).
   */
  receive(slab: Uint8Array, lengths: Uint32Array, peers: Uint8Array | null): number {
    return this.#addon.receive(this.#socket, slab, lengths, peers)
  }

  /**
   * Sends `count` packets out of `slab` in order, to the connected peer or each to its own of `peers`. Returns how many went,
   * or minus errno when the first one did not.
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

  /** Calls `wake` with READABLE, WRITABLE or both whenever that is so, until closed. */
  watch(events: number, wake: (events: number) => void): void {
    this.#check(this.#addon.watch(this.#socket, events, wake), 'poll')
  }

  /** What to be called for from now on. */
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
