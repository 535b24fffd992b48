// The plain port of an encrypted page (web_user.redirect_port): it answers /health, and redirects every other request
// to the page. It uses the page's guard but separate connections: a flood here takes no place from the page. Errors: a
// port in use is PORT_BUSY, another error NETWORK; the server logs it and continues without this port.
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import { OsError } from '../lib/errors'
import { refuseRaw } from './answer'
import { Connections } from './connections'
import { listen, parserError } from './listen'

const MAX_CONNECTIONS = 32

interface RedirectParts {
  readonly host: string
  readonly port: number
  /** port of the page */
  readonly pagePort: number
  readonly settings: ServerOptions
  readonly stallMs: number
  /** Throws the refusal of a request. */
  check(req: IncomingMessage, res: ServerResponse): void
  /** answers /health */
  health(req: IncomingMessage, res: ServerResponse): void
  fail(req: IncomingMessage, res: ServerResponse, thrown: unknown): void
}

/** Listens; resolves the function that ends it. Rejects with PORT_BUSY or NETWORK. */
export async function startRedirect(parts: RedirectParts): Promise<() => void> {
  const server: Server = createServer(parts.settings)
  const connections = new Connections({ limit: MAX_CONNECTIONS, stallMs: parts.stallMs })
  connections.watch(server)
  server.on('clientError', (error, socket) => refuseRaw(socket, parserError(error)))
  server.on('connect', (_, socket) => refuseRaw(socket, new OsError('METHOD_NOT_ALLOWED', 'method not allowed')))
  const suffix = parts.pagePort === 443 ? '' : `:${parts.pagePort}`
  const answer = (req: IncomingMessage, res: ServerResponse): void => {
    if (req.url === '/health') {
      parts.health(req, res)
      return
    }
    try {
      parts.check(req, res)
      const { host } = req.headers
      if (!host) throw new OsError('BAD_REQUEST', 'the Host header is missing')
      res
        .writeHead(308, { Location: `https://${host.replace(/:\d+$/, '')}${suffix}${req.url}`, Connection: 'close' })
        .end()
    } catch (thrown) {
      parts.fail(req, res, thrown)
    }
  }
  server.on('request', (req, res) => connections.enter(req, res, () => answer(req, res)))
  await listen(server, parts.host, parts.port)
  return () => {
    server.close()
    connections.closeIdle()
    server.closeAllConnections()
  }
}
