// The socket of a Bluetooth adapter as noble knows it (its hci.js), on the addon. On the raw channel the kernel uses the adapter
// too, and ends a connection that no socket of its own uses: so each connection gets one, which is held until it ends.
//
// What fails: opening throws the system's error (EBUSY: another program has the adapter's user channel); a write tells it as
// the event `error`; an adapter that is pulled out ends the socket, and isDevUp() says false from then on.
import { EventEmitter } from 'node:events'
import { native, systemError } from '../../src/native'
import type { Descriptor, HciAddon } from '../../src/native/addon'
import { AGAIN, READABLE } from '../../src/native/socket'

const RAW = 0
const USER = 1
/** packets of one read, and the bytes of each: an ACL packet has at most 1028 */
const PACKETS = 16
const SLOT = 2048
/** Core Specification, volume 4, part E: packet types, event codes, sub events of LE */
const EVENT = 0x04
const DISCONNECTED = 0x05
const LE_META = 0x3e
const CONNECTED = [0x01, 0x0a]

// read into by every adapter, one at a time: packets are copied out before the next read
const slab = Buffer.allocUnsafeSlow(PACKETS * SLOT)
const lengths = new Uint32Array(PACKETS)

export class HciSocket extends EventEmitter {
  readonly #addon: HciAddon
  /** connection handle → what holds it */
  readonly #held = new Map<number, Descriptor>()
  readonly #address = new Uint8Array(6)
  #opened: Descriptor | undefined
  #socket: Descriptor | undefined
  #device = 0
  #channel = RAW

  /** `opened`: the user channel, where another process opened it (user-channel.ts). Throws E_NO_ADDON. */
  constructor(addon: HciAddon = native().hci, opened?: Descriptor) {
    super()
    this.#addon = addon
    this.#opened = opened
  }

  /** Beside the kernel's own use of the adapter (hci0: 0). Throws the system's error. */
  bindRaw(device = 0): number {
    return this.#bind(device, RAW)
  }

  /** In place of the kernel, which has to have the adapter down; opening needs CAP_NET_ADMIN. Throws the system's error. */
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

  /** Events `data` come from now on; the descriptor keeps the process alive. Throws the system's error. */
  start(): void {
    if (!this.#socket) return
    const result = this.#addon.watch(this.#socket, READABLE, () => this.#readable())
    if (result < 0) throw systemError(result, 'poll')
  }

  /** Closes, and lets go of all connections; safe to call twice. */
  stop(): void {
    for (const handle of [...this.#held.keys()]) this.#letGo(handle)
    if (this.#socket) this.#addon.close(this.#socket)
    this.#socket = undefined
  }

  /** False as well when the adapter is gone. */
  isDevUp(): boolean {
    return this.#socket !== undefined && this.#addon.hciInfo(this.#socket, this.#device, this.#address) === 1
  }

  /** Which packets and events are heard: the bytes of struct hci_filter. */
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

  /** Keeps the kernel from ending a connection that was made just now, and no longer than it lasts. */
  #hold(packet: Buffer): void {
    if (packet[0] !== EVENT) return
    if (packet[1] === DISCONNECTED && packet.length >= 7 && packet[3] === 0) this.#letGo(packet.readUInt16LE(4) & 0xfff)
    if (packet[1] !== LE_META || packet.length < 15 || !CONNECTED.includes(packet[3]!) || packet[4] !== 0) return
    const handle = packet.readUInt16LE(5) & 0xfff
    this.#letGo(handle)
    // identity addresses (2, 3) count as what they stand for
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
