// Plugins in real processes: every verb through a running gateway and without one (decision 0011), a third-party plugin that does
// everything to end the gateway, safe mode, and a forwarded packet.
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Node } from '../../src/index'
import { UserStore } from '../../src/services/users'
import { answerOf, askGateway, factsOf } from '../lib/ask'
import { cli, freePort, freeUdpPort, Machine, removeDir, script, tempDir, until } from '../lib/gateway'
import { Tty } from '../lib/tty'

interface World {
  machine: Machine
  webPort: number
  udpPort: number
  /** one command; options of the command line before those of the plugin */
  run(args: readonly string[], behind?: readonly string[]): ReturnType<typeof cli>
}

async function world(t: TestContext, plugins: Record<string, string> = {}): Promise<World> {
  const dir = tempDir()
  const [webPort, udpPort] = [await freePort(), await freeUdpPort()]
  const machine = new Machine(dir, 'run', {
    assigned_id: 5,
    device_id: 'gw',
    web_user: { auth_enabled: false },
    plugins: { enabled: Object.keys(plugins).length > 0, start_timeout_s: 3 },
    RESOURCES: { service_plugins: { web_user: { port: webPort } } },
    gateway: {
      sources: [],
      receivers: [{ name: 'in', medium: 'UDP', host: '127.0.0.1', port: udpPort }],
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }],
    },
  })
  t.after(async () => {
    await machine.stop()
    removeDir(dir)
  })
  mkdirSync(join(machine.dataDir, 'plugins'), { recursive: true })
  for (const [name, text] of Object.entries(plugins)) writeFileSync(join(machine.dataDir, 'plugins', name), text)
  const run: World['run'] = (args, behind) =>
    cli([...args, '--config', machine.config, '--data-dir', machine.dataDir, ...(behind ? ['--', ...behind] : [])], {
      cwd: dir,
    })
  return { machine, webPort, udpPort, run }
}

/** The answer of every verb; the same with a gateway and without, where each is a process. */
async function everyVerb({ machine, run }: World, via: 'gateway' | 'local'): Promise<void> {
  const json = async (args: readonly string[], behind?: readonly string[], code = 0) => {
    const ran =
      via === 'local'
        ? run([...args, '--json'], behind)
        : await askGateway(machine, ...args, '--json', ...(behind ? ['--', ...behind] : []))
    assert.equal(ran.code, code, `${args.join(' ')}: ${ran.stdout}${ran.stderr}`)
    const value = JSON.parse(ran.stdout.trim().split('\n').at(-1)!)
    if (code === 0) assert.equal(value.via, via, args.join(' '))
    return value
  }
  const list = await json(['plugin-list'])
  assert.ok(list.items.some((item: { name: string }) => item.name === 'port_forwarder'))
  assert.deepEqual(Object.keys(list.plugins), ['mode', 'mount_index', 'runtime_index', 'config_index'])
  assert.equal((await json(['plugin-load', 'port-forwarder'])).loaded, true)
  assert.equal((await json(['plugin-load', '--name', 'nobody'], undefined, 1)).code, 'NOT_FOUND')
  // both spellings of everything that has its own command
  assert.equal((await json(['web-user', '--cmd', 'status'])).running, via === 'gateway')
  assert.equal((await json(['web-user', 'add', 'bob', '--role', 'operator'])).user.role, 'operator')
  assert.equal((await json(['web-user', '--cmd', 'update'], ['--username', 'bob', '--disable'])).user.enabled, false)
  assert.equal((await json(['plugin-cmd', 'web-user', 'list'])).users.length, 1)
  assert.equal((await json(['plugin-cmd', '--plugin', 'web_user', '--cmd', 'delete'], ['--username', 'bob'])).ok, true)
  assert.equal((await json(['web-user', 'delete', 'bob'], undefined, 1)).code, 'NOT_FOUND')
  assert.equal((await json(['port-forwarder', 'add-rule', 'n', '--to', 'udp://127.0.0.1:9'])).rule.name, 'n')
  assert.deepEqual((await json(['port-forwarder', '--cmd', 'test'], ['--device', '3'])).matched, ['n'])
  assert.equal((await json(['port-forwarder', 'list'])).rules.length, 1)
  assert.equal((await json(['port-forwarder', '--cmd', 'remove-rule'], ['--name', 'n'])).ok, true)
  assert.equal((await json(['port-forwarder', 'stats'])).matched, 0)
  assert.equal(typeof (await json(['env-guard', 'status'])).open, 'number')
  assert.equal(typeof (await json(['env-guard', '--cmd', 'list'], ['--kind', 'device'])).issues, 'object')
  assert.equal((await json(['deps', 'check'])).ok, true)
  assert.equal((await json(['deps', '--cmd', 'install'], ['--name', 'os-node'])).already, true)
  assert.equal((await json(['env-guard', 'nope'], undefined, 2)).code, 'USAGE')
  assert.match(run(['web-user', 'add', '--help']).stdout, /--role/)
  assert.match(run(['deps', '--help']).stdout, /check, doctor, sync, repair, install/)
}

