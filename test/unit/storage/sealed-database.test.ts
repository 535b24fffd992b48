// Sealed windows with all parts real: a log on disk, the worker, the folder, and a reader in another process.
import assert from 'node:assert/strict'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { DatabaseManager, Node } from '../../../src/index'
import { FlashLog, type FlashLogOptions, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { Database, type DatabaseOptions } from '../../../src/storage'
import { windowFolder } from '../../../src/storage/window-folder-options'
import { until as waitUntil } from '../../lib/gateway'

const root = mkdtempSync(join(tmpdir(), 'os-node-sealed-'))
const stops: (() => Promise<void>)[] = []
after(async () => {
  for (const stop of stops) await stop()
  rmSync(root, { recursive: true, force: true })
})

const T0 = 1_710_000_000
const factOf = (k: number, device = `dev-${k % 3}`): Fact => ({
  id: device,
  state: 'ONLINE',
  tRaw: (T0 + k) * 1000,
  aid: 7,
  sensors: [{ id: 'temp', status: 'OK', unit: 'K', value: k }],
})

let made = 0
const newDir = (): string => join(root, String(made++))
const windowsOf = (dir: string): string[] => readdirSync(join(dir, 'sql')).sort()

async function opened(dir: string, more: Partial<DatabaseOptions> = {}, logOptions: Partial<FlashLogOptions> = {}) {
  const log = await FlashLog.open({ dir: join(dir, 'log'), commitIntervalMs: 10, ackCommitMs: 2, ...logOptions })
  const db = new Database({
    log,
    maxPackets: 100,
    startWaitMs: 60_000,
    windows: { dir: join(dir, 'sql'), readOnly: false, keepBytes: 0, keepMs: 0 },
    ...more,
  })
  const add = async (from: number, to: number, device?: string): Promise<void> => {
    for (let k = from; k < to; k++) log.appendFact(factOf(k, device), { medium: 'UDP' })
    await log.flush()
  }
  const stop = async (): Promise<void> => {
    await db.close()
    await log.close()
  }
  stops.push(stop)
  return { log, db, add, stop }
}

const until = (check: () => boolean): Promise<boolean> => waitUntil(String(check), check)

test('windows are written while facts arrive, a restart loads them, and a duplicate across them is one row', async () => {
  const dir = newDir()
  const first = await opened(dir)
  await first.db.connect()
  await first.add(0, 450)
  await until(() => first.db.lagRecords() === 0)
  assert.equal(windowsOf(dir).length, 4)
  const { windows, packets } = first.db.status()
  assert.deepEqual([windows?.files, windows?.damaged, packets], [4, 0, 450])
  await first.stop()

  const again = await opened(dir)
  await again.db.connect()
  await again.add(10, 30)
  await again.add(450, 460)
  await until(() => again.db.lagRecords() === 0)
  assert.equal((await again.db.queryPackets()).total, 460)
  assert.deepEqual([again.db.status().packets, again.db.status().duplicates], [460, 20])
  const { devices } = await again.db.queryDevices()
  assert.equal(
    devices.reduce((sum, { packet_count }) => sum + packet_count, 0),
    460,
  )
  const deep = await again.db.queryPackets({ limit: 3, offset: 400 })
  assert.deepEqual(
    deep.packets.map(p => p.timestamp_raw),
    [T0 + 59, T0 + 58, T0 + 57],
  )
  assert.equal((await again.db.queryPacket(uuidText(packetUuid(factOf(5)))))?.packet.timestamp_raw, T0 + 5)
  await again.stop()
})

test('files that are missing, truncated or of another log are reported, and filled from the log', async () => {
  const dir = newDir()
  const first = await opened(dir)
  await first.db.connect()
  await first.add(0, 550)
  await until(() => first.db.lagRecords() === 0)
  await first.stop()
  const other = newDir()
  const elsewhere = await opened(other)
  await elsewhere.db.connect()
  await elsewhere.add(0, 150, 'stranger')
  await until(() => elsewhere.db.lagRecords() === 0)
  await elsewhere.stop()

  const [one, two, three] = windowsOf(dir)
  rmSync(join(dir, 'sql', one!))
  truncateSync(join(dir, 'sql', two!), 100)
  writeFileSync(join(dir, 'sql', 'note.txt'), 'not ours')
  // the first window of the other log is where ours was
  assert.equal(windowsOf(other)[0], one)
  renameSync(join(other, 'sql', one!), join(dir, 'sql', one!))

  const warnings: string[] = []
  const logger = { child: () => logger, warn: (text: string) => warnings.push(text) } as unknown as NonNullable<
    DatabaseOptions['logger']
  >
  const again = await opened(dir, { logger, maxPackets: 150 })
  await again.db.connect()
  assert.equal((await again.db.queryPackets()).total, 550)
  assert.equal((await again.db.queryPackets({ device_id: 'stranger' })).total, 0)
  const { windows } = again.db.status()
  assert.equal(windows?.damaged, 2)
  assert.deepEqual([...windows.damaged_files].sort(), [one, two])
  assert.ok(
    warnings.some(text => text.includes(two!)),
    warnings.join(),
  )
  assert.ok(windowsOf(dir).includes(`${one}.foreign`) && windowsOf(dir).includes(`${two}.damaged`))
  assert.ok(windowsOf(dir).includes(three!) && windowsOf(dir).includes('note.txt'))
  // the filled part ends where the next window begins
  const ends = String(Number(three!.slice(0, 16)) - 1).padStart(16, '0')
  assert.ok(
    windowsOf(dir).some(name => name.endsWith(`-${ends}.window`)),
    windowsOf(dir).join(),
  )

  // and one that is damaged while it is needed: the worker restarts automatically and has it complete
  const bytes = readFileSync(join(dir, 'sql', three!))
  bytes[bytes.length - 5]! ^= 1
  writeFileSync(join(dir, 'sql', three!), bytes)
  assert.equal((await again.db.queryPackets({ since: T0 + 210, until: T0 + 215 })).total, 6)
  assert.equal(again.db.status().windows?.damaged, 3)
  assert.ok(warnings.some(text => text.includes(three!)))
  await again.stop()
})

test('a window that is filled from the log is reported when it is written', async () => {
  const dir = newDir()
  const first = await opened(dir)
  await first.db.connect()
  await first.add(0, 200)
  await until(() => windowsOf(dir).length === 2)
  await first.stop()
  rmSync(join(dir, 'sql', windowsOf(dir)[0]!))
  const again = await opened(dir)
  await again.db.connect()
  await until(() => again.db.status().windows?.files === 2)
  await again.stop()
})

test('windows of a log that was removed do not count for the new one', async () => {
  const dir = newDir()
  const first = await opened(dir)
  await first.db.connect()
  await first.add(0, 250)
  await until(() => first.db.lagRecords() === 0)
  await first.stop()
  rmSync(join(dir, 'log'), { recursive: true })
  const again = await opened(dir)
  await again.db.connect()
  await again.add(0, 20, 'new')
  await until(() => again.db.lagRecords() === 0)
  assert.equal((await again.db.queryPackets()).total, 20)
  assert.equal((await again.db.queryDevices()).total, 1)
  await again.stop()
})

test('segments wait for their window, and the windows outlast them', async () => {
  const dir = newDir()
  const small = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024 }
  const { log, db, add, stop } = await opened(dir, {}, small)
  await db.connect()
  let sealedTo = 0
  for (let k = 0; k < 6000; k += 500) {
    await add(k, k + 500)
    await until(() => db.lagRecords() === 0)
  }
  sealedTo = Number(windowsOf(dir).at(-1)!.slice(17, 33))
  assert.ok(log.firstSeq > 1000 && log.firstSeq <= sealedTo)
  assert.equal((await db.queryPackets()).total, 6000)
  assert.equal((await db.queryPackets({ since: T0, until: T0 + 5 })).total, 6)
  await stop()
})

