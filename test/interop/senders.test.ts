// Three gateways and one server, all real processes: three of ten acknowledgements are lost, the server commits slowly and
// is killed twice, then all three gateways are killed. In the end the server has exactly the facts of the gateways.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { databaseKeys, freePort, freeUdpPort, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { LossyProxy } from '../lib/lossy'
import { assertSame } from '../lib/same'

const dir = tempDir()
const machines: Machine[] = []
let proxy: LossyProxy | undefined
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  proxy?.close()
  removeDir(dir)
})

const COMMIT_MS = 300

interface UplinkStatus {
  acked: number
  backlog: number
  resent: number
}

test('three senders with lost acknowledgements, slow commits and kill -9 on both sides end with equal sets, none twice', async () => {
  const packets = await freeUdpPort()
  const road = await freeUdpPort()
  const serverWeb = await freePort()
  const webs = [await freePort(), await freePort(), await freePort()]
  proxy = await LossyProxy.open(road, packets, { seed: 11, drop: 0.02, dropAcks: 0.3, late: 0.1 })
  const config = (k: number, types: string[]): Record<string, unknown> => ({
    device_id: `GW${k}`,
    assigned_id: 101 + k,
    gateway: {
      sources: types.map((type, n) => ({ name: type, type, interval_ms: 100 + 20 * n + 7 * k })),
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: road, full_interval_seconds: 1 }],
      log: { commit_interval_ms: 100 },
    },
  })
  const server = new Machine(join(dir, 'server'), 'serve', {
    device_id: 'SRV',
    gateway: { log: { ack_commit_ms: COMMIT_MS, commit_interval_ms: COMMIT_MS } },
  })
  const gateways = webs.map((_, k) => new Machine(join(dir, `gw${k}`), 'run', config(k, ['cpu', 'memory', 'uptime'])))
  machines.push(server, ...gateways)
  const serve = ['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(serverWeb)]
  const startAll = (): Promise<unknown> =>
    Promise.all(gateways.map((gateway, k) => gateway.start(['--port', String(webs[k])], webs[k]!)))
  // by the control socket: a command would block the proxy, which is in this process
  const uplink = async (gateway: Machine): Promise<UplinkStatus> =>
    (await askControl(gateway.dataDir, 'status')).uplinks.up
  const { token } = server.json('token', '--new') as { token: string }
  await server.start(serve, serverWeb)
  await startAll()
  for (const gateway of gateways)
    await until('packets are acknowledged', async () => (await uplink(gateway)).acked > 10)
  for (const away of [100, 700]) {
    await server.stop('SIGKILL')
    await sleep(away)
    await server.start(serve, serverWeb)
    await sleep(1500)
  }
  // however slow the machine is
  const counters = proxy.counters
  await until('acknowledgements are lost', () => counters.dropped > 5)
  for (const gateway of gateways)
    await until('packets were resent', async () => {
      const { acked, backlog, resent } = await uplink(gateway)
      return resent > 0 && acked + backlog > 60
    })
  await Promise.all(gateways.map(gateway => gateway.stop('SIGKILL')))

  for (const [k, gateway] of gateways.entries()) gateway.configure(config(k, []))
  await startAll()
  for (const gateway of gateways)
    await until('everything is delivered', async () => (await uplink(gateway)).backlog === 0)
  await Promise.all(gateways.map(gateway => gateway.stop()))

  const sent = gateways.flatMap(gateway => gateway.logFacts())
  await until('the view has every record', async () => (await databaseKeys(serverWeb, token)).length >= sent.length)
  const inDatabase = await databaseKeys(serverWeb, token)
  await server.stop()
  assert.deepEqual(inDatabase, server.logKeys())
  assertSame(sent, server.logFacts())

  assert.ok(sent.length > 150, `${sent.length} facts`)
})
