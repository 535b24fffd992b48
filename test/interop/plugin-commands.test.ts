// Every command of every built-in plugin, in a running gateway, as users call it; and parts of os-node that are damaged and
// repaired in a copy of the built product.
// Needs: quic
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { answerOf, askGateway } from '../lib/ask'
import { cli, freePort, Machine, removeDir, script, tempDir } from '../lib/gateway'

const dir = tempDir()
let gateway: Machine
let web = 0

before(async () => {
  web = await freePort()
  gateway = new Machine(join(dir, 'gw'), 'run', {
    assigned_id: 5,
    device_id: 'gw',
    web_user: { auth_enabled: false },
    storage: { sql: { enabled: false } },
    RESOURCES: { service_plugins: { web_user: { port: web } } },
    gateway: {
      sources: [],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }],
    },
  })
  await gateway.start([], web)
})
after(async () => {
  await gateway.stop()
  removeDir(dir)
})

/** A command of a plugin, run in the gateway; its exit code must be 0. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command prints
async function run(plugin: string, command: string, ...args: string[]): Promise<any> {
  const value = await answerOf(gateway, 'plugin-cmd', plugin, command, ...args)
  assert.equal(value.via, 'gateway', `${plugin} ${command}: ${JSON.stringify(value)}`)
  return value
}

const running = async (plugin: string): Promise<boolean> =>
  (await answerOf(gateway, 'plugin-list')).items.find(({ name }: { name: string }) => name === plugin).running

test('every plugin is started and stopped, as plugin-list shows', async () => {
  for (const [plugin, start, stop] of [
    ['tui', () => run('tui', 'start'), () => run('tui', 'stop')],
    ['port_forwarder', () => run('port_forwarder', 'start'), () => run('port_forwarder', 'stop')],
    ['dependency_manager', () => run('dependency_manager', 'start'), () => run('dependency_manager', 'stop')],
    ['test_plugin', () => run('test_plugin', 'start'), () => run('test_plugin', 'stop')],
  ] as const) {
    assert.equal(await running(plugin), false, plugin)
    assert.equal((await start()).started, true, plugin)
    assert.equal((await start()).started, false, 'it runs already')
    assert.equal(await running(plugin), true, plugin)
    assert.equal((await stop()).stopped, true, plugin)
    assert.equal((await stop()).stopped, false, 'it is stopped already')
    assert.equal(await running(plugin), false, plugin)
  }
  assert.equal((await run('env_guard', 'stop')).stopped, true)
  assert.equal(await running('env_guard'), false)
  assert.equal((await run('env_guard', 'start')).started, true)
  assert.equal((await run('dependency_manager', 'status')).missing_total, 0)
  assert.deepEqual((await run('test_plugin', 'status')).cores, ['pycore', 'rscore'])
})

test('web_user: dashboard is shown complete or by sections', async () => {
  const { ok, dashboard } = await run('web_user', 'dashboard')
  assert.equal(ok, true)
  for (const section of ['identity', 'plugins', 'transport', 'pipeline', 'users', 'timestamp'])
    assert.ok(section in dashboard, section)
  const some = (await run('web_user', 'dashboard', '--sections', 'identity')).dashboard
  assert.deepEqual([some.identity.device_id, some.transport], ['gw', undefined])
  const { running, users, data_file, uptime_s } = await run('web_user', 'status')
  assert.deepEqual([running, users, data_file], [true, 0, join(gateway.dataDir, 'web_users.json')])
  assert.ok(Number.isInteger(uptime_s))
})

test('port_forwarder: a disabled rule forwards nothing until it is enabled', async () => {
  await run('port_forwarder', 'add-rule', 'n', '--to', 'udp://127.0.0.1:9')
  assert.equal((await run('port_forwarder', 'disable-rule', 'n')).rule.enabled, false)
  assert.deepEqual((await run('port_forwarder', 'test')).matched, [])
  assert.equal((await run('port_forwarder', 'enable-rule', 'n')).rule.enabled, true)
  assert.deepEqual((await run('port_forwarder', 'test')).matched, ['n'])
  assert.equal((await askGateway(gateway, 'plugin-cmd', 'port_forwarder', 'enable-rule', 'nobody')).code, 1)
  await run('port_forwarder', 'remove-rule', 'n')
})

test('test_plugin: integration and compare run in the gateway', async () => {
  const { passed, failed } = await run('test_plugin', 'integration')
  assert.ok(passed > 3)
  assert.equal(failed, 0)
  const { cores, equal, note } = await run('test_plugin', 'compare')
  assert.deepEqual([cores.map(({ name }: { name: string }) => name), equal], [['pycore', 'rscore'], true])
  assert.equal(typeof note, 'string')
})

test('tui: live views require a terminal, and say so', async () => {
  for (const ran of [gateway.run('plugin-cmd', 'tui', 'interactive'), gateway.run('plugin-cmd', 'tui', 'bios')]) {
    assert.notEqual(ran.code, 0)
    assert.match(ran.stderr, /os-node tui/)
  }
})

test('a plugin called without a command lists its commands', () => {
  for (const args of [['web-user', '--help'], ['web-user']]) {
    const { code, stdout } = gateway.run('plugin-cmd', ...args)
    assert.equal(code, 0)
    assert.match(stdout, /^Commands of web_user:\n {2}start .*\n {2}stop /)
  }
  assert.match(gateway.run('plugin-cmd', '--help').stdout, /^os-node plugin-cmd: /)
})

test('deps: damaged parts are found, and repaired from the copies of sync; without npm the message says which file to copy where', () => {
  const home = join(dir, 'copy')
  cpSync(dirname(script), join(home, 'dist'), { recursive: true })
  writeFileSync(join(home, 'Config.json'), '{}')
  const own = join(home, 'dist/os-node.js')
  const call = (...args: string[]) =>
    cli([...args, '--json'], {
      ...{ cwd: home, program: own },
      // its own parts, not those of this checkout
      env: { PATH: '/nonexistent', OS_NODE_TEST_ROOT: '' },
    })
  const check = () => JSON.parse(call('deps', 'check').stdout) as { ok: boolean; missing: string[]; damaged: string[] }
  assert.equal(check().ok, true)
  assert.equal(call('deps', 'sync').code, 0)
  const name = 'quic'
  const platform = `${process.platform}-${process.arch}`
  const file = join(home, 'dist/native', platform, `${name}.node`)
  const good = readFileSync(file)
  writeFileSync(file, good.subarray(0, 10))
  assert.deepEqual(check().damaged, [`${name}-${platform}`])
  const doctor = call('deps', 'doctor')
  assert.equal(doctor.code, 1)
  assert.match(doctor.stdout, /ERR_DLOPEN_FAILED/)
  assert.equal(call('deps', 'repair').code, 0)
  assert.deepEqual(readFileSync(file), good)
  assert.equal(check().ok, true)
  // the program itself: one byte of its text
  const text = readFileSync(own)
  writeFileSync(own, text.toString('latin1').replace('Commands of', 'commands of'), 'latin1')
  assert.deepEqual(check().damaged, ['os-node'])
  assert.equal(call('deps', 'repair').code, 0)
  assert.deepEqual(readFileSync(own), text)
  // neither copies nor npm
  rmSync(join(home, 'data/parts'), { recursive: true })
  rmSync(file)
  const lost = call('deps', 'sync')
  assert.equal(lost.code, 1)
  assert.match(lost.stdout, /npm is not on this machine/)
  assert.ok(lost.stdout.includes(file), lost.stdout)
  assert.equal(existsSync(file), false)
  // the file that the user copied
  writeFileSync(join(home, 'brought.node'), good)
  assert.equal(call('deps', 'install', `${name}-${platform}`, '--from', join(home, 'brought.node')).code, 0)
  assert.equal(check().ok, true)
  assert.equal(execFileSync(process.execPath, [own, '--version'], { encoding: 'utf8' }).trim(), '0.1.0')
})
