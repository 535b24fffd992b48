// Starts the server's listening, and converts errors of listening and of the HTTP parser.
import { once } from 'node:events'
import type { Server } from 'node:http'
import { errno, OsError } from '../lib/errors'

export const MAX_HEADER_BYTES = 16_384

/** Throws PORT_BUSY or NETWORK. */
export async function listen(server: Server, host: string, port: number): Promise<void> {
  server.listen({ host, port })
  try {
    await once(server, 'listening')
  } catch (cause) {
    const [code, details] = [errno(cause), { host, port }]
    if (code === 'EADDRINUSE')
      throw new OsError('PORT_BUSY', `port ${port} on ${host} is in use by another program`, {
        cause,
        hint: `stop the other program (ss -ltnp 'sport = :${port}' names it) or choose another port with --port`,
        details,
      })
    throw new OsError('NETWORK', `cannot listen on ${host} port ${port}: ${(cause as Error).message}`, {
      cause,
      details,
      ...(code === 'EACCES' && { hint: 'ports below 1024 need root; choose another with --port' }),
    })
  }
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
  return new OsError('BAD_REQUEST', `malformed HTTP request (${error.code ?? error.message})`)
}
