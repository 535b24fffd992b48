// What both UDP media share: options, the making of sockets, and the meaning of the system's errors. Sockets get a lookup
// of their own, so that getaddrinfo is never called behind our back.
import { createSocket, type Socket } from 'node:dgram'
import {
  type InferOutput,
  integer,
  maxValue,
  minValue,
  number,
  object,
  optional,
  picklist,
  pipe,
  string,
} from 'valibot'
import { errno, OsError } from '../lib/errors'
import { hostPort } from './resolve'

/** the most a UDP datagram over IPv4 can carry: 65535 - 20 (IP) - 8 (UDP) */
export const MAX_DATAGRAM = 65_507

/**
 * 1400 bytes fit one frame on every common path (Ethernet 1500, PPPoE 1492, WireGuard 1420, tunnels 1400 with headers
 * counted): a larger datagram is sent in fragments, and one lost fragment loses it all.
 */
export const DEFAULT_MAX_PACKET = 1400

const port = (lowest: number) => pipe(number(), integer(), minValue(lowest), maxValue(65_535))

export const udpOptions = object({
  /** `send`: packets go to host and port, replies come back; `listen`: packets come in at listen_host and port */
  mode: optional(picklist(['send', 'listen']), 'send'),
  host: optional(string()),
  /** the peer's port, or the one listened on (0: any free one) */
  port: optional(port(0), 8080),
  listen_host: optional(string(), '0.0.0.0'),
  max_packet: optional(pipe(number(), integer(), minValue(64), maxValue(MAX_DATAGRAM)), DEFAULT_MAX_PACKET),
  /**
   * What the kernel may hold for us while the loop is busy; it gives at most net.core.rmem_max, and counts a small packet as
   * 768 bytes of twice this size: 4 MiB are 11,000 packets, a tenth of a second of 100,000/s.
   */
  receive_buffer_bytes: optional(
    pipe(number(), integer(), minValue(4096), maxValue(256 * 1024 * 1024)),
    4 * 1024 * 1024,
  ),
  /** `auto`: many packets per system call where the addon is; `off`: always node's own sockets */
  batch: optional(picklist(['auto', 'off']), 'auto'),
})

export type UdpOptions = InferOutput<typeof udpOptions>

/** A socket that knows addresses only. `receiveBuffer` in bytes, 0 leaves the kernel's. */
export const makeSocket = (family: 4 | 6, receiveBuffer = 0): Socket =>
  createSocket({
    type: family === 4 ? 'udp4' : 'udp6',
    lookup: (address, _options, done) => done(null, address, family),
    ...(receiveBuffer > 0 && { recvBufferSize: receiveBuffer }),
  })

/** Waits for `begin` to announce `event`. Rejects with the system's error. */
export const until = (socket: Socket, event: 'listening' | 'connect', begin: () => void): Promise<void> =>
  new Promise((resolve, reject) => {
    const failed = (error: Error): void => {
      socket.off(event, done)
      reject(error)
    }
    const done = (): void => {
      socket.off('error', failed)
      resolve()
    }
    socket.once('error', failed)
    socket.once(event, done)
    try {
      begin()
    } catch (error) {
      socket.off(event, done)
      socket.off('error', failed)
      reject(error)
    }
  })

/** Closes a socket that may be closed already; settles when the port is free. */
export const closed = (socket: Socket): Promise<void> =>
  new Promise(resolve => {
    try {
      socket.close(() => resolve())
    } catch {
      resolve() // it was closed before, which is what we want
    }
  })

/** The peer or a router said no (ICMP). The way may be open again with the next packet, so the socket stays. */
export const isRefusal = (error: unknown): boolean => ['ECONNREFUSED', 'EHOSTUNREACH'].includes(errno(error) ?? '')

/** The kernel had no room at this moment, or the packet is too long for the path: this packet only. */
export const isMomentary = (error: unknown): boolean =>
  ['ENOBUFS', 'EAGAIN', 'ENOMEM', 'EMSGSIZE', 'EINTR'].includes(errno(error) ?? '')

/** A system error of a peer's socket as a sentence. */
export function peerText(error: unknown, address: string, portNumber: number): string {
  const code = errno(error)
  const where = hostPort(address, portNumber)
  if (code === 'ECONNREFUSED') return `nothing listens at ${where}`
  if (code === 'EHOSTUNREACH') return `the host of ${where} cannot be reached`
  if (code === 'ENETUNREACH' || code === 'ENETDOWN' || code === 'EADDRNOTAVAIL') return `no network way to ${where}`
  if (code === 'EPERM' || code === 'EACCES') return `sending to ${where} is not allowed here (firewall?)`
  return `UDP to ${where} failed: ${code ?? String(error)}`
}

/** What a failed bind means, as the error to throw. */
export function bindError(error: unknown, address: string, portNumber: number): OsError {
  const where = hostPort(address, portNumber)
  const code = errno(error)
  if (code === 'EADDRINUSE')
    return new OsError('PORT_BUSY', `UDP port ${portNumber} is in use (${where})`, {
      cause: error,
      hint: `stop the program that has it (ss -lunp 'sport = :${portNumber}' shows it) or choose another with --port`,
      details: { port: portNumber, host: address },
    })
  if (code === 'EACCES')
    return new OsError('NETWORK', `UDP port ${portNumber} may not be opened by this user`, {
      cause: error,
      hint: 'choose a port from 1024 up',
    })
  if (code === 'EADDRNOTAVAIL')
    return new OsError('NETWORK', `this machine has no address ${address}`, {
      cause: error,
      hint: 'listen on 0.0.0.0, or on an address that `ip address` shows',
    })
  return new OsError('NETWORK', `cannot listen on UDP ${where}: ${code ?? String(error)}`, { cause: error })
}
