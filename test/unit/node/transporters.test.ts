// The transporter manager (specification, "Transporter manager"; X32): which media exist, with which options, and what is
// rebuilt when configuration or link changed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConfigStore } from '../../../src/config'
import { TransporterManager } from '../../../src/node/transporters'
import { FakeWorld } from './media'

const status = (name: string): string => `RESOURCES.transport_status.${name}`

function manager(world: FakeWorld, config: ConfigStore, ...media: string[]): TransporterManager {
  const { clock, timers } = world
  return new TransporterManager({ config, registry: world.registry(...media), clock, timers })
}

test('every enabled medium of every layer that has a driver is listed, in the spelling of the specification', () => {
  const world = new FakeWorld()
  const config = world.config({
    RESOURCES: {
      application_status: { mqtt: true },
      transport_status: { udp: true, quic: true, tcp: false },
      physical_status: { lora: true, rs485: true },
    },
  })
  const drivers = manager(world, config, 'udp', 'TCP', 'MQTT', 'LoRa', 'RS485').autoLoad()
  assert.deepEqual(Object.keys(drivers), ['UDP', 'MQTT', 'RS485', 'LoRa'])
  assert.equal(drivers.LoRa?.name, 'LoRa')
  assert.deepEqual(world.made, [], 'nothing is opened before its first packet')
})

test('a driver is found by name in any case; null when the medium is off, unknown or has no driver', () => {
  const world = new FakeWorld()
  const config = world.config({ RESOURCES: { transport_status: { quic: true } } })
  const all = manager(world, config, 'UDP', 'TCP')
  assert.equal(all.getDriver('udp'), all.getDriver('UDP'))
  assert.equal(all.getDriver('uDp')?.name, 'UDP')
  for (const name of ['TCP', 'QUIC', 'pigeon', '', '__proto__', 'constructor', 'udp '])
    assert.equal(all.getDriver(name), null, name)
  config.set(status('tcp'), true)
  assert.equal(all.getDriver('tcp')?.name, 'TCP')
})

test('all options reach the driver, and a network medium without a peer sends to the server', async () => {
  const world = new FakeWorld()
  const on = { udp: true, tcp: true }
  const config = world.config({
    Client_Core: { server_host: '192.0.2.7', server_port: 9001 },
    RESOURCES: {
      transport_status: on,
      application_status: { mqtt: true },
      physical_status: { uart: true, bluetooth: true },
      transport_config: { tcp: { host: '198.51.100.1', max_packet: 900, tls: { ca: '/ca.pem' } } },
      application_config: { mqtt: { username: 'me' } },
      physical_config: { uart: { port: '/dev/ttyUSB0', framing: 'cobs' } },
    },
  })
  const all = manager(world, config, 'UDP', 'TCP', 'MQTT', 'UART', 'Bluetooth')
  const options = async (name: string): Promise<Record<string, unknown>> => {
    assert.equal(await all.getDriver(name)!.send(Buffer.from(name)), true)
    return world.last.options
  }
  assert.deepEqual(await options('UDP'), { host: '192.0.2.7', port: 9001 })
  assert.deepEqual(await options('TCP'), {
    host: '198.51.100.1',
    port: 8888,
    max_packet: 900,
    tls: { ca: '/ca.pem' },
  })
  const quiet = { topics: { state: '' } }
  const mqtt = { host: '', port: 1883, username: 'me', ...quiet }
  assert.deepEqual(await options('MQTT'), mqtt, 'no default broker (decision 0021), and no state of its own')
  assert.deepEqual(await options('UART'), { port: '/dev/ttyUSB0', framing: 'cobs', baudrate: 115200 })
  assert.equal((await options('Bluetooth')).port, 5454)
  assert.equal(world.last.name, 'dispatch-bluetooth')
})

test('a driver gets the dispatching id as it is, and a name distinct from the gateway’s own links', async () => {
  const world = new FakeWorld()
  const config = world.config({ RESOURCES: { transport_status: { udp: true } } })
  await manager(world, config, 'UDP').getDriver('UDP')!.send(Buffer.from('x'))
  const { identity } = world.last.context
  assert.ok(identity)
  assert.equal(identity.aid, null)
  assert.match(identity.installId, /^[0-9a-f]{12}-dispatch$/)
  const assigned: number[] = []
  const end = identity.onAssigned(aid => assigned.push(aid))
  config.set('assigned_id', 42)
  config.set('device_id', 'other')
  assert.equal(identity.aid, 42)
  end()
  config.set('assigned_id', 43)
  assert.deepEqual(assigned, [42])
})

