// The three dialects of storage.sql over the same facts: real PostgreSQL and MariaDB servers, compared with sqlite.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { Backoff } from '../../../src/lib/backoff'
import { FlashLog, LogFiles, packetUuid, uuidText } from '../../../src/log'
import { Database, type DatabaseOptions, type SqlConfig } from '../../../src/storage'
import { migrate } from '../../../src/storage/server/migrate'
import { mysql } from '../../../src/storage/server/mysql'
import { postgresql } from '../../../src/storage/server/postgres'
import { serverSetup } from '../../../src/storage/server/setup'
import { makeCerts } from '../../lib/certs'
import { freePort, removeDir, tempDir, until } from '../../lib/gateway'
import { SQL_PASSWORD } from '../../lib/servers'
import { SERVER_DIALECTS, type ServerDialect, SqlServer, serverScript } from '../../lib/sqlservers'
import { answers, factOf, fill, ONE, T0 } from './sqlfacts'

const DIALECTS = { postgresql, mysql }
const root = tempDir()
const certs = makeCerts(join(root, 'certs'))
const servers = {} as Record<ServerDialect, SqlServer>

before(async () => {
  const pair = certs.issue('database', { names: 'IP:127.0.0.1' })
  await Promise.all(
    SERVER_DIALECTS.map(async dialect => {
      servers[dialect] = await SqlServer.start(dialect, pair)
    }),
  )
})
after(async () => {
  for (const dialect of SERVER_DIALECTS) await servers[dialect]?.stop()
  removeDir(root)
})

let folder = 0
const newLog = (dir = join(root, `log${++folder}`)): Promise<FlashLog> =>
  FlashLog.open({ dir, commitIntervalMs: 20, ackCommitMs: 5, clock: { wall: () => T0, mono: () => performance.now() } })

function databaseOf(log: FlashLog | LogFiles, sql?: SqlConfig, more: Partial<DatabaseOptions> = {}): Database {
  const backoff = new Backoff({ minMs: 5, maxMs: 50 })
  return new Database({ log, startWaitMs: 60_000, serverScript, backoff, ...(sql && { sql }), ...more })
}

const caughtUp = (log: FlashLog, db: Database): Promise<unknown> =>
  until('the server has everything', () => {
    const { state, lag_records, last_error } = db.status()
    if (state !== 'up' && last_error) throw new Error(`${last_error.code} ${last_error.message}`)
    return state === 'up' && lag_records === 0 && log.committedSeq === log.lastSeq
  })

