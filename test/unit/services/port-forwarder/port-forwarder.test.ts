import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { silentLogger } from '../../../../src/lib/logger'
import type { PluginHost } from '../../../../src/services'
import { PortForwarderService } from '../../../../src/services/port-forwarder'
import { checkRule, parseTarget, RuleBook, targetText } from '../../../../src/services/port-forwarder/rules'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { COMMAND } from '../../../../src/wire/commands'
import { sealFrame, writeHeader } from '../../../../src/wire/frame'
import { FakeGateway, type FakeNode, hostFor, io, tempDir } from '../fake'

/** A complete frame of a device. */
function frame(aid: number, cmd: number = COMMAND.DATA_FULL, key: Uint8Array | null = null): Uint8Array {
  const out = new Uint8Array(64)
  const body = writeHeader(out, 0, cmd, aid, 1, 1_710_000_000_000)
  out.set(Buffer.from('body'), body)
  return out.slice(0, sealFrame(out, 0, body, body + 4, key))
}

function make(t: TestContext, more: Partial<PluginHost> = {}) {
  const dir = tempDir(t)
  const gateway = new FakeGateway()
  const host = hostFor('port_forwarder', dir, { gateway, ...more })
  const service = new PortForwarderService(host)
  service.autoLoad()
  service.start()
  const commands = service.getCliCommands()
  const run = async (name: string, options: Record<string, unknown> = {}) =>
    (await commands[name]!.run(options as never, io)).value as Record<string, unknown>
  return { service, gateway, node: host.node, host, run, dir }
}

const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
const targets = (node: FakeNode): string[] =>
  node.sent.map(({ medium, options }) => `${medium}:${options.port ?? ''}`).sort()

test('a received packet is forwarded byte for byte, and its bytes are a copy', async t => {
  const { service, gateway, node } = make(t)
  service.addRule({ name: 'all', to: [{ medium: 'tcp', host: '10.0.0.2', port: 8888 }] })
  const packet = frame(7)
  const sent = packet.slice()
  gateway.receives(packet)
  packet.fill(0)
  await settle()
  assert.equal(node.sent.length, 1)
  assert.deepEqual(node.sent[0], { medium: 'TCP', options: { host: '10.0.0.2', port: 8888 }, packet: sent })
})

test('forwarded encrypted packets are counted, with one warning per rule', async t => {
  const warned: string[] = []
  const { service, gateway, run } = make(t, { logger: { ...silentLogger, warn: (text: string) => warned.push(text) } })
  service.addRule({ name: 'all', to: [{ medium: 'UDP', host: 'h', port: 1 }] })
  gateway.receives(frame(7))
  assert.equal((await run('stats')).ciphertext, 0)
  gateway.receives(frame(7, COMMAND.DATA_FULL_SEC))
  gateway.receives(frame(8, COMMAND.DATA_FULL_SEC))
  await settle()
  const stats = await run('stats')
  assert.equal(stats.ciphertext, 2)
  assert.equal((stats.rules_applied as Record<string, { ciphertext: number }>).all!.ciphertext, 2)
  assert.deepEqual(
    warned.map(text => /rule all forwards encrypted/.test(text)),
    [true],
  )
})

test('frames plain and full forward packets of secure sessions decrypted, with correct checksums', async t => {
  const { service, gateway, node, run } = make(t)
  const to = (port: number) => [{ medium: 'UDP', host: 'h', port }]
  service.addRule({ name: 'plain', set: 'a', frames: 'plain', to: to(1) })
  service.addRule({ name: 'full', set: 'b', frames: 'full', to: to(2) })
  node.whole = Uint8Array.of(0x3f)
  const key = deriveSessionKey(7, 1_710_000_000_000)
  gateway.keys.set(7, key)
  for (const [cmd, plain] of [
    [COMMAND.DATA_FULL_SEC, COMMAND.DATA_FULL],
    [COMMAND.DATA_DIFF_SEC, COMMAND.DATA_DIFF],
    [COMMAND.DATA_FULL, COMMAND.DATA_FULL],
  ] as const) {
    node.sent.length = 0
    gateway.receives(frame(7, cmd, cmd === plain ? null : key))
    await settle()
    const by = (port: number) => node.sent.find(({ options }) => options.port === port)?.packet
    assert.deepEqual(by(1), frame(7, plain), 'as its sender would have sent it in plain form')
    assert.deepEqual(by(2), Uint8Array.of(0x3f, frame(7).length), 'made whole of the plain form')
  }
  node.sent.length = 0
  gateway.receives(frame(8, COMMAND.DATA_FULL_SEC, key))
  gateway.keys.set(9, deriveSessionKey(9, 1))
  gateway.receives(frame(9, COMMAND.DATA_FULL_SEC, key))
  await settle()
  assert.deepEqual(node.sent, [], 'what no key opens does not go on')
  const { undecodable, ciphertext } = await run('stats')
  assert.deepEqual([undecodable, ciphertext], [4, 0])
})

