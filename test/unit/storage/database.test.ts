// The real thing: the built bundle as worker thread, fed from a log on a real disk.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Backoff } from '../../../src/lib/backoff'
import { FlashLog, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { Database, type DatabaseOptions } from '../../../src/storage'
import { workerProgram } from '../../../src/storage/program'
import { until as waitUntil } from '../../lib/gateway'

const root = mkdtempSync(join(tmpdir(), 'os-node-sql-'))
after(() => rmSync(root, { recursive: true, force: true }))

const factOf = (k: number): Fact => ({
  id: `dev-${k % 3}`,
  state: 'ONLINE',
  tRaw: 1_710_000_000_000 + k * 1000,
  aid: 7,
  sensors: [{ id: 'temp', status: 'OK', unit: 'K', value: k }],
})

const absent = () => ({ ...workerProgram(), script: `throw new Error('absent')` })

let folder = 0
async function openWith(
  facts: number,
  more: Partial<DatabaseOptions> = {},
): Promise<{ log: FlashLog; db: Database; stop: () => Promise<void> }> {
  const log = await FlashLog.open({ dir: join(root, String(folder++)), commitIntervalMs: 20, ackCommitMs: 5 })
  for (let k = 0; k < facts; k++) log.appendFact(factOf(k), { medium: 'UDP' })
  await log.flush()
  const db = new Database({ log, startWaitMs: 60_000, ...more })
  const stop = async (): Promise<void> => {
    await db.close()
    await log.close()
  }
  return { log, db, stop }
}

const until = (check: () => boolean | Promise<boolean>): Promise<boolean> => waitUntil(String(check), check)

test('the view is rebuilt from the log, questions wait for it, and new facts follow their commit', async () => {
  const { log, db, stop } = await openWith(5000)
  assert.equal(db.status().state, 'closed')
  await db.connect()
  await db.connect()
  assert.equal(db.status().state, 'starting')
  assert.equal(db.lagRecords(), 5000)
  const devices = await db.queryDevices(2)
  assert.deepEqual(
    [devices.total, devices.devices[0]],
    [3, { device_id: 'dev-1', last_seen: 1_710_004_999, packet_count: 1667 }],
  )
  assert.equal(db.lagRecords(), 0)
  const uuid = uuidText(packetUuid(factOf(5000)))
  assert.equal(await db.queryPacket(uuid), null)
  const seq = log.appendFact(factOf(5000), { medium: 'UDP' })
  assert.ok(log.factsAfter(log.committedSeq) === 1)
  await log.committed(seq)
  await until(() => db.lagRecords() === 0)
  assert.equal((await db.queryPacket(uuid))!.packet.timestamp_raw, 1_710_005_000)
  assert.equal((await db.queryPackets({ device_id: 'dev-2', limit: 1 })).packets[0]!.packet_uuid, uuid)
  assert.equal((await db.querySensors({ sensor_id: 'temp', since: 1_710_004_000 })).total, 1001)
  await assert.rejects(db.queryPackets({ since: Number.NaN }), { code: 'BAD_REQUEST' })
  assert.deepEqual([db.status().packets, db.status().duplicates], [5001, 0])
  await stop()
  await assert.rejects(db.queryDevices(), { code: 'DB_NOT_CONFIGURED' })
})

test('records that are no facts do not count as lag', async () => {
  const { log, db, stop } = await openWith(10)
  await db.connect()
  await db.queryDevices()
  log.appendCursor('main', 3)
  await log.flush()
  await until(() => db.lagRecords() === 0)
  await stop()
})

test('while the view is rebuilt for longer than the wait, the answer is "database starting"', async () => {
  const { db, stop } = await openWith(20_000, { startWaitMs: 1 })
  await db.connect()
  await assert.rejects(db.queryDevices(), { code: 'DB_STARTING', message: 'database starting' })
  await until(() => db.status().state === 'up')
  assert.equal((await db.queryDevices()).total, 3)
  await stop()
})

test('a worker that dies is started again and the view is complete again', async () => {
  // the real worker, which dies when asked for the packet `die`
  const dies = `require('node:worker_threads').parentPort.on('message', m => { if (m.question?.uuid === 'die') process.exit(3) });`
  const program = () => {
    const { script, wasm } = workerProgram()
    return { script: `${dies}\n${script}`, wasm }
  }
  const { db, stop } = await openWith(100, { program, backoff: new Backoff({ minMs: 2, maxMs: 4 }) })
  await db.connect()
  assert.equal((await db.queryPackets()).total, 100)
  await assert.rejects(db.queryPacket('die'), { code: 'DB_UNAVAILABLE', message: 'database unavailable' })
  await until(() => db.status().state === 'up')
  assert.equal((await db.queryPackets()).total, 100)
  await stop()
})

test('a worker that cannot start is a state with a reason', async () => {
  const { db, stop } = await openWith(1, {
    program: absent,
    backoff: new Backoff({ minMs: 9000 }),
  })
  await db.connect()
  await assert.rejects(db.queryDevices(), { code: 'DB_UNAVAILABLE' })
  assert.equal(db.status().state, 'down')
  assert.match(db.status().reason!, /absent/)
  await stop()
})

test('storage that is off, or in a dialect that is not there, is refused by name', async () => {
  const off = await openWith(0, { sql: { enabled: false } })
  await assert.rejects(off.db.connect(), { code: 'DB_NOT_CONFIGURED', message: 'database not configured' })
  await off.stop()
  const mysql = await openWith(0, { sql: { enabled: true, dialect: 'mysql' } })
  await assert.rejects(mysql.db.connect(), { code: 'DB_NOT_CONFIGURED', message: /mysql/ })
  await mysql.stop()
})

test('a view that is kept off says why, counts what it did not answer, and is whole again afterwards', async () => {
  const { db, stop } = await openWith(100)
  // before it ever started, as in safe mode
  await db.pause('kept off')
  await assert.rejects(db.queryPackets(), { code: 'DB_UNAVAILABLE', details: { reason: 'kept off' } })
  assert.deepEqual([db.status().state, db.status().reason, db.status().refused], ['down', 'kept off', 1])
  await db.resume()
  assert.equal((await db.queryPackets()).total, 100)
  // asked for at once, one after the other, it ends as asked last
  await Promise.all([db.pause('resting'), db.resume()])
  assert.equal((await db.queryPackets()).total, 100)
  await stop()
})

test('resume starts no second worker beside the one that is to come', async () => {
  const { db, stop } = await openWith(1, {
    program: absent,
    backoff: new Backoff({ minMs: 9000 }),
  })
  await db.connect()
  await assert.rejects(db.queryDevices(), { code: 'DB_UNAVAILABLE' })
  await db.resume()
  assert.equal(db.status().state, 'down')
  await stop()
})

test('while nothing is sealed the log keeps its first record for the view, and a view that only reads keeps none', async t => {
  for (const readOnly of [false, true]) {
    const dir = join(root, 'nothing sealed')
    const { log, db, stop } = await openWith(3, { windows: { dir, readOnly } as never, program: absent })
    const pin = t.mock.method(log, 'pin')
    await db.connect()
    assert.deepEqual(
      pin.mock.calls.map(call => call.arguments[0]()),
      readOnly ? [] : [1],
    )
    await stop()
  }
})
