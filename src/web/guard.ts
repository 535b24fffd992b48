// Checks of every request before its route: security headers on the answer (S6), a valid URL, an allowed Host against
// DNS rebinding (S5), and for methods that change something: no page of another site, JSON only, no body beyond the
// limit. A refusal is an OsError, sent as JSON; no answer has a CORS header.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { OsError } from '../lib/errors'

const MAX_URL_CHARS = 8_192
export const MAX_BODY_BYTES = 1024 * 1024

const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': CSP,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), usb=(), serial=()',
  'Cache-Control': 'no-store',
}

const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::' || host === ''

/** `name`, `name:port`, `[v6]:port` → the name in lower case, without brackets; null when it is none of these */
export function hostName(header: string): string | null {
  const match = /^(?:\[([0-9a-f:.]{2,45})\]|([a-z0-9_.-]{1,253}))(?::\d{1,5})?$/i.exec(header)
  return match ? (match[1] ?? match[2]!).toLowerCase() : null
}

interface GuardOptions {
  /** the address the server is bound to */
  host: string
  /** further host names of this gateway: web_user.allowed_hosts */
  allowedHosts: readonly string[]
}

export class RequestGuard {
  readonly #names: Set<string>
  readonly #wildcard: boolean

  constructor({ host, allowedHosts }: GuardOptions) {
    const own = ['localhost', '127.0.0.1', '::1', ...(isWildcard(host) ? [] : [host]), ...allowedHosts]
    this.#names = new Set(own.map(name => name.toLowerCase().replace(/^\[|\]$/g, '')))
    this.#wildcard = isWildcard(host)
  }

  headers(res: ServerResponse): void {
    for (const name in SECURITY_HEADERS) res.setHeader(name, SECURITY_HEADERS[name]!)
  }

  /** Throws the refusal; returns if the request may continue to its route. */
  check(req: IncomingMessage): void {
    const url = req.url ?? ''
    if (!url.startsWith('/')) throw new OsError('BAD_REQUEST', 'the request target must be a path')
    if (url.length > MAX_URL_CHARS)
      throw new OsError('BAD_REQUEST', `the URL is longer than ${MAX_URL_CHARS} characters`)
    this.#checkHost(req)
    if (Number(req.headers['content-length'] ?? 0) > MAX_BODY_BYTES) {
      throw new OsError('BODY_TOO_LARGE', `the body is larger than ${MAX_BODY_BYTES} bytes`)
    }
    if (req.method !== 'GET' && req.method !== 'HEAD' && req.method !== 'OPTIONS') this.#checkUnsafe(req)
  }

  #checkHost(req: IncomingMessage): void {
    const { host } = req.headers
    // the parser keeps the first and drops the others, but a proxy before us may use the last
    const hosts = req.rawHeaders.filter((name, k) => k % 2 === 0 && name.toLowerCase() === 'host').length
    if (hosts > 1) throw new OsError('BAD_REQUEST', 'there is more than one Host header')
    if (host === undefined) {
      if (req.httpVersion === '1.0') return
      throw new OsError('BAD_REQUEST', 'the Host header is missing')
    }
    const name = hostName(host)
    if (name === null) throw new OsError('BAD_REQUEST', 'the Host header is malformed')
    if (this.#names.has(name)) return
    // bound to every address: the local address of this connection is ours; a rebound name is never an address
    if (this.#wildcard && isIP(name) && name === req.socket.localAddress?.replace(/^::ffff:/, '')) return
    throw new OsError('HOST_REFUSED', 'this host name is not allowed')
  }

  #checkUnsafe(req: IncomingMessage): void {
    const { origin, host = '' } = req.headers
    const site = req.headers['sec-fetch-site']
    if (site !== undefined && site !== 'same-origin' && site !== 'none') {
      throw new OsError('CROSS_SITE', 'requests of other sites are refused')
    }
    if (origin !== undefined && origin.replace(/^https?:\/\//, '').toLowerCase() !== host.toLowerCase()) {
      throw new OsError('CROSS_SITE', 'requests of other origins are refused')
    }
    const hasBody = req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0
    if (hasBody && !/^application\/json\s*(;|$)/i.test(req.headers['content-type'] ?? '')) {
      throw new OsError('UNSUPPORTED_TYPE', 'the content type must be application/json')
    }
  }
}
