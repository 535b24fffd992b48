// The socket of a Bluetooth adapter with the interface of noble's hci.js, on top of the addon. On the raw channel the
// kernel also uses the adapter and ends a connection that none of its own sockets uses: so each connection gets a
// kernel socket, which stays open until the connection ends.
//
// Errors: opening throws the system's error (EBUSY: another program has the adapter's user channel); a failed write
// emits the event `error`; after an adapter is unplugged the socket ends and isDevUp() is false.
import { EventEmitter } from 'node:events'
import { native, systemError } from '../../src/native'
import type { Descriptor, HciAddon } from '../../src/native/addon'
import { AGAIN, READABLE } from '../../src/native/socket'

const RAW = 0
const USER = 1
/** packets per read, and bytes per packet: an ACL packet has at most 1028 */
const PACKETS = 16
const SLOT = 2048
/** Core Specification, volume 4, part E: packet types, event codes, LE subevents */
const EVENT = 0x04
const DISCONNECTED = 0x05
const LE_META = 0x3e
const CONNECTED = [0x01, 0x0a]

// shared read buffer of all adapters: packets are copied out before the next read
const slab = Buffer.allocUnsafeSlow(PACKETS * SLOT)
const lengths = new Uint32Array(PACKETS)

export class HciSocket extends EventEmitter {
  readonly #addon: HciAddon
  /** connection handle → the socket that keeps the connection open */
  readonly #held = new Map<number, Descriptor>()
  readonly #address = new Uint8Array(6)
  #opened: Descriptor | undefined
  #socket: Descriptor | undefined
  #device = 0
  #channel = RAW

  /** `opened`: a user channel that another process opened (user-channel.ts). Throws E_NO_ADDON. */
  constructor(addon: HciAddon = native().addon, opened?: Descriptor) {
    super()
    this.#addon = addon
    this.#opened = opened
  }

  /** Uses the adapter (hci0: 0) in parallel with the kernel. Throws the system's error. */
  bindRaw(device = 0): number {
    return this.#bind(device, RAW)
  }

  /** Takes the adapter from the kernel, where it must be down; opening needs CAP_NET_ADMIN. Throws the system's error. */
  bindUser(device = 0): number {
    return this.#bind(device, USER)
  }

  #bind(device: number, channel: number): number {
    this.stop()
    const opened = this.#opened ?? this.#addon.openHci(device, channel)
    this.#opened = undefined
    if (typeof opened === 'number') throw systemError(opened, 'bind')
    this.#socket = opened
    this.#device = device
    this.#channel = channel
    return device
  }

  /** Starts the `data` events; the descriptor keeps the process alive. Throws the system's error. */
  start(): void {
    if (!this.#socket) return
    const result = this.#addon.watch(this.#socket, READABLE, () => this.#readable())
    if (result < 0) throw systemError(result, 'poll')
  }

  /** Closes the socket and releases all connections; safe to call twice. */
  stop(): void {
    for (const handle of [...this.#held.keys()]) this.#letGo(handle)
    if (this.#socket) this.#addon.close(this.#socket)
    this.#socket = undefined
  }

  /** Also false when the adapter is unplugged. */
  isDevUp(): boolean {
    return this.#socket !== undefined && this.#addon.hciInfo(this.#socket, this.#device, this.#address) === 1
  }

  /** Selects the packets and events to receive: the bytes of struct hci_filter. */
  setFilter(filter: Uint8Array): void {
    if (this.#socket) this.#check(this.#addon.hciFilter(this.#socket, filter), 'setsockopt')
  }

  /** Sends one HCI packet. */
  write(packet: Uint8Array): void {
    if (this.#socket) this.#check(this.#addon.sendOne(this.#socket, packet, null), 'write')
  }

  #check(result: number, call: string): void {
    if (result < 0) this.emit('error', systemError(result, call))
  }

  #readable(): void {
    const socket = this.#socket
    if (!socket) return
    const count = this.#addon.receive(socket, slab, lengths, null)
    if (count === AGAIN) return
    if (count < 0) {
      this.stop()
      this.emit('error', systemError(count, 'read'))
      this.emit('state')
      return
    }
    const packets = Array.from({ length: count }, (_, k) =>
      Buffer.from(slab.subarray(k * SLOT, k * SLOT + lengths[k]!)),
    )
    for (const packet of packets) {
      if (this.#channel === RAW) this.#hold(packet)
      this.emit('data', packet)
    }
  }

  /** Keeps the kernel from ending a new connection, for as long as the connection lasts. */
  #hold(packet: Buffer): void {
    if (packet[0] !== EVENT) return
    if (packet[1] === DISCONNECTED && packet.length >= 7 && packet[3] === 0) this.#letGo(packet.readUInt16LE(4) & 0xfff)
    if (packet[1] !== LE_META || packet.length < 15 || !CONNECTED.includes(packet[3]!) || packet[4] !== 0) return
    const handle = packet.readUInt16LE(5) & 0xfff
    this.#letGo(handle)
    // identity address types (2, 3) count as the types they resolve to
    const held = this.#addon.holdLe(this.#address, packet.subarray(9, 15), (packet[8]! & 1) + 1)
    if (typeof held === 'number') this.#check(held, 'connect')
    else this.#held.set(handle, held)
  }

  #letGo(handle: number): void {
    const held = this.#held.get(handle)
    if (held) this.#addon.close(held)
    this.#held.delete(handle)
  }
}
