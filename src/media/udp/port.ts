// A UDP socket as both UDP media use it, whatever makes it: node:dgram (udp-plain.ts) or the addon (udp-batch.ts). The two
// behave the same; the addon moves many packets per system call. Without the addon, or with `batch: "off"`, it is the plain
// one.
import type { PacketOrigin } from '../../links/contracts'

/** Who sent a packet. The same peer is the same object as long as it is remembered, so things may be hung on it. */
export interface UdpPeer {
  readonly address: string
  readonly port: number
  /** as the kernel has it; the addon sends to this */
  readonly raw?: Uint8Array
  origin?: PacketOrigin
}

export interface UdpPortEvents {
  /** `packet` is only valid during the call; `peer` is undefined on a connected socket */
  packet(packet: Uint8Array, peer: UdpPeer | undefined): void
  /** so many packets were taken by the kernel */
  sent(count: number): void
  /** one packet was not */
  sendFailed(error: unknown): void
  /** an error that the socket reported by itself: a refusal of the peer, an interface that went */
  failed(error: unknown): void
}

export interface UdpPort {
  /** of this machine */
  readonly port: number
  /** what the kernel may hold for us, in bytes as it counts them */
  readonly receiveBuffer: number
  /** packets lost since the receive buffer was full; undefined when unknown */
  readonly dropped: number | undefined
  /** To the connected peer, or to `to`. Never throws; false when it was not taken. */
  send(packet: Uint8Array, to?: UdpPeer): Promise<boolean>
  /** To the connected peer, in order; how many of the first ones were taken. */
  sendBatch(packets: readonly Uint8Array[]): Promise<number>
  /** Settles when the port is free; what still waits is false. */
  close(): Promise<void>
}

export interface UdpPortOptions {
  family: 4 | 6
  /** bind to this address of ours, or connect to this peer */
  way: 'bind' | 'connect'
  address: string
  port: number
  receiveBufferBytes: number
  events: UdpPortEvents
}

/** packets handed to a port and not yet taken by the kernel; more are refused, so that a stuck device costs no memory */
export const MAX_PENDING = 1024
