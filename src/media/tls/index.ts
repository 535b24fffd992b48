// TLS for byte streams, both ends: options from the key `tls` of a link, a check of the peer's certificate, a deadline
// for the handshake. Errors: a PEM file (TLS_FILE); the peer's certificate (TLS_UNTRUSTED, TLS_NAME, TLS_EXPIRED,
// TLS_NOT_YET_VALID); any other handshake error (TLS_HANDSHAKE). Nothing is sent to a peer before the check.
//
// R22: while the system's clock is behind the trusted time (`trueNow`: the build, the last saved time, a server's
// time), OpenSSL's check of validity is meaningless, and chain.ts checks the chain at that time. With a correct clock
// only OpenSSL checks.
import { constants, X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect,
  type DetailedPeerCertificate,
  rootCertificates,
  type TLSSocket,
} from 'node:tls'
import type { Clock } from '../../lib/clock'
import { OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { literalAddress } from '../../links/resolve'
import { judgeChain, judgeEnd, type Purpose } from './chain'
import { tlsError } from './errors'
import { parseCertificates, type ReadText, type TlsMaterial, tlsMaterial } from './settings'
import type { TlsSettings } from './tls-options'

export { tlsError } from './errors'
export { tlsSettings } from './settings'

/** Parameters of both ends; a DriverContext is one. */
export interface TlsParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly trueNow?: () => number
  /** for tests */
  readonly readText?: ReadText
}

/** the clocks of two healthy machines may differ by this */
const BEHIND_MS = 60_000

/** The system's clock must be wrong: it is behind a time that has passed. */
export const clockBehind = ({ clock, trueNow }: TlsParts): boolean => (trueNow?.() ?? 0) > clock.wall() + BEHIND_MS

/** Sessions are never resumed: each handshake checks the certificate again. */
export const NO_RESUMPTION = constants.SSL_OP_NO_TICKET

interface ClientTls {
  /**
   * for tls.connect, in addition to the socket or the address; depends on the current clock, so make it anew for each
   * connection
   */
  readonly options: ConnectionOptions
  /** Call it at 'secureConnect', before anything is written. Throws the reason if the peer is not trusted. */
  check(socket: TLSSocket): void
}

/** TLS to `host`, the name or address as configured. Throws TLS_FILE. */
export function clientTls(settings: TlsSettings, host: string, parts: TlsParts): ClientTls {
  const material = tlsMaterial(settings, parts.readText)
  const name = settings.servername ?? literalAddress(host)?.address ?? host.replace(/\.$/, '')
  const behind = clockBehind(parts)
  if (settings.insecure) parts.logger.warn(`tls.insecure: the certificate of ${name} is not checked`)
  const options: ConnectionOptions = {
    host: name,
    // an address is not a valid server name (RFC 6066)
    ...(!literalAddress(name) && { servername: name }),
    ...material,
    minVersion: settings.min_version,
    rejectUnauthorized: !settings.insecure && !behind,
    secureOptions: NO_RESUMPTION,
  }
  const check = (socket: TLSSocket): void => {
    if (settings.insecure) return
    const leaf = socket.getPeerCertificate(true)
    if (behind) judge(socket, leaf, 'server', material.ca, parts)
    else if (!socket.authorized) throw tlsError(socket.authorizationError, name)
    const wrong = checkServerIdentity(name, leaf)
    if (wrong) throw tlsError(wrong, name)
  }
  return { options, check }
}

/** Checks the client's certificate at a listener that requires one, when the system's clock is behind. Throws. */
export function judgeClient(socket: TLSSocket, material: TlsMaterial, parts: TlsParts): void {
  judge(socket, socket.getPeerCertificate(true), 'client', material.client_ca, parts)
}

function judge(
  socket: TLSSocket,
  leaf: DetailedPeerCertificate,
  purpose: Purpose,
  ca: string | undefined,
  { trueNow, clock, logger }: TlsParts,
): void {
  const now = trueNow?.() ?? clock.wall()
  const [first, ...sent] = peerChain(leaf)
  if (!first) throw new OsError('TLS_UNTRUSTED', `the ${purpose} shows no certificate`)
  if (socket.authorized) {
    // valid by a clock that is behind: it only misses certificates that have expired since
    for (const certificate of [first, ...sent]) judgeEnd(certificate, now)
    return
  }
  const trusted = ca === undefined ? rootCertificates.map(pem => new X509Certificate(pem)) : parseCertificates(ca)
  judgeChain({ leaf: first, sent, trusted, purpose, now })
  logger.info(`the clock is not set: the ${purpose}'s certificate was checked as of ${new Date(now).toISOString()}`)
}

/**
 * The certificates of the peer, leaf first, as far as issuers are present; the last one of a complete chain is its own
 * issuer.
 */
function peerChain(leaf: DetailedPeerCertificate): X509Certificate[] {
  const chain: X509Certificate[] = []
  const seen = new Set<string>()
  for (let at: DetailedPeerCertificate | undefined = leaf; at?.raw; at = at.issuerCertificate) {
    if (seen.has(at.fingerprint256)) break
    seen.add(at.fingerprint256)
    chain.push(new X509Certificate(at.raw))
  }
  return chain
}

/**
 * Converts a connected socket to a TLS socket with a checked peer. Otherwise destroys the socket and throws an OsError:
 * why the peer is not trusted, or TLS_HANDSHAKE after `timeoutMs`. `peer` names it in messages.
 */
export function secureSocket(socket: Socket, client: ClientTls, peer: string, timeoutMs: number): Promise<TLSSocket> {
  // no within(): the event itself checks the peer, before any of its bytes is read
  return new Promise((resolve, reject) => {
    const secure = connect({ ...client.options, socket })
    const fail = (thrown: unknown): void => {
      clearTimeout(deadline)
      secure.off('error', fail)
      secure.on('error', () => undefined) // reported once; errors of a destroyed socket are ignored
      secure.destroy()
      socket.destroy()
      reject(tlsError(thrown, peer))
    }
    const deadline = setTimeout(() => {
      const text = `TLS with ${peer} failed: no answer within ${Math.round(timeoutMs / 100) / 10} s`
      fail(new OsError('TLS_HANDSHAKE', text))
    }, timeoutMs)
    secure.once('error', fail)
    secure.once('secureConnect', () => {
      try {
        client.check(secure)
      } catch (error) {
        fail(error)
        return
      }
      clearTimeout(deadline)
      secure.off('error', fail)
      resolve(secure)
    })
  })
}
