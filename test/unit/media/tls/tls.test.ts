import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { createServer } from 'node:tls'
import { safeParse } from 'valibot'
import { systemClock } from '../../../../src/lib/clock'
import type { ErrorCode, OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { clientTls, secureSocket, type TlsParts, tlsSettings } from '../../../../src/media/tls'
import { judgeChain } from '../../../../src/media/tls/chain'
import { certificateFields } from '../../../../src/media/tls/der'
import { type TlsSettings, tlsSchema } from '../../../../src/media/tls/tls-options'
import { type Certs, makeCerts } from '../../../lib/certs'
import { removeDir, tempDir } from '../../../lib/gateway'

const DAY = 86_400_000
const dir = tempDir()
let certs: Certs
/** the same names signed with foreign keys */
let forged: Certs
before(() => {
  certs = makeCerts(join(dir, 'real'))
  forged = makeCerts(join(dir, 'forged'))
})
after(() => removeDir(dir))

const right: TlsParts = { clock: systemClock, logger: silentLogger }
/** the system clock is behind by so many days */
const behind = (days: number): TlsParts => ({ ...right, trueNow: () => Date.now() + days * DAY })

async function listen(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  assert.ok(typeof address === 'object' && address)
  return address.port
}

async function shakeHands(
  t: TestContext,
  server: { cert: string; key: string; min?: 'TLSv1.3'; client_ca?: string },
  settings: Partial<TlsSettings> = {},
  { parts = right, host = 'localhost', ms = 60_000 }: { parts?: TlsParts; host?: string; ms?: number } = {},
): Promise<OsError | 'ok'> {
  const port = await listen(
    t,
    createServer({ cert: readFileSync(server.cert), key: readFileSync(server.key) }, socket =>
      socket.on('error', () => undefined),
    ),
  )
  const client = clientTls({ insecure: false, min_version: 'TLSv1.2', ca: certs.ca, ...settings }, host, parts)
  try {
    const socket = await secureSocket(connect(port, '127.0.0.1'), client, `${host}:${port}`, ms)
    socket.on('error', () => undefined)
    socket.destroy()
    return 'ok'
  } catch (error) {
    return error as OsError
  }
}

const codeOf = (result: OsError | 'ok'): ErrorCode | 'ok' => (result === 'ok' ? 'ok' : result.code)
const pair = (name: 'server' | 'foreign' | 'expired' | 'future' | 'misnamed') => ({
  cert: certs[`${name}Cert`],
  key: certs[`${name}Key`],
})

test('a peer signed by the trusted authority is accepted, by name and by address', async t => {
  assert.equal(await shakeHands(t, pair('server')), 'ok')
  assert.equal(await shakeHands(t, pair('server'), {}, { host: '127.0.0.1' }), 'ok')
  assert.equal(await shakeHands(t, pair('misnamed'), { servername: 'gateway.example' }), 'ok')
})

test('each way a certificate can be wrong has its own error, with what to do', async t => {
  const wrong: [keyof { [K in Parameters<typeof pair>[0]]: 0 }, ErrorCode, RegExp][] = [
    ['foreign', 'TLS_UNTRUSTED', /tls\.ca/],
    ['expired', 'TLS_EXPIRED', /renew/],
    ['future', 'TLS_NOT_YET_VALID', /clock/],
    ['misnamed', 'TLS_NAME', /tls\.servername/],
  ]
  for (const [name, code, hint] of wrong) {
    const error = await shakeHands(t, pair(name))
    assert.ok(error !== 'ok', name)
    assert.equal(error.code, code)
    assert.match(error.hint, hint)
  }
  const error = await shakeHands(t, pair('misnamed'))
  assert.match((error as OsError).message, /gateway\.example/, 'names the names it has')
  assert.equal(codeOf(await shakeHands(t, pair('foreign'), { insecure: true })), 'ok')
  const selfSigned = { cert: join(dir, 'self.crt'), key: join(dir, 'self.key') }
  const request = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  execFileSync(
    'openssl',
    [...request, '-keyout', selfSigned.key, '-out', selfSigned.cert, '-subj', '/CN=localhost', '-days', '9'].concat([
      '-addext',
      'subjectAltName=DNS:localhost',
    ]),
    { stdio: 'ignore' },
  )
  assert.match(((await shakeHands(t, selfSigned)) as OsError).message, /self-signed/)
  assert.match(((await shakeHands(t, selfSigned, {}, { parts: behind(1) })) as OsError).message, /self-signed|expired/)
  assert.equal(await shakeHands(t, selfSigned, { ca: selfSigned.cert }), 'ok')
  assert.equal(await shakeHands(t, selfSigned, { ca: selfSigned.cert }, { parts: behind(1) }), 'ok')
})

test('a peer that speaks no TLS, or does not answer at all, times out with that reason', async t => {
  const client = clientTls({ insecure: false, min_version: 'TLSv1.2', ca: certs.ca }, 'localhost', right)
  const plain = await listen(
    t,
    createTcpServer(socket => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')),
  )
  await assert.rejects(secureSocket(connect(plain, '127.0.0.1'), client, 'x', 60_000), {
    code: 'TLS_HANDSHAKE',
    message: /does not use TLS/,
  })
  const silent = await listen(t, createTcpServer())
  await assert.rejects(secureSocket(connect(silent, '127.0.0.1'), client, 'x', 50), {
    code: 'TLS_HANDSHAKE',
    message: /no answer within/,
  })
  const rude = await listen(
    t,
    createTcpServer(socket => socket.destroy()),
  )
  await assert.rejects(secureSocket(connect(rude, '127.0.0.1'), client, 'x', 60_000), { code: 'TLS_HANDSHAKE' })
})

test('with a clock that is behind, a certificate that has become valid since is accepted (R22)', async t => {
  assert.equal(await shakeHands(t, pair('future'), {}, { parts: behind(730) }), 'ok')
  // the known time is a lower bound: the certificate may be newer than the last saved time
  assert.equal(await shakeHands(t, pair('future'), {}, { parts: behind(1) }), 'ok')
  assert.equal(await shakeHands(t, pair('server'), {}, { parts: behind(1) }), 'ok')
})

test('with a clock that is behind, everything else about the certificate still counts', async t => {
  const cases: [{ cert: string; key: string }, number, ErrorCode][] = [
    [pair('foreign'), 1, 'TLS_UNTRUSTED'],
    [pair('expired'), 1, 'TLS_EXPIRED'],
    [pair('misnamed'), 1, 'TLS_NAME'],
    [pair('server'), 4000, 'TLS_EXPIRED'],
    [pair('future'), 4000, 'TLS_EXPIRED'],
    [{ cert: forged.futureCert, key: forged.futureKey }, 730, 'TLS_UNTRUSTED'],
    [certs.issue('later-foreign', { by: 'other', from: new Date(Date.now() + DAY) }), 2, 'TLS_UNTRUSTED'],
    [certs.issue('later-misnamed', { names: 'DNS:x.example', from: new Date(Date.now() + DAY) }), 2, 'TLS_NAME'],
  ]
  for (const [server, days, code] of cases)
    assert.equal(codeOf(await shakeHands(t, server, {}, { parts: behind(days) })), code, server.cert)
})

test('a certificate without a valid signature of its issuer is rejected', () => {
  const ca = new X509Certificate(readFileSync(certs.ca))
  const leaf = new X509Certificate(readFileSync(certs.futureCert))
  const ask = (certificate: X509Certificate, more = {}) =>
    judgeChain({ leaf: certificate, sent: [], trusted: [ca], purpose: 'server', now: Date.now(), ...more })
  assert.equal(ask(leaf).length, 2)
  const bent = Buffer.from(leaf.raw)
  bent[bent.length - 3]! ^= 1
  assert.throws(() => ask(new X509Certificate(bent)), { code: 'TLS_UNTRUSTED' })
  // a leaf certificate is no authority, whatever it signs; a certificate that is only sent is not trusted
  assert.throws(() => ask(leaf, { trusted: [], sent: [ca] }), { code: 'TLS_UNTRUSTED' })
  assert.throws(
    () =>
      ask(new X509Certificate(readFileSync(forged.futureCert)), {
        sent: [new X509Certificate(readFileSync(forged.ca))],
      }),
    {
      code: 'TLS_UNTRUSTED',
    },
  )
  assert.throws(() => ask(leaf, { now: Date.now() + 4000 * DAY }), { code: 'TLS_EXPIRED' })
})

test('the fields of a certificate are read, and arbitrary bytes do no harm', () => {
  const ca = new X509Certificate(readFileSync(certs.ca))
  const fields = certificateFields(ca.raw)
  assert.equal(fields.signature, '1.2.840.10045.4.3.2')
  assert.ok(fields.extensions.some(({ oid, critical }) => oid === '2.5.29.19' && critical))
  assert.equal(fields.pathLength, null)
  for (let length = 0; length < ca.raw.length; length++)
    assert.throws(() => certificateFields(ca.raw.subarray(0, length)), { code: 'BAD_PACKET' })
  let thrown = 0
  for (let at = 0; at < ca.raw.length; at++) {
    const bent = Buffer.from(ca.raw)
    bent[at] = bent[at]! ^ 0xff
    try {
      certificateFields(bent)
    } catch (error) {
      thrown++
      assert.equal((error as OsError).code, 'BAD_PACKET')
    }
  }
  assert.ok(thrown > 10)
})

test('unusable files are reported with the key and the reason', () => {
  const make = (settings: object) => () =>
    clientTls({ insecure: false, min_version: 'TLSv1.2', ...settings }, 'localhost', right)
  const none = join(dir, 'none.pem')
  const text = join(dir, 'text.pem')
  writeFileSync(text, 'hello')
  assert.throws(make({ ca: none }), { code: 'TLS_FILE', message: /tls\.ca: .*none\.pem: there is no such file/ })
  assert.throws(make({ ca: text }), { code: 'TLS_FILE', message: /tls\.ca: .* contains no certificate/ })
  assert.throws(make({ cert: certs.clientCert }), { code: 'TLS_FILE', message: /without tls\.key/ })
  assert.throws(make({ cert: certs.clientCert, key: text }), { code: 'TLS_FILE', message: /no private key/ })
  assert.throws(make({ cert: certs.clientCert, key: certs.serverKey }), {
    code: 'TLS_FILE',
    message: /does not belong/,
  })
})

test('the key tls is true, false or an object, and a misspelt key is refused', () => {
  assert.equal(tlsSettings(false), null)
  assert.equal(tlsSettings(undefined), null)
  assert.deepEqual(tlsSettings(true), { insecure: false, min_version: 'TLSv1.2' })
  assert.ok(safeParse(tlsSchema, { ca: '/x.pem' }).success)
  for (const bad of [{ cacert: '/x' }, { min_version: 'TLSv1' }, 'yes', { ca: '' }])
    assert.ok(!safeParse(tlsSchema, bad).success, JSON.stringify(bad))
})