function suite(dialect: ServerDialect): void {
  /** A log and databases over it, which end with the test. */
  async function world(t: TestContext) {
    const dir = join(root, `log${++folder}`)
    let log = await newLog(dir)
    const open: Database[] = []
    t.after(async () => {
      for (const db of open) await db.close()
      await log.close()
    })
    return {
      dir,
      get log() {
        return log
      },
      async reopened() {
        await log.close()
        log = await newLog(dir)
        return log
      },
      async database(sql?: SqlConfig, more: Partial<DatabaseOptions> = {}): Promise<Database> {
        const db = databaseOf(log, sql, more)
        open.push(db)
        await db.connect()
        return db
      },
    }
  }

  test('answers equal those of sqlite for the same facts', async t => {
    const { log, database } = await world(t)
    const uuids = fill(log, 7, 1500)
    await log.flush()
    const sqlite = await database()
    const expected = await answers(sqlite, uuids, 3)
    const { packets, duplicates } = sqlite.status()
    const db = await database(await servers[dialect].fresh())
    await caughtUp(log, db)
    const found = await answers(db, uuids, 3)
    for (const [k, one] of expected.entries()) assert.deepEqual(found[k], one, `answer ${k}`)
    const status = db.status()
    assert.deepEqual([status.packets, status.duplicates, status.dialect], [packets, duplicates, dialect])
  })

  test('the cursor follows the commit at the server, and what was committed without it is not stored again', async t => {
    const w = await world(t)
    const sql = await servers[dialect].fresh()
    for (let k = 0; k < 300; k++) w.log.appendFact(factOf(k), ONE)
    await w.log.flush()
    const db = await w.database(sql)
    await caughtUp(w.log, db)
    assert.ok(w.log.cursor('sql')! >= 301, 'behind the last fact: the boot record is 1')
    await db.close()
    // as after a kill between the commit at the server and that of the log
    w.log.appendCursor('sql', 17)
    const log = await w.reopened()
    log.appendFact(factOf(300), ONE)
    log.appendFact(factOf(5), ONE)
    await log.flush()
    const again = await w.database(sql)
    await caughtUp(log, again)
    assert.deepEqual([again.status().packets, again.status().duplicates], [301, 1])
    assert.equal((await again.queryPackets()).total, 301)
    assert.equal((await again.querySensors()).total, 301)
    // as another program sees it, in the tables of the specification
    const { database } = sql.driver
    const rows = await servers[dialect].ask('SELECT COUNT(*), COUNT(DISTINCT packet_uuid) FROM os_packets', database)
    assert.deepEqual(rows[0]!.map(Number), [301, 301])
    const shown = await servers[dialect].ask('SELECT packet_uuid FROM os_sensors', database)
    const uuids = Array.from({ length: 301 }, (_, k) => uuidText(packetUuid(factOf(k))))
    assert.deepEqual(shown.flat().map(String).sort(), uuids.sort())
    const [sensor] = await servers[dialect].ask(
      'SELECT sensor_index, sensor_id, normalized_unit FROM os_sensors LIMIT 1',
      database,
    )
    assert.deepEqual([Number(sensor![0]), ...sensor!.slice(1)], [1, 'temp', 'K'])
    const [payload] = await servers[dialect].ask(
      'SELECT payload_json FROM os_packets ORDER BY timestamp_raw LIMIT 1',
      database,
    )
    const dict = typeof payload![0] === 'string' ? JSON.parse(payload![0]) : payload![0]
    assert.deepEqual(dict, (await again.queryPackets({ until: T0 / 1000 })).packets[0]!.payload_json)
  })

  test('a database without this log is filled from the log, whatever the cursor is', async t => {
    const w = await world(t)
    for (let k = 0; k < 50; k++) w.log.appendFact(factOf(k), ONE)
    w.log.appendCursor('sql', 40)
    await w.log.flush()
    const db = await w.database(await servers[dialect].fresh())
    await caughtUp(w.log, db)
    assert.equal((await db.queryPackets()).total, 50)
  })

  test('clock records correct the times of their boot once, also when a worker restarts', async t => {
    const w = await world(t)
    const sql = await servers[dialect].fresh()
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

  test('names that no index accepts are stored shortened and stay distinct', async t => {
    const { log, database } = await world(t)
    const long = 'n'.repeat(30_000)
    for (const id of [long, `${long}m`, '☃'.repeat(9000)]) log.appendFact(factOf(0, { id }), ONE)
    log.appendFact(factOf(0, { tRaw: 1e300 }), ONE)
    log.appendFact(factOf(0, { sensors: [{ id: 'x', status: 's', unit: 'K', value: Number.NaN }] }), ONE)
    await log.flush()
    const db = await database(await servers[dialect].fresh())
    await caughtUp(log, db)
    assert.equal((await db.queryDevices()).total, 4)
    assert.equal((await db.queryPackets({ device_id: long })).total, 1)
  })

  test('an absent server is a state; facts wait in the log, and all of them arrive once it returns', async t => {
    const { log, database } = await world(t)
    const db = await database(await servers[dialect].fresh())
    await caughtUp(log, db)
    await servers[dialect].server.kill()
    for (let k = 0; k < 2000; k++) log.appendFact(factOf(k), ONE)
    await log.flush()
    await until('it is noticed', () => db.status().state === 'down')
    const { code, reason, lag_records } = db.status()
    assert.deepEqual([code, typeof reason, lag_records], ['DB_UNREACHABLE', 'string', 2000])
    await servers[dialect].server.restart()
    await caughtUp(log, db)
    assert.equal((await db.queryPackets()).total, 2000)
    assert.equal(db.status().last_error!.code, 'DB_UNREACHABLE')
  })

  test('tables of a newer os-node are left alone', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh()
    const { database: name } = sql.driver
    const db = await database(sql)
    await caughtUp(log, db)
    await db.close()
    await servers[dialect].ask('UPDATE os_schema SET version = 99', name)
    log.appendFact(factOf(0), ONE)
    await log.flush()
    const newer = await database(sql)
    await until('it is refused', () => newer.status().state === 'down')
    assert.equal(newer.status().code, 'DB_SCHEMA')
    assert.match(newer.status().reason!, /version 99/)
    assert.deepEqual((await servers[dialect].ask('SELECT COUNT(*) FROM os_packets_data', name))[0]!.map(Number), [0])
  })

  const connect = ({ driver }: SqlConfig, more: object = {}) =>
    DIALECTS[dialect].connect(serverSetup(dialect, { ...driver, ...more }, root, {}))

  test('TLS: a certificate of the authority for that host is accepted, any other is an error', async () => {
    const sql = await servers[dialect].fresh({ tls: 'on', tls_ca: certs.ca })
    const encrypted =
      dialect === 'postgresql'
        ? 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'
        : "SELECT VARIABLE_VALUE <> '' FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_CIPHER'"
    for (const [more, expected] of [
      [{}, true],
      [{ tls: 'unverified', tls_ca: certs.otherCa }, true],
      [{ tls: 'off' }, false],
    ] as const) {
      const on = await connect(sql, more)
      assert.equal(Boolean((await on.rows(encrypted))[0]![0]), expected, JSON.stringify(more))
      on.close()
    }
    // another authority; the right one, but for another name, and for another address
    for (const more of [{ tls_ca: certs.otherCa }, { host: 'localhost' }, { host: '::ffff:127.0.0.1' }])
      await assert.rejects(connect(sql, more), { code: 'DB_UNREACHABLE', message: /certificate|altnames/i })
  })

  test('an absent server, a database and a user that do not exist, and a wrong password are errors with a code', async () => {
    const sql = await servers[dialect].fresh()
    const port = await freePort()
    for (const more of [{ port }, { host: 'no-such-host.invalid' }, { host: join(root, 'no-socket') }])
      await assert.rejects(connect(sql, more), { code: 'DB_UNREACHABLE' }, JSON.stringify(more))
    for (const more of [{ database: 'os_none' }, { user: 'none' }, { password: 'wrong' }])
      await assert.rejects(connect(sql, more), { code: 'DB_LOGIN' }, JSON.stringify(more))
    await assert.rejects(async () => connect(sql, { password_file: 'none' }), { code: 'CONFIG_INVALID' })
  })

  test('tables of an older os-node are migrated by one of several simultaneous writers, and keep their rows', async () => {
    const sql = await servers[dialect].fresh()
    const open = await Promise.all([1, 2, 3].map(() => connect(sql)))
    const [first] = open
    const { migrations } = DIALECTS[dialect]
    await migrate(first!, { ...DIALECTS[dialect], migrations: migrations.slice(0, 1) }, true)
    await first!.run('INSERT INTO os_writers (origin) VALUES (7)')
    const later = { ...DIALECTS[dialect], migrations: [...migrations, ['ALTER TABLE os_writers ADD note INTEGER']] }
    await assert.rejects(migrate(first!, later, false), { code: 'DB_SCHEMA' })
    await Promise.all(open.map(on => migrate(on, later, true)))
    assert.deepEqual(
      (await first!.rows('SELECT origin, note FROM os_writers')).map(row => row.map(Number)),
      [[7, 0]],
    )
    assert.deepEqual((await first!.rows('SELECT version FROM os_schema')).map(Number), [later.migrations.length])
    await assert.rejects(migrate(first!, DIALECTS[dialect], true), { code: 'DB_SCHEMA' })
    for (const on of open) on.close()
  })

  test('two gateways write into one database at the same time: a packet that both have is stored once', async t => {
    const [one, two] = [await world(t), await world(t)]
    const sql = await servers[dialect].fresh()
    for (let k = 0; k < 400; k++) {
      if (k < 300) one.log.appendFact(factOf(k), ONE)
      if (k >= 100) two.log.appendFact(factOf(k), ONE)
    }
    await Promise.all([one.log.flush(), two.log.flush()])
    const databases = await Promise.all([one.database(sql), two.database(sql)])
    await Promise.all([caughtUp(one.log, databases[0]), caughtUp(two.log, databases[1])])
    assert.equal((await databases[0].queryPackets()).total, 400)
    assert.equal((await databases[1].querySensors()).total, 400)
    const [a, b] = databases.map(db => db.status())
    assert.deepEqual([a!.packets + b!.packets, a!.duplicates + b!.duplicates], [400, 200])
  })

  test('a wrong password is a state that says so and shows no password; the right one in a file is used at the next try', async t => {
    const { log, database } = await world(t)
    const file = join(root, `password-${dialect}`)
    writeFileSync(file, 'wrong-secret\n')
    const sql = await servers[dialect].fresh({ password: undefined, password_file: file })
    const db = await database(sql)
    await until('it is refused', () => db.status().state === 'down')
    assert.equal(db.status().code, 'DB_LOGIN')
    assert.doesNotMatch(JSON.stringify(db.status()), /wrong-secret/)
    writeFileSync(file, `${SQL_PASSWORD}\n`)
    await caughtUp(log, db)
  })

  test('a statement that takes too long fails, and the facts are not delayed', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh({ statement_timeout_ms: 2000 })
    const { database: name } = sql.driver
    log.appendFact(factOf(0), ONE)
    await log.flush()
    const db = await database(sql)
    await caughtUp(log, db)
    const slow = dialect === 'postgresql' ? '(SELECT 1 FROM pg_sleep(60)) IS NOT NULL' : 'SLEEP(60) = 0'
    const renamed =
      dialect === 'postgresql' ? 'ALTER TABLE os_packets_data RENAME TO kept' : 'RENAME TABLE os_packets_data TO kept'
    await servers[dialect].ask(renamed, name)
    await servers[dialect].ask(`CREATE VIEW os_packets_data AS SELECT * FROM kept WHERE ${slow}`, name)
    await assert.rejects(db.queryPackets(), { code: 'TIMEOUT' })
  })

  test('another process that reads the log answers from the server and writes nothing', async t => {
    const w = await world(t)
    const sql = await servers[dialect].fresh()
    for (let k = 0; k < 20; k++) w.log.appendFact(factOf(k), ONE)
    await w.log.flush()
    await caughtUp(w.log, await w.database(sql))
    const files = new LogFiles(w.dir)
    files.refresh()
    const reader = databaseOf(files, sql)
    t.after(() => reader.close())
    await reader.connect()
    assert.equal((await reader.queryPackets()).total, 20)
    assert.deepEqual(
      (await servers[dialect].ask('SELECT COUNT(*) FROM os_writers', sql.driver.database))[0]!.map(Number),
      [1],
    )
  })

  test('packets older than the retention are removed, those of today stay', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh({ retention_days: 3 })
    for (let day = 0; day < 6; day++) log.appendFact(factOf(day, { tRaw: T0 - day * 86_400_000 }), ONE, 'synced')
    log.appendFact(factOf(9, { tRaw: 5000 }), ONE, 'unsynced')
    await log.flush()
    const db = await database(sql)
    await caughtUp(log, db)
    assert.equal((await db.queryPackets()).total, 7)
    await db.close()
    log.appendFact(factOf(10), ONE, 'synced')
    await log.flush()
    const again = await database(sql)
    await caughtUp(log, again)
    // four days, the new one, and the one that no time source has confirmed
    assert.equal((await again.queryPackets()).total, 6)
    assert.equal((await again.querySensors()).total, 6)
  })
}