test('own packets sent by an uplink are forwarded by rules for sent packets; those of other nodes were checked on reception', async t => {
  const { service, gateway, node, run } = make(t)
  const to = (port: number) => [{ medium: 'UDP', host: 'h', port }]
  service.addRule({ name: 'in', set: 'a', direction: 'in', to: to(1) })
  service.addRule({ name: 'out', set: 'b', direction: 'out', to: to(2) })
  service.addRule({ name: 'both', set: 'c', medium: ['mqtt'], to: to(3) })
  const own = frame(node.assignedId)
  const sent = own.slice()
  gateway.sends(own)
  own.fill(0)
  gateway.sends(frame(node.assignedId), 'MQTT')
  gateway.sends(frame(node.assignedId + 1))
  gateway.sends(new Uint8Array([9, 1, 2]))
  await settle()
  assert.deepEqual(targets(node), ['UDP:2', 'UDP:2', 'UDP:3'])
  assert.deepEqual(node.sent[0]!.packet, sent, 'a copy')
  assert.equal((await run('stats')).total, 2)
})

test('rules match by medium, source, command and device', async t => {
  const { service, gateway, node, run } = make(t)
  const to = (port: number) => [{ medium: 'UDP', host: 'h', port }]
  service.addRule({ name: 'medium', set: 'a', medium: ['mqtt'], to: to(1) })
  service.addRule({ name: 'source', set: 'b', source: ['10.1.0.0/16', '192.0.2.7:99'], to: to(2) })
  service.addRule({ name: 'command', set: 'c', command: ['heart'], to: to(3) })
  service.addRule({ name: 'device', set: 'd', device: ['9'], to: to(4) })
  service.addRule({ name: 'named', set: 'e', device: ['shed'], to: to(5) })
  const ports = async (give: () => void): Promise<string[]> => {
    node.sent.length = 0
    give()
    await settle()
    return targets(node)
  }
  node.device = 'other'
  assert.deepEqual(await ports(() => gateway.receives(frame(1), 'MQTT')), ['UDP:1'])
  assert.deepEqual(await ports(() => gateway.receives(frame(1), 'UDP', '10.1.9.9:1234')), ['UDP:2'])
  assert.deepEqual(await ports(() => gateway.receives(frame(1), 'UDP', '192.0.2.7:99')), ['UDP:2'])
  assert.deepEqual(await ports(() => gateway.receives(frame(1), 'UDP', '192.0.2.7:98')), [])
  assert.deepEqual(await ports(() => gateway.receives(frame(1, COMMAND.DATA_HEART))), ['UDP:3'])
  assert.deepEqual(await ports(() => gateway.receives(frame(9))), ['UDP:4'])
  node.device = 'shed'
  assert.deepEqual(await ports(() => gateway.receives(frame(10))), ['UDP:5'], 'named by its first FULL')
  node.device = 'other'
  assert.deepEqual(
    await ports(() => gateway.receives(frame(10, COMMAND.DATA_DIFF))),
    ['UDP:5'],
    'and known from then on',
  )
  assert.deepEqual(await run('test', { medium: 'udp', source: '10.1.0.1', command: 'DATA_HEART', direction: 'in' }), {
    matched: ['source', 'command'],
    to: ['udp://h:2', 'udp://h:3'],
  })
})

