// db export: all packets in one file, wherever they are: windows, log, both, neither. What SQLite reads from it equals a
// simple list of the facts.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { SqlValue } from 'sql.js'
import { type Files, realFiles } from '../../../src/lib/files'
import { FlashLog, LogFiles, packetUuid, uuidText } from '../../../src/log'
import { type Fact, factToDict } from '../../../src/pipeline/fact'
import { Database } from '../../../src/storage'
import { writeExport } from '../../../src/storage/export'
import { exportDatabase } from '../../../src/storage/exporter'
import { UuidKeys } from '../../../src/storage/uuidkeys'
import { prng } from '../../lib/random'
import { systemError } from '../log/memfiles'
import { loadSql, openSql } from './sealedworld'

const root = mkdtempSync(join(tmpdir(), 'os-node-export-'))
after(() => rmSync(root, { recursive: true, force: true }))

const T0 = 1_710_000_000
const factOf = (k: number, device = `dev-${k % 3}`): Fact => ({
  id: device,
  state: k % 5 ? 'ONLINE' : 'ALARM',
  tRaw: (T0 + k) * 1000 + (k % 1000),
  aid: 7,
  sensors: Array.from({ length: k % 4 }, (_, j) => ({
    id: `s${j}`,
    status: j === 2 ? 'ERROR' : 'OK',
    unit: 'K',
    value: j === 2 ? null : k + j / 4,
  })),
  ...(k % 7 === 0 && { extras: { msg: `nr ${k} "é"` } }),
})

let made = 0
/** A data directory; `windows`: whether a view seals windows of 100 packets meanwhile. */
async function place(windows = true) {
  const dir = join(root, String(made++))
  mkdirSync(dir)
  const log = await FlashLog.open({ dir: join(dir, 'log'), commitIntervalMs: 10, ackCommitMs: 2 })
  const folder = { dir: join(dir, 'sql'), readOnly: false, keepBytes: 0, keepMs: 0 }
  const view = windows ? new Database({ log, maxPackets: 100, windows: folder }) : undefined
  await view?.connect()
  const add = async (from: number, to: number, device?: string): Promise<void> => {
    for (let k = from; k < to; k++) log.appendFact(factOf(k, device), { medium: 'UDP' })
    await log.flush()
    for (const end = Date.now() + 60_000; view && view.lagRecords() > 0; ) {
      assert.ok(Date.now() < end, 'the view has read the log')
      await new Promise(resolve => setTimeout(resolve, 5))
    }
  }
  const stop = async (): Promise<void> => {
    await view?.close()
    await log.close()
  }
  return { dir, log, add, stop, out: join(dir, 'out.sqlite') }
}

async function read(path: string) {
  await loadSql()
  const db = openSql(readFileSync(path))
  const ask = (question: string): SqlValue[][] => db.exec(question)[0]?.values ?? []
  assert.deepEqual(ask('PRAGMA integrity_check'), [['ok']])
  assert.deepEqual(ask('PRAGMA foreign_key_check'), [])
  return ask
}

/** What the file must contain, in the order of the log. */
function expected(facts: readonly Fact[]) {
  const packets = facts.map(fact => [
    uuidText(packetUuid(fact)),
    fact.id,
    fact.state,
    Math.floor(fact.tRaw / 1000),
    JSON.stringify(factToDict(fact)),
  ])
  const sensors = facts.flatMap(fact =>
    fact.sensors.map((s, j) => [uuidText(packetUuid(fact)), j + 1, s.id, s.status, s.value, s.unit]),
  )
  return { packets, sensors }
}

async function assertHolds(path: string, facts: readonly Fact[]): Promise<void> {
  const ask = await read(path)
  const { packets, sensors } = expected(facts)
  const columns = 'packet_uuid, device_id, device_status, timestamp_raw, payload_json'
  assert.deepEqual(ask(`SELECT ${columns} FROM os_packets ORDER BY rowid`), packets)
  assert.deepEqual(ask('SELECT * FROM os_sensors ORDER BY rowid'), sensors)
  for (const [uuid, device] of packets.slice(0, 20))
    assert.deepEqual(ask(`SELECT device_id FROM os_packets WHERE packet_uuid = '${uuid}'`), [[device]])
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, k) => from + k)
const facts = (from: number, to: number): Fact[] => range(from, to).map(k => factOf(k))
const options = (dir: string, file: string) => ({ file, force: false, dataDir: dir, path: '' })

