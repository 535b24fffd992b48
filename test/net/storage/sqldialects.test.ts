// One suite for the three dialects of storage.sql: sqlite, and real PostgreSQL and MariaDB servers. What only servers have is in
// sqlservers.test.ts; there their answers are compared with those of sqlite.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LogFiles, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { SERVER_DIALECTS, type ServerDialect } from '../../lib/sqlservers'
import { factOf, ONE, T0 } from './sqlfacts'
import { caughtUp, continued, databaseOf, servers, world } from './sqlworld'

const EVERY = ['sqlite', ...SERVER_DIALECTS] as const

/** storage.sql of a new database; of sqlite it is the default. */
const fresh = async (dialect: 'sqlite' | ServerDialect) => (dialect === 'sqlite' ? undefined : servers[dialect].fresh())

function suite(dialect: 'sqlite' | ServerDialect): void {
  test('facts that come late, twice and under several names are answered by filter, page and bucket', async t => {
    const { log, database } = await world(t)
    const sensors = (value: number | null): Fact['sensors'] => [
      { id: 'temp', status: 'OK', unit: 'K', value },
      { id: 'hum', status: 'ALARM', unit: '%', value: 40 },
    ]
    // the third is late, the fourth is the first again
    const facts = [
      factOf(0, { tRaw: T0 + 10_500, sensors: sensors(1) }),
      factOf(1, { tRaw: T0 + 20_000, sensors: sensors(2) }),
      factOf(0, { tRaw: T0, sensors: sensors(null) }),
      factOf(0, { tRaw: T0 + 10_500, sensors: sensors(1) }),
      factOf(0, { tRaw: T0 + 30_000, state: 'ALARM', sensors: sensors(4) }),
    ]
    for (const fact of facts) log.appendFact(fact, ONE, 'synced')
    await log.flush()
    const db = await database(await fresh(dialect))
    await caughtUp(log, db)
    assert.deepEqual([db.status().packets, db.status().duplicates], [4, 1])
    const uuids = facts.map(fact => uuidText(packetUuid(fact)))
    const [second, newest] = [T0 / 1000, T0 / 1000 + 30]
    const packets = async (query: object) => {
      const { packets: found, total } = await db.queryPackets(query)
      return [total, found.map(p => uuids.indexOf(p.packet_uuid))]
    }
    assert.deepEqual(await packets({}), [4, [4, 1, 0, 2]])
    assert.deepEqual(await packets({ device_id: 'dev-0', until: newest - 1 }), [2, [0, 2]])
    assert.deepEqual(await packets({ status: 'ALARM' }), [1, [4]])
    assert.deepEqual(await packets({ since: second + 10, limit: 1, offset: 1 }), [3, [1]])
    const { devices } = await db.queryDevices()
    assert.deepEqual(
      devices.map(d => [d.device_id, d.last_seen, d.packet_count]),
      [
        ['dev-0', newest, 3],
        ['dev-1', second + 20, 1],
      ],
    )
    const read = await db.querySensors({ sensor_id: 'temp', device_id: 'dev-0' })
    assert.deepEqual(
      read.sensors.map(s => [s.timestamp_raw, s.sensor_index, s.normalized_value, s.normalized_unit]),
      [
        [newest, 1, 4, 'K'],
        [second + 10, 1, 1, 'K'],
        [second, 1, null, 'K'],
      ],
    )
    assert.deepEqual(
      (await db.queryPacket(uuids[1]!))!.sensors.map(s => [s.sensor_index, s.sensor_id, s.sensor_status]),
      [
        [1, 'temp', 'OK'],
        [2, 'hum', 'ALARM'],
      ],
    )
    const history = await db.queryHistory({ device_id: 'dev-0', sensor_id: 'temp', buckets: 2 })
    assert.deepEqual(
      history.buckets.map(({ count, min, mean, max }) => [count, min, mean, max]),
      [
        [1, 1, 1, 1],
        [1, 4, 4, 4],
      ],
    )
    assert.equal(await db.queryPacket(uuidText(packetUuid(factOf(9)))), null)
  })

  test('a database that is opened again has each packet once, also one that comes again', async t => {
    const w = await world(t)
    const sql = await fresh(dialect)
    for (let k = 0; k < 300; k++) w.log.appendFact(factOf(k), ONE)
    await w.log.flush()
    const db = await w.database(sql)
    await caughtUp(w.log, db)
    await db.close()
    const log = await w.reopened()
    await continued(log, await w.database(sql))
  })

  test('a database without this log is filled from the log, whatever the cursor is', async t => {
    const w = await world(t)
    for (let k = 0; k < 50; k++) w.log.appendFact(factOf(k), ONE)
    w.log.appendCursor('sql', 40)
    await w.log.flush()
    const db = await w.database(await fresh(dialect))
    await caughtUp(w.log, db)
    assert.equal((await db.queryPackets()).total, 50)
  })

  test('clock records correct the times of their boot once, also when a worker restarts', async t => {
    const w = await world(t)
    const sql = await fresh(dialect)
    w.log.appendFact(factOf(1), ONE, 'unsynced')
    w.log.appendFact(factOf(2), ONE, 'synced')
    w.log.appendClock({ trueWallMs: T0, offsetMs: 3_600_500, source: 'ntp' }, 'unsynced')
    await w.log.flush()
    const db = await w.database(sql)
    await caughtUp(w.log, db)
    await db.close()
    const log = w.log
    log.appendClock({ trueWallMs: T0, offsetMs: 1000, source: 'ntp' }, 'synced')
    log.appendClock({ trueWallMs: T0, offsetMs: 1000, source: 'ntp' }, 'synced')
    // the packet again, unchanged: its uuid is that of its own time
    log.appendFact(factOf(1), ONE)
    await log.flush()
    const again = await w.database(sql)
    await caughtUp(log, again)
    const found = (await again.queryPacket(uuidText(packetUuid(factOf(1)))))!.packet
    assert.deepEqual([found.timestamp_raw, found.payload_json.t_raw], [T0 / 1000 + 3602, T0 + 1000 + 3_601_500])
    assert.deepEqual(
      (await again.queryPackets()).packets.map(p => p.timestamp_raw),
      [T0 / 1000 + 3602, T0 / 1000 + 2],
    )
  })

  test('names that no index accepts stay distinct', async t => {
    const { log, database } = await world(t)
    const long = 'n'.repeat(30_000)
    for (const id of [long, `${long}m`, '☃'.repeat(9000)]) log.appendFact(factOf(0, { id }), ONE)
    log.appendFact(factOf(0, { tRaw: 1e300 }), ONE)
    log.appendFact(factOf(0, { sensors: [{ id: 'x', status: 's', unit: 'K', value: Number.NaN }] }), ONE)
    await log.flush()
    const db = await database(await fresh(dialect))
    await caughtUp(log, db)
    assert.equal((await db.queryDevices()).total, 4)
    assert.equal((await db.queryPackets({ device_id: long })).total, 1)
  })

  test('another process that reads the log gives the same answers and writes nothing', async t => {
    const w = await world(t)
    const sql = await fresh(dialect)
    for (let k = 0; k < 20; k++) w.log.appendFact(factOf(k), ONE)
    await w.log.flush()
    await caughtUp(w.log, await w.database(sql))
    const files = new LogFiles(w.dir)
    files.refresh()
    const reader = databaseOf(files, sql)
    t.after(() => reader.close())
    await reader.connect()
    assert.equal((await reader.queryPackets()).total, 20)
    if (!sql) return
    const [[writers] = []] = await servers[sql.dialect].ask('SELECT COUNT(*) FROM os_writers', sql.driver.database)
    assert.equal(Number(writers), 1)
  })
}

// each waits for its server most of the time
describe('dialects', { concurrency: EVERY.length }, () => {
  for (const dialect of EVERY) describe(dialect, { concurrency: 1 }, () => suite(dialect))
})
