// What systemd sees of a gateway (R24), on real processes: a socket in place of systemd's own receives READY, STATUS,
// WATCHDOG, RELOADING and STOPPING in their order, by path, by abstract name, and by the program systemd-notify without the
// addon.
// Needs: cc analyze
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { nativeOrNull } from '../../src/native'
import { askControl } from '../lib/control'
import { freePort, Machine, removeDir, root, tempDir, until } from '../lib/gateway'
import { FakeSystemd, monotonicUs } from '../lib/systemd'

const lacks = nativeOrNull() ? false : 'no addon here'

interface World {
  dir: string
  gw: Machine
  config: (more?: object) => Record<string, unknown>
  start: () => Promise<void>
}

async function world(t: TestContext, uplinkPort: number): Promise<World> {
  const dir = tempDir()
  const web = await freePort()
  const config = (more: object = {}): Record<string, unknown> => ({
    device_id: 'GW1',
    assigned_id: 5,
    web_user: { auth_enabled: false },
    storage: { sql: { enabled: false } },
    gateway: {
      sources: [{ name: 'uptime', type: 'uptime', interval_ms: 100 }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: uplinkPort }],
      // nothing is committed before the end
      log: { commit_interval_ms: 600_000, ack_commit_ms: 60_000 },
    },
    ...more,
  })
  const gw = new Machine(join(dir, 'gw'), 'run', config())
  t.after(async () => {
    await gw.stop('SIGKILL')
    removeDir(dir)
  })
  return { dir, gw, config, start: () => gw.start(['--port', String(web)], web, true) }
}

interface Peer {
  port: number
  /** answers pings */
  answers: boolean
}

/** An upstream that answers pings when the test says so. */
async function peer(t: TestContext, answers = true): Promise<Peer> {
  const socket = createSocket('udp4')
  t.after(() => socket.close())
  await new Promise<void>(done => socket.bind(0, '127.0.0.1', done))
  const it = { port: socket.address().port, answers }
  socket.on('message', (message, from) => {
    if (message[0] === 9 && it.answers)
      socket.send(Buffer.from([0x0a, message[1]!, message[2]!]), from.port, from.address)
  })
  return it
}

