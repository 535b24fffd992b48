// transporter-toggle, transport-status and reload-protocol, with and without a running gateway.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CommandContext, parseCommand, VERBS } from '../../../../src/commands'
import { TransportControl } from '../../../../src/node/transport'
import { TransporterManager } from '../../../../src/node/transporters'
import { FakeWorld } from '../../node/media'
import { fake } from '../fake'

const run = (context: CommandContext, ...argv: string[]) => {
  const { verb, options } = parseCommand(VERBS, argv)
  return verb.run(context, options)
}
const paint = Object.fromEntries(
  ['bold', 'dim', 'good', 'bad', 'warn'].map(how => [how, (text: string) => text]),
) as never

const TCP_OFF = 'os-node transport-status shows why; os-node transporter-toggle TCP --enable switches it on'

test('transporter-toggle needs a name and one of --enable and --disable', async () => {
  const { context, calls } = fake(new FakeWorld().config())
  for (const argv of [['--enable'], ['--name', 'udp'], ['--name', 'udp', '--enable', '--disable']])
    await assert.rejects(async () => run(context, 'transporter-toggle', ...argv), { code: 'USAGE' })
  assert.deepEqual((await run(context, 'transporter-toggle', '--name', 'tcp', '--enable')).value, {
    name: 'TCP',
    enabled: true,
  })
  await run(context, 'transporter-toggle', '--name', 'udp', '--disable')
  assert.deepEqual(calls, [
    ['toggle', 'tcp', true],
    ['toggle', 'udp', false],
  ])
})

test('reload-protocol lists what was rebuilt, and is exit 1 when nothing was', async () => {
  const { context } = fake(new FakeWorld().config())
  assert.deepEqual(await run(context, 'reload-protocol', '--medium', 'udp'), {
    value: { medium: 'UDP', reloaded: true },
  })
  assert.deepEqual(await run(context, 'reload-protocol', '--medium', 'tcp'), {
    value: { medium: 'TCP', reloaded: false, error: 'No available driver: TCP', hint: TCP_OFF },
    exitCode: 1,
  })
})

test('transport-status lists every medium with layer, flag, driver, port, and its links', async () => {
  const world = new FakeWorld()
  const config = world.config({
    gateway: {
      uplinks: [
        { name: 'a', medium: 'tcp' },
        { name: 'b', medium: 'UDP' },
      ],
    },
  })
  const manager = new TransporterManager({ config, registry: world.registry('UDP', 'TCP') })
  const report = { rx: 0, tx: 0, errors: 0, opens: 0 }
  const links = () => ({
    // a link that failed to be created appears in the configuration only
    a: { ...report, kind: 'line' as const, state: 'down' as const, reason: 'TCP is switched off' },
    b: { ...report, kind: 'medium' as const, type: 'UDP', state: 'up' as const },
    loopback: { ...report, kind: 'medium' as const, type: 'UDP', state: 'opening' as const },
    cpu: { ...report, kind: 'source' as const, type: 'cpu', state: 'up' as const },
  })
  const control = new TransportControl({ config, registry: world.registry('UDP', 'TCP'), manager, hooks: { links } })
  const { context } = fake(config, { transport: () => control })
  const { value } = await run(context, 'transport-status')
  const { items, transport } = value as never as ReturnType<TransportControl['view']>
  assert.equal(items.length, 11)
  assert.deepEqual(items[0], {
    name: 'UDP',
    layer: 'L4',
    enabled: true,
    driver: true,
    default_port: 8080,
    config_key: 'RESOURCES.transport_config.udp',
    links: [
      { name: 'b', state: 'up' },
      { name: 'loopback', state: 'opening' },
    ],
  })
  assert.deepEqual(items[1]!.links, [{ name: 'a', state: 'down', reason: 'TCP is switched off' }])
  assert.deepEqual([items[2]!.driver, items[2]!.default_port], [false, 4433])
  assert.deepEqual(transport.active_transporters, ['UDP'])
  const { verb } = parseCommand(VERBS, ['transport-status'])
  const lines = verb.text!(value!, paint).split('\n')
  assert.equal(lines.length, 12)
  assert.match(lines[2]!, /^TCP +L4 +off +yes +8888 +a down \(TCP is switched off\)$/)
})

test('a switched medium is written to the file, used by dispatch immediately, and reported to its links; unknown media are refused', async () => {
  const world = new FakeWorld()
  const config = world.config({ gateway: { uplinks: [{ name: 'up', medium: 'TCP' }] } })
  const registry = world.registry('UDP', 'TCP')
  const manager = new TransporterManager({ config, registry })
  const said: string[] = []
  const hooks = {
    apply: async () => said.push('apply'),
    reopen: (link: string) => said.push(`reopen ${link}`),
    links: () => ({ up: { kind: 'line' as const, state: 'up' as const, rx: 0, tx: 0, errors: 0, opens: 1 } }),
  }
  const control = new TransportControl({ config, registry, manager, hooks })
  assert.equal(manager.getDriver('TCP'), null)
  assert.deepEqual(await control.toggle('tcp', true), { name: 'TCP', enabled: true })
  assert.equal(config.get('RESOURCES.transport_status.tcp'), true)
  assert.equal(manager.getDriver('TCP')?.name, 'TCP')
  assert.deepEqual(await control.reload('TCP'), { name: 'TCP', reloaded: true })
  assert.deepEqual(said.splice(0), ['apply', 'apply', 'reopen up'])
  await control.toggle('TCP', false)
  assert.equal(manager.getDriver('TCP'), null)
  assert.deepEqual(await control.reload('TCP'), { name: 'TCP', reloaded: false })
  assert.deepEqual(await control.reload('LoRa'), { name: 'LoRa', reloaded: false })
  assert.deepEqual(said, ['apply', 'apply', 'apply'])
  for (const medium of ['pigeon', '__proto__', ''])
    await assert.rejects(control.toggle(medium, true), { code: 'BAD_REQUEST', message: 'unknown medium' })
  await assert.rejects(control.reload('pigeon'), { code: 'BAD_REQUEST' })
})