test('in parallel with a writer the export has sealed windows and the newest records, each packet once, as sqlite3 reads it too', async () => {
  const { dir, add, stop, out } = await place()
  await add(0, 450)
  assert.equal(readdirSync(join(dir, 'sql')).length, 4)
  const result = await exportDatabase(options(dir, out))
  const { packets, sensors } = expected(facts(0, 450))
  assert.deepEqual(result, {
    file: out,
    bytes: readFileSync(out).length,
    rows: { os_packets: packets.length, os_sensors: sensors.length },
    windows: 4,
    duplicates: 0,
    left_out: [],
  })
  await assertHolds(out, facts(0, 450))
  const real = spawnSync('sqlite3', [
    out,
    'PRAGMA integrity_check; SELECT COUNT(*) FROM os_sensors JOIN os_packets USING (packet_uuid)',
  ])
  if (!real.error) assert.equal(String(real.stdout), `ok\n${sensors.length}\n`, String(real.stderr))
  assert.deepEqual(readdirSync(dir).sort(), ['log', 'out.sqlite', 'sql'])
  // later facts are in the next one
  await add(450, 470)
  assert.equal((await exportDatabase({ ...options(dir, out), force: true })).rows.os_packets, 470)
  await stop()
})

test('with display the values and units are the readable ones, in SQLite and in CSV; otherwise canonical', async () => {
  const { dir, log, stop, out } = await place(false)
  const sensor = { id: 't', status: 'OK', unit: 'K', value: 292.72999999999996 }
  const none = { id: 'p', status: 'ERROR', unit: 'Pa', value: null }
  const single = { id: 'h', status: 'OK', unit: '%', value: Math.fround(21.45) }
  const frost = { id: 'f', status: 'OK', unit: 'K', value: 268.15 }
  const fact = { ...factOf(1), sensors: [sensor, none, single, frost] }
  await log.appendFact(fact, { medium: 'UDP' })
  await stop()
  const csv = join(dir, 'out.csv')
  const rowsOf = async (display: boolean) => {
    await exportDatabase({ ...options(dir, csv), force: true, display })
    const [, ...lines] = readFileSync(csv, 'utf8').trim().split('\r\n')
    return lines.map(line => line.split(',').slice(7, 9))
  }
  assert.deepEqual(await rowsOf(false), [
    ['292.73', 'K'],
    ['', 'Pa'],
    ['21.4500007629395', '%'],
    ['268.15', 'K'],
  ])
  assert.deepEqual(await rowsOf(true), [
    ['19.58', '°C'],
    ['', 'hPa'],
    ['21.45', '%'],
    ['-5', '°C'],
  ])
  await exportDatabase({ ...options(dir, out), display: true })
  const ask = await read(out)
  assert.deepEqual(ask('SELECT normalized_value, normalized_unit FROM os_sensors'), [
    [19.58, '°C'],
    [null, 'hPa'],
    [single.value, '%'],
    [-5, '°C'],
  ])
  const [[payload]] = ask('SELECT payload_json FROM os_packets') as [[string]]
  assert.deepEqual([JSON.parse(payload).s1_v, JSON.parse(payload).s1_u], [19.58, '°C'])
})

test('a log alone, without a view, with packets received twice, and an empty data directory are exported', async () => {
  const { dir, add, stop, out } = await place(false)
  assert.deepEqual((await exportDatabase(options(dir, out))).rows, { os_packets: 0, os_sensors: 0 })
  await assertHolds(out, [])
  await add(0, 300)
  await add(20, 40)
  await add(300, 310)
  await add(300, 301)
  await stop()
  const result = await exportDatabase({ ...options(dir, out), force: true })
  assert.deepEqual([result.rows.os_packets, result.duplicates, result.windows], [310, 21, 0])
  await assertHolds(out, facts(0, 310))
})

