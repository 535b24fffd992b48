// Writes answers: JSON bodies, assets with their ETag, errors as `{ok: false, error, code}` (X18, X27), and the raw
// form for a request that the parser refused. The specification's texts are here; texts of unexpected errors are only
// logged.
import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { asOsError, ERRORS, type ErrorCode, OsError } from '../lib/errors'
import { masked, maskText } from '../lib/secrets'
import type { Asset } from './assets'
import type { WebLogger } from './context'
import { SECURITY_HEADERS } from './guard'
import type { Download, Text } from './route'

const JSON_TYPE = 'application/json; charset=utf-8'

/** the specification's texts, which replace the original message */
const TEXTS: Partial<Record<ErrorCode, string>> = {
  DB_NOT_CONFIGURED: 'database not configured',
  DB_STARTING: 'database starting',
  DB_UNAVAILABLE: 'database unavailable',
  INTERNAL: 'internal error',
}

export function sendJson(res: ServerResponse, status: number, body: object): void {
  const text = Buffer.from(JSON.stringify(body))
  res.writeHead(status, { 'Content-Type': JSON_TYPE, 'Content-Length': text.length })
  res.end(text)
}

export function sendText(res: ServerResponse, { status, type, body }: Text): void {
  const bytes = Buffer.from(body)
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': bytes.length })
  res.end(bytes)
}

/**
 * Sends a file while it is generated. An error before the first byte is thrown; a later one closes the connection,
 * which the reader notices.
 */
export async function sendDownload(res: ServerResponse, { name, write }: Download, signal: AbortSignal): Promise<void> {
  try {
    await write(async bytes => {
      if (signal.aborted) throw new OsError('NETWORK', 'the caller left')
      if (!res.headersSent)
        res.writeHead(200, {
          'Content-Type': 'application/octet-stream',
          'Content-Disposition': `attachment; filename="${name}"`,
        })
      // a caller who leaves meanwhile is noticed with the next piece
      if (!res.write(bytes)) await once(res, 'drain', { signal }).catch(() => undefined)
    })
    res.end()
  } catch (error) {
    if (!res.headersSent && !signal.aborted) throw error
    res.destroy()
  }
}

export function sendAsset(req: IncomingMessage, res: ServerResponse, asset: Asset): void {
  // the page itself contains whether a token is needed, so it is not cached; its files are revalidated and mostly
  // unchanged
  res.setHeader('Cache-Control', asset.type.startsWith('text/html') ? 'no-store' : 'no-cache')
  res.setHeader('ETag', asset.etag)
  if (req.headers['if-none-match'] === asset.etag) {
    res.writeHead(304).end()
    return
  }
  res.setHeader('Vary', 'Accept-Encoding')
  const packed = /\bgzip\b/.test(String(req.headers['accept-encoding'] ?? ''))
  const body = bytesOf(asset, packed)
  if (packed) res.setHeader('Content-Encoding', 'gzip')
  res.writeHead(200, { 'Content-Type': asset.type, 'Content-Length': body.length })
  res.end(body)
}

const keptBytes = [new Map<Asset, Buffer>(), new Map<Asset, Buffer>()] as const

/** Made at first use, then shared by all answers: compressed, a page over a radio link is a third of its size. */
function bytesOf(asset: Asset, packed: boolean): Buffer {
  const kept = keptBytes[packed ? 1 : 0]
  let bytes = kept.get(asset)
  if (!bytes) {
    bytes = packed ? gzipSync(asset.body) : Buffer.from(asset.body)
    kept.set(asset, bytes)
  }
  return bytes
}

const errorBody = (error: OsError): object => ({
  ok: false,
  error: TEXTS[error.code] ?? maskText(error.message),
  code: error.code,
  // details never replace the three fixed keys
  ...Object.fromEntries(
    Object.entries(masked(error.details)).filter(([key]) => !['ok', 'error', 'code'].includes(key)),
  ),
})

/** errors after which a retry soon makes sense */
const SOON: ReadonlySet<ErrorCode> = new Set([
  'TOO_MANY_ATTEMPTS',
  'TOO_MANY_JOBS',
  'TOO_MANY_STREAMS',
  'DB_STARTING',
  'STARTING',
])

/** A known state: the gateway starts, or a database is off, starting, or down for a logged reason. */
const isKnownState = ({ code, details }: OsError): boolean =>
  code === 'DB_NOT_CONFIGURED' ||
  code === 'DB_STARTING' ||
  code === 'STARTING' ||
  (code === 'DB_UNAVAILABLE' && 'reason' in details)

/** Sends any thrown value to the client; a bug of ours is logged with its own text. */
export function sendError(res: ServerResponse, thrown: unknown, logger: WebLogger, what: string): void {
  const error = asOsError(thrown)
  if (ERRORS[error.code].http >= 500 && !isKnownState(error)) {
    const cause = error.cause instanceof Error ? `: ${error.cause.stack ?? error.cause.message}` : ''
    logger.error(`${what}: ${error.code} ${error.message}${cause}`)
  }
  if (res.headersSent) {
    res.destroy()
    return
  }
  if (error.code === 'UNAUTHORIZED') res.setHeader('WWW-Authenticate', 'X-Admin-Token')
  if (SOON.has(error.code)) res.setHeader('Retry-After', '5')
  // the remaining body is not read
  if (error.code === 'BODY_TOO_LARGE') res.setHeader('Connection', 'close')
  sendJson(res, ERRORS[error.code].http, errorBody(error))
}

/** Answers on the raw connection a request that the HTTP parser refused, and closes it. */
export function refuseRaw(socket: Duplex, error: OsError): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const status = ERRORS[error.code].http
  const body = JSON.stringify(errorBody(error))
  const headers = Object.entries({
    ...SECURITY_HEADERS,
    'Content-Type': JSON_TYPE,
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}\r\n${headers.join('')}\r\n${body}`, () =>
    socket.destroy(),
  )
}
