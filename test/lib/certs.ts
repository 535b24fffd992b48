// Real TLS certificates, made by openssl, for tests of TLS, MQTT and QUIC. All in one folder, as PEM files with their keys.
// About 0.2 s; needs the package openssl.
// Needs: openssl
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Paths of a certificate and its key. */
export interface Pair {
  readonly cert: string
  readonly key: string
}

export interface IssueOptions {
  /** the signing authority; default: `ca` */
  by?: 'ca' | 'other'
  /** validity; default: from yesterday, for ten years */
  from?: Date
  to?: Date
  /** subjectAltName; default `DNS:localhost,IP:127.0.0.1,IP:::1` */
  names?: string
}

export interface Certs {
  readonly dir: string
  /** the authority of all certificates except `foreign` */
  readonly ca: string
  readonly otherCa: string
  readonly serverCert: string
  readonly serverKey: string
  /** common name `client` */
  readonly clientCert: string
  readonly clientKey: string
  /** for localhost, signed by the other authority */
  readonly foreignCert: string
  readonly foreignKey: string
  readonly expiredCert: string
  readonly expiredKey: string
  /** not valid until a year from now */
  readonly futureCert: string
  readonly futureKey: string
  /** signed by the right authority, for gateway.example only */
  readonly misnamedCert: string
  readonly misnamedKey: string
  /** Issues another certificate; `name` is its file name and common name. */
  issue(name: string, options?: IssueOptions): Pair
}

const DAY = 86_400_000
function openssl(dir: string, args: readonly string[]): void {
  const ran = spawnSync('openssl', args, { cwd: dir, encoding: 'utf8' })
  if (ran.status !== 0) throw new Error(`openssl ${args.join(' ')}: ${ran.error?.message ?? ran.stderr}`)
}
/** a time in openssl's format: 20261121101530Z */
const stamp = (at: Date): string => `${at.toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`

const CONFIG = `
[ca]
default_ca = authority
[authority]
database = index.txt
new_certs_dir = .
default_md = sha256
policy = anything
unique_subject = no
rand_serial = yes
[anything]
commonName = supplied
`

export function makeCerts(dir: string, now = new Date()): Certs {
  mkdirSync(dir, { recursive: true })
  const path = (name: string): string => join(dir, name)
  const yesterday = new Date(now.getTime() - DAY)
  const farOff = new Date(now.getTime() + 3650 * DAY)
  writeFileSync(path('ca.cnf'), CONFIG)
  writeFileSync(path('index.txt'), '')

  const request = (name: string): void =>
    openssl(
      dir,
      ['req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'].concat([
        '-keyout',
        `${name}.key`,
        '-out',
        `${name}.csr`,
        '-subj',
        `/CN=${name}`,
      ]),
    )
  const sign = (name: string, by: string, extensions: string, from: Date, to: Date): void => {
    writeFileSync(path(`${name}.ext`), `${extensions}\n`)
    const signer = by === name ? ['-selfsign'] : ['-cert', `${by}.crt`]
    openssl(
      dir,
      ['ca', '-batch', '-notext', '-config', 'ca.cnf', ...signer, '-keyfile', `${by}.key`].concat(
        ['-in', `${name}.csr`, '-out', `${name}.crt`, '-extfile', `${name}.ext`],
        ['-startdate', stamp(from), '-enddate', stamp(to)],
      ),
    )
  }
  const authority = (name: string): string => {
    request(name)
    const extensions =
      'basicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash'
    sign(name, name, extensions, new Date(now.getTime() - 3650 * DAY), farOff)
    return path(`${name}.crt`)
  }
  const issue = (name: string, options: IssueOptions = {}): Pair => {
    const { by = 'ca', from = yesterday, to = farOff, names = 'DNS:localhost,IP:127.0.0.1,IP:::1' } = options
    request(name)
    const extensions =
      'basicConstraints=CA:false\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n' +
      `subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\nsubjectAltName=${names}`
    sign(name, by, extensions, from, to)
    return { cert: path(`${name}.crt`), key: path(`${name}.key`) }
  }

  const ca = authority('ca')
  const otherCa = authority('other')
  const server = issue('server')
  const client = issue('client')
  const foreign = issue('foreign', { by: 'other' })
  const expired = issue('expired', { from: new Date(now.getTime() - 30 * DAY), to: yesterday })
  const future = issue('future', { from: new Date(now.getTime() + 365 * DAY) })
  const misnamed = issue('misnamed', { names: 'DNS:gateway.example' })
  return {
    dir,
    ca,
    otherCa,
    serverCert: server.cert,
    serverKey: server.key,
    clientCert: client.cert,
    clientKey: client.key,
    foreignCert: foreign.cert,
    foreignKey: foreign.key,
    expiredCert: expired.cert,
    expiredKey: expired.key,
    futureCert: future.cert,
    futureKey: future.key,
    misnamedCert: misnamed.cert,
    misnamedKey: misnamed.key,
    issue,
  }
}
