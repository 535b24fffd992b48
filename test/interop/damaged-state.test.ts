// With any damaged state file a gateway starts, works, and reports which file it is and what happened to it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { answerOf } from '../lib/ask'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'

/** Every state file except Config.json. */
const FILES = [
  'config.last-good.json',
  'device_registry/clean-stop.json',
  'device_registry/spill/clean-stop.json',
  'env_guard/resources.json',
  'env_guard/status.json',
  'frozen.json',
  'id_allocation.json',
  'id_lease_metrics.json',
  'id_pool.json',
  'id_pool.json.journal',
  'install-id',
  'last_time.json',
  'log/chain.json',
  'os-node.lock',
  'plugin-starts.json',
  'port_forwarder_rules.json',
  'restore/plan.json',
  'secure_sessions.json',
  'secure_sessions.up.json',
  'starts.json',
  'token.json',
  'web_tls.pem',
  'web_users.json',
]

/** Those that this start does not read or need: they are read on request, or only make a start faster. */
const QUIET = new Set([
  'config.last-good.json',
  'device_registry/clean-stop.json',
  'device_registry/spill/clean-stop.json',
  'id_allocation.json',
  'id_lease_metrics.json',
  'id_pool.json.journal',
  'install-id',
  'log/chain.json',
  'os-node.lock',
  'plugin-starts.json',
  'port_forwarder_rules.json',
  'restore/plan.json',
])

const DAMAGE: Record<string, (path: string) => void> = {
  empty: path => writeFileSync(path, ''),
  garbage: path => writeFileSync(path, Buffer.from('{"\0\xff[[[', 'latin1')),
  'of another shape': path => writeFileSync(path, '[null, 7, "x"]'),
  null: path => writeFileSync(path, 'null'),
  'a directory': path => mkdirSync(path),
  'a FIFO': path => execFileSync('mkfifo', [path]),
}

test('a start with damaged state files: the gateway works, the log names the files', async t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const port = await freePort()
  const gateway = new Machine(dir, 'run', {
    device_id: 'shed',
    assigned_id: 7,
    web_user: { tls: 'self_signed' },
    gateway: {
      sources: [{ name: 'a', type: 'test', poll_interval_s: 1 }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: await freeUdpPort() }],
      receivers: [{ name: 'down', medium: 'UDP', host: '127.0.0.1', port: await freeUdpPort() }],
    },
    RESOURCES: {
      service_plugins: { web_user: { port }, port_forwarder: { enabled: true }, env_guard: { enabled: true } },
    },
  })
  t.after(() => gateway.stop('SIGKILL'))
  await gateway.start([])
  await gateway.stop()

  for (const [kind, damage] of Object.entries(DAMAGE)) {
    for (const file of FILES) {
      const path = join(gateway.dataDir, file)
      rmSync(path, { recursive: true, force: true })
      mkdirSync(dirname(path), { recursive: true })
      damage(path)
    }
    gateway.output = ''
    await gateway.start([])
    const { links, login_problems } = (await answerOf(gateway, 'status')) as {
      links: Record<string, { state: string }>
      login_problems?: string[]
    }
    assert.equal(links.down?.state, 'up', kind)
    assert.match(
      login_problems?.[0] ?? '',
      /token\.json cannot be read: .*: os-node token --new creates a new one/,
      kind,
    )
    assert.match(login_problems?.[1] ?? '', /web_users\.json cannot be read: .*the admin token works without it/, kind)
    // it checks a second after the start
    await until('env_guard', () => gateway.output.includes('/env_guard/resources.json'))
    await gateway.stop()
    assert.equal(gateway.ended?.code, 0, kind)
    const unnamed = FILES.filter(file => !QUIET.has(file) && !gateway.output.includes(`/${file}`))
    assert.deepEqual(unnamed, [], gateway.output)
  }
})
