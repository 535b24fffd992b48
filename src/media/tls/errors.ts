// Converts errors of OpenSSL and node:tls to errors a person can act on: which certificate, what is wrong with it, what
// to do.
import { errno, OsError } from '../../lib/errors'

const SELF_SIGNED = new Set(['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'])
const UNKNOWN_CA = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_UNTRUSTED',
])
/** other chain errors */
const REFUSED = /^(?:CERT_|CRL_|INVALID_|PATH_|UNABLE_TO_|ERROR_IN_CERT|HOSTNAME_MISMATCH|EE_KEY|CA_MD|CA_KEY)/

/** Errors of OpenSSL and of a handshake with `peer` (name and port), as an OsError. An OsError is returned unchanged. */
export function tlsError(thrown: unknown, peer: string): OsError {
  if (thrown instanceof OsError) return thrown
  const code = errno(thrown) ?? String(thrown)
  const details = { cause: thrown }
  if (SELF_SIGNED.has(code))
    return new OsError('TLS_UNTRUSTED', `the certificate of ${peer} is self-signed and not trusted here`, {
      ...details,
      hint: 'set tls.ca to that certificate or its authority',
    })
  if (UNKNOWN_CA.has(code))
    return new OsError('TLS_UNTRUSTED', `the authority of the certificate of ${peer} is not trusted here`, details)
  if (code === 'CERT_HAS_EXPIRED') return new OsError('TLS_EXPIRED', `the certificate of ${peer} has expired`, details)
  if (code === 'CERT_NOT_YET_VALID')
    return new OsError(
      'TLS_NOT_YET_VALID',
      `the certificate of ${peer} is not yet valid by this machine's clock`,
      details,
    )
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return wrongName(thrown, peer)
  if (REFUSED.test(code))
    return new OsError('TLS_UNTRUSTED', `the certificate of ${peer} was refused: ${code}`, {
      ...details,
      hint: 'man openssl-verification-options explains the code',
    })
  return handshake(thrown, code, peer)
}

/** The certificate is for names other than the one connected to. */
function wrongName(thrown: unknown, peer: string): OsError {
  const cert = (thrown as { cert?: { subjectaltname?: string; subject?: { CN?: string } } }).cert
  const names = cert?.subjectaltname ?? cert?.subject?.CN ?? 'no name'
  return new OsError('TLS_NAME', `the certificate of ${peer} is for ${names}`, { cause: thrown })
}

const ALERTS: readonly [RegExp, string, string?][] = [
  [/CERTIFICATE_REQUIRED|PEER_DID_NOT_RETURN/, 'a client certificate is required', 'give tls.cert and tls.key'],
  [
    /ALERT_(?:BAD_CERTIFICATE|UNKNOWN_CA|CERTIFICATE_\w+|UNSUPPORTED_CERTIFICATE|ACCESS_DENIED)/,
    'the other side does not accept our certificate',
    'compare tls.cert with the authorities the other side trusts (tls.ca, tls.client_ca there), and both clocks',
  ],
  [
    /PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|VERSION_TOO_LOW/,
    'no TLS version in common',
    'see tls.min_version on both sides',
  ],
  [/HANDSHAKE_FAILURE|NO_SHARED_CIPHER|NO_CIPHERS/, 'no cipher in common, or a certificate is missing'],
  [
    /WRONG_VERSION_NUMBER|HTTP_REQUEST|UNKNOWN_PROTOCOL|PACKET_LENGTH_TOO_LONG|UNEXPECTED_MESSAGE|BAD_RECORD_TYPE/,
    'the peer does not use TLS',
    'check the port, and the key tls on both sides',
  ],
]

function handshake(thrown: unknown, code: string, peer: string): OsError {
  for (const [pattern, text, hint] of ALERTS)
    if (pattern.test(code))
      return new OsError('TLS_HANDSHAKE', `TLS with ${peer} failed: ${text}`, { cause: thrown, hint })
  const cut = code === 'ECONNRESET' || code === 'EPIPE' || code === 'EOF'
  const message = thrown instanceof Error ? thrown.message : code
  return new OsError('TLS_HANDSHAKE', `TLS with ${peer} failed: ${cut ? 'the other side disconnected' : message}`, {
    cause: thrown,
  })
}
