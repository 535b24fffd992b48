// The database manager over a log of this process, over files that another one writes, and without any data.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { DatabaseManager, Node } from '../../../src/index'
import { FlashLog, LogFiles } from '../../../src/log'
import { Database } from '../../../src/storage'
import { until } from '../../lib/gateway'

const root = mkdtempSync(join(tmpdir(), 'os-node-manager-'))
after(() => rmSync(root, { recursive: true, force: true }))

/** A worker that starts on a busy machine may take longer than a query waits for it. */
const up = (db: { queryDevices(): Promise<unknown> }): Promise<unknown> =>
  until('the view is up', () => db.queryDevices())

const T = 1_710_000_000
let folder = 0

function nodeIn(storage: object = {}, log?: FlashLog): { node: Node; dir: string } {
  const dir = join(root, String(folder++))
  mkdirSync(dir, { recursive: true })
  writeFileSync(join(dir, 'Config.json'), JSON.stringify({ device_id: 'N', assigned_id: 9, storage: { sql: storage } }))
  return { node: new Node(join(dir, 'Config.json'), { ...(log && { log }) }), dir }
}

test('over a log that another process writes each query sees what was committed before it', async () => {
  const { node, dir } = nodeIn()
  const log = await FlashLog.open({ dir: join(dir, 'data/log'), commitIntervalMs: 5, ackCommitMs: 2 })
  const writer = new Node(node.configPath, { log })
  writer.transmit([['T1', 'OK', 21.5, 'Cel']], null, 'ONLINE', { t: T })
  await log.flush()
  const db = new DatabaseManager(node.config)
  assert.equal(db.connected, false)
  await db.connect()
  await db.connect()
  assert.equal(db.connected, true)
  await up(db)
  const { packets, ...page } = await db.queryPackets()
  assert.deepEqual(page, { ok: true, total: 1, limit: 50, offset: 0 })
  assert.equal(packets[0]!.timestamp_raw, T)
  for (let k = 1; k <= 5; k++) writer.transmit([['T1', 'OK', 21.5 + k, 'Cel']], 'other', 'LOW', { t: T + k })
  await log.flush()
  assert.deepEqual(await db.queryDevices(1), {
    ok: true,
    devices: [{ device_id: 'other', last_seen: T + 5, packet_count: 5 }],
    total: 2,
    limit: 1,
    offset: 0,
  })
  assert.equal((await db.queryPackets('other', 'LOW', T + 2, T + 4, 2, 1)).packets[0]!.timestamp_raw, T + 3)
  const sensors = await db.querySensors('T1', 'other', T + 5, null)
  assert.deepEqual([sensors.total, sensors.sensors[0]!.normalized_value], [1, 299.65])
  const day = await db.queryHistory('other', 'T1', T, T + 9, 2)
  assert.deepEqual(
    day.buckets.map(({ t, count, min, max }) => [t - T, count, min, max]),
    [
      [0, 4, 295.65, 298.65],
      [5, 1, 299.65, 299.65],
    ],
  )
  assert.deepEqual(day.units, ['K'])
  await assert.rejects(db.queryHistory('other', ''), { code: 'BAD_REQUEST', message: 'sensor_id is required' })
  assert.equal((await db.queryPacket(packets[0]!.packet_uuid))?.packet.device_id, 'N')
  assert.equal(await db.queryPacket('no such thing'), null)
  await db.close()
  assert.equal(db.connected, false)
  await log.close()
  await node.close()
})

test('an empty data directory gives empty lists immediately, and later what is logged there', async () => {
  const { node, dir } = nodeIn()
  await node.dbManager!.connect()
  await up(node.dbManager!)
  assert.deepEqual(await node.dbManager!.queryDevices(), { ok: true, devices: [], total: 0, limit: 100, offset: 0 })
  assert.deepEqual((await node.dbManager!.queryPackets()).packets, [])
  assert.deepEqual((await node.dbManager!.querySensors()).sensors, [])
  const log = await FlashLog.open({ dir: join(dir, 'data/log'), commitIntervalMs: 5, ackCommitMs: 2 })
  const writer = new Node(node.configPath, { log })
  writer.transmit([['T1', 'OK', 21.5, 'Cel']])
  await log.flush()
  assert.equal((await node.dbManager!.queryPackets()).total, 1)
  await log.close()
  await Promise.all([writer.close(), node.close()])
})

test('the manager works over the log of this process, and over the view of a gateway, which it does not close', async () => {
  const log = await FlashLog.open({ dir: join(root, 'own'), commitIntervalMs: 5, ackCommitMs: 2 })
  const { node } = nodeIn({}, log)
  node.transmit([['T1', 'OK', 1, 'Cel']])
  await log.flush()
  const database = new Database({ log })
  await database.connect()
  const over = new DatabaseManager(node.store, { database })
  assert.equal(over.connected, true)
  await up(over)
  assert.equal((await over.queryDevices()).total, 1)
  await over.close()
  assert.equal(database.status().state, 'up')
  await database.close()
  const own = new DatabaseManager(node.store, { log })
  await own.connect()
  await up(own)
  assert.equal((await own.queryDevices()).total, 1)
  await own.close()
  await log.close()
})

