// The main job under the worst faults: the upstream is taken away and returns, the gateway is killed in the middle, and
// in the end both sides have the same facts, none twice.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { askControl } from '../lib/control'
import { databaseKeys, freePort, freeUdpPort, Machine, removeDir, sleep, tempDir, until } from '../lib/gateway'
import { assertSame } from '../lib/same'

const dir = tempDir()
const machines: Machine[] = []
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  removeDir(dir)
})

test('with the upstream away and the gateway killed both sides end with the same facts, none twice', async () => {
  const packets = await freeUdpPort()
  const upWeb = await freePort()
  const gwWeb = await freePort()
  const sources = [
    { name: 'cpu', type: 'cpu', interval_ms: 100 },
    { name: 'memory', type: 'memory', interval_ms: 150 },
  ]
  const config = (list: unknown[]): Record<string, unknown> => ({
    device_id: 'GW1',
    gateway: {
      sources: list,
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: packets }],
      log: { commit_interval_ms: 200 },
    },
  })
  const up = new Machine(join(dir, 'up'), 'serve', {})
  const gw = new Machine(join(dir, 'gw'), 'run', config(sources))
  machines.push(up, gw)
  const serveArgs = ['--host', '127.0.0.1', '--port', String(packets), '--web-port', String(upWeb)]
  const { token } = up.json('token', '--new') as { token: string }
  await up.start(serveArgs, upWeb)
  await gw.start(['--port', String(gwWeb)], gwWeb)
  const status = () => askControl(gw.dataDir, 'status')
  const uplink = async (): Promise<{ acked: number; backlog: number; cursor: number }> => (await status()).uplinks.up
  /** The current content of the log; the sources continue meanwhile. */
  const delivered = async (what: string): Promise<void> => {
    const newest = (await status()).log.last_seq as number
    await until(what, async () => (await uplink()).cursor >= newest)
  }
  await until('packets are acknowledged', async () => (await uplink()).acked > 20)

  // the upstream is killed while packets are in flight, stays away, and returns with what it had on flash
  await up.stop('SIGKILL')
  await until('a backlog grows', async () => (await uplink()).backlog > 30)
  await up.start(serveArgs, upWeb)
  await delivered('the backlog is delivered')

  // the gateway is killed in the middle, three times
  for (let round = 0; round < 3; round++) {
    await gw.stop('SIGKILL')
    await gw.start(['--port', String(gwWeb)], gwWeb)
    await sleep(700 + 300 * round)
  }
  await delivered('the backlog is delivered again')
  const lost = (await status()).log.lost as number
  // a stop ends the sources and sends what is left to an upstream that answers; the remaining records are sent at the next
  // start
  await gw.stop('SIGTERM')
  gw.configure(config([]))
  await gw.start(['--port', String(gwWeb)], gwWeb)
  await until('nothing is left', async () => (await uplink()).backlog === 0)
  await gw.stop('SIGTERM')

  const inLog = gw.logKeys()
  const inDatabase = await until('the view has every record', async () => {
    const keys = await databaseKeys(upWeb, token)
    return keys.length >= inLog.length ? keys : null
  })
  assert.ok(inLog.length > 50, `${inLog.length} facts`)
  assert.equal(new Set(inLog).size, inLog.length, 'no fact is in the log twice')
  assert.equal(new Set(inDatabase).size, inDatabase.length, 'no fact is in the database twice')
  assert.deepEqual(inDatabase, up.logKeys())
  assert.equal(lost, 0)
  assertSame(gw.logFacts(), up.logFacts())
  const verify = gw.json('log', 'verify')
  assert.equal(verify.ok, true)
})