test('READY follows the first tries of the links, then WATCHDOG, RELOADING, and STOPPING before the commit', {
  skip: lacks,
}, async t => {
  const upstream = await peer(t, false)
  const { dir, gw, config, start } = await world(t, upstream.port)
  let systemd: FakeSystemd
  for (let tries = 1; ; tries++) {
    const heard = await FakeSystemd.start(join(dir, `notify${tries}`))
    t.after(() => heard.close())
    systemd = heard
    await systemd.env(start, { WATCHDOG_USEC: '1000000' })
    // the page answers already, the first try of the uplink is still running: for two seconds, which a busy machine may
    // miss
    const { links } = await until('it answers', () => askControl(gw.dataDir, 'status'))
    const early = systemd.with('READY').length === 0 && links.up?.state === 'opening'
    if (early) break
    assert.ok(tries < 5, `READY before the page answered, or ${JSON.stringify(links)}`)
    await gw.stop('SIGKILL')
  }
  await systemd.next('STATUS')
  const { fields: first } = systemd.heard[0]!
  assert.equal(first.STATUS, 'starting')
  assert.ok(Number(first.EXTEND_TIMEOUT_USEC) >= 60_000_000)
  const ready = await systemd.next('READY')
  assert.equal(ready.fields.READY, '1')
  assert.match(ready.fields.STATUS!, /^1 of 2 links up; not up: up; \d+ facts? waiting$/)
  const tried = await askControl(gw.dataDir, 'status')
  assert.match(tried.links.up.reason, /does not answer/, 'a first try that failed is a try')
  assert.deepEqual([tried.links.uptime.state, tried.log.state], ['up', 'ok'])
  assert.equal(systemd.with('WATCHDOG').filter(({ at }) => at < ready.at).length, 0)

  upstream.answers = true
  await until('the uplink is up', async () => (await askControl(gw.dataDir, 'status')).links.up.state === 'up')

  // half of WATCHDOG_USEC; a late one makes one gap longer and the next one shorter
  await systemd.next('WATCHDOG', 8)
  const fed = systemd.with('WATCHDOG').map(({ at }) => at)
  const gaps = fed.slice(1).map((at, k) => at - fed[k]!)
  t.diagnostic(`fed every ${gaps.join(', ')} us`)
  assert.ok(Math.max(...gaps) > 300_000 && Math.min(...gaps) < 900_000, `fed every ${gaps.join(', ')} us`)

  const before = monotonicUs()
  gw.configure(config({ device_id: 'GW1' }))
  process.kill(gw.pid!, 'SIGHUP')
  const reloading = await systemd.next('RELOADING')
  const asked = Number(reloading.fields.MONOTONIC_USEC)
  assert.ok(asked >= before && asked <= reloading.at, `${before} ${asked} ${reloading.at}`)
  const again = await systemd.next('READY', 2)
  assert.ok(systemd.heard.indexOf(again) > systemd.heard.indexOf(reloading))

  // an invalid file is reported and refused, and the service continues
  gw.configure(config({ gateway: { sources: [{ name: 'b', type: 'uptime', interval_ms: 1 }] } }))
  process.kill(gw.pid!, 'SIGHUP')
  await systemd.next('READY', 3)
  const refused = await askControl(gw.dataDir, 'status')
  assert.match(refused.config_problem, /Config\.json:\d+.*gateway\.sources\.0\.interval_ms/)
  assert.deepEqual(Object.keys(refused.links).sort(), ['up', 'uptime'])
  assert.equal(refused.links.up.opens, 1)
  gw.configure(config())

  await until('readings arrive', async () => (await askControl(gw.dataDir, 'status')).intake.facts > 10)
  const { intake, log: pending } = await askControl(gw.dataDir, 'status')
  assert.ok(pending.committed_seq < pending.last_seq, 'records wait in RAM')
  const ended = gw.stop('SIGTERM')
  const stopping = await systemd.next('STOPPING')
  assert.ok(Number(stopping.fields.EXTEND_TIMEOUT_USEC) >= 8_000_000)
  assert.match(stopping.fields.STATUS!, /draining and committing/)
  await ended
  assert.equal(gw.ended?.code, 0, gw.output)
  assert.equal(systemd.with('WATCHDOG').filter(({ at }) => at > stopping.at).length, 0)
  assert.ok(gw.logFacts().length >= intake.facts, 'what waited is committed')
})

test('an abstract socket gets the same messages, and the children of the gateway do not inherit it', {
  skip: lacks,
}, async t => {
  const { gw, start } = await world(t, (await peer(t)).port)
  const systemd = await FakeSystemd.start(`@os-node-test-${process.pid}`)
  t.after(() => systemd.close())
  await systemd.env(start)
  await systemd.next('READY')
  assert.equal(systemd.with('WATCHDOG').length, 0, 'it was not requested')
  await gw.stop('SIGTERM')
  assert.equal(gw.ended?.code, 0)
  await systemd.next('STOPPING')
  assert.equal(systemd.with('STOPPING').length, 1)
})

test('without the addon systemd-notify sends the messages; without that too one line says so, and the gateway runs', async t => {
  const { dir, gw, start } = await world(t, (await peer(t)).port)
  const said = join(dir, 'said')
  writeFileSync(join(dir, 'systemd-notify'), `#!/bin/sh\necho "$NOTIFY_SOCKET $*" >> ${said}\n`)
  chmodSync(join(dir, 'systemd-notify'), 0o755)
  const { PATH } = process.env
  const env = { NOTIFY_SOCKET: '/nobody', OS_NODE_NO_ADDON: '1', PATH: `${dir}:${PATH}` }
  const starting = (more: Record<string, string>): Promise<void> => {
    Object.assign(process.env, more)
    const started = start()
    for (const name of ['NOTIFY_SOCKET', 'OS_NODE_NO_ADDON']) delete process.env[name]
    process.env.PATH = PATH
    return started
  }
  await starting(env)
  await until('READY by the program', () =>
    /^\/nobody --pid=\d+ READY=1 STATUS=2 of 2/m.test(readFileSync(said, 'utf8')),
  )
  assert.match(readFileSync(said, 'utf8'), new RegExp(`--pid=${gw.pid} `))
  await gw.stop('SIGTERM')
  assert.equal(gw.ended?.code, 0)

  gw.output = ''
  await starting({ ...env, PATH: dir.concat('/empty') })
  await until('links are up', async () => (await askControl(gw.dataDir, 'status')).links.up?.state === 'up')
  await gw.stop('SIGTERM')
  assert.equal(gw.ended?.code, 0)
  assert.equal(gw.output.match(/systemd cannot be notified/g)?.length, 1, gw.output)
})

