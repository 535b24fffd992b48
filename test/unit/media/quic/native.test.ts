// The QUIC library on the Node that runs this: loaded if its OpenSSL has what QUIC needs; otherwise the link says what is needed.
// Needs: quic
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '../../../../src/lib/clock'
import { silentLogger } from '../../../../src/lib/logger'
import { createQuic } from '../../../../src/media/quic'
import { quicLibrary } from '../../../../src/media/quic/native'
import { diagnose } from '../../../../src/services/dependencies/doctor'
import { root } from '../../../lib/gateway'

const file = `native/${process.platform}-${process.arch}/quic.node`
const old = Number.parseFloat(process.versions.openssl) < 3.5

test('without a build for the platform the link says so', () => {
  assert.throws(() => quicLibrary('linux', 'mips'), { code: 'NO_DRIVER', message: 'no QUIC build for linux-mips' })
})

test('the library loads where Node has TLS for it; elsewhere the link is down with the reason', async () => {
  if (!old) return assert.equal(quicLibrary().versionIsSupported(1), true)
  const link = createQuic('up', { host: '127.0.0.1', port: 9 }, { clock: systemClock, logger: silentLogger })
  const events = { lost: () => undefined, degraded: () => undefined }
  await assert.rejects(link.open(events), { code: 'NO_DRIVER', message: 'QUIC needs Node 22 or 24' })
})

test("the doctor's check of parts does not report the library as damaged when this Node is too old for it", async () => {
  const { ok, hint } = await diagnose({ name: 'quic', kind: 'native', file, path: join(root, 'dist', file) })
  assert.deepEqual([ok, hint], [true, old ? 'QUIC needs Node 22 or 24' : undefined])
})

test('the library does not contain the path of its build folder, so that two builds give the same bytes', () => {
  const bytes = readFileSync(join(root, 'dist', file))
  assert.ok(bytes.includes('ngtcp2/lib/ngtcp2_conn.c'))
  assert.ok(!bytes.includes(root), `quic.node names ${root}`)
})
