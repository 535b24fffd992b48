// What both UDP media share: options, the making of sockets, and the meaning of the system's errors. Sockets get a lookup
// of their own, so that getaddrinfo is never called behind our back.
import { createSocket, type Socket } from 'node:dgram'
import { errno } from '../../lib/errors'
import { hostPort } from '../../links/resolve'
import { wayText } from '../system-errors'

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
  const where = hostPort(address, portNumber)
  return wayText(error, where, 'sending to') ?? `UDP to ${where} failed: ${errno(error) ?? String(error)}`
}
