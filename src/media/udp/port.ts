// The UDP socket interface of both UDP media, implemented by node:dgram (plain.ts) and by the addon (batch.ts). Both
// behave the same; the addon transfers many packets per system call. Without the addon, or with `batch: "off"`,
// plain.ts is used.
import type { PacketOrigin } from '../../links/contracts'

/** The sender of a packet. The same peer is the same object as long as it is cached, so properties may be attached to it. */
export interface UdpPeer {
  readonly address: string
  readonly port: number
  /** in the kernel's form; the addon sends to this */
  readonly raw?: Uint8Array
  origin?: PacketOrigin
}

export interface UdpPortEvents {
  /** `packet` is valid only during the call; `peer` is undefined on a connected socket */
  packet(packet: Uint8Array, peer: UdpPeer | undefined): void
  /** the kernel accepted this many packets */
  sent(count: number): void
  /** the kernel refused one packet */
  sendFailed(error: unknown): void
  /** an asynchronous error of the socket: a refusal of the peer, a removed interface */
  failed(error: unknown): void
}

export interface UdpPort {
  /** local port */
  readonly port: number
  /** size of the kernel's receive buffer, as it counts it */
  readonly receiveBuffer: number
  /** packets lost because the receive buffer was full; undefined if unknown */
  readonly dropped: number | undefined
  /** To the connected peer, or to `to`. Never throws; false if it was not accepted. */
  send(packet: Uint8Array, to?: UdpPeer): Promise<boolean>
  /** To the connected peer, in order; returns the number accepted, counted from the first. */
  sendBatch(packets: readonly Uint8Array[]): Promise<number>
  /** Resolves when the port is free; queued packets resolve false. */
  close(): Promise<void>
}

export interface UdpPortOptions {
  family: 4 | 6
  /** bind to this local address, or connect to this peer */
  way: 'bind' | 'connect'
  address: string
  port: number
  receiveBufferBytes: number
  events: UdpPortEvents
}

/**
 * limit of packets passed to a port and not yet accepted by the kernel; more are refused, so that a stuck device needs
 * no memory
 */
export const MAX_PENDING = 1024