test('one rule sends to many targets; the first by priority counts, in every set', async t => {
  const { service, gateway, node } = make(t)
  const fan = [{ medium: 'UDP', port: 1 }, { medium: 'TCP', port: 2 }, { medium: 'MQTT' }]
  service.addRule({ name: 'low', priority: 1, to: [{ medium: 'UDP', port: 9 }] })
  service.addRule({ name: 'high', priority: 5, to: fan })
  service.addRule({ name: 'same', priority: 5, to: [{ medium: 'UDP', port: 8 }] })
  service.addRule({ name: 'elsewhere', set: 'other', priority: -3, to: [{ medium: 'UDP', port: 7 }] })
  gateway.receives(frame(1))
  await settle()
  assert.deepEqual(targets(node), ['MQTT:', 'TCP:2', 'UDP:1', 'UDP:7'])
  node.sent.length = 0
  service.enableRule('high', false)
  gateway.receives(frame(2))
  await settle()
  assert.deepEqual(targets(node), ['UDP:7', 'UDP:8'])
})

test('counters show the outcome of each packet; a dead target loses only its own packets', async t => {
  const { service, gateway, node, run, host } = make(t)
  service.addRule({ name: 'r', to: [{ medium: 'UDP' }, { medium: 'TCP' }, { medium: 'LoRa' }] })
  node.dead.add('TCP')
  gateway.receives(frame(1))
  gateway.receives(frame(2))
  const damaged = frame(3)
  damaged[14]! ^= 1
  gateway.receives(damaged)
  gateway.receives(Uint8Array.of(COMMAND.PING, 0, 1))
  await settle()
  const stats = (await run('stats')) as never as {
    total: number
    matched: number
    malformed: number
    forwarded: number
    failed: number
    rules_applied: Record<string, object>
    targets: Record<string, { sent: number; failed: number; last_error?: string }>
  }
  assert.deepEqual([stats.total, stats.matched, stats.malformed], [4, 2, 1])
  assert.deepEqual([stats.forwarded, stats.failed], [2, 4])
  assert.deepEqual(stats.rules_applied.r, {
    matched: 2,
    forwarded: 2,
    failed: 4,
    undecodable: 0,
    ciphertext: 0,
    last_at: host.clock.wall(),
  })
  assert.equal(stats.targets.udp!.sent, 2)
  assert.match(stats.targets.lora!.last_error ?? '', /off or has no driver/)
  await run('reset-stats')
  assert.equal((service.rows()[0] as { matched: number }).matched, 0)
})

test('a loop of forwarders ends: the same packet from the same address is forwarded once', async t => {
  const { service, gateway, node, run, host } = make(t)
  service.addRule({ name: 'r', to: [{ medium: 'UDP' }] })
  for (let k = 0; k < 5; k++) gateway.receives(frame(1))
  gateway.receives(frame(2))
  gateway.receives(frame(1), 'UDP', '10.0.0.8:1')
  await settle()
  assert.equal(node.sent.length, 3)
  assert.equal((await run('stats')).repeated, 4)
  host.clock.advance(5001)
  gateway.receives(frame(1))
  await settle()
  assert.equal(node.sent.length, 4)
})

test('a slow target drops packets beyond its queue', async t => {
  const { service, gateway, node } = make(t, {
    settings: () => ({ max_pending: 2, rules_file: '', auto_start: true }),
  })
  service.addRule({ name: 'r', to: [{ medium: 'UDP' }] })
  for (let k = 0; k < 5; k++) gateway.receives(frame(k + 1))
  await settle()
  assert.equal(node.sent.length, 2)
  assert.equal((service.rows()[0] as { failed: number }).failed, 3)
})

test('what this node dispatches is also sent to the targets, or only to them; stop restores dispatch', async t => {
  const { service, node } = make(t)
  const own = node.dispatch
  service.addRule({ name: 'copy', direction: 'out', medium: ['UDP'], to: [{ medium: 'TCP' }] })
  assert.equal(await node.dispatch(frame(5), null), true)
  await settle()
  assert.equal(node.dispatched.length, 1)
  assert.deepEqual(targets(node), ['TCP:'])
  service.addRule({ name: 'copy', direction: 'out', copy: false, to: [{ medium: 'TCP' }, { medium: 'QUIC' }] }, true)
  assert.equal(await node.dispatch(frame(5), 'udp'), true)
  assert.equal(node.dispatched.length, 1)
  node.dead.add('QUIC')
  assert.equal(await node.dispatch(frame(5), 'udp'), false, 'one of them did not take it')
  await service.stop()
  assert.notEqual(node.dispatch, own)
  assert.equal(Object.hasOwn(node, 'dispatch'), false)
  await node.dispatch(frame(5), 'udp')
  assert.equal(node.dispatched.length, 2)
  assert.deepEqual(node.closed.sort(), ['QUIC', 'TCP'])
})

