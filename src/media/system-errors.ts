// Explains the system's errors of sockets for people: for TCP, UDP and the media on top of them.
import { errno, OsError } from '../lib/errors'
import { hostPort } from '../links/resolve'

/** Why there is no route to `where`, if it is a network error; undefined for other errors. `doing`: what was tried. */
export function wayText(error: unknown, where: string, doing: string): string | undefined {
  const code = errno(error)
  if (code === 'ECONNREFUSED') return `nothing listens at ${where}`
  if (code === 'EHOSTUNREACH') return `the host of ${where} cannot be reached`
  if (code === 'ENETUNREACH' || code === 'ENETDOWN' || code === 'EADDRNOTAVAIL') return `no route to ${where}`
  if (code === 'EPERM' || code === 'EACCES') return `${doing} ${where} is not allowed here (firewall?)`
  return undefined
}

/** The error to throw for a failed listen or bind. */
export function listenError(protocol: 'TCP' | 'UDP', error: unknown, address: string, port: number): OsError {
  const where = hostPort(address, port)
  const code = errno(error)
  if (code === 'EADDRINUSE') {
    const show = `ss -l${protocol === 'TCP' ? 't' : 'u'}np 'sport = :${port}'`
    return new OsError('PORT_BUSY', `${protocol} port ${port} is in use (${where})`, {
      cause: error,
      hint: `stop the program that has it (${show} shows it) or choose another with --port`,
      details: { port, host: address },
    })
  }
  if (code === 'EACCES')
    return new OsError('NETWORK', `${protocol} port ${port} may not be opened by this user`, {
      cause: error,
      hint: 'choose port 1024 or above',
    })
  if (code === 'EADDRNOTAVAIL')
    return new OsError('NETWORK', `this machine has no address ${address}`, {
      cause: error,
      hint: 'listen on 0.0.0.0, or on an address that `ip address` shows',
    })
  return new OsError('NETWORK', `cannot listen on ${protocol} ${where}: ${code ?? String(error)}`, { cause: error })
}
