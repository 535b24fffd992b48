// The MQTT medium without its broker: refused, gone, or behind a network that swallows everything.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { removeDir, tempDir, until } from '../../lib/gateway'
import { broker, heard, sender } from './mqtt-world'

test("without user and password the broker's refusal is shown in words", async t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const passwords = join(dir, 'passwords')
  writeFileSync(passwords, 'node:secret\n')
  execFileSync('mosquitto_passwd', ['-U', passwords])
  const guarded = await broker(t, { lines: ['allow_anonymous false', `password_file ${passwords}`] })
  for (const version of [4, 5])
    await assert.rejects(sender(t, guarded.port, { protocol_version: version }).open(heard().events), {
      code: 'LINK_DOWN',
      message: /the broker refuses the connection: Not authorized/,
    })
  const up = sender(t, guarded.port, { username: 'node', password: 'secret' })
  await up.open(heard().events)
  assert.ok(await up.send(Buffer.from('x')))
})

test('when a broker goes away the link is lost, and packets in flight are answered false', async t => {
  const server = await broker(t)
  const up = sender(t, server.port)
  const { texts, events } = heard()
  await up.open(events)
  assert.ok(await up.send(Buffer.from('x')))
  await server.kill()
  await until('lost', () => texts.length > 0)
  assert.equal(await up.send(Buffer.from('y')), false)
  await assert.rejects(up.open(events), { code: 'NETWORK' })
  await server.restart()
  await up.open(events)
  assert.ok(await up.send(Buffer.from('z')))
})

test('when the network swallows everything the keep-alive detects it, and packets in flight are answered false', async t => {
  const { port } = await broker(t)
  let swallow = false
  const sockets: Socket[] = []
  const far = createServer(near => {
    const onward = connect(port, '127.0.0.1')
    sockets.push(near, onward)
    for (const [from, to] of [
      [near, onward],
      [onward, near],
    ] as const) {
      from.on('data', bytes => swallow || to.write(bytes))
      from.on('error', () => to.destroy())
      // a broker that closes is not heard either
      from.on('close', () => swallow || to.destroy())
    }
  })
  await new Promise<void>(done => far.listen(0, '127.0.0.1', done))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    far.close()
  })
  const up = sender(t, (far.address() as AddressInfo).port, { keepalive_s: 5 })
  const { texts, events } = heard()
  await up.open(events)
  assert.ok(await up.send(Buffer.from('a')))
  swallow = true
  assert.equal(await up.send(Buffer.from('b')), false)
  await until('lost', () => texts.at(-1) === 'lost Keepalive timeout')
  swallow = false
  await up.open(events)
  assert.ok(await up.send(Buffer.from('c')))
})