test('frames full: each packet is complete alone, or is counted', async t => {
  const { service, gateway, node } = make(t)
  service.addRule({ name: 'r', frames: 'full', to: [{ medium: 'UDP' }] })
  gateway.receives(frame(1, COMMAND.DATA_DIFF))
  await settle()
  assert.equal(node.sent.length, 0)
  assert.equal((service.rows()[0] as { undecodable: number }).undecodable, 1)
  node.whole = Uint8Array.of(1, 2)
  gateway.receives(frame(2, COMMAND.DATA_DIFF))
  await settle()
  assert.deepEqual([...node.sent[0]!.packet], [1, 2, 20])
})

test('rules survive a restart; a damaged file is reported and left unchanged', async t => {
  const { service, host, run, dir } = make(t)
  service.addRule({ name: 'kept', medium: ['udp'], to: [{ medium: 'tcp', host: 'h', port: 1 }] })
  await run('add-rule', { to: ['mqtt,udp://[::1]:9'], set: 'default', priority: 3, direction: 'both', frames: 'raw' })
  const again = new PortForwarderService(host)
  again.autoLoad()
  assert.deepEqual(
    again.rows().map(({ name, to }) => [name, to]),
    [
      ['kept', 'tcp://h:1'],
      ['rule-2', 'mqtt udp://[::1]:9'],
    ],
  )
  assert.equal(host.config.get('RESOURCES.service_plugins.port_forwarder.auto_start'), true, 'and work then')
  const path = join(dir, 'data/port_forwarder_rules.json')
  for (const text of ['{', '{"rules": 3}', '{"rules": [{"name": "x", "to": []}]}']) {
    writeFileSync(path, text)
    assert.throws(() => new PortForwarderService(host).autoLoad(), { code: 'STORAGE' }, text)
    assert.equal(readFileSync(path, 'utf8'), text)
  }
})

test('the file of rules is configurable', t => {
  const { service, dir } = make(t, { settings: () => ({ max_pending: 8, rules_file: 'own/rules.json' }) })
  service.addRule({ name: 'a', to: [{ medium: 'UDP' }] })
  assert.equal(JSON.parse(readFileSync(join(dir, 'data/own/rules.json'), 'utf8')).rules[0].name, 'a')
})

test('invalid rules are refused by their key', t => {
  const { service } = make(t)
  const to = [{ medium: 'UDP' }]
  for (const [rule, message] of [
    [{ name: 'a b', to }, /name/],
    [{ name: 'a' }, /to/],
    [{ name: 'a', to: [] }, /to/],
    [{ name: 'a', to: [{ medium: 'pigeon' }] }, /to.0.medium/],
    [{ name: 'a', to, medium: ['pigeon'] }, /pigeon/],
    [{ name: 'a', to, command: ['NOPE'] }, /NOPE/],
    [{ name: 'a', to, priority: 1.5 }, /priority/],
    [{ name: 'a', to, colour: 1 }, /colour|rule/],
  ] as const)
    assert.throws(() => service.addRule(rule), message, JSON.stringify(rule))
  service.addRule({ name: 'a', to })
  assert.throws(() => service.addRule({ name: 'a', to }), /already/)
  assert.throws(() => service.removeRule('b'), { code: 'NOT_FOUND' })
  assert.equal(service.rows().length, 1)
})

test('targets are accepted in the usual spellings', () => {
  for (const text of ['tcp://10.0.0.2:8888', 'mqtt', 'udp://[::1]:9000', 'uart:///dev/ttyS0', 'udp://gate.example'])
    assert.equal(targetText(parseTarget(text)), text)
  for (const text of ['', 'pigeon://x:1', 'udp://', 'udp://h:0', 'udp://h:99999', 'udp://a b:1', 'udp//h:1'])
    if (text !== 'udp://') assert.throws(() => parseTarget(text), { code: 'BAD_REQUEST' }, text)
})

test('a set without effective rules matches nothing', () => {
  const packet = { direction: 'in', medium: 'UDP', address: 'x', cmd: 0x3f, aid: 1, device: () => null } as const
  const rule = checkRule({ name: 'a', to: [{ medium: 'UDP' }], enabled: false })
  assert.equal(new RuleBook([rule]).empty, true)
  assert.deepEqual(new RuleBook([rule]).matching(packet), [])
})
