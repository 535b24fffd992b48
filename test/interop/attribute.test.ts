// Gateways with `engine_settings.unit_dialect` "attribute", as processes: readings are kept, sent, received and shown under
// the reference's attribute names, with the reference's values.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { answerOf } from '../lib/ask'
import { databaseFacts, freePort, freeUdpPort, Machine, removeDir, sensorsOf, tempDir, until } from '../lib/gateway'

const dir = tempDir()
const engine_settings = { unit_dialect: 'attribute' }
let server: Machine
let gateway: Machine
let serverWeb = 0
let token = ''

before(async () => {
  const packets = await freeUdpPort()
  serverWeb = await freePort()
  const web = await freePort()
  server = new Machine(join(dir, 'server'), 'serve', { device_id: 'SRV', engine_settings })
  gateway = new Machine(join(dir, 'gateway'), 'run', {
    device_id: 'GW',
    engine_settings,
    Client_Core: { server_host: '127.0.0.1', server_port: packets },
    gateway: {
      sources: [{ name: 'cpu', type: 'cpu', interval_ms: 200 }],
      uplinks: [{ name: 'up', medium: 'udp', host: '127.0.0.1', port: packets }],
    },
  })
  token = (server.json('token', '--new') as { token: string }).token
  await server.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(serverWeb)], serverWeb)
  await gateway.start(['--port', String(web)], web)
  await until('packets are acknowledged', async () => (await answerOf(gateway, 'status')).uplinks.up.acked > 2)
})
after(async () => {
  await gateway.stop()
  await server.stop()
  removeDir(dir)
})

test('readings arrive under attribute names, rounded as the reference does; unknown units are dropped by name', async () => {
  const rows = [
    ['T1', 'OK', 21.5, 'Cel'],
    ['P1', 'OK', 1.5, 'psi'],
    ['X1', 'OK', 1, 'm/s'],
  ]
  const sent = gateway.json('transmit', '--sensors', JSON.stringify(rows), '--device-id', 'HAND')
  assert.equal(sent.rejected.length, 1)
  const want = [
    { id: 'T1', status: 'OK', unit: 'temperature', value: 294.65 },
    { id: 'P1', status: 'OK', unit: 'pressure', value: 10342.1359 },
  ]
  const stored = await until('the server has it', async () =>
    (await databaseFacts(serverWeb, token)).find(fact => fact.id === 'HAND'),
  )
  assert.deepEqual(sensorsOf(stored), want)
  assert.deepEqual(sensorsOf(gateway.logFacts().find(fact => fact.id === 'HAND')!), want)
  const own = await until('the cpu source is listed', async () =>
    (await databaseFacts(serverWeb, token)).find(fact => fact.id.startsWith('GW')),
  )
  assert.ok(
    sensorsOf(own).some(sensor => sensor.unit === 'humidity'),
    '% is called humidity there',
  )
})
