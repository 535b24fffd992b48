// The helpers that other tests rely on: a real broker that returns with its data, ends with its test, and certificates
// that real TLS accepts, or refuses for the intended reason.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { connect, createServer } from 'node:tls'
import mqtt from 'mqtt'
import { makeCerts } from '../../lib/certs'
import { removeDir, tempDir, until } from '../../lib/gateway'
import { startMosquitto } from '../../lib/servers'

// this file again, as a process that is killed with a broker running
if (process.env.DIE_WITH_A_BROKER) {
  void startMosquitto({ dir: process.env.DIE_WITH_A_BROKER }).then(broker => {
    console.log(`broker ${broker.pid}`)
    process.kill(process.pid, 'SIGKILL')
  })
} else {
  tests()
}

function tests(): void {
  const dir = tempDir()
  after(() => removeDir(dir))
  const certs = makeCerts(dir)

  /** The error code of a TLS handshake with a server that has this certificate; `ok` if there is none. */
  async function handshake(cert: string, key: string, ca = certs.ca): Promise<string> {
    const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, socket => socket.end())
    server.on('tlsClientError', () => undefined) // only the client's result is checked
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    try {
      return await new Promise<string>(resolve => {
        const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: readFileSync(ca) }, () => {
          socket.destroy()
          resolve('ok')
        })
        socket.once('error', error => resolve((error as NodeJS.ErrnoException).code ?? error.message))
      })
    } finally {
      server.close()
    }
  }

  test('each certificate is accepted, or refused for its own reason', async () => {
    assert.equal(await handshake(certs.serverCert, certs.serverKey), 'ok')
    assert.equal(await handshake(certs.foreignCert, certs.foreignKey, certs.otherCa), 'ok')
    assert.match(await handshake(certs.foreignCert, certs.foreignKey), /UNABLE_TO_(VERIFY|GET)/)
    assert.equal(await handshake(certs.expiredCert, certs.expiredKey), 'CERT_HAS_EXPIRED')
    assert.equal(await handshake(certs.futureCert, certs.futureKey), 'CERT_NOT_YET_VALID')
    assert.equal(await handshake(certs.misnamedCert, certs.misnamedKey), 'ERR_TLS_CERT_ALTNAME_INVALID')
  })

  test('a broker keeps a retained message over kill -9 and a restart on the same port', async () => {
    const broker = await startMosquitto({ persistence: true })
    try {
      const url = `mqtt://127.0.0.1:${broker.port}`
      const first = await mqtt.connectAsync(url)
      await first.publishAsync('os/kept', 'here', { qos: 1, retain: true })
      await first.endAsync()
      await broker.kill()
      await broker.restart()
      const second = await mqtt.connectAsync(url)
      const message = new Promise<string>(resolve => second.once('message', (_topic, body) => resolve(body.toString())))
      await second.subscribeAsync('os/kept', { qos: 1 })
      assert.equal(await message, 'here')
      await second.endAsync()
    } finally {
      await broker.stop()
    }
  })

  test('configuration lines make it a TLS broker that requires a client certificate', async () => {
    const broker = await startMosquitto({
      lines: [
        `cafile ${certs.ca}`,
        `certfile ${certs.serverCert}`,
        `keyfile ${certs.serverKey}`,
        'require_certificate true',
      ],
    })
    try {
      const client = await mqtt.connectAsync(`mqtts://localhost:${broker.port}`, {
        ca: readFileSync(certs.ca),
        cert: readFileSync(certs.clientCert),
        key: readFileSync(certs.clientKey),
      })
      assert.equal(client.connected, true)
      await client.endAsync()
    } finally {
      await broker.stop()
    }
  })

  test('a broker that cannot start says why', async () => {
    await assert.rejects(startMosquitto({ lines: ['no_such_option 1'] }), /no_such_option/)
  })

  test('a broker does not outlive a test that is killed', async () => {
    const child = spawn(process.execPath, [__filename], {
      env: { ...process.env, DIE_WITH_A_BROKER: dir, NODE_TEST_CONTEXT: '' },
    })
    let text = ''
    child.stdout.on('data', chunk => {
      text += chunk
    })
    await new Promise(resolve => child.once('close', resolve))
    const pid = Number(/broker (\d+)/.exec(text)?.[1])
    assert.ok(pid > 1, text)
    await until('the broker is gone', () => !existsSync(`/proc/${pid}`))
  })
}
