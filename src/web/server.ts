/// <reference path="./polka.d.ts" />
// The HTTP server: Polka's router over node:http, with the table of routes. Whatever a request contains, the answer is
// JSON or an asset, never a silently closed connection (X18); a handler that throws affects only its own request. A
// port in use is PORT_BUSY; another error of listening is NETWORK; later errors are logged and the server continues.

import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import polka from 'polka'
import { isLoopback } from '../config'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import { SerialQueue } from '../lib/serial-queue'
import { Access, ANONYMOUS, requireRole } from './access'
import { refuseRaw, sendAsset, sendDownload, sendError, sendJson, sendText } from './answer'
import { isAsset } from './assets'
import { type Body, checkBody, readBody } from './body'
import type { Pair } from './certificate'
import { Connections } from './connections'
import type { WebContext } from './context'
import { buildDashboard } from './dashboard'
import { EventStreams } from './events'
import { RequestGuard } from './guard'
import { listen, MAX_HEADER_BYTES, parserError } from './listen'
import { TokenGate } from './login-throttle'
import { parseQuery } from './query'
import { startRedirect } from './redirect'
import { type Call, Download, matched, type Route, type ServiceFacts, Text } from './route'
import { ROUTES } from './routes'
import { Sessions } from './sessions'

/** running answers are aborted after this */
const STOP_GRACE_MS = 2_000
/** longest silence of a connection while its answer is generated; commands have their own limit */
const ANSWER_MS = 120_000

export interface WebServerOptions {
  host: string
  /** 0 takes any free port; see `port` */
  port: number
  maxConnections?: number
  /** a reader that reads nothing of its answer for this long is closed */
  stallMs?: number
  /** time limit of a request's headers; the complete request may take twice as long */
  slowClientMs?: number
  clock?: Clock
  routes?: readonly Route[]
  /** key pair for TLS, read at each start; null: no encryption */
  tls?: () => Pair | null
  /** port that answers /health unencrypted and redirects everything else to the encrypted page, read at each start; 0: none */
  redirectPort?: () => number
}

