// Crashes in a row of a real gateway (R25): killed repeatedly it starts in safe mode, with its page and commands up and its
// links and plugins off; it is left over HTTP or by a command, and everything logged before is present.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { answerOf, factsOf } from '../lib/ask'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

test('five kills in a row lead to safe mode with the reason shown, and it can be left', async () => {
  const port = await freePort()
  const gw = new Machine(join(dir, 'gw'), 'run', {
    device_id: 'GW1',
    web_user: { auth_enabled: false },
    RESOURCES: { service_plugins: { port_forwarder: { auto_start: true } } },
    gateway: {
      sources: [{ name: 'cpu', type: 'cpu', interval_ms: 100 }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9 }],
      log: { commit_interval_ms: 100 },
    },
  })
  machines.push(gw)
  const start = (): Promise<void> => gw.start(['--port', String(port)], port)
  const status = () => answerOf(gw, 'status')
  const running = async (): Promise<string[]> => {
    const { items } = (await answerOf(gw, 'plugin-list')) as { items: { name: string; running: boolean }[] }
    return items.filter(({ name, running }) => running && name !== 'web_user').map(({ name }) => name)
  }
  for (let k = 0; k < 5; k++) {
    await start()
    await until('facts are on flash', async () => (await factsOf(gw)).length > 2 * k)
    assert.equal((await status()).safe_mode, undefined)
    await gw.stop('SIGKILL')
  }
  await start()
  await until('the gateway answers', async () => (await status()).via === 'gateway')
  assert.match((await status()).safe_mode, /5 crashes in a row/)
  assert.deepEqual((await status()).links, {})
  assert.ok((await factsOf(gw)).length > 8, 'the log is open and readable')
  assert.match(gw.run('status').stdout, /SAFE MODE: 5 crashes in a row/)
  assert.deepEqual(await running(), [], 'plugins are off')
  const { active, reason } = await answerOf(gw, 'safe-mode')
  assert.deepEqual([active, reason], [true, '5 crashes in a row'])
  const data = await fetch(`http://127.0.0.1:${port}/api/data/packets`)
  assert.equal(data.status, 503)
  assert.deepEqual(await data.json(), {
    ok: false,
    error: 'database unavailable',
    code: 'DB_UNAVAILABLE',
    reason: 'kept off by safe mode: 5 crashes in a row',
  })
  const { dashboard } = (await (await fetch(`http://127.0.0.1:${port}/api/dashboard`)).json()) as {
    dashboard: { status: { safe_mode: string; storage: { refused: number } } }
  }
  assert.match(dashboard.status.safe_mode, /5 crashes in a row/)
  assert.equal(dashboard.status.storage.refused, 1)
  const ask = async (init?: RequestInit) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/safe-mode`, init)
    return [response.status, await response.json()]
  }
  assert.deepEqual(await ask(), [200, { ok: true, active: true, reason: '5 crashes in a row', crashes: 5 }])
  const json = { 'Content-Type': 'application/json' }
  const leave = { method: 'POST', headers: json, body: JSON.stringify({ leave: true }) }
  assert.deepEqual(await ask(leave), [200, { ok: true, active: false, crashes: 0 }])
  assert.deepEqual(await ask(leave), [200, { ok: true, active: false, crashes: 0 }], 'outside of safe mode: nothing')
  assert.equal((await answerOf(gw, 'safe-mode')).active, false)
  await until('the links are open again', async () => (await status()).links.cpu?.state === 'up')
  assert.equal((await status()).safe_mode, undefined)
  await until('the view is ready', async () => (await fetch(`http://127.0.0.1:${port}/api/data/packets`)).ok)
  await until('the plugins run', async () => (await running()).join() === 'port_forwarder,env_guard')
  await gw.stop('SIGTERM')
  assert.equal(gw.json('safe-mode').crashes, 0)

  gw.configure({ device_id: 'GW1', web_user: { auth_enabled: false }, gateway: { safe_mode: { after_crashes: 1 } } })
  await start()
  await gw.stop('SIGKILL')
  await start()
  assert.match((await status()).safe_mode, /1 crash in a row/)
  const after = gw.json('safe-mode', '--leave')
  assert.deepEqual([after.active, after.left], [false, true])
  await until('links are open', async () => Object.keys((await status()).links).length > 0)
  assert.deepEqual([(await status()).safe_mode, (await answerOf(gw, 'safe-mode')).crashes], [undefined, 0])
})
