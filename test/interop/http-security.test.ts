// Security tests that need a complete gateway: fresh installs (S1), ten thousand idle sockets (S9).
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'
import { request, world } from './http-world'

test('S9: ten thousand idle sockets stop neither the sensors nor the page', async t => {
  const { port, send } = await world(t)
  const sockets: net.Socket[] = []
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  let dropped = 0
  // a few hundred at a time: the accept queue of the kernel is short
  for (let k = 0; k < 100; k++) {
    await Promise.all(
      Array.from(
        { length: 100 },
        () =>
          new Promise<void>(resolve => {
            const socket = net.connect(port, '127.0.0.1', resolve)
            socket.once('error', () => resolve())
            socket.on('close', () => dropped++)
            sockets.push(socket)
          }),
      ),
    )
  }
  const readings = async (): Promise<number> =>
    (await send('GET', '/api/dashboard?sections=status')).json.dashboard.status.intake.readings
  const first = await readings()
  await until('readings continue', async () => (await readings()) > first + 10)
  assert.equal((await send('GET', '/health')).status, 200)
  assert.equal(sockets.length, 10_000)
  await until('the limit is kept', () => dropped >= 10_000 - 256)
  const { dropped_connections } = (await send('GET', '/api/dashboard?sections=overview_metrics')).json.dashboard
    .overview_metrics.http_stats
  assert.ok(dropped_connections >= 10_000 - 256)
})

/** Every file of a folder as one text. */
const contents = (dir: string): string =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => readFileSync(join(entry.parentPath ?? entry.path, entry.name), 'latin1'))
    .join('\n')

test('S1: auth is on, no secret is predictable, and two fresh installs share no secret and no id', async t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const installs = []
  for (const name of ['one', 'two']) {
    const port = await freePort()
    const machine = new Machine(join(dir, name), 'run', {
      RESOURCES: { service_plugins: { web_user: { port } } },
      gateway: { sources: [{ name: 'up', type: 'uptime', interval_ms: 200 }] },
    })
    t.after(() => machine.stop('SIGKILL'))
    await machine.start(['--json'], port)
    const info = await until('its output', () => JSON.parse(/^\{.*\}$/m.exec(machine.output)?.[0] ?? 'null'))
    for (const token of ['', 'admin', 'password', 'token', 'os-node', 'changeme', 'default', 'os-session-'])
      assert.equal((await request(port, 'GET', '/api/config', undefined, token || null)).status, 401, token)
    for (const [username, password] of [
      ['admin', 'admin'],
      ['admin', ''],
      ['root', 'root'],
    ])
      assert.equal((await request(port, 'POST', '/api/login', { username, password })).status, 401)
    assert.equal((await request(port, 'GET', '/users', undefined, info.token)).json.users.length, 0)
    await machine.stop()
    installs.push({ token: info.token as string, files: contents(machine.dataDir), output: machine.output })
  }
  const [one, two] = installs
  assert.match(one!.token, /^[\w-]{43}$/)
  assert.notEqual(one!.token, two!.token)
  for (const { token, files, output } of installs) {
    assert.ok(!files.includes(token), 'the token itself is not kept')
    const told = output.split('\n').filter(line => line.includes(token))
    assert.equal(told.length, 1, 'the token is printed once, with its link')
  }
  // random-looking text of one install is nowhere in the other: hashes, salts, keys, ids of the install. Both know the same
  // boot id of this machine.
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  const random = (text: string): string[] =>
    (text.match(/[\w-]{22,}|[0-9a-f]{16,}/g) ?? []).filter(
      word => /\d/.test(word) && /[a-z]/i.test(word) && word !== boot,
    )
  const theirs = new Set(random(two!.files))
  assert.ok(theirs.size > 2)
  assert.deepEqual(
    random(one!.files).filter(word => theirs.has(word)),
    [],
  )
})