// each waits for its server most of the time; within a dialect one after the other, because one of them kills the
// server
describe('servers', { concurrency: SERVER_DIALECTS.length }, () => {
  for (const dialect of SERVER_DIALECTS) describe(dialect, { concurrency: 1 }, () => suite(dialect))
})

test('without its companion file a server dialect says which file is missing', async t => {
  const log = await newLog()
  const db = databaseOf(log, { dialect: 'postgresql' }, { serverScript: join(root, 'os-node-sql.js') })
  t.after(() => db.close().then(() => log.close()))
  await db.connect()
  await until('it says so', () => db.status().state === 'down')
  assert.equal(db.status().code, 'E_SQL_MISSING')
  assert.match(db.status().reason!, /os-node-sql\.js/)
})

test('postgresql keeps each day in its own partition, and packets with a wrong clock in the default one', async t => {
  const log = await newLog()
  const sql = await servers.postgresql.fresh()
  for (const tRaw of [T0, T0 + 1, T0 - 86_400_000, 5000, T0 + 86_400_000 * 400])
    log.appendFact(factOf(0, { tRaw }), ONE, 'synced')
  await log.flush()
  const db = databaseOf(log, sql)
  t.after(() => db.close().then(() => log.close()))
  await db.connect()
  await caughtUp(log, db)
  const rows = await servers.postgresql.ask(
    'SELECT tableoid::regclass::text, COUNT(*) FROM os_packets_data GROUP BY 1 ORDER BY 1',
    sql.driver.database,
  )
  assert.deepEqual(
    rows.map(([name, count]) => [name, Number(count)]),
    [
      ['os_packets_20260228', 1],
      ['os_packets_20260301', 2],
      ['os_packets_rest', 2],
    ],
  )
})
