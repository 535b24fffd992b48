// What both UDP media share: options, the making of sockets, and the meaning of the system's errors. Sockets get a lookup
// of their own, so that getaddrinfo is never called behind our back.
import { createSocket, type Socket } from 'node:dgram'
import { errno, OsError } from '../lib/errors'
import { hostPort } from './resolve'

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
