// Packets of a node are forwarded from one gateway to another, over UDP and TCP, by rules made over HTTP and on the command
// line; what the second one logged, and what each rule counted.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Node } from '../../src/index'
import { answerOf } from '../lib/ask'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, sensorsOf, tempDir, until } from '../lib/gateway'

const common = {
  web_user: { auth_enabled: false },
  storage: { sql: { enabled: false } },
}
const uplinks = [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: 9, delivery: 'best_effort' }]

interface Counters {
  matched: number
  forwarded: number
  failed: number
}

test('forwarding from gateway to gateway by medium, source, command, device, priorities, sets and fan-out survives a restart', async t => {
  const dir = tempDir()
  const [web, inPort, udp, tcp] = [await freePort(), await freeUdpPort(), await freeUdpPort(), await freePort()]
  const here = new Machine(join(dir, 'here'), 'run', {
    ...{ ...common, assigned_id: 5, device_id: 'here' },
    RESOURCES: { service_plugins: { web_user: { port: web } } },
    gateway: { sources: [], uplinks, receivers: [{ name: 'in', medium: 'UDP', host: '127.0.0.1', port: inPort }] },
  })
  const there = new Machine(join(dir, 'there'), 'run', {
    ...{ ...common, assigned_id: 6, device_id: 'there' },
    RESOURCES: { transport_status: { tcp: true }, service_plugins: { web_user: { auto_start: false } } },
    gateway: {
      ...{ sources: [], uplinks },
      receivers: [
        { name: 'udp', medium: 'UDP', host: '127.0.0.1', port: udp },
        { name: 'tcp', medium: 'TCP', host: '127.0.0.1', port: tcp },
      ],
    },
  })
  t.after(async () => {
    await Promise.all([here.stop(), there.stop()])
    removeDir(dir)
  })
  await Promise.all([here.start([], web), there.start([])])

  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the gateway gives
  const post = async (sub_cmd: string, ...args: string[]): Promise<any> => {
    const response = await fetch(`http://127.0.0.1:${web}/api/plugins`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ plugin: 'port-forwarder', action: 'cmd', sub_cmd, args }),
    })
    const body = (await response.json()) as { ok: boolean; stdout: string }
    assert.equal(body.ok, true, JSON.stringify(body))
    return JSON.parse(body.stdout)
  }
  const toUdp = `udp://127.0.0.1:${udp}`
  const toTcp = `tcp://127.0.0.1:${tcp}`
  const first = ['--medium', 'udp', '--device', 'shed', '--priority', '5']
  assert.equal((await post('add-rule', 'first', ...first, '--to', toUdp)).auto_start, true)
  const second = here.json('port-forwarder', 'add-rule', 'second', '--to', toTcp, '--device', '77')
  assert.equal(second.hint, 'TCP is switched off: os-node transporter-toggle --name TCP --enable')
  assert.equal(here.run('transporter-toggle', '--name', 'TCP', '--enable').code, 0)
  const mirror = ['--set', 'mirror', '--source', '127.0.0.0/8', '--command', 'full']
  assert.equal((await post('add-rule', 'mirror', ...mirror, '--to', toTcp, '--to', toUdp)).hint, undefined)
  await post('add-rule', 'elsewhere', '--set', 'elsewhere', '--source', '10.0.0.0/8', '--to', toTcp)

  writeFileSync(
    join(dir, 'Config.json'),
    JSON.stringify({
      ...{ assigned_id: 77, device_id: 'shed' },
      RESOURCES: { transport_config: { udp: { host: '127.0.0.1', port: inPort } } },
    }),
  )
  const node = new Node(join(dir, 'Config.json'))
  t.after(() => node.close())
  let full = 0
  const send = async (value: number): Promise<string> => {
    const [packet, , strategy] = node.transmit([['t', 'OK', value, 'Cel']])
    if (strategy === 'FULL_PACKET') full++
    assert.equal(await node.dispatch(packet, 'UDP'), true)
    return strategy
  }
  const counters = async (): Promise<Record<string, Counters>> => (await post('stats')).rules_applied
  const wait = (what: string, wanted: Record<string, number>): Promise<unknown> =>
    until(what, async () => {
      const now = await counters()
      return Object.entries(wanted).every(([name, n]) => now[name]!.forwarded === n)
    })
  const valuesOf = (machine: Machine): number[] =>
    machine
      .logFacts()
      .filter(fact => fact.id === 'shed')
      .map(fact => Math.round((sensorsOf(fact)[0]!.value! - 273.15) * 100) / 100)
  const values = async (): Promise<number[]> => {
    const { log } = (await askControl(there.dataDir, 'status')) as { log: { last_seq: number } }
    assert.ok(log.last_seq >= 0)
    return valuesOf(there)
  }

  // the first by priority, and each set has its say; FULL packets are mirrored to both
  assert.equal(await send(20.5), 'FULL_PACKET')
  await wait('the first packet', { first: 1, second: 0, mirror: 2, elsewhere: 0 })
  for (const value of [21.5, 22.5]) await send(value)
  assert.equal(await send(23.5), 'DIFF_PACKET', 'which the mirror does not take')
  await wait('the next', { first: 4, second: 0, mirror: 2 * full, elsewhere: 0 })
  await until('the other gateway logged them, each once', async () => (await values()).join() === '20.5,21.5,22.5,23.5')
  // without the first rule the second one forwards them, over TCP
  assert.equal((await post('disable-rule', 'first')).rule.enabled, false)
  await send(24.5)
  await wait('the second', { first: 4, second: 1, mirror: 2 * full })
  await until('by TCP', async () => (await values()).includes(24.5))
  await until('this one still keeps them', () => valuesOf(here).join() === '20.5,21.5,22.5,23.5,24.5')

  // a crash: rules and their switches are restored, and work without a call; counters restart
  await here.stop('SIGKILL')
  await here.start([], web)
  await until('it runs', async () => (await answerOf(here, 'port-forwarder', 'status')).running === true)
  assert.deepEqual(
    here
      .json('port-forwarder', 'list')
      .rules.map((rule: { name: string; enabled: boolean }) => [rule.name, rule.enabled]),
    [['first', false], ['second', true], ['mirror', true], ['elsewhere', true]], // biome-ignore format: a table
  )
  await send(25.5)
  await wait('the second again', { first: 0, second: 1, mirror: 0 })
  await until('after the restart', async () => (await values()).includes(25.5))
  await post('remove-rule', 'second')
  // the session with the crashed gateway is over, so this may be a FULL, which the mirror rule forwards
  const mirrored = (await send(26.5)) === 'FULL_PACKET'
  await until('it is checked', async () => (await post('stats')).total === 2)
  assert.equal((await post('stats')).matched, mirrored ? 2 : 1)
  assert.equal((await counters()).second, undefined)
})

