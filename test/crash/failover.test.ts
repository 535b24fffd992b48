// Two paths to one upstream, and a gateway that is killed with a backlog while they fail and recover: the cursor is on flash,
// both sides have the same facts in the end, and none twice.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { freePort, freeUdpPort, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { LossyProxy } from '../lib/lossy'
import { assertSame } from '../lib/same'

const dir = tempDir()
const machines: Machine[] = []
const proxies: LossyProxy[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  for (const proxy of proxies) proxy.close()
  removeDir(dir)
})

test('a kill with a backlog and two uplinks loses and duplicates nothing', async () => {
  const packets = await freeUdpPort()
  const roads = [await freeUdpPort(), await freeUdpPort()]
  for (const [k, road] of roads.entries())
    proxies.push(await LossyProxy.open(road, packets, { seed: k + 1, drop: 0.02, double: 0.02, late: 0.02 }))
  const [first, second] = proxies as [LossyProxy, LossyProxy]
  const upWeb = await freePort()
  const gwWeb = await freePort()
  const config = (sources: unknown[]): Record<string, unknown> => ({
    device_id: 'GW1',
    gateway: {
      sources,
      uplinks: roads.map((port, k) => ({ name: `road${k}`, medium: 'UDP', host: '127.0.0.1', port })),
      failover: { after_s: 1, back_s: 2 },
      log: { commit_interval_ms: 100 },
    },
  })
  const up = new Machine(join(dir, 'up'), 'serve', {})
  const gw = new Machine(
    join(dir, 'gw'),
    'run',
    config(['cpu', 'memory', 'uptime'].map((type, k) => ({ name: type, type, interval_ms: 100 + 10 * k }))),
  )
  machines.push(up, gw)
  await up.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)], upWeb)
  await gw.start(['--port', String(gwWeb)], gwWeb)
  const status = () => askControl(gw.dataDir, 'status')
  await until('the first uplink is active', async () => (await status()).uplinks.road0.acked > 20)
  first.black = true
  await until('the second took over', async () => (await status()).uplinks.road1.acked > 20)
  const reason = await until('it is reported', async () => {
    const { forwarding } = await status()
    return forwarding.uplink === 'road1' && forwarding.reason
  })
  assert.match(reason, /road0/)

  second.black = true
  await until('a backlog grows', async () => (await status()).forwarding.backlog > 40)
  await gw.stop('SIGKILL')
  await gw.start(['--port', String(gwWeb)], gwWeb)
  second.black = false
  await until('the second uplink is active again', async () => (await status()).uplinks.road1.acked > 10)
  await gw.stop('SIGKILL')
  await sleep(200)
  first.black = false
  gw.configure(config([]))
  await gw.start(['--port', String(gwWeb)], gwWeb)
  await until('everything is delivered', async () => (await status()).forwarding.backlog === 0)
  await gw.stop()
  const sent = gw.logFacts()
  assert.ok(sent.length > 80, `${sent.length} facts`)
  assertSame(sent, up.logFacts())
})
