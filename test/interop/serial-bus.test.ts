// Real gateways on an RS485 bus of pseudo-terminals, with the effects of such a bus: echoes, NULs of switching
// transmitters, noise. Everything sent is in both logs once.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { frameSerial } from '../../src/wire/serial'
import { factsOf } from '../lib/ask'
import { Machine, sensorsOf, until } from '../lib/gateway'
import { peerFrame } from '../lib/peer'
import { prng } from '../lib/random'
import { damaged, SerialBus } from '../lib/serialbus'
import { acknowledged, delivered, readings, SerialGateways, status } from '../lib/serialgateways'

let world: SerialGateways
before(() => {
  world = new SerialGateways()
})
after(() => world.close())

test('RS485 between two gateways with noise, echo and NULs loses nothing; frames of C firmware and of dispatch are received in between', async t => {
  const [a, b, c] = [await world.port('p0'), await world.port('p1'), await world.port('p2')]
  const random = prng(21)
  const bus = new SerialBus([a, b, c], {
    echo: true,
    noise: bytes => Buffer.concat([Buffer.alloc(Math.floor(random() * 3)), damaged(bytes, random, 0.1)]),
  })
  const common = { baudrate: 500_000, direction: 'auto_hardware' }
  const receivers = [{ name: 'bus', medium: 'RS485' }]
  const up = await world.machine('up0m', 'serve', { receivers }, { rs485: { ...common, port: a.path } })
  const uplinks = [{ name: 'up', medium: 'RS485', full_every: 20, full_interval_seconds: 2 }]
  const gw = await world.machine(
    'GW0',
    'run',
    { sources: readings(200), uplinks },
    { rs485: { ...common, port: b.path } },
  )
  await acknowledged(gw, 40, up)
  const detail = await until('it was a bad bus', async () => {
    const { detail } = (await status(up)).links.bus
    return detail.nuls > 0 && detail.noise_bytes > 0 && detail.echoes > 0 && detail
  })
  const count = await delivered(gw, up)
  t.diagnostic(`${count} facts; ${JSON.stringify(detail)}`)

  bus.options.noise = bytes => bytes
  const seconds = Math.floor(Date.now() / 1000)
  a.write(frameSerial(peerFrame(0x3f, [77], 2, seconds, 'T1|A01|2Bi'), 'rs485'))
  await until('the firmware is in the log', async () =>
    (await factsOf(up)).some(fact => sensorsOf(fact)[0]?.id === 'T1'),
  )

  const cli = new Machine(join(world.dir, 'cli'), 'run', {
    device_id: 'CLI',
    assigned_id: 9,
    RESOURCES: { physical_status: { rs485: true }, physical_config: { rs485: { ...common, port: c.path } } },
  })
  const sent = cli.run('transmit', '--sensors', '[["S9","OK",21.5,"Cel"]]', '--medium', 'RS485')
  assert.equal(sent.code, 0, sent.stderr + sent.stdout)
  await until('what was dispatched is in the log', async () => (await factsOf(up)).some(({ id }) => id === 'CLI'))
})

test('RS485: a master receives from two gateways as slaves, each in its turn, and acknowledges all', async t => {
  const [m, s1, s2] = [await world.port('m'), await world.port('s1'), await world.port('s2')]
  new SerialBus([m, s1, s2], { echo: true })
  const common = { baudrate: 500_000, direction: 'auto_hardware', poll_interval_ms: 10 }
  const up = await world.machine(
    'up2m',
    'serve',
    { receivers: [{ name: 'bus', medium: 'RS485' }] },
    { rs485: { ...common, port: m.path, role: 'master', slaves: [11, 12, 13], turn_timeout_ms: 400 } },
  )
  const slaves = await Promise.all(
    [s1, s2].map((plug, k) =>
      world.machine(
        `SLAVE${k}`,
        'run',
        { sources: readings(200), uplinks: [{ name: 'up', medium: 'RS485', full_every: 20 }] },
        { rs485: { ...common, port: plug.path, role: 'slave', address: 11 + k } },
      ),
    ),
  )
  for (const one of slaves) await acknowledged(one, 20, up)
  // a process of this test may be late too
  await until('the missing peers', async () => /no answer from (?:.*\D)?13\b/.test((await status(up)).links.bus.reason))
  t.diagnostic(JSON.stringify((await status(up)).links.bus.detail))

  for (const one of slaves) await delivered(one, up)
})
