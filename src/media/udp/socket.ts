// Shared by both UDP media: options, creation of sockets, and the meaning of the system's errors. Sockets get our own
// lookup, so that Node never calls getaddrinfo.
import { createSocket, type Socket } from 'node:dgram'
import { errno } from '../../lib/errors'
import { hostPort } from '../../links/resolve'
import { wayText } from '../system-errors'

/** A socket that accepts only addresses. `receiveBuffer` in bytes, 0: the kernel's default. */
export const makeSocket = (family: 4 | 6, receiveBuffer = 0): Socket =>
  createSocket({
    type: family === 4 ? 'udp4' : 'udp6',
    lookup: (address, _options, done) => done(null, address, family),
    ...(receiveBuffer > 0 && { recvBufferSize: receiveBuffer }),
  })

/** Calls `begin` and waits for `event`. Rejects with the system's error. */
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

/** Closes a socket that may be closed already; resolves when the port is free. */
export const closed = (socket: Socket): Promise<void> =>
  new Promise(resolve => {
    try {
      socket.close(() => resolve())
    } catch {
      resolve() // already closed
    }
  })

/** The peer or a router refused a packet (ICMP). The next packet may succeed, so the socket stays. */
export const isRefusal = (error: unknown): boolean => ['ECONNREFUSED', 'EHOSTUNREACH'].includes(errno(error) ?? '')

/** The kernel's buffer is full, or the packet is too long for the path: affects only this packet. */
export const isMomentary = (error: unknown): boolean =>
  ['ENOBUFS', 'EAGAIN', 'ENOMEM', 'EMSGSIZE', 'EINTR'].includes(errno(error) ?? '')

/** A system error of a peer's socket as a sentence. */
export function peerText(error: unknown, address: string, portNumber: number): string {
  const where = hostPort(address, portNumber)
  return wayText(error, where, 'sending to') ?? `UDP to ${where} failed: ${errno(error) ?? String(error)}`
}