test('runtimeTick rebuilds what changed, was switched or lost its link, and nothing else', async () => {
  const world = new FakeWorld()
  const config = world.config({ RESOURCES: { transport_status: { udp: true, tcp: true } } })
  const all = manager(world, config, 'UDP', 'TCP')
  const [udp, tcp] = [all.getDriver('UDP')!, all.getDriver('TCP')!]
  await udp.send(Buffer.from('x'))
  assert.equal(all.runtimeTick(), false)
  assert.equal(all.getDriver('UDP'), udp)

  config.set('RESOURCES.transport_config.udp.host', '192.0.2.9')
  assert.equal(all.runtimeTick(), true)
  const anew = all.getDriver('UDP')!
  assert.notEqual(anew, udp)
  assert.equal(all.getDriver('TCP'), tcp, 'the other one stays')
  await anew.send(Buffer.from('y'))
  assert.equal(world.last.options.host, '192.0.2.9')
  assert.deepEqual(world.said, ['open UDP', 'close UDP', 'open UDP'])

  world.last.events!.lost('unplugged')
  assert.equal(all.runtimeTick(), true)
  assert.equal(all.runtimeTick(), false)

  config.set(status('tcp'), false)
  assert.equal(all.runtimeTick(), true)
  assert.equal(all.getDriver('TCP'), null)
  config.set(status('tcp'), true)
  assert.equal(all.runtimeTick(), true)
  assert.equal(all.runtimeTick(), false)
})

test('refreshProtocol closes and rebuilds; the new link opens only after the old one is closed', async () => {
  const world = new FakeWorld()
  const config = world.config()
  const all = manager(world, config, 'UDP')
  const old = all.getDriver('udp')!
  await old.send(Buffer.from('1'))
  let free = (): void => undefined
  const closing = new Promise<void>(resolve => {
    free = resolve
  })
  world.last.close = () => closing
  const next = all.refreshProtocol('UDP')!
  assert.notEqual(next, old)
  const sent = next.send(Buffer.from('2'))
  await new Promise(setImmediate)
  assert.equal(world.made.length, 1, 'the port is not free yet')
  free()
  assert.equal(await sent, true)
  assert.equal(world.made.length, 2)
  assert.equal(await old.send(Buffer.from('3')), false, 'the owner of the old one is named')
  assert.equal(all.refreshProtocol('TCP'), null)
  assert.equal(all.refreshProtocol('pigeon'), null)
  config.set(status('udp'), false)
  assert.equal(all.refreshProtocol('UDP'), null)
  await all.close()
  assert.equal(world.last.closed, 1)
})

test('an opening that hangs times out and is closed', async () => {
  const world = new FakeWorld()
  const all = manager(world, world.config(), 'UDP')
  world.onOpen = () => new Promise(() => undefined)
  const sent = all.getDriver('UDP')!.send(Buffer.from('1'))
  await world.timers.advance(31_000)
  assert.equal(await sent, false)
  assert.equal(all.getDriver('UDP')!.lastError?.code, 'TIMEOUT')
  assert.equal(world.last.closed, 1)
})

test('an rx_only node sends only answers, whichever caller passes the packet; the medium is not opened for a refused one', async () => {
  const world = new FakeWorld()
  const on = { RESOURCES: { transport_status: { udp: true } } }
  const config = world.config({ ...on, Node_Setting: { device_role: 'rx_only' } })
  const all = manager(world, config, 'UDP')
  const drivers = [all.getDriver('UDP')!, all.open('UDP', { host: '192.0.2.9' })!]
  const refused = [0x3f, 0x40, 0xaa, 0xab, 0x7f, 0x80, 0x01, 0x03, 0x09, 0x0b, 0x10, 0x77]
  for (const driver of drivers)
    for (const packet of [...refused.map(cmd => Buffer.of(cmd, 0, 1)), Buffer.alloc(0)]) {
      assert.equal(await driver.send(packet), false, packet.toString('hex'))
      assert.equal(driver.lastError?.code, 'RX_ONLY')
    }
  assert.deepEqual(world.made, [])
  for (const driver of drivers)
    for (const cmd of [0x02, 0x04, 0x05, 0x06, 0x0a, 0x0c, 0x0d, 0x0e])
      assert.equal(await driver.send(Buffer.of(cmd, 0, 1)), true, String(cmd))
  const duplex = manager(world, world.config(on), 'UDP').getDriver('UDP')!
  for (const cmd of refused) assert.equal(await duplex.send(Buffer.of(cmd)), true, String(cmd))
})
