// Complete processes with database servers: a gateway that writes to PostgreSQL and sends to an upstream that writes to
// MariaDB. Both are killed, and so are both servers; in the end log and database of both sides have the same facts, each
// once.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, freeUdpPort, Machine, removeDir, tempDir, until } from '../../lib/gateway'
import { prng } from '../../lib/random'
import { assertSame } from '../../lib/same'
import { SQL_PASSWORD } from '../../lib/servers'
import { SERVER_DIALECTS, type ServerDialect, SqlServer } from '../../lib/sqlservers'

const KILLS = 6
const dir = tempDir()
const servers = {} as Record<ServerDialect, SqlServer>
const machines: Machine[] = []

before(async () => {
  // the password of both, for every process of this file
  process.env.OS_DB_PASSWORD = SQL_PASSWORD
  for (const dialect of SERVER_DIALECTS) servers[dialect] = await SqlServer.start(dialect)
})
after(async () => {
  for (const machine of machines) await machine.stop('SIGKILL')
  for (const dialect of SERVER_DIALECTS) await servers[dialect]?.stop()
  removeDir(dir)
})

test('kills of a gateway, its upstream and their database servers lose and duplicate nothing', async () => {
  const random = prng(5)
  const [upPort, upWeb, gwWeb] = [await freeUdpPort(), await freePort(), await freePort()]
  const stores = {
    gw: await servers.postgresql.fresh({ password: 'not this one' }),
    up: await servers.mysql.fresh({ password: 'not this one' }),
  }
  const web_user = { auth_enabled: false }
  const up = new Machine(join(dir, 'up'), 'serve', { web_user, storage: { sql: stores.up } })
  const config = (sources: object[]) => ({
    ...{ device_id: 'GW1', web_user, storage: { sql: stores.gw } },
    gateway: {
      sources,
      uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: upPort }],
      log: { commit_interval_ms: 100 },
    },
  })
  const sources = [
    { name: 'cpu', type: 'cpu', interval_ms: 100 },
    { name: 'memory', type: 'memory', interval_ms: 130 },
  ]
  const gw = new Machine(join(dir, 'gw'), 'run', config(sources))
  machines.push(up, gw)
  const startUp = () => up.start(['--host', '127.0.0.1', '--port', String(upPort), '--web-port', String(upWeb)], upWeb)
  const startGw = () => gw.start(['--port', String(gwWeb)], gwWeb)
  await startUp()
  await startGw()
  for (let kill = 0; kill < KILLS; kill++) {
    const { acked } = (await gw.ask('status')).uplinks.up
    await until('packets are acknowledged', async () => (await gw.ask('status')).uplinks.up.acked >= acked + 10)
    const server = servers[random() < 0.5 ? 'postgresql' : 'mysql'].server
    if (kill % 2 === 0) await server.kill()
    if (random() < 0.5) {
      await gw.stop('SIGKILL')
      await startGw()
    } else {
      await up.stop('SIGKILL')
      await startUp()
    }
    if (kill % 2 === 0) await server.restart()
  }
  // the records that the sources had no time for
  await gw.stop('SIGTERM')
  gw.configure(config([]))
  await startGw()
  await until('the upstream has everything', async () => (await gw.ask('status')).uplinks.up.backlog === 0)
  for (const [machine, dialect, { driver }] of [
    [gw, 'postgresql', stores.gw],
    [up, 'mysql', stores.up],
  ] as const) {
    const { storage } = await until('its database has everything', async () => {
      const status = await machine.ask('status')
      return status.storage.state === 'up' && status.storage.lag_records === 0 ? status : null
    })
    assert.equal(storage.dialect, dialect)
    await machine.stop()
    const rows = await servers[dialect].ask('SELECT device_id, t_raw FROM os_packets_data', driver.database)
    assert.deepEqual(rows.map(([id, tRaw]) => `${id} ${Number(tRaw)}`).sort(), machine.logKeys())
  }
  assert.ok(gw.logKeys().length > 50, `${gw.logKeys().length} facts`)
  assertSame(gw.logFacts(), up.logFacts())
})
