// Third-party plugins whose calls never return, in a real gateway: the watchdog of the event loop ends the process and
// reports where the loop was; the next start disables that plugin by name, and everything else runs. The same for a plugin
// that ended the process itself.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { askControl } from '../lib/control'
import { freePort, Machine, removeDir, tempDir, until } from '../lib/gateway'

const stuck = 'for (;;);'

/** What spins, by place; most wait for a fact, so that the gateway is up before. */
const LOOPS = {
  listener: `start: () => void host.gateway.onFact(function spin() { ${stuck} })`,
  timer: `start: () => { let heard = false; host.gateway.onFact(() => { heard = true })
    setInterval(function spin() { if (heard) ${stuck} }, 100) }`,
  start: `start() { ${stuck} }`,
  promise: `start: () => void host.gateway.onFact(async function spin() { for (;;) await null })`,
}

interface Item {
  name: string
  running: boolean
  error?: string
}

async function world(t: TestContext, loop: string): Promise<{ gw: Machine; start: () => Promise<void> }> {
  const dir = join(tempDir(), 'with space')
  const web = await freePort()
  const gw = new Machine(dir, 'run', {
    device_id: 'GW1',
    assigned_id: 5,
    web_user: { auth_enabled: false },
    storage: { sql: { enabled: false } },
    plugins: { enabled: true },
    gateway: {
      watchdog: { stall_s: 5 },
      sources: [{ name: 'uptime', type: 'uptime', interval_ms: 200 }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9 }],
    },
  })
  t.after(async () => {
    await gw.stop('SIGKILL')
    removeDir(dir)
  })
  const plugins = join(gw.dataDir, 'plugins')
  mkdirSync(plugins, { recursive: true })
  writeFileSync(join(plugins, 'spins.mjs'), `export default { name: 'spins', create: host => ({ ${loop} }) }`)
  writeFileSync(join(plugins, 'good.mjs'), `export default { name: 'good', create: () => ({}) }`)
  return { gw, start: () => gw.start(['--port', String(web)]) }
}

/** The state of the plugin once the others run. */
async function spins({ dataDir }: Machine): Promise<Item> {
  const of = await until('the others run', async () => {
    const { items } = (await askControl(dataDir, 'plugin-list')) as { items: Item[] }
    const of = (name: string): Item => items.find(item => item.name === name)!
    return of('good').running && of('env_guard').running ? of : undefined
  })
  return of('spins')
}

test('a plugin that ends the process is disabled by the next start', async t => {
  const { gw, start } = await world(t, 'start: () => void setTimeout(() => process.exit(0), 1000)')
  await start().catch(() => undefined)
  await until('it has ended', () => gw.ended)
  await start()
  const { running, error } = await spins(gw)
  assert.deepEqual([running, error], [false, 'spins is not started: it ended the process'])
  assert.equal((await askControl(gw.dataDir, 'safe-mode')).crashes, 1)
  // it can be started by hand, and a clean stop is not attributed to it
  assert.equal((await askControl(gw.dataDir, 'plugin-load', { name: 'good' })).running, true)
  await gw.stop('SIGTERM')
  await start()
  assert.equal((await spins(gw)).running, false)
})

describe('a plugin whose call never returns', { concurrency: 2 }, () => {
  for (const [where, loop] of Object.entries(LOOPS))
    test(`a plugin that blocks in a ${where} ends the process, and the next start disables it by name`, async t => {
      const { gw, start } = await world(t, loop)
      // it may end before it answered
      await start().catch(() => undefined)
      await until('it has ended', () => gw.ended)
      assert.equal(gw.ended!.signal, 'SIGALRM', gw.output)
      assert.match(gw.output, /frozen for \d+ s; ending the process in .*spins\.mjs:\d+/)
      await start()
      const { running, error } = await spins(gw)
      assert.equal(running, false)
      assert.match(error!, /^spins is not started: it froze the gateway in .*spins\.mjs:\d+\)?$/)
      const facts = async (): Promise<number> =>
        ((await askControl(gw.dataDir, 'status')) as { intake: { facts: number } }).intake.facts
      await until('readings arrive', async () => (await facts()) > 10)
      assert.equal(gw.ended, undefined)
      assert.equal((await askControl(gw.dataDir, 'safe-mode')).crashes, 1)
      assert.match(gw.output, /the last run was ended: the event loop has been frozen for \d+ s in .*spins\.mjs/)
      await gw.stop('SIGTERM')
    })
})