test('every verb works without a gateway', async t => await everyVerb(await world(t), 'local'))

test('every verb works through a gateway', async t => {
  const here = await world(t)
  await here.machine.start([], here.webPort)
  await everyVerb(here, 'gateway')
  // the page is stopped and started, and moves to another port
  const { run, webPort } = here
  assert.equal(run(['web-user', 'stop']).code, 0)
  await assert.rejects(fetch(`http://127.0.0.1:${webPort}/health`), { message: 'fetch failed' })
  const other = await freePort()
  assert.equal(run(['web-user', '--cmd', 'start'], ['--host', '127.0.0.1', '--port', String(other)]).code, 0)
  assert.equal((await fetch(`http://127.0.0.1:${other}/health`)).status, 200)
})

test('a password is read from a terminal prompt without echo, or from a pipe', async t => {
  const { machine } = await world(t)
  const command = [process.execPath, script, 'web-user', 'add', 'ann', '--password-stdin']
  const place = ['--config', machine.config, '--data-dir', machine.dataDir]
  const tty = new Tty([...command, ...place], { cwd: machine.dir })
  t.after(() => tty.close())
  await until('it asks', () => tty.output.includes('password: '))
  await until('nothing is shown', async () => !(await tty.modes()).echo)
  tty.type('hunterx\x7f2\r')
  await until('it ended', () => tty.ended)
  assert.deepEqual(tty.ended, { code: 0, signal: 0 })
  assert.match(tty.output, /added ann/)
  assert.doesNotMatch(tty.output, /hunter/)
  execFileSync(process.execPath, [...command.slice(1, -2), 'ben', '--password-stdin', ...place], {
    input: 'correct horse\n',
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const users = new UserStore({ dataDir: machine.dataDir })
  assert.equal((await users.verify('ann', 'hunter2'))?.username, 'ann')
  assert.equal((await users.verify('ben', 'correct horse'))?.username, 'ben')
  // a secret of the configuration is read in the same way
  const set = ['config-set', '--key', 'RESOURCES.application_config.mqtt.password', '--value-stdin']
  const said = execFileSync(process.execPath, [script, ...set, ...place], { input: 'hush now\n', encoding: 'utf8' })
  assert.doesNotMatch(said, /hush/)
  assert.match(readFileSync(machine.config, 'utf8'), /"password": "hush now"/)
})

test('web-user start without a gateway starts one, and ends with it', async t => {
  const { machine } = await world(t)
  const port = await freePort()
  const args = ['web-user', '--cmd', 'start', '--config', machine.config, '--data-dir', machine.dataDir]
  const child: ChildProcess = spawn(
    process.execPath,
    [script, ...args, '--', '--host', '127.0.0.1', '--port', String(port), '--block'],
    { cwd: machine.dir, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  t.after(() => child.kill('SIGKILL'))
  let output = ''
  child.stdout!.on('data', chunk => {
    output += String(chunk)
  })
  const ended = new Promise<number | null>(resolve => child.once('exit', resolve))
  await until('the page', async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok)
  await until('its output', () => output.includes(`http://127.0.0.1:${port}`))
  assert.equal(machine.json('web-user', 'status').via, 'gateway')
  child.kill('SIGTERM')
  assert.equal(await ended, 0)
})

const FOREIGN = {
  'good.js': `module.exports = { name: 'good', defaults: { colour: 'red' }, create: host => {
    class Shown extends host.display.DisplayProvider { extractData() { return { colour: host.settings().colour } } }
    const shown = new Shown('good', 'state', 'Good')
    return { displayProviders: () => [shown], status: () => ({ facts: host.gateway ? 'heard' : 'deaf' }) }
  } }`,
  'thrower.js': `module.exports = { name: 'thrower', create() { throw new Error('no way') } }`,
  'hangs.js': `module.exports = { name: 'hangs', create: () => ({ start: () => new Promise(() => {}) }) }`,
  'late.js': `module.exports = { name: 'late', create: () => ({ start() { setTimeout(() => { throw new Error('boom') }, 300) } }) }`,
  'words.mjs': `export default { name: 'words', create: () => ({ start() { setTimeout(() => Promise.reject('just words'), 300) } }) }`,
  'nothing.mjs': `export default { name: 'nothing', create: () => ({ start() { setTimeout(() => { throw undefined }, 300) } }) }`,
  'socket.mjs': `import { connect } from 'node:net'
    export default { name: 'socket', create: () => ({ start() { connect(1, '127.0.0.1') } }) }`,
  'submits.mjs': `export default { name: 'submits', create: host => ({
    start() { setTimeout(() => host.gateway.submit([['t', 'OK', 'no number', 'Cel']]), 300) } }) }`,
  'floats.mjs': `export default { name: 'floats', create: host => ({ start() { setTimeout(() => void host.node.dispatch(null), 300) } }) }`,
  'watches.mjs': `export default { name: 'watches', create: host => ({
    start() { host.config.onChange(() => { throw new Error('not this') }) } }) }`,
  'promise.js': `module.exports = { name: 'promise', create: () => ({ start() { setTimeout(() => Promise.reject(new Error('bang')), 300) } }) }`,
}

test('plugins that throw, hang and fail later affect only themselves', async t => {
  const { machine, webPort } = await world(t, FOREIGN)
  await machine.start([], webPort)
  const items = await until('all have failed', async () => {
    const { items } = (await answerOf(machine, 'plugin-list')) as {
      items: { name: string; failures: number; error?: string }[]
    }
    const of = (name: string) => items.find(item => item.name === name)!
    const failing = ['thrower', 'hangs', 'late', 'promise', 'words', 'nothing', 'socket', 'submits', 'floats']
    return failing.every(name => of(name).failures === 1) ? of : undefined
  })
  assert.match(items('thrower').error ?? '', /no way/)
  assert.match(items('hangs').error ?? '', /did not end within 3 s/)
  assert.match(items('late').error ?? '', /boom/)
  assert.match(items('promise').error ?? '', /bang/)
  assert.match(items('words').error ?? '', /just words/)
  assert.match(items('socket').error ?? '', /ECONNREFUSED/)
  assert.match(items('submits').error ?? '', /none of 1 reading could/)
  // the caller that changes the configuration is not responsible for a listener that throws
  assert.equal(machine.json('config-set', '--key', 'engine_settings.precision', '--value', '5', '--type', 'int').new, 5)
  await until('the listener is named', async () => {
    const { items } = (await answerOf(machine, 'plugin-list')) as {
      items: { name: string; running: boolean; error?: string }[]
    }
    const { running, error } = items.find(({ name }) => name === 'watches')!
    return !running && /not this/.test(error ?? '')
  })
  assert.deepEqual([items('good').failures, items('good').error], [0, undefined])
  const body = (await (await fetch(`http://127.0.0.1:${webPort}/api/display/render/good:state`)).json()) as {
    data: object
  }
  assert.deepEqual(body.data, { colour: 'red' })
  assert.equal(machine.json('plugin-cmd', 'good', 'status').facts, 'heard')
  assert.equal(machine.json('config-get', '--key', 'RESOURCES.service_plugins.good.colour').value, 'red')
})

test('safe mode keeps plugins off (R25), and they can be started by hand', async t => {
  const { machine, webPort } = await world(t, FOREIGN)
  process.env.OS_NODE_SAFE_MODE = 'on'
  t.after(() => delete process.env.OS_NODE_SAFE_MODE)
  await machine.start([], webPort)
  const { items } = machine.json('plugin-list') as { items: { name: string; running: boolean }[] }
  assert.deepEqual(
    items.filter(({ running }) => running),
    [],
  )
  assert.equal(machine.json('plugin-load', 'env-guard').running, true)
})

test('a packet of another node is logged and forwarded', async t => {
  const { machine, webPort, udpPort, run } = await world(t)
  await machine.start([], webPort)
  const targets = [createSocket('udp4'), createSocket('udp4')]
  const got: Buffer[][] = [[], []]
  for (const [k, socket] of targets.entries()) {
    socket.on('message', packet => void got[k]!.push(packet))
    await new Promise<void>(resolve => socket.bind(0, '127.0.0.1', resolve))
    t.after(() => socket.close())
  }
  const to = targets.flatMap(socket => ['--to', `udp://127.0.0.1:${socket.address().port}`])
  const added = run(['port-forwarder', 'add-rule', 'north', '--medium', 'udp', '--device', '77', ...to, '--json'])
  assert.equal(added.code, 0, added.stderr)
  const dir = tempDir()
  t.after(() => removeDir(dir))
  writeFileSync(
    join(dir, 'Config.json'),
    JSON.stringify({
      assigned_id: 77,
      device_id: 'shed',
      RESOURCES: { transport_config: { udp: { host: '127.0.0.1', port: udpPort } } },
    }),
  )
  const node = new Node(join(dir, 'Config.json'))
  t.after(() => node.close())
  const [packet] = node.transmit([['t', 'OK', 21.5, 'Cel']])
  assert.equal(await node.dispatch(packet, 'UDP'), true)
  await until('both targets', () => got[0]!.length > 0 && got[1]!.length > 0)
  assert.deepEqual(got[0]![0], Buffer.from(packet))
  assert.deepEqual(got[1]![0], Buffer.from(packet))
  await until('the log', async () => (await factsOf(machine)).some(fact => fact.id === 'shed'))
  await until(
    'both are counted',
    async () => (await answerOf(machine, 'port-forwarder', 'stats')).rules_applied.north.forwarded === 2,
  )
  const section = await (await fetch(`http://127.0.0.1:${webPort}/api/display/render/port_forwarder:rules`)).json()
  assert.equal((section as { data: { name: string }[] }).data[0]!.name, 'north')
  // the rule is kept over a restart, and works
  await machine.stop()
  await machine.start([], webPort)
  await until('the plugin runs', async () => (await answerOf(machine, 'port-forwarder', 'status')).running === true)
  const before = got[0]!.length
  await node.dispatch(node.transmit([['t', 'OK', 22.5, 'Cel']])[0], 'UDP')
  await until('the target is back', () => got[0]!.length > before)
})

test('a library node creates its plugins too', async t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  writeFileSync(join(dir, 'Config.json'), JSON.stringify({ assigned_id: 3 }))
  const { ensureAndMountPlugin } = await import('../../src/index')
  const node = new Node(join(dir, 'Config.json'))
  t.after(() => node.close())
  const service = await ensureAndMountPlugin(node, 'port-forwarder', true)
  assert.equal(node.serviceManager.get('port_forwarder'), service)
  assert.deepEqual(node.serviceManager.snapshot().runtime_index, ['port_forwarder'])
})
