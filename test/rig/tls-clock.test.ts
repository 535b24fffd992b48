// R22 with a real clock that was never set: TLS between two media on a machine whose clock is in 1971.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '../../src/lib/clock'
import { silentLogger } from '../../src/lib/logger'
import { createTcp, TcpListener } from '../../src/media/tcp'
import { buildProbe } from '../../src/protocol/delivery/frame'
import { makeCerts } from '../lib/certs'
import { removeDir, tempDir } from '../lib/gateway'
import { inTheRig, setClock, tool } from '../lib/rig'

const quiet = { lost: () => undefined, degraded: () => undefined }

inTheRig(() => {
  test('on a board that starts in 1971, TLS works from the last saved time, and still trusts no other certificate', async t => {
    tool('ip', 'link', 'set', 'lo', 'up')
    const real = Date.now()
    const dir = tempDir()
    t.after(() => removeDir(dir))
    const certs = makeCerts(join(dir, 'certs'))
    setClock(Date.parse('1971-01-01T00:00:00Z'))
    assert.ok(Date.now() < Date.parse('1972-01-01T00:00:00Z'))
    const saved = { clock: systemClock, logger: silentLogger, trueNow: () => real }
    const unaware = { clock: systemClock, logger: silentLogger }
    const shake = async (server: 'server' | 'foreign' | 'expired' | 'misnamed', context = saved): Promise<string> => {
      const pair = { cert: certs[`${server}Cert`], key: certs[`${server}Key`], client_ca: certs.ca }
      const listener = createTcp('in', { mode: 'listen', listen_host: '127.0.0.1', port: 0, tls: pair }, saved)
      assert.ok(listener instanceof TcpListener)
      const got = new Promise<string>(resolve => listener.onPacket(() => resolve('ok')))
      await listener.open(quiet)
      const tls = { ca: certs.ca, cert: certs.clientCert, key: certs.clientKey }
      const sender = createTcp('up', { host: 'localhost', port: listener.port, tls }, context)
      try {
        await sender.open(quiet)
        await sender.send(buildProbe(1))
        return await got
      } catch (error) {
        return (error as { code: string }).code
      } finally {
        await sender.close()
        await listener.close()
      }
    }
    assert.equal(await shake('server'), 'ok')
    assert.equal(await shake('foreign'), 'TLS_UNTRUSTED')
    assert.equal(await shake('expired'), 'TLS_EXPIRED')
    assert.equal(await shake('misnamed'), 'TLS_NAME')
    assert.equal(await shake('server', unaware as typeof saved), 'TLS_NOT_YET_VALID')
  })
})
