// Converts the options of the QUIC medium to TLS and transport settings. QUIC is always encrypted: a client checks the
// server's certificate unless `tls.insecure` is set, a listener needs `tls.cert` and `tls.key`. Errors: invalid options
// (CONFIG_INVALID, with the key), PEM files (TLS_FILE). Files are read at each opening.
import { rootCertificates } from 'node:tls'
import { OsError } from '../../lib/errors'
import { type TlsMaterial, tlsMaterial, tlsSettings } from '../tls/settings'
import type { TlsSettings } from '../tls/tls-options'
import type { QuicConfig, QuicLibrary } from './native'
import type { QuicOptions } from './quic-options'

/** application protocol in the TLS handshake. A peer that names none, like the reference's client, is refused (RFC 9001, 8.1). */
export const ALPN = 'os-node'
const PROTOCOLS = Buffer.from([ALPN.length, ...Buffer.from(ALPN)])
/** largest UDP payload sent and received: fits common paths without fragments (QUIC never fragments) */
export const UDP_PAYLOAD = 1350
/** limits of datagrams that wait for the congestion window, and of received ones that wait for their reader */
const DATAGRAM_QUEUE = 1024
/** bytes in transit on a peer's stream */
const STREAM_WINDOW = 256 * 1024
/** streams a peer may open: one in X29; one per packet if the peer accepts no datagrams */
const MAX_STREAMS = 16
/** The TLS settings of `tls` and `insecure`. Throws CONFIG_INVALID. */
export function quicTls({ tls, insecure }: QuicOptions, link: string): TlsSettings {
  if (tls === false)
    throw new OsError('CONFIG_INVALID', `options of ${link}: tls: QUIC is always encrypted`, {
      details: { link, keys: ['tls'] },
    })
  const settings = tlsSettings(tls ?? true)!
  return insecure === undefined ? settings : { ...settings, insecure: settings.insecure || insecure }
}

/** Checks a listener's settings. Throws CONFIG_INVALID with instructions to make a certificate. */
export function needCertificate({ cert, key }: TlsSettings, link: string): void {
  const missing = [...(cert ? [] : ['tls.cert']), ...(key ? [] : ['tls.key'])]
  if (missing.length === 0) return
  throw new OsError('CONFIG_INVALID', `options of ${link}: ${missing.join(' and ')} needed to listen`, {
    details: { link, keys: missing },
    hint:
      'a self-signed certificate: openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 ' +
      '-keyout quic.key -out quic.crt -subj /CN=gateway -addext subjectAltName=DNS:gateway,IP:192.0.2.10; ' +
      'clients set tls.ca to quic.crt',
  })
}

const bytes = (pem: string | undefined): Uint8Array | null => (pem === undefined ? null : Buffer.from(pem))

/** A client's context. `judged`: we check the peer's chain later, the library accepts it. */
export function clientConfig(
  library: QuicLibrary,
  settings: TlsSettings,
  options: QuicOptions,
  judged: boolean,
): { config: QuicConfig; material: TlsMaterial } {
  const material = tlsMaterial(settings)
  const { cert, key, ca } = material
  const { insecure } = settings
  const trusted = insecure ? null : bytes(ca ?? rootCertificates.join('\n'))
  const numbers = transport(options)
  const config = library.Config.of(!insecure, judged, trusted, bytes(key), bytes(cert), PROTOCOLS, numbers, null)
  return { config, material }
}

/** A context for one accepted connection, with its own token for stateless resets. */
export function serverConfig(
  library: QuicLibrary,
  { cert, key, client_ca }: TlsMaterial,
  options: QuicOptions,
  resetToken: Buffer,
): QuicConfig {
  const pems = [bytes(client_ca), bytes(key), bytes(cert)] as const
  return library.Config.of(client_ca !== undefined, false, ...pems, PROTOCOLS, transport(options), resetToken)
}

/** The library's numbers. */
const transport = ({ idle_timeout_ms }: QuicOptions): Uint8Array =>
  new Uint8Array(
    Uint32Array.of(idle_timeout_ms, UDP_PAYLOAD, 4 * STREAM_WINDOW, STREAM_WINDOW, MAX_STREAMS, DATAGRAM_QUEUE).buffer,
  )
