// What the dialects of database servers add to the suite of sqldialects.test.ts: real PostgreSQL and MariaDB, compared with sqlite.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { packetUuid, uuidText } from '../../../src/log'
import type { SqlConfig } from '../../../src/storage'
import { migrate } from '../../../src/storage/server/migrate'
import { freePort, until } from '../../lib/gateway'
import { SQL_PASSWORD } from '../../lib/servers'
import { SERVER_DIALECTS, type ServerDialect } from '../../lib/sqlservers'
import { answers, factOf, fill, ONE, T0 } from './sqlfacts'
import {
  caughtUp,
  certs,
  connectTo,
  continued,
  DIALECTS,
  databaseOf,
  newLog,
  releasedTables,
  root,
  servers,
  world,
} from './sqlworld'

function suite(dialect: ServerDialect): void {
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
    const again = await w.database(sql)
    await continued(log, again)
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

  const connect = (sql: SqlConfig, more: object = {}) => connectTo(dialect, sql, more)

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

  test('TLS: the client certificate of tls_cert and tls_key is shown to the server', async () => {
    const pair = { tls_cert: certs.clientCert, tls_key: certs.clientKey }
    const sql = await servers[dialect].fresh({ tls: 'on', tls_ca: certs.ca })
    if (dialect === 'postgresql') {
      for (const [more, name] of [[pair, '/CN=client'] as const, [{}, null] as const]) {
        const on = await connect(sql, more)
        const [row] = await on.rows('SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
        assert.deepEqual(row, [name])
        on.close()
      }
    } else {
      // a user that needs one
      const user = { user: 'os_certified' }
      const on = await connect(sql, { ...user, ...pair })
      assert.equal(Number((await on.rows('SELECT 1'))[0]![0]), 1)
      on.close()
      await assert.rejects(connect(sql, user), { code: 'DB_LOGIN' })
    }
    await assert.rejects(async () => connect(sql, { ...pair, tls_key: 'none' }), { code: 'CONFIG_INVALID' })
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

  const { migrations } = DIALECTS[dialect]
  for (const version of migrations.keys())
    test(`released tables of version ${version + 1} are migrated by one of several simultaneous writers, and keep their rows`, async () => {
      const sql = await servers[dialect].fresh()
      const open = await Promise.all([1, 2, 3].map(() => connect(sql)))
      const [first] = open
      for (const statement of releasedTables(dialect, version + 1)) await first!.run(statement)
      const later = { ...DIALECTS[dialect], migrations: [...migrations, ['ALTER TABLE os_writers ADD note INTEGER']] }
      await assert.rejects(migrate(first!, later, false), { code: 'DB_SCHEMA' })
      await Promise.all(open.map(on => migrate(on, later, true)))
      const rows = async (text: string): Promise<string[][]> => (await first!.rows(text)).map(row => row.map(String))
      assert.deepEqual(await rows('SELECT version FROM os_schema'), [[`${later.migrations.length}`]])
      assert.deepEqual(await rows('SELECT origin, packets, note FROM os_writers'), [['7', '1', 'null']])
      assert.deepEqual(await rows('SELECT device_id, timestamp_raw FROM os_packets'), [['dev', '1772323200']])
      const sensors = 'SELECT sensor_id, normalized_value, normalized_unit FROM os_sensors ORDER BY sensor_index'
      assert.deepEqual(await rows(sensors), [
        ['temp', '294.5', 'K'],
        ['hum', '40', '%'],
      ])
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

  test('a query that takes too long fails, and the facts are not delayed', async t => {
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
    // rows are inserted through it as ever
    await servers[dialect].ask(`CREATE VIEW os_packets_data AS SELECT * FROM kept WHERE ${slow}`, name)
    let answered = false
    const query = assert.rejects(db.queryPackets(), { code: 'TIMEOUT' }).finally(() => {
      answered = true
    })
    for (let k = 1; k < 500; k++) log.appendFact(factOf(k), ONE)
    await log.flush()
    await caughtUp(log, db)
    assert.equal(answered, false, 'the facts were there before the answer')
    await query
    assert.equal(db.status().last_error, undefined)
    assert.equal(Number((await servers[dialect].ask('SELECT COUNT(*) FROM kept', name))[0]![0]), 500)
  })

  test('facts that another program delays too long are a state, and are written once when it is done', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh({ statement_timeout_ms: 1000 })
    log.appendFact(factOf(0), ONE)
    await log.flush()
    const db = await database(sql)
    await caughtUp(log, db)
    const other = await connectTo(dialect, sql)
    let release = (): void => undefined
    const released = new Promise<void>(resolve => {
      release = resolve
    })
    let holding = Promise.resolve()
    await new Promise<void>((locked, failed) => {
      holding = other.transaction(async on => {
        const exclusive = { postgresql: 'LOCK TABLE os_packets_data', mysql: 'LOCK TABLES os_packets_data WRITE' }
        await on.run(exclusive[dialect])
        locked()
        await released
        if (dialect === 'mysql') await on.run('UNLOCK TABLES')
      })
      holding.catch(failed)
    })
    t.after(async () => {
      release()
      await holding
      other.close()
    })
    for (let k = 1; k < 100; k++) log.appendFact(factOf(k), ONE)
    await log.flush()
    await until('it is noticed', () => db.status().last_error?.code === 'TIMEOUT')
    assert.ok(db.status().lag_records >= 99)
    release()
    await holding
    await caughtUp(log, db)
    assert.deepEqual([(await db.queryPackets()).total, (await db.querySensors()).total], [100, 100])
    assert.deepEqual([db.status().packets, db.status().duplicates], [100, 0])
  })

  test('packets older than the retention are removed, those of today stay', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh()
    const partitions = async (): Promise<unknown[]> =>
      (
        await servers.postgresql.ask(
          "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'os_packets_data'::regclass ORDER BY 1",
          sql.driver.database,
        )
      ).flat()
    const days = ['20260224', '20260225', '20260226', '20260227', '20260228', '20260301', 'rest'].map(
      day => `os_packets_${day}`,
    )
    for (let day = 0; day < 6; day++) log.appendFact(factOf(day, { tRaw: T0 - day * 86_400_000 }), ONE, 'synced')
    log.appendFact(factOf(9, { tRaw: 5000 }), ONE, 'unsynced')
    await log.flush()
    const db = await database(sql)
    await caughtUp(log, db)
    assert.equal((await db.queryPackets()).total, 7)
    if (dialect === 'postgresql') assert.deepEqual(await partitions(), days)
    await db.close()
    log.appendFact(factOf(10), ONE, 'synced')
    await log.flush()
    const again = await database({ ...sql, driver: { ...sql.driver, retention_days: 3 } })
    await caughtUp(log, again)
    // four days, the new one, and the one that no time source has confirmed
    assert.equal((await again.queryPackets()).total, 6)
    assert.equal((await again.querySensors()).total, 6)
    // the days are gone with their tables
    if (dialect === 'postgresql') assert.deepEqual(await partitions(), days.slice(2))
  })

  test('a packet that comes when its day is past the retention is removed the next time', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh({ retention_days: 3 })
    for (const day of [0, 5]) log.appendFact(factOf(day, { tRaw: T0 - day * 86_400_000 }), ONE, 'synced')
    await log.flush()
    const db = await database(sql)
    await caughtUp(log, db)
    await db.close()
    log.appendFact(factOf(10), ONE, 'synced')
    await log.flush()
    const again = await database(sql)
    await caughtUp(log, again)
    assert.equal((await again.queryPackets()).total, 2)
  })

  test('the queries of the specification have their indexes, in each partition too', async t => {
    const { log, database } = await world(t)
    const sql = await servers[dialect].fresh()
    log.appendFact(factOf(0), ONE, 'synced')
    await log.flush()
    await caughtUp(log, await database(sql))
    const asked = {
      postgresql: `SELECT t.relname, i.indisunique, array_to_string(ARRAY(SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = i.indexrelid ORDER BY a.attnum), ' ')
        FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid WHERE t.relname LIKE 'os_packets%'`,
      mysql: `SELECT TABLE_NAME, NON_UNIQUE = 0, GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX SEPARATOR ' ')
        FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() GROUP BY TABLE_NAME, INDEX_NAME, NON_UNIQUE`,
    }
    const rows = await servers[dialect].ask(asked[dialect], sql.driver.database)
    const found = rows.map(([table, unique, columns]) => `${table} ${Number(unique)} ${columns}`)
    // one packet by uuid; a range of time; a device in a range of time
    const wanted = { postgresql: ['1 packet_uuid day'], mysql: ['1 packet_uuid'] }[dialect]
    const tables = dialect === 'postgresql' ? ['data', '20260301', 'rest'] : ['data']
    for (const index of [...wanted, '0 timestamp_raw', '0 device_id timestamp_raw'])
      for (const table of tables)
        assert.ok(found.includes(`os_packets_${table} ${index}`), `${table} ${index}: ${found}`)
    // the readings of a packet
    if (dialect === 'mysql') assert.ok(found.includes('os_sensors_data 1 writer seq sensor_index'), found.join())
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