test('windows beyond their limit are removed once the log has dropped their records, and stay counted across workers', async () => {
  const dir = newDir()
  const windows = { dir: join(dir, 'sql'), readOnly: false, keepBytes: 1, keepMs: 0 }
  let now = 0
  const clock = { mono: () => now, wall: () => T0 * 1000 } as unknown as NonNullable<DatabaseOptions['clock']>
  const small = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024 }
  const { log, db, add, stop } = await opened(dir, { windows, clock, heapBytes: 1, heapGrowth: 0 }, small)
  await db.connect()
  let workers = 1
  for (let k = 0; k < 6000; k += 500) {
    await add(k, k + 500)
    await until(() => db.status().state === 'up' && db.lagRecords() === 0)
    // old enough to be replaced, after a query
    now += 61_000
    await db.queryDevices()
    if (db.status().state === 'starting') workers++
  }
  assert.ok(workers > 5, `${workers} workers`)
  await until(() => db.status().state === 'up' && db.lagRecords() === 0)
  const { packets, left } = db.status()
  assert.ok(left > 1000, `${left} left`)
  assert.equal(packets + left, 6000)
  assert.ok(Number(windowsOf(dir)[0]!.slice(17, 33)) >= log.firstSeq - 500)
  await stop()
})

test('an idle view has no worker until a query comes or a window is due', async () => {
  const dir = newDir()
  const { db, add, stop } = await opened(dir, { idleMs: 30 })
  await add(0, 40)
  await db.connect()
  assert.equal(db.status().state, 'resting')
  assert.equal(db.lagRecords(), 0)
  assert.equal((await db.queryPackets()).total, 40)
  assert.equal(db.status().state, 'up')
  await until(() => db.status().state === 'resting')
  assert.equal(db.status().packets, 40)
  await add(40, 90)
  assert.equal(db.status().state, 'resting')
  const { packets, state } = await db.counted()
  assert.deepEqual([packets, state], [90, 'up'], 'what was stored while it rested is counted')
  await until(() => db.status().state === 'resting')
  await add(90, 120)
  await until(() => windowsOf(dir).length === 1)
  await until(() => db.status().state === 'resting')
  assert.equal((await db.queryPackets()).total, 120)
  await stop()
  const again = await opened(dir, { idleMs: 30 })
  await again.db.connect()
  const { state: rests, packets: stored } = again.db.status()
  assert.deepEqual([rests, stored], ['resting', 120], 'the content of the log is known before the first query')
  assert.equal((await again.db.counted()).packets, 120)
  assert.equal((await again.db.queryPackets()).total, 120)
  await again.stop()
})

