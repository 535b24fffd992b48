// Two real processes with a bad network between them: datagrams are lost, duplicated and reordered, sometimes nothing
// passes, and the upstream is killed. In the end both sides have the same facts with the same values, none twice.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { databaseFacts, freePort, freeUdpPort, keyOf, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
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

test('after a bad network, black-outs and a killed upstream both sides have the same facts and values, none twice', async () => {
  const packets = await freeUdpPort()
  const road = await freeUdpPort()
  const upWeb = await freePort()
  const gwWeb = await freePort()
  const types = ['cpu', 'memory', 'uptime', 'network', 'disk']
  const sources = types.map((type, k) => ({ name: type, type, interval_ms: 100 + 10 * k }))
  const config = (list: unknown[]): Record<string, unknown> => ({
    device_id: 'GW1',
    gateway: {
      sources: list,
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: road, full_every: 20, full_interval_seconds: 2 }],
      log: { commit_interval_ms: 100 },
    },
  })
  proxy = await LossyProxy.open(road, packets, { seed: 7 })
  const up = new Machine(join(dir, 'up'), 'serve', {})
  const gw = new Machine(join(dir, 'gw'), 'run', config(sources))
  machines.push(up, gw)
  const serveArgs = ['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)]
  const { token } = up.json('token', '--new') as { token: string }
  await up.start(serveArgs, upWeb)
  await gw.start(['--port', String(gwWeb)], gwWeb)
  // by the control socket: a command would block the proxy, which is in this process
  const status = () => askControl(gw.dataDir, 'status')
  const uplink = async (): Promise<{ acked: number; backlog: number; resent: number }> => (await status()).uplinks.up
  await until('packets are acknowledged', async () => (await uplink()).acked > 20)
  for (const ms of [300, 1500]) {
    proxy.black = true
    await sleep(ms)
    proxy.black = false
    await sleep(1000)
  }
  // without its templates, so that every DIFF in flight must be refused and not guessed
  await up.stop('SIGKILL')
  await sleep(300)
  await up.start(serveArgs, upWeb)
  await sleep(1500)
  // with its templates unchanged
  await up.stop('SIGTERM')
  await up.start(serveArgs, upWeb)
  await sleep(1500)
  const { counters } = proxy
  await until('it was a bad network', () => counters.dropped > 0 && counters.doubled > 0 && counters.late > 0)
  await until('packets were resent', async () => (await uplink()).resent > 0)
  await until('there are many facts', async () => (await status()).log.committed_seq > 250)
  await gw.stop('SIGKILL')

  gw.configure(config([]))
  await gw.start(['--port', String(gwWeb)], gwWeb)
  await until('everything is delivered', async () => (await uplink()).backlog === 0).catch(error => {
    throw new Error(
      `${error.message}\n${JSON.stringify(gw.json('status').uplinks)}\n${JSON.stringify(gw.json('status').links.up)}\n${gw.output.slice(-3000)}\nupstream ${JSON.stringify(up.json('status').received)}\n${up.output.slice(-6000)}`,
    )
  })
  await gw.stop()

  const sent = gw.logFacts()
  const got = await until('the view has every record', async () => {
    const facts = await databaseFacts(upWeb, token)
    return facts.length >= sent.length ? facts : null
  })
  assert.ok(sent.length > 200, `${sent.length} facts`)
  assert.equal(new Set(sent.map(keyOf)).size, sent.length, 'no fact is in the log twice')
  assertSame(sent, got)
  await up.stop()
  assertSame(sent, up.logFacts())
})
