// Checks a peer's certificate without the system's clock (R22). A board without a battery starts in 1970 or at its last
// shutdown; OpenSSL then reports every certificate as not yet valid, and that one error hides all others. So this code
// walks the chain: issuer by issuer, with its signature, up to a trusted authority; each certificate must be allowed to
// sign, must respect its constraints, and must not have expired at the best known time. That time is one that has
// surely passed (the build, the last saved time), so a certificate that begins later may be valid already: the begin is
// not checked. What this code cannot check (name constraints, unusual critical extensions, old signature algorithms) is
// refused.
import type { X509Certificate } from 'node:crypto'
import { OsError } from '../../lib/errors'
import { certificateFields } from './der'

/** longer than any chain in use */
const MAX_DEPTH = 8
const MIN_RSA_BITS = 2048

const KNOWN_EXTENSIONS = new Set([
  '2.5.29.14',
  '2.5.29.15',
  '2.5.29.17',
  '2.5.29.19',
  '2.5.29.32',
  '2.5.29.35',
  '2.5.29.37',
])
const NAME_CONSTRAINTS = '2.5.29.30'
const POLICY_CONSTRAINTS = '2.5.29.36'

/** RSA and ECDSA with SHA-256, 384, 512, Ed25519, Ed448 */
const SIGNATURES = new Set([
  '1.2.840.113549.1.1.11',
  '1.2.840.113549.1.1.12',
  '1.2.840.113549.1.1.13',
  '1.2.840.10045.4.3.2',
  '1.2.840.10045.4.3.3',
  '1.2.840.10045.4.3.4',
  '1.3.101.112',
  '1.3.101.113',
])

const PURPOSES = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' } as const
export type Purpose = keyof typeof PURPOSES

interface ChainQuestion {
  readonly leaf: X509Certificate
  /** certificates that the peer sent with it */
  readonly sent: readonly X509Certificate[]
  /** certificates that this machine trusts; only self-signed ones end a chain */
  readonly trusted: readonly X509Certificate[]
  readonly purpose: Purpose
  /** a time that has passed, UNIX ms */
  readonly now: number
}

/** Returns the chain from the leaf to its authority, or throws TLS_UNTRUSTED or TLS_EXPIRED. */
export function judgeChain({ leaf, sent, trusted, purpose, now }: ChainQuestion): X509Certificate[] {
  const chain = [leaf]
  for (let top = leaf; !isAnchor(top, trusted); ) {
    if (issued(top, top))
      throw untrusted(`the peer's certificate ${oneLine(top.subject)} is self-signed and not trusted here`)
    const issuer = [...trusted, ...sent].find(other => issued(other, top))
    if (!issuer) throw untrusted(`the authority ${oneLine(top.issuer)} of the peer's certificate is not trusted`)
    if (chain.length >= MAX_DEPTH) throw untrusted("the chain of the peer's certificate is too long")
    chain.push(issuer)
    top = issuer
  }
  for (const [depth, certificate] of chain.entries()) judgeOne(certificate, depth, depth === chain.length - 1)
  const usage = leaf.keyUsage as readonly string[] | undefined // node:crypto has the extended key usage under this name
  if (usage && !usage.includes(PURPOSES[purpose]))
    throw untrusted(`the peer's certificate is not made for a ${purpose}`)
  for (const certificate of chain) judgeEnd(certificate, now)
  return chain
}

/** Throws TLS_EXPIRED if the certificate had expired at `now`. */
export function judgeEnd(certificate: X509Certificate, now: number): void {
  const end = Date.parse(certificate.validTo)
  if (end >= now) return
  throw new OsError('TLS_EXPIRED', `the certificate ${oneLine(certificate.subject)} expired on ${certificate.validTo}`)
}

function judgeOne(certificate: X509Certificate, depth: number, anchor: boolean): void {
  const { signature, extensions, pathLength } = certificateFields(certificate.raw)
  const name = oneLine(certificate.subject)
  if (depth > 0 && !certificate.ca) throw untrusted(`${name} is not allowed to sign certificates`)
  // authorities between this one and the leaf
  if (pathLength !== null && depth - 1 > pathLength) throw untrusted(`${name} may not sign for so many authorities`)
  // a root's signature is its own and proves nothing: it is trusted because it is stored here
  if (!anchor && !SIGNATURES.has(signature)) throw unjudged(name, `signature ${signature}`)
  const strange = extensions.find(
    ({ oid, critical }) =>
      oid === NAME_CONSTRAINTS || oid === POLICY_CONSTRAINTS || (critical && !KNOWN_EXTENSIONS.has(oid)),
  )
  if (strange) throw unjudged(name, `extension ${strange.oid}`)
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = certificate.publicKey
  if (type?.startsWith('rsa') && (details?.modulusLength ?? 0) < MIN_RSA_BITS)
    throw untrusted(`the key of ${name} is too short`)
}

const isAnchor = (certificate: X509Certificate, trusted: readonly X509Certificate[]): boolean =>
  issued(certificate, certificate) && trusted.some(other => other.raw.equals(certificate.raw))

function issued(issuer: X509Certificate, certificate: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
  } catch {
    return false // a key of a kind that OpenSSL does not know
  }
}

/** `C=DE\nCN=Some CA` → `CN=Some CA`, or all of it on one line. */
const oneLine = (name: string): string => /^CN=.*$/m.exec(name)?.[0] ?? name.split('\n').join(', ')

const untrusted = (text: string): OsError => new OsError('TLS_UNTRUSTED', text)

const unjudged = (name: string, what: string): OsError =>
  new OsError('TLS_UNTRUSTED', `${name} has ${what}, which cannot be checked while the clock is not set`, {
    hint: 'set the clock of this machine (NTP)',
  })