test('a node has a manager when storage.sql is on; off, unknown or not connected is DB_NOT_CONFIGURED', async () => {
  const { node } = nodeIn()
  assert.ok(node.dbManager instanceof DatabaseManager)
  assert.equal(node.db_manager, node.dbManager)
  await assert.rejects(node.dbManager.queryDevices(), { code: 'DB_NOT_CONFIGURED' })
  assert.equal(nodeIn({ enabled: false }).node.dbManager, null)
  const off = new DatabaseManager(nodeIn({ enabled: false }).node.config)
  await assert.rejects(off.connect(), { code: 'DB_NOT_CONFIGURED' })
  assert.equal(off.connected, false)
  await assert.rejects(new DatabaseManager({}).connect(), /no data directory/)
})

test('over a log of this process without a data directory a relative path keeps no windows', async t => {
  for (const [path, dataDir, pins] of [
    ['', undefined, 0],
    ['x', undefined, 0],
    ['', join(root, 'd'), 1],
    [join(root, 'abs'), undefined, 1],
    [':memory:', join(root, 'd'), 0],
  ] as const) {
    const log = await FlashLog.open({ dir: join(root, `pins${folder++}`), commitIntervalMs: 5, ackCommitMs: 2 })
    const pin = t.mock.method(log, 'pin')
    const db = new DatabaseManager({ storage: { sql: { driver: { path } } } }, { log, ...(dataDir && { dataDir }) })
    await db.connect()
    assert.equal(pin.mock.callCount(), pins, `${path} in ${dataDir}`)
    await db.close()
    await log.close()
  }
})

test('close resolves when the view has ended', async t => {
  const log = await FlashLog.open({ dir: join(root, 'ends'), commitIntervalMs: 5, ackCommitMs: 2 })
  const db = new DatabaseManager({}, { log })
  await db.connect()
  let end = (): void => undefined
  const close = Database.prototype.close
  t.mock.method(Database.prototype, 'close', async function (this: Database) {
    await close.call(this)
    await new Promise<void>(resolve => {
      end = resolve
    })
  })
  let closed = false
  const closing = db.close().then(() => {
    closed = true
  })
  await until('the view ends', () => end.name === '')
  await new Promise(setImmediate)
  assert.equal(closed, false)
  end()
  await closing
  await log.close()
})

test('over the log of this process it keeps every window, also of records that the log dropped long ago', async () => {
  const dir = join(root, 'kept')
  const log = await FlashLog.open({
    ...{ dir: join(dir, 'log'), commitIntervalMs: 5, ackCommitMs: 2 },
    ...{ maxBytes: 64 * 1024, segmentBytes: 8 * 1024 },
  })
  const windows = { dir: join(dir, 'sql'), readOnly: false, keepBytes: 0, keepMs: 0 }
  const database = new Database({ log, windows, maxPackets: 200 })
  await database.connect()
  for (let k = 0; k < 1600; k++) {
    const sensors = [{ id: 'temp'.padEnd(200), status: 'OK', unit: 'K', value: k }]
    log.appendFact({ id: 'dev', state: 'ONLINE', tRaw: (T + k) * 1000, aid: 7, sensors }, { medium: 'UDP' })
    if (k % 200 !== 199) continue
    await log.flush()
    await until('the window is written', () => database.lagRecords() === 0)
  }
  await database.close()
  assert.ok(log.firstSeq > 200, `the log begins at ${log.firstSeq}`)
  const own = new DatabaseManager({}, { log, dataDir: dir })
  await own.connect()
  await up(own)
  assert.equal((await own.queryPackets()).total, 1600)
  await own.close()
  await log.close()
})

test('next to a gateway it reads at most 16 MiB of the log, over the log of this process one window', async t => {
  const { node, dir } = nodeIn()
  const log = await FlashLog.open({ dir: join(dir, 'data/log'), commitIntervalMs: 5, ackCommitMs: 2 })
  const last = [t.mock.method(LogFiles.prototype, 'startOfLast'), t.mock.method(log, 'startOfLast')]
  for (const db of [new DatabaseManager(node.config), new DatabaseManager({}, { log })]) {
    await db.connect()
    await up(db)
    await db.close()
  }
  assert.deepEqual(
    last.map(({ mock }) => mock.calls.map(call => call.arguments)),
    [[[Math.ceil((16 * 1024 * 1024) / 100)]], [[32_768]]],
  )
  await log.close()
  await node.close()
})