test('what a gateway sends upstream is also sent to the targets of its rules', async t => {
  const dir = tempDir()
  const [up, web] = [await freeUdpPort(), await freePort()]
  const target = createSocket('udp4')
  const heard: Buffer[] = []
  target.on('message', packet => heard.push(packet))
  await new Promise<void>(done => target.bind(0, '127.0.0.1', done))
  const server = new Machine(join(dir, 'up'), 'serve', { ...common, device_id: 'up' })
  const gw = new Machine(join(dir, 'gw'), 'run', {
    ...{ ...common, assigned_id: 5, device_id: 'gw' },
    RESOURCES: { service_plugins: { web_user: { auto_start: false } } },
    gateway: { sources: [], uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: up }] },
  })
  t.after(async () => {
    target.close()
    await Promise.all([gw.stop(), server.stop()])
    removeDir(dir)
  })
  await server.start(['--host', '127.0.0.1', '--port', String(up), '--web-port', String(web)], web)
  await gw.start([])
  const to = `udp://127.0.0.1:${target.address().port}`
  gw.json('port-forwarder', 'add-rule', 'fan', '--direction', 'out', '--device', '5', '--to', to)
  assert.equal(gw.json('transmit', '--sensor-id', 't', '--value', '3', '--unit', 'Cel').sent, true)
  const packet = await until('the target received it', () => heard[0])
  assert.equal(packet.readUInt32BE(2), 5, 'the packet, without the envelope of the uplink')
  await until(
    'it is counted',
    async () => (await answerOf(gw, 'port-forwarder', 'stats')).rules_applied.fan.forwarded >= 1,
  )
})