test('S16: the unit of the packages has an exposure below 2.0, and no capability', () => {
  const unit = join(root, 'rootfs/usr/lib/systemd/system/os-node.service')
  const args = ['security', '--offline=true', '--no-pager', '--threshold=19', unit]
  const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' })
  assert.equal(status, 0, stderr + stdout)
  assert.match(stdout, /exposure level for os-node.service: 1\.\d/)
  assert.match(readFileSync(unit, 'utf8'), /^CapabilityBoundingSet=$/m)
})

test('the units of the packages are valid; those that open Bluetooth adapters and hold outputs have the capability for it and no more', () => {
  const dir = join(root, 'rootfs/usr/lib/systemd/system')
  const helpers = ['os-node-hci@.service', 'os-node-lines.service']
  const units = [...helpers, 'os-node-hci.socket', 'os-node-lines.socket', 'os-node-clock.service']
  const verify = ['verify', '--man=no', '--recursive-errors=no', ...units.map(name => join(dir, name))]
  const { stderr } = spawnSync('systemd-analyze', verify, { encoding: 'utf8' })
  // the program is not installed here
  const complaints = stderr
    .split('\n')
    .filter(
      line =>
        /os-node-(hci|lines|clock)/.test(line) && !/(hci-open|hold-lines|clock-synced) is not executable/.test(line),
    )
  assert.deepEqual(complaints, [])
  for (const name of helpers) {
    const security = ['security', '--offline=true', '--no-pager', '--threshold=30', join(dir, name)]
    const { status, stdout } = spawnSync('systemd-analyze', security, { encoding: 'utf8' })
    assert.equal(status, 0, stdout)
  }
})

test('no unit of the packages or the image takes its environment from a file that the gateway could write', () => {
  const folders = ['rootfs', 'src/build/image/root'].map(name => join(root, name, 'usr/lib/systemd/system'))
  const files = folders.flatMap(folder =>
    readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath ?? entry.path, entry.name)),
  )
  assert.ok(files.length > 20)
  for (const file of files)
    assert.doesNotMatch(readFileSync(file, 'utf8'), /^EnvironmentFile=-?\/(etc\/os-node|var|data)\//m, file)
})

test('clock-synced creates its file once busybox or timedatectl reports that the clock is synchronized', t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const command = (name: string, script: string): void =>
    writeFileSync(join(dir, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  // the third look finds the clock synchronized
  command('sleep', `echo >> ${dir}/sleeps`)
  const third = (yes: string, no: string): string =>
    `[ "$(wc -l < ${dir}/sleeps 2>/dev/null || echo 0)" -ge 2 ] && echo "${yes}" || echo "${no}"`
  const kernel = third('return value: 0 (clock synchronized)', 'return value: 5 (clock not synchronized)')
  for (const [busybox, timedatectl] of [
    [kernel, 'exit 1'],
    ['exit 127', third('yes', 'no')],
  ] as const) {
    command('busybox', busybox)
    command('timedatectl', timedatectl)
    const file = join(dir, 'run/synchronized')
    const args = [join(root, 'rootfs/usr/lib/os-node/clock-synced'), file]
    const { status, stderr } = spawnSync('sh', args, {
      env: { PATH: `${dir}:${process.env.PATH}` },
      encoding: 'utf8',
      timeout: 20_000,
    })
    assert.deepEqual([status, stderr], [0, ''])
    assert.ok(existsSync(file))
    // two unsynchronized looks, and the pause before the file
    assert.equal(readFileSync(join(dir, 'sleeps'), 'utf8').length, 3)
    for (const old of [file, join(dir, 'sleeps')]) rmSync(old)
  }
})
