// Starts the server's listening, and converts errors of listening and of the HTTP parser.
import type { Server } from 'node:http'
import { errno, OsError } from '../lib/errors'

export const MAX_HEADER_BYTES = 16_384

/** Throws PORT_BUSY or NETWORK. */
export function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (cause: Error): void => {
      const code = errno(cause)
      reject(
        code === 'EADDRINUSE'
          ? new OsError('PORT_BUSY', `port ${port} on ${host} is in use by another program`, {
              cause,
              hint: `stop the other program (ss -ltnp 'sport = :${port}' names it) or choose another port with --port`,
              details: { host, port },
            })
          : new OsError('NETWORK', `cannot listen on ${host} port ${port}: ${cause.message}`, {
              cause,
              details: { host, port },
              ...(code === 'EACCES' && { hint: 'ports below 1024 need root; choose another with --port' }),
            }),
      )
    }
    server.once('error', failed)
    server.listen({ host, port }, () => {
      server.off('error', failed)
      resolve()
    })
  })
}

/** Converts an error of the HTTP parser. */
export function parserError(error: NodeJS.ErrnoException & { rawPacket?: Buffer }): OsError {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return new OsError('REQUEST_TIMEOUT', 'the request took too long')
  if (error.code === 'HPE_HEADER_OVERFLOW') {
    const firstLine = error.rawPacket?.indexOf(10) ?? -1
    return firstLine < 0 || firstLine > MAX_HEADER_BYTES / 2
      ? new OsError('BAD_REQUEST', 'the URL is too long')
      : new OsError('HEADERS_TOO_LARGE', `the headers are larger than ${MAX_HEADER_BYTES} bytes`)
  }
  return new OsError('BAD_REQUEST', 'malformed HTTP request')
}