test('a damaged or missing window is filled from the log, and named; one of another log is left out', async () => {
  const { dir, add, stop, out } = await place()
  await add(0, 520)
  await stop()
  const stranger = await place()
  await stranger.add(0, 150)
  await stranger.stop()
  const [one, two, three] = readdirSync(join(dir, 'sql')).sort()
  rmSync(join(dir, 'sql', one!))
  truncateSync(join(dir, 'sql', two!), 100)
  const bytes = readFileSync(join(dir, 'sql', three!))
  bytes[bytes.length - 9]! ^= 4
  writeFileSync(join(dir, 'sql', three!), bytes)
  writeFileSync(join(dir, 'sql', one!), readFileSync(join(stranger.dir, 'sql', one!)))
  const { left_out, windows, rows } = await exportDatabase(options(dir, out))
  assert.deepEqual([windows, rows.os_packets], [2, 520])
  assert.deepEqual([...left_out].sort(), [
    `${one}: it is of another log`,
    `${two}: its summary is damaged`,
    `${three}: its rows are damaged`,
  ])
  await assertHolds(out, facts(0, 520))
  // existing files are left unchanged
  assert.ok(existsSync(join(dir, 'sql', two!)))
})

test('unconfirmed times are corrected by the clock records after them, also in a window that does not know them', async () => {
  const dir = join(root, String(made++))
  mkdirSync(dir)
  const log = await FlashLog.open({ dir: join(dir, 'log'), commitIntervalMs: 10, ackCommitMs: 2 })
  const windows = { dir: join(dir, 'sql'), readOnly: false, keepBytes: 0, keepMs: 0 }
  const view = new Database({ log, maxPackets: 100, windows })
  await view.connect()
  const add = async (from: number, to: number, quality: 'synced' | 'unsynced'): Promise<void> => {
    for (let k = from; k < to; k++) log.appendFact(factOf(k), { medium: 'local' }, quality)
    await log.flush()
  }
  const set = (offsetMs: number, quality: 'synced' | 'unsynced'): unknown =>
    log.appendClock({ trueWallMs: 0, offsetMs, source: 'server' }, quality)
  await add(0, 110, 'unsynced')
  set(500, 'unsynced')
  await add(110, 130, 'unsynced')
  for (const end = Date.now() + 60_000; view.lagRecords() > 0; ) {
    assert.ok(Date.now() < end, 'the view has read the log')
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  await view.close()
  assert.equal(readdirSync(join(dir, 'sql')).length, 1)
  set(3_600_000, 'synced')
  await add(130, 140, 'synced')
  // their times are correct by now
  set(7000, 'synced')
  await log.flush()
  await log.close()
  await exportDatabase(options(dir, join(dir, 'out.sqlite')))
  const ask = await read(join(dir, 'out.sqlite'))
  const rows = ask('SELECT packet_uuid, timestamp_raw, payload_json FROM os_packets ORDER BY rowid')
  assert.deepEqual(
    rows.map(([uuid, time, payload]) => [uuid, time, JSON.parse(String(payload)).t_raw]),
    range(0, 140).map(k => {
      const fact = factOf(k)
      const tRaw = fact.tRaw + (k < 110 ? 3_600_500 : k < 130 ? 3_600_000 : 0)
      return [uuidText(packetUuid(fact)), Math.floor(tRaw / 1000), tRaw]
    }),
  )
})

test('an existing file stays without --force; a folder, a wrong path and a full disk are reported, and nothing is left', async () => {
  const { dir, add, stop, out } = await place(false)
  await add(0, 50)
  await stop()
  writeFileSync(out, 'mine')
  await assert.rejects(exportDatabase(options(dir, out)), { code: 'USAGE', message: `${out} already exists` })
  assert.equal(readFileSync(out, 'utf8'), 'mine')
  // before anything is written: not even the temporary file could be created
  const long = join(dir, 'x'.repeat(250))
  writeFileSync(long, '')
  await assert.rejects(exportDatabase(options(dir, long)), { code: 'USAGE', message: `${long} already exists` })
  rmSync(long)
  await assert.rejects(exportDatabase({ ...options(dir, join(dir, 'log')), force: true }), /is not a file/)
  const nowhere = exportDatabase(options(dir, join(dir, 'no/such/folder.sqlite')))
  await assert.rejects(nowhere, { code: 'STORAGE', message: /\/no\/such\/folder.sqlite cannot be written: ENOENT/ })
  // the disk becomes full during the write
  const write = (): never => {
    throw systemError('ENOSPC')
  }
  const source = { log: new LogFiles(join(dir, 'log')), windows: undefined, open: () => assert.fail() }
  const full: Files = { ...realFiles, write }
  const files = { code: 'DISK_FULL', message: /x(\.keys)? cannot be written: the disk is full/ }
  assert.throws(() => writeExport({ ...source, files: full }, join(dir, 'x')), files)
  rmSync(join(dir, 'x'))
  const stop2 = new AbortController()
  stop2.abort()
  await assert.rejects(exportDatabase({ ...options(dir, out), force: true, signal: stop2.signal }), { code: 'TIMEOUT' })
  assert.equal(readFileSync(out, 'utf8'), 'mine')
  assert.deepEqual(readdirSync(dir).sort(), ['log', 'out.sqlite'])
})

test('a line of a CSV may be longer than one write', async () => {
  const { dir, log, stop } = await place(false)
  const text = '"'.repeat(32_000)
  const sensors = [{ id: text, status: text, unit: text, value: 1 }]
  log.appendFact({ ...factOf(2, text), state: text, sensors }, { medium: 'UDP' })
  await log.flush()
  await stop()
  const csv = join(dir, 'out.csv')
  const { bytes } = await exportDatabase(options(dir, csv))
  const [, line, end] = readFileSync(csv, 'utf8').split('\r\n')
  assert.equal(bytes, readFileSync(csv).length)
  assert.equal(line!.split(`"${text}${text}"`).length, 6)
  assert.equal(end, '')
})

test('the new name is on the medium when the export is done', async t => {
  const { dir, add, stop, out } = await place(false)
  await add(0, 5)
  await stop()
  const synced = t.mock.method(realFiles, 'syncDir')
  await exportDatabase(options(dir, out))
  assert.deepEqual(
    synced.mock.calls.map(call => call.arguments[0]),
    [dir],
  )
})

test('Ctrl-C in the middle of an export leaves nothing behind', async () => {
  const { dir, add, stop, out } = await place(false)
  await add(0, 2500)
  await stop()
  const ctrlC = new AbortController()
  const told: number[] = []
  const report = (done: number, of: number): void => {
    told.push(done, of)
    ctrlC.abort()
  }
  await assert.rejects(exportDatabase({ ...options(dir, out), signal: ctrlC.signal, report }), { code: 'TIMEOUT' })
  assert.deepEqual(told.slice(0, 2), [2000, 2500])
  assert.deepEqual(readdirSync(dir), ['log'])
})

test('a file created by others during the export stays', async () => {
  const { dir, add, stop, out } = await place(false)
  await add(0, 2100)
  await stop()
  const report = (): void => writeFileSync(out, 'mine')
  await assert.rejects(exportDatabase({ ...options(dir, out), report }), { message: `${out} already exists` })
  assert.equal(readFileSync(out, 'utf8'), 'mine')
  assert.deepEqual(readdirSync(dir).sort(), ['log', 'out.sqlite'])
})

test('a worker that fails or ends too early is reported, and nothing is left', async t => {
  const { dir, stop, out } = await place(false)
  await stop()
  const on = Worker.prototype.on
  for (const [event, value, message] of [
    ['error', new Error('out of memory'), 'the export failed: out of memory'],
    ['exit', 3, 'the export ended with code 3'],
  ] as const) {
    const heard = t.mock.method(
      Worker.prototype,
      'on',
      function (this: Worker, name: string, listener: (value?: unknown) => void) {
        if (name === event) setImmediate(listener, value)
        return on.call(this, name, listener)
      },
    )
    await assert.rejects(exportDatabase(options(dir, out)), { code: 'STORAGE', message })
    assert.deepEqual(readdirSync(dir), ['log'])
    heard.mock.restore()
  }
})

test('more uuids than are sorted at a time come out in order', () => {
  const next = prng(3)
  const uuids = range(0, 3000).map(() => Buffer.from(range(0, 16).map(() => Math.floor(next() * 256))))
  uuids.push(uuids[17]!, uuids[17]!)
  for (const part of [22, 22 * 100, 22 * 100_000]) {
    const keys = new UuidKeys(realFiles, join(root, 'keys'), part)
    for (const [row, uuid] of uuids.entries()) keys.add(uuid, row)
    const sorted = [...keys.sorted()].map(([uuid, row]) => [uuid.toString('hex'), row])
    const right = uuids.map((uuid, row) => [uuid.toString('hex'), row] as const)
    right.sort(([a, k], [b, n]) => (a < b ? -1 : a > b ? 1 : k - n))
    assert.deepEqual(
      sorted,
      right.map(entry => [...entry]),
    )
    keys.close()
    assert.ok(!existsSync(join(root, 'keys')))
  }
})
