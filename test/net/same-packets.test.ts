// One receiver that listens on UDP and TCP and reads a broker: a sender that sends the same packets over all three, in another
// order each time, is stored once, in the log and in the database.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { connectAsync } from 'mqtt'
import { UplinkEncoder } from '../../src/pipeline/sender'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../lib/gateway'
import { startMosquitto } from '../lib/servers'

const units = { ...wireUnits(), resolve }
const COUNT = 60
const T0 = 1_710_000_000_000

test('the same packets over UDP, TCP and MQTT are stored once', async () => {
  const dir = tempDir()
  after(() => removeDir(dir))
  const broker = await startMosquitto()
  const [tcp, udp, web] = [await freePort(), await freeUdpPort(), await freePort()]
  const server = new Machine(join(dir, 'server'), 'serve', {
    web_user: { auth_enabled: false },
    RESOURCES: { transport_status: { tcp: true, udp: true }, application_status: { mqtt: true } },
    gateway: {
      receivers: [
        { name: 'tcp', medium: 'TCP', host: '127.0.0.1', port: tcp },
        { name: 'udp2', medium: 'UDP', host: '127.0.0.1', port: udp },
        { name: 'mqtt', medium: 'MQTT', host: '127.0.0.1', port: broker.port },
      ],
    },
  })
  await server.start(['--host', '127.0.0.1', '--port', String(await freeUdpPort()), '--web-port', String(web)], web)
  const socket = createSocket('udp4')
  const client = await connectAsync(`mqtt://127.0.0.1:${broker.port}`)
  const status = () => askControl(server.dataDir, 'status')
  after(async () => {
    socket.close()
    await client.endAsync()
    await server.stop()
    await broker.stop()
  })
  await until('all are up', async () => {
    const { links } = await status()
    return ['tcp', 'udp2', 'mqtt'].every(name => links[name]?.state === 'up')
  })
  const roads = [
    (packet: Uint8Array) => new Promise<void>(done => socket.send(packet, udp, '127.0.0.1', () => done())),
    (packet: Uint8Array) => new Promise<void>(done => connect(tcp, '127.0.0.1').end(packet, () => done())),
    async (packet: Uint8Array) => {
      await client.publishAsync('os/9/up', Buffer.from(packet), { qos: 1 })
    },
  ]
  const encoder = new UplinkEncoder({ aid: 9, units, fullEvery: 7 })
  for (let k = 0; k < COUNT; k++) {
    const sensors = [{ id: 's', status: 'OK', unit: 'K', value: 290 + k / 10 }]
    const packet = encoder.encode({ id: 'D', state: 'ONLINE', tRaw: T0 + k * 1000, aid: 9, sensors }).bytes.slice()
    for (let n = 0; n < 3; n++) await roads[(n + k) % 3]!(packet)
    await until('all three came', async () => (await status()).received.packets === 3 * (k + 1))
  }
  const { received } = await status()
  assert.deepEqual(
    [received.packets, received.facts, received.duplicates, received.refused],
    [3 * COUNT, COUNT, 2 * COUNT, 0],
  )
  assert.equal(server.logKeys().length, COUNT)
  const packets = await until('the database has them', async () => {
    const response = await fetch(`http://127.0.0.1:${web}/api/data/packets?limit=500`)
    const body = (await response.json()) as { packets: { payload_json: { s1_v: number } }[] }
    return body.packets.length >= COUNT ? body.packets : null
  })
  assert.equal(packets.length, COUNT)
  for (const [k, { payload_json }] of [...packets].reverse().entries())
    assert.ok(Math.abs(payload_json.s1_v - 290 - k / 10) < 1e-4, `packet ${k}`)
})
