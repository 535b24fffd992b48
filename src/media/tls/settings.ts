// The key `tls` of a link, and the PEM files it names. Errors: a file that cannot be read, is not PEM, needs a
// passphrase or does not match the others (TLS_FILE, with the key and the file). Files are read at each opening, so
// that a renewed certificate is used without a restart.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { errno, OsError } from '../../lib/errors'
import { readRegular } from '../../lib/files'
import type { TlsSettings, TlsValue } from './tls-options'

/** The settings of `tls`, null if it is off or missing. */
export const tlsSettings = (value: TlsValue | undefined): TlsSettings | null => {
  if (value === undefined || value === false) return null
  return value === true ? { insecure: false, min_version: 'TLSv1.2' } : value
}

export type ReadText = (path: string) => string
/** PEM files are a few KB */
const MOST_BYTES = 1024 * 1024
const readPem: ReadText = file => readRegular(file, MOST_BYTES).toString('utf8')

/** The content of the files, for node:tls. */
export interface TlsMaterial {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly client_ca?: string
}

/** Reads and checks every named file. Throws TLS_FILE. */
export function tlsMaterial(settings: TlsSettings, read: ReadText = readPem): TlsMaterial {
  const { ca, cert, key, client_ca } = settings
  if ((cert === undefined) !== (key === undefined))
    throw new OsError(
      'TLS_FILE',
      cert === undefined ? 'tls.key is set without tls.cert' : 'tls.cert is set without tls.key',
    )
  const material: TlsMaterial = {
    ...(ca !== undefined && { ca: certificates('ca', ca, read) }),
    ...(cert !== undefined && { cert: certificates('cert', cert, read) }),
    ...(key !== undefined && { key: privateKey(key, read) }),
    ...(client_ca !== undefined && { client_ca: certificates('client_ca', client_ca, read) }),
  }
  if (
    material.cert &&
    material.key &&
    !new X509Certificate(material.cert).checkPrivateKey(createPrivateKey(material.key))
  )
    throw new OsError('TLS_FILE', `tls.key (${key}) does not belong to the first certificate of tls.cert (${cert})`)
  return material
}

/** Each certificate of a PEM text. Throws the error of node:crypto for an invalid one. */
export const parseCertificates = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----[^-]+-----END (?:TRUSTED )?CERTIFICATE-----/g) ?? []).map(
    text => new X509Certificate(text),
  )

function certificates(name: string, file: string, read: ReadText): string {
  const pem = text(name, file, read)
  let count = 0
  try {
    count = parseCertificates(pem).length
  } catch (cause) {
    throw new OsError('TLS_FILE', `tls.${name}: ${file} holds a broken certificate`, { cause })
  }
  if (count === 0) throw new OsError('TLS_FILE', `tls.${name}: ${file} contains no certificate in PEM form`)
  return pem
}

function privateKey(file: string, read: ReadText): string {
  const pem = text('key', file, read)
  try {
    createPrivateKey(pem)
    return pem
  } catch (cause) {
    const locked = errno(cause) === 'ERR_MISSING_PASSPHRASE' || pem.includes('ENCRYPTED')
    throw new OsError(
      'TLS_FILE',
      locked ? `tls.key: ${file} needs a passphrase` : `tls.key: ${file} contains no private key in PEM form`,
      {
        cause,
        ...(locked && { hint: 'remove the passphrase (openssl pkey -in KEY -out FILE) and set the mode 0600' }),
      },
    )
  }
}

function text(name: string, file: string, read: ReadText): string {
  try {
    return read(file)
  } catch (cause) {
    const code = errno(cause)
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'may not be read by this user' : code
    throw new OsError('TLS_FILE', `tls.${name}: ${file}: ${why ?? String(cause)}`, { cause })
  }
}
