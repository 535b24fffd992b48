// The complete gateway under load, its log and SQL view included, is killed by `kill -9` repeatedly, each third time while it starts, and every fifth
// time its upstream too; in the end the logs and databases of both sides have the same facts, none twice. 20 kills in test:long, 5 with OS_NODE_LONG=quarter, 200 by `npm run
// test:kills`.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { databaseKeys, freePort, freeUdpPort, keyOf, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { prng, QUARTER } from '../lib/random'
import { assertSame } from '../lib/same'

const KILLS = Number(process.env.OS_NODE_KILLS ?? (QUARTER ? 5 : 20))
const SEED = Number(process.env.OS_NODE_SEED ?? 16)
// killed so often in a row it would keep its links off
process.env.OS_NODE_SAFE_MODE = 'off'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

test(`${KILLS} kills of a gateway under load lose and duplicate nothing`, async () => {
  const [packets, upWeb, gwWeb] = [await freeUdpPort(), await freePort(), await freePort()]
  // 300 readings/s: 200 kills seal a window of the SQL view
  const sources = ['cpu', 'memory', 'disk', 'network', 'uptime'].flatMap(type =>
    Array.from({ length: 6 }, (_, k) => ({ name: `${type}${k}`, type, interval_ms: 100 })),
  )
  const storage = { sql: { enabled: true } }
  const config = (list: unknown[]): Record<string, unknown> => ({
    device_id: 'GW1',
    storage,
    gateway: {
      sources: list,
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: packets }],
      log: { commit_interval_ms: 200 },
      time: { hold_unsynced_s: 0 },
    },
  })
  const up = new Machine(join(dir, 'up'), 'serve', { storage })
  const gw = new Machine(join(dir, 'gw'), 'run', config(sources))
  machines.push(up, gw)
  const startUp = (): Promise<void> =>
    up.start(['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)], upWeb)
  const startGateway = (): Promise<void> => gw.start(['--port', String(gwWeb)], gwWeb)
  await startUp()
  const random = prng(SEED)
  for (let round = 1; round <= KILLS; round++) {
    if (round % 3 === 0) {
      const started = startGateway().catch(() => undefined)
      await sleep(1500 * random())
      await gw.stop('SIGKILL')
      await started
      continue
    }
    await startGateway()
    await sleep(100 + 1200 * random())
    if (round % 5 === 0) {
      await up.stop('SIGKILL')
      await sleep(300 * random())
      await gw.stop('SIGKILL')
      await startUp()
    } else await gw.stop('SIGKILL')
  }
  gw.configure(config([]))
  await startGateway()
  const status = () => askControl(gw.dataDir, 'status')
  await until('nothing is left', async () => (await status()).uplinks.up.backlog === 0)
  const { log } = await status()
  assert.deepEqual([log.lost, log.damaged], [0, 0])
  const stored = [gw, up].map(async (machine, k) => {
    await until('its view has all', async () => (await askControl(machine.dataDir, 'status')).storage.lag_records === 0)
    return databaseKeys([gwWeb, upWeb][k]!, machine.json('token', '--new').token)
  })
  const [inView, above] = await Promise.all(stored)
  await gw.stop('SIGTERM')
  await up.stop('SIGTERM')
  const inLog = gw.logFacts()
  assert.ok(inLog.length > 10 * KILLS, `${inLog.length} facts`)
  // the upstream also has what a kill took before the gateway's commit
  const inUpLog = up.logFacts()
  assertSame(inLog, inUpLog)
  // a log may have what came again after 4,096 others of its device (decision 0018); a view has it once
  const once = (facts: typeof inLog): string[] => [...new Set(facts.map(keyOf))].sort()
  assert.deepEqual(inView, once(inLog))
  assert.deepEqual(above, once(inUpLog))
  for (const machine of machines) assert.equal(machine.json('log', 'verify').ok, true)
})
