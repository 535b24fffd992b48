// The listening end of TLS: handshakes with a deadline on accepted connections, client certificates if `client_ca` is
// set, and reloading of changed files (a renewed certificate) within a minute. Errors: the files at the start
// (TLS_FILE); a handshake or a client's certificate (only that connection, logged with the reason); changed files that
// are invalid (logged, the old ones stay in use).
import type { Socket } from 'node:net'
import { createServer, type Server, type TLSSocket, type TlsOptions } from 'node:tls'
import { asOsError, type OsError } from '../../lib/errors'
import { clockBehind, judgeClient, NO_RESUMPTION, type TlsParts, tlsError } from '.'
import { type TlsMaterial, tlsMaterial } from './settings'
import type { TlsSettings } from './tls-options'

const RELOAD_MS = 60_000

interface Pending {
  readonly done: (socket: TLSSocket) => void
  readonly failed: (error: OsError) => void
}

export class TlsServer {
  readonly #settings: TlsSettings
  readonly #parts: TlsParts
  /** OpenSSL checks clients; the second one is for a clock that is behind, when it cannot (R22) */
  readonly #strict: Server
  readonly #lenient: Server
  readonly #pending = new Map<string, Pending>()
  #material: TlsMaterial
  #loadedAt: number

  /** Throws TLS_FILE. */
  constructor(settings: TlsSettings, parts: TlsParts, handshakeMs: number) {
    this.#settings = settings
    this.#parts = parts
    this.#material = tlsMaterial(settings, parts.readText)
    this.#loadedAt = parts.clock.mono()
    const make = (strict: boolean): Server => {
      const server = createServer({
        ...contextOptions(settings, this.#material),
        requestCert: settings.client_ca !== undefined,
        rejectUnauthorized: strict && settings.client_ca !== undefined,
        handshakeTimeout: handshakeMs,
      })
      server.on('secureConnection', socket => this.#secured(socket, strict))
      server.on('tlsClientError', (error, socket) => this.#failed(socket, error))
      return server
    }
    this.#strict = make(true)
    this.#lenient = make(false)
  }

  /** Starts the handshake on a connection; then exactly one of the two is called, unless the connection closes first. */
  accept(socket: Socket, done: Pending['done'], failed: Pending['failed']): void {
    this.#reload()
    const key = peerKey(socket)
    this.#pending.set(key, { done, failed })
    socket.once('close', () => {
      // a connection that closed without an OpenSSL error
      this.#take(key)?.failed(tlsError('EOF', key))
    })
    const server = clockBehind(this.#parts) ? this.#lenient : this.#strict
    server.emit('connection', socket)
  }

  #secured(socket: TLSSocket, strict: boolean): void {
    const key = peerKey(socket)
    const pending = this.#take(key)
    if (!pending) {
      socket.destroy()
      return
    }
    try {
      if (!strict && this.#settings.client_ca !== undefined) judgeClient(socket, this.#material, this.#parts)
    } catch (error) {
      socket.destroy()
      pending.failed(tlsError(error, key))
      return
    }
    pending.done(socket)
  }

  #failed(socket: TLSSocket, error: Error): void {
    const key = peerKey(socket)
    this.#take(key)?.failed(tlsError(error, key))
    socket.destroy()
  }

  #take(key: string): Pending | undefined {
    const pending = this.#pending.get(key)
    this.#pending.delete(key)
    return pending
  }

  #reload(): void {
    const { clock, logger, readText } = this.#parts
    if (clock.mono() - this.#loadedAt < RELOAD_MS) return
    this.#loadedAt = clock.mono()
    try {
      const material = tlsMaterial(this.#settings, readText)
      if (JSON.stringify(material) === JSON.stringify(this.#material)) return
      this.#material = material
      for (const server of [this.#strict, this.#lenient])
        server.setSecureContext(contextOptions(this.#settings, material))
      logger.info('TLS files changed and are in use')
    } catch (error) {
      logger.warn(`changed TLS files are refused: ${asOsError(error).message}`)
    }
  }
}

const contextOptions = (settings: TlsSettings, { cert, key, client_ca }: TlsMaterial): TlsOptions => ({
  cert,
  key,
  ...(client_ca !== undefined && { ca: client_ca }),
  minVersion: settings.min_version,
  secureOptions: NO_RESUMPTION,
})

const peerKey = (socket: Socket): string => `${socket.remoteAddress}|${socket.remotePort}`