export class WebServer {
  readonly #context: WebContext
  readonly #options: Required<WebServerOptions>
  /** from start to stop; `since`: clock.mono() */
  #life: {
    readonly server: Server
    readonly connections: Connections
    readonly since: number
    endRedirect?: () => void
  } | null = null
  readonly #turns = new SerialQueue()
  #encrypted = false
  /** set in everything that a request started */
  readonly #inRequest = new AsyncLocalStorage<true>()
  readonly #streams = new EventStreams()
  readonly #sessions: Sessions
  readonly #answers: Record<string, number> = {}

  constructor(context: WebContext, options: WebServerOptions) {
    this.#context = context
    this.#sessions = new Sessions(options.clock ?? systemClock, () => context.sessionTimes())
    this.#options = {
      maxConnections: 256,
      slowClientMs: 10_000,
      stallMs: 20_000,
      clock: systemClock,
      routes: ROUTES,
      tls: () => null,
      redirectPort: () => 0,
      ...options,
    }
  }

  get running(): boolean {
    return this.#life !== null
  }

  /** the actual port, also when 0 was requested */
  get port(): number {
    const address = this.#life?.server.address() as AddressInfo | null | undefined
    return address?.port ?? this.#options.port
  }

  get url(): string {
    const { host } = this.#options
    return `${this.#encrypted ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${this.port}`
  }

  /** The server's data about itself. */
  facts(): ServiceFacts {
    const { host, clock } = this.#options
    const life = this.#life
    return {
      uptimeS: life ? Math.floor((clock.mono() - life.since) / 1000) : 0,
      host,
      port: this.port,
      now: clock.wall(),
      http: {
        ...this.#answers,
        connections: life?.connections.size ?? 0,
        dropped_connections: life?.connections.dropped ?? 0,
        cut_connections: life?.connections.cut ?? 0,
        event_streams: this.#streams.size,
        dropped_events: this.#streams.dropped,
        sessions: this.#sessions.size,
      },
    }
  }

  /** `dashboard` of GET /api/dashboard. */
  dashboard(sections?: string): Promise<object> {
    return buildDashboard(this.#context, this.facts(), sections, 'operator')
  }

  /** Listens. Safe to call when it already listens. Throws PORT_BUSY, CONFIG_INVALID (decision 0050) or NETWORK. */
  start(): Promise<void> {
    return this.#turns.run(() => this.#start())
  }

  /**
   * Stops listening, gives running answers two seconds, closes all others. Safe to call when stopped. If a request
   * requested it (plugin web_user stopped over HTTP), it does not wait for the answer to that request, which is then
   * still sent.
   */
  stop(): Promise<void> {
    const requested = this.#inRequest.getStore() === true
    return this.#turns.run(() => this.#stop(requested))
  }

  async #start(): Promise<void> {
    if (this.#life) return
    const { host, port, maxConnections, slowClientMs, stallMs, clock } = this.#options
    if (!this.#context.auth.enabled() && !isLoopback(host)) {
      throw new OsError('CONFIG_INVALID', `without auth the web server listens on 127.0.0.1 only, not on ${host}`, {
        hint: 'set web_user.auth_enabled to true, or the host to 127.0.0.1',
        details: { key: 'web_user.auth_enabled' },
      })
    }
    const settings = {
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: false,
      headersTimeout: slowClientMs,
      requestTimeout: 2 * slowClientMs,
      // each check wakes the processor
      connectionsCheckingInterval: Math.min(5_000, slowClientMs / 2),
      keepAliveTimeout: 5_000,
    }
    const pair = this.#options.tls()
    this.#encrypted = pair !== null
    const server: Server = pair
      ? // loaded on use: TLS is a large part of Node
        (await import('node:https')).createServer({
          ...settings,
          ...pair,
          minVersion: 'TLSv1.2',
          handshakeTimeout: slowClientMs,
        })
      : createServer(settings)
    // for a client that does not read its answer
    server.setTimeout(3 * slowClientMs)
    server.maxRequestsPerSocket = 1_000
    server.on('clientError', (error, socket) => refuseRaw(socket, parserError(error)))
    server.on('connect', (_, socket) => refuseRaw(socket, new OsError('METHOD_NOT_ALLOWED', 'method not allowed')))
    const connections = new Connections({ limit: maxConnections, stallMs })
    connections.watch(server)
    const { handle, check, fail } = this.#build(server)
    server.on('request', (req, res) => connections.enter(req, res, () => handle(req, res)))
    const address = host === 'localhost' ? '127.0.0.1' : host
    await listen(server, address, port)
    server.on('error', error => this.#context.logger.error(`web server: ${asOsError(error).message}`))
    this.#life = { server, connections, since: clock.mono() }
    this.#context.logger.info(`web page on ${this.url}`)
    const plainPort = pair ? this.#options.redirectPort() : 0
    if (plainPort === 0) return
    const parts = {
      host: address,
      port: plainPort,
      pagePort: this.port,
      settings,
      stallMs,
      check,
      health: handle,
      fail,
    }
    try {
      this.#life.endRedirect = await startRedirect(parts)
    } catch (thrown) {
      // the page itself works
      this.#context.logger.warn(`no redirect to the page: ${asOsError(thrown).message}`)
    }
  }

  async #stop(requested: boolean): Promise<void> {
    if (!this.#life) return
    const { server, connections, endRedirect } = this.#life
    this.#life = null
    endRedirect?.()
    const closed = new Promise<void>(resolve => {
      server.close(() => resolve())
    })
    this.#streams.closeAll()
    connections.closeIdle()
    const cut = setTimeout(() => server.closeAllConnections(), STOP_GRACE_MS)
    const ended = closed.then(() => clearTimeout(cut))
    if (!requested) await ended
  }

  /** The listener for one run of the server: guard, then Polka's router over the table. */
  #build(server: Server) {
    const { host, routes, clock } = this.#options
    const { logger } = this.#context
    const guard = new RequestGuard({ host, allowedHosts: this.#context.hosts() })
    const gate = new TokenGate(this.#context.auth, clock)
    const access = new Access(this.#context, gate, this.#sessions, isLoopback(host))
    const fail = (req: IncomingMessage, res: ServerResponse, thrown: unknown): void =>
      sendError(res, thrown, logger, `${req.method} ${req.url?.split('?')[0]?.slice(0, 200)}`)

    const app = polka({
      server,
      onNoMatch: (req, res) => fail(req, res, new OsError('NOT_FOUND', 'not found')),
      onError: (error, req, res) => fail(req, res, error),
    })
    const serve =
      (path: string): polka.Handler =>
      (req, res) => {
        this.#inRequest.run(true, () => this.#serve(path, access, req, res)).catch(thrown => fail(req, res, thrown))
      }
    // '/x/' is '/x/:id' without its id, even if there is no '/x'
    const parents = routes.map(({ path }) => path.replace(/\/:\w+$/, '')).filter(path => path !== '')
    for (const path of new Set([...routes.map(route => route.path), ...parents])) {
      for (const { method } of routes.filter(route => route.path === path)) app.add(method, path, serve(path))
      // every other method of a known path: HEAD, OPTIONS, and 405 after authentication
      app.add('*', path, serve(path))
    }
    const check = (req: IncomingMessage, res: ServerResponse): void => {
      guard.headers(res)
      guard.check(req)
    }
    const handle = (req: IncomingMessage, res: ServerResponse): void => {
      res.once('finish', () => this.#count(res.statusCode))
      try {
        check(req, res)
        if (req.headers['transfer-encoding'] && req.method === 'GET') res.setHeader('Connection', 'close')
        app.handler(req, res)
      } catch (thrown) {
        fail(req, res, thrown)
      }
    }
    return { handle, check, fail }
  }

  async #serve(pattern: string, access: Access, req: polka.Request, res: ServerResponse): Promise<void> {
    const { routes } = this.#options
    const { path, params } = matched(routes, pattern, req)
    const here = routes.filter(route => route.path === path)
    if (here.length === 0) throw new OsError('NOT_FOUND', 'not found')
    const method = req.method === 'HEAD' ? 'GET' : req.method
    const route = here.find(candidate => candidate.method === method)
    // only an authorized caller learns that a method is missing
    const open = route ? route.role === 'open' : here.every(candidate => candidate.role === 'open')
    if (!open) this.#mayAsk(path, route?.write !== undefined)
    const session = open ? ANONYMOUS : await access.admit(req)
    if (!route) {
      const methods = here.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
      res.setHeader('Allow', [...methods, 'OPTIONS'].join(', '))
      if (method === 'OPTIONS') {
        res.writeHead(204).end()
        return
      }
      throw new OsError('METHOD_NOT_ALLOWED', 'method not allowed')
    }
    if (route.role !== 'open') requireRole(session, route.role)
    const body = route.method === 'POST' || route.method === 'PUT' ? await readBody(req) : {}
    const left = new AbortController()
    res.once('close', () => left.abort())
    const call: Call = {
      body: route.body ? (checkBody(route.body, body) as Call['body']) : body,
      context: this.#context,
      query: parseQuery(req.search ? req.search.slice(1) : null, route.query ?? {}, path.startsWith('/api/')),
      params,
      service: this.facts(),
      session,
      remote: req.socket.remoteAddress ?? '',
      signal: left.signal,
      request: req,
      access,
      routes,
    }
    if (route.write && !route.audited)
      this.#context.logger.info(
        `${session.username} at ${call.remote}: ${route.method} ${auditPath(req)}${keysOf(route, body)}`,
      )
    await this.#answer(route, call, req, res)
  }

  async #answer(route: Route, call: Call, req: polka.Request, res: ServerResponse): Promise<void> {
    if (route.stream) {
      if (req.method !== 'HEAD') this.#streams.open(call, res)
      else res.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' }).end()
      return
    }
    // a command may take longer than the time-out of a client that does not read
    res.setTimeout(ANSWER_MS)
    const body = await route.run(call)
    if (body instanceof Text) sendText(res, body)
    else if (body instanceof Download) await sendDownload(res, body, call.signal)
    else if (isAsset(body)) sendAsset(req, res, body)
    else sendJson(res, 200, body)
  }

  #count(status: number): void {
    const name = `${Math.floor(status / 100)}xx`
    this.#answers[name] = (this.#answers[name] ?? 0) + 1
  }

  /** Throws refusals that the reference sends before it checks the token; users and data are not management. */
  #mayAsk(path: string, write: boolean): void {
    const { read_only, management_enabled } = this.#context.settings()
    if (!management_enabled && !/^\/(users|api\/data)(\/|$)/.test(path))
      throw new OsError('FORBIDDEN', 'management api disabled')
    if (write && read_only) throw new OsError('READ_ONLY', 'read-only mode is active')
  }
}

/** Keys of a body, for the log. */
function keysOf({ keys }: Route, body: Body): string {
  const all = keys?.(body) ?? []
  const shown = all.slice(0, 20).map(key => key.slice(0, 100).replace(/[^\x21-\x7e]/g, '?'))
  return all.length === 0 ? '' : ` ${shown.join(' ')}${all.length > 20 ? ` and ${all.length - 20} more` : ''}`
}

/** The path for the log: without the query and without characters that could forge a line. */
const auditPath = (req: polka.Request): string => req.path.slice(0, 200).replace(/[^\x21-\x7e]/g, '?')