for (const heapGrowth of [0, 2])
  test(`a worker that grew too large is replaced, but not one that was as large when it started (${heapGrowth})`, async () => {
    const dir = newDir()
    let now = 0
    const clock = { mono: () => now, wall: () => T0 * 1000 } as unknown as NonNullable<DatabaseOptions['clock']>
    const { db, add, stop } = await opened(dir, { heapBytes: 1, heapGrowth, clock })
    await add(0, 150)
    await db.connect()
    assert.equal((await db.queryPackets()).total, 150)
    assert.equal(db.status().state, 'up')
    now = 61_000
    assert.equal((await db.queryPackets()).total, 150)
    assert.equal(db.status().state, heapGrowth === 0 ? 'starting' : 'up')
    assert.equal((await db.queryPackets()).total, 150)
    await stop()
  })

test('a manager next to a gateway reads its windows and does not change them', async () => {
  const dir = newDir()
  mkdirSync(dir)
  writeFileSync(join(dir, 'Config.json'), JSON.stringify({ device_id: 'N', assigned_id: 9 }))
  const node = new Node(join(dir, 'Config.json'))
  const { db, add, stop } = await opened(join(dir, 'data'))
  await db.connect()
  await add(0, 250)
  await until(() => db.lagRecords() === 0)
  const beside = new DatabaseManager(node.config)
  await beside.connect()
  await waitUntil('the view is up', () => beside.queryPackets())
  assert.equal((await beside.queryPackets()).total, 250)
  assert.equal(beside.status()?.windows?.files, 2)
  await add(250, 420)
  await until(() => db.lagRecords() === 0)
  assert.equal(windowsOf(join(dir, 'data')).length, 4)
  await beside.queryPackets()
  await until(() => beside.status()!.lag_records === 0)
  assert.equal((await beside.queryPackets(null, null, T0 + 20, null, 1, 390)).packets[0]!.timestamp_raw, T0 + 29)
  await beside.close()
  assert.equal(windowsOf(join(dir, 'data')).length, 4)
  await stop()
  await node.close()
})

test('a file in place of the windows folder is reported, and the view answers from its open window', async () => {
  const dir = newDir()
  mkdirSync(dir)
  writeFileSync(join(dir, 'sql'), 'a file')
  const { db, add, stop } = await opened(dir)
  await db.connect()
  await add(0, 130)
  await until(() => db.lagRecords() === 0)
  assert.equal(db.status().state, 'up')
  assert.match(db.status().windows!.problem!, /EEXIST|ENOTDIR/)
  assert.equal((await db.queryPackets()).packets[0]!.timestamp_raw, T0 + 129)
  await stop()
})

test('storage.sql.driver.path sets the folder of the windows', () => {
  assert.equal(windowFolder('', '/data'), '/data/sql')
  assert.equal(windowFolder('windows', '/data'), '/data/windows')
  assert.equal(windowFolder('/mnt/os.db', '/data'), '/mnt/os.db.d')
  assert.equal(windowFolder('os.sqlite', '/data'), '/data/os.sqlite.d')
  assert.equal(windowFolder(':memory:', '/data'), undefined)
})
