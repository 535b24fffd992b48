// What the view has, what left it, what it missed and what it has yet to read are together every fact of the log, whatever the log
// drops and however workers end: real logs, workers and windows, and workers that wait or die when the test says so.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Backoff } from '../../../src/lib/backoff'
import { FlashLog } from '../../../src/log'
import { Database, type DatabaseOptions } from '../../../src/storage'
import { Missed } from '../../../src/storage/missed-facts'
import { workerProgram } from '../../../src/storage/program'
import { until as waitUntil } from '../../lib/gateway'
import { prng } from '../../lib/random'

const root = mkdtempSync(join(tmpdir(), 'os-node-missed-'))
const stops: (() => Promise<void>)[] = []
after(async () => {
  for (const stop of stops) await stop()
  rmSync(root, { recursive: true, force: true })
})
const until = (check: () => boolean): Promise<boolean> => waitUntil(String(check), check)
const T0 = 1_710_000_000
const COUNTS = { packets: 0, duplicates: 0, left: 0 }

/** A log of about 2,500 facts in segments of 300, and its view. While the file `wait` exists the worker does nothing; `die` ends it. */
async function world(more: Partial<DatabaseOptions> = {}, maxBytes = 256 * 1024) {
  const dir = mkdtempSync(join(root, 'w-'))
  const log = await FlashLog.open({
    ...{ dir: join(dir, 'log'), commitIntervalMs: 10, ackCommitMs: 2 },
    ...{ maxBytes, segmentBytes: maxBytes / 8 },
  })
  const [wait, die] = [join(dir, 'wait'), join(dir, 'die')]
  const hook = `{
    const { existsSync } = require('node:fs')
    const { parentPort } = require('node:worker_threads')
    const pause = new Int32Array(new SharedArrayBuffer(4))
    const on = parentPort.on.bind(parentPort)
    parentPort.on = (name, heard) => on(name, message => {
      while (existsSync(${JSON.stringify(wait)}) && !existsSync(${JSON.stringify(die)})) Atomics.wait(pause, 0, 0, 2)
      if (existsSync(${JSON.stringify(die)})) process.exit(3)
      heard(message)
    })
  }`
  const program = () => ({ wasm: workerProgram().wasm, script: `${hook}\n${workerProgram().script}` })
  const backoff = new Backoff({ minMs: 5, maxMs: 5, quickMs: 5 })
  const windows = { dir: join(dir, 'sql'), readOnly: false, keepBytes: 0, keepMs: 0 }
  const db = new Database({ ...{ log, program, backoff, windows, maxPackets: 100, startWaitMs: 60_000 }, ...more })
  stops.push(async () => {
    await db.close()
    await log.close()
  })
  let facts = 0
  /** some of them again */
  const add = async (count: number, again = 0): Promise<void> => {
    for (let k = 0; k < count; k++) {
      const n = k < again ? Math.max(0, facts - 1 - k) : facts + k
      const sensors = [{ id: 'temp', status: 'OK', unit: 'K', value: n }]
      log.appendFact({ id: 'dev', state: 'ONLINE', tRaw: (T0 + n) * 1000, aid: 7, sensors }, { medium: 'UDP' })
      // records that are no facts are between them
      if (k % 70 === 69) log.appendCounter('n', k)
    }
    facts += count
    await log.flush()
  }
  const quiet = () => until(() => db.status().state === 'up' && db.lagRecords() === 0)
  const dead = async (): Promise<void> => {
    writeFileSync(die, '')
    void db.queryPackets().catch(() => undefined)
    await until(() => db.status().state === 'down')
    rmSync(die)
  }
  const sum = (): number => {
    const { packets, duplicates, left, missed } = db.status()
    return packets + duplicates + left + missed
  }
  /** Exact, once nothing is under way. */
  const exact = async (what: string): Promise<void> => {
    await quiet()
    assert.equal(sum(), facts, `${what}: ${JSON.stringify(db.status())}`)
  }
  return { dir, log, db, add, quiet, dead, exact, windows: windows.dir, wait, total: () => facts }
}

const windowsIn = (dir: string): string[] =>
  readdirSync(dir)
    .filter(name => name.endsWith('.window'))
    .sort()

test('facts that the log drops before the view reads them are counted at once', async () => {
  const { db, add, quiet, exact, wait, log } = await world()
  await db.connect()
  await add(250)
  await quiet()
  writeFileSync(wait, '')
  for (let k = 0; k < 12; k++) await add(500)
  const { missed } = db.status()
  assert.ok(missed > 2000, `${missed}`)
  const has = log.factsAfter(0)
  rmSync(wait)
  await exact('read again')
  const { packets, left } = db.status()
  assert.ok(db.status().missed >= missed && packets >= 250 + has, JSON.stringify(db.status()))
  assert.equal(left, 0)
})

test('facts that were counted as missed are not read from RAM later', async () => {
  const { db, add, quiet, exact, wait } = await world({}, 64 * 1024)
  await db.connect()
  await add(10)
  await quiet()
  writeFileSync(wait, '')
  while (db.status().missed < 200) await add(100)
  rmSync(wait)
  await exact('read again')
})

test('facts of an open window that the log dropped are missed only if the worker dies before they are sealed', async () => {
  const { db, add, quiet, dead, exact, log, windows } = await world({ maxPackets: 3000 })
  await db.connect()
  for (let k = 0; k < 8; k++) {
    await add(500)
    await quiet()
  }
  // 1 to 3000 are sealed; the log dropped the first of them earlier
  assert.equal(windowsIn(windows).length, 1)
  assert.ok(log.firstSeq > 500)
  await dead()
  await exact('after the first death')
  assert.deepEqual([db.status().missed, db.status().packets], [0, 4000])
  for (let k = 0; k < 3; k++) {
    await add(500, 5)
    await quiet()
  }
  assert.deepEqual([db.status().missed, windowsIn(windows).length], [0, 1])
  for (let k = 0; k < 2; k++) {
    await add(200)
    await quiet()
  }
  await dead()
  await exact('after the second death')
  assert.equal(windowsIn(windows).length, 1)
  const opened = 5900 - 3000
  assert.equal(db.status().missed, opened - log.factsAfter(0))
})

test('facts in a batch that a worker did not store before it died are missed if the log dropped them', async () => {
  const { db, add, quiet, dead, exact, wait, log } = await world({ maxPackets: 3000 })
  await db.connect()
  await add(10)
  await quiet()
  writeFileSync(wait, '')
  for (let k = 0; k < 12; k++) await add(500)
  await dead()
  rmSync(wait)
  await exact('after the death')
  assert.deepEqual([db.status().missed, db.status().packets], [6010 - log.factsAfter(0), log.factsAfter(0)])
})

test('a damaged window whose records the log has only in part is missed but for these', async () => {
  const { db, add, quiet, exact, log, windows } = await world()
  await db.connect()
  for (let k = 0; k < 8; k++) {
    await add(500, 10)
    await quiet()
  }
  await exact('before')
  const names = windowsIn(windows)
  const cut = names.findIndex(name => Number(name.slice(17, 33)) >= log.firstSeq)
  for (const name of [names[0]!, names[cut]!]) {
    const bytes = readFileSync(join(windows, name))
    bytes[statSync(join(windows, name)).size - 5]! ^= 1
    writeFileSync(join(windows, name), bytes)
  }
  await db.queryPackets({ limit: 500, offset: 3900 })
  for (let k = 0; k < 40; k++) await db.queryPackets({ limit: 100, offset: k * 100 })
  await exact('after')
  assert.ok(db.status().windows!.damaged === 2, JSON.stringify(db.status()))
  assert.ok(db.status().missed >= 100 && db.status().missed < 210, JSON.stringify(db.status()))
})

test('packets that left a view which was then paused, or whose worker died, stay counted', async () => {
  const settings = { dir: join(mkdtempSync(join(root, 's-')), 'sql'), readOnly: false, keepBytes: 1, keepMs: 0 }
  const { db, add, quiet, dead, exact } = await world({ windows: settings })
  await db.connect()
  for (let k = 0; k < 10; k++) {
    await add(500, k && 10)
    await quiet()
    if (k === 7) await dead()
    if (k < 8) continue
    await db.pause('a test')
    await db.resume()
  }
  await exact('at the end')
  const { left, missed, duplicates } = db.status()
  assert.ok(left > 1000, `${left}`)
  assert.deepEqual([missed, duplicates], [0, 90])
})

test('what a server stored is not missed, even if its worker died before it said so', async () => {
  const { log, add } = await world()
  await add(500)
  const [first, ...segments] = segmentsOf(log)
  const stored = first!.last - 7
  const missed = new Missed(log, [{ from: 0, to: 3 }], 3)
  const unread = { from: first!.last - 2, to: Number.POSITIVE_INFINITY }
  missed.began([{ from: 0, to: 3 }], COUNTS, () => [unread])
  missed.dropping(first!)
  // the last three were in no batch
  assert.equal(missed.facts, factsIn(log, first!.last - 2, first!.last))
  missed.changed([{ from: 0, to: 50 }], COUNTS)
  missed.began([{ from: 0, to: stored }], COUNTS, () => [unread])
  assert.equal(missed.facts, factsIn(log, stored + 1, first!.last))
  const known = missed.facts
  missed.dropping(segments[0]!)
  assert.equal(missed.facts, known + segments[0]!.facts)
})

test('before the first worker, the names of the windows show what is stored', async () => {
  const { log, add } = await world()
  await add(500)
  const [first] = segmentsOf(log)
  const missed = new Missed(log, [{ from: 1, to: 100 }], 100)
  missed.dropping(first!)
  assert.equal(missed.facts, factsIn(log, 101, first!.last))
})

const factsIn = (log: FlashLog, from: number, to: number): number =>
  Array.from(log.read(from, { kinds: ['fact'], upTo: to })).length

/** As the log passes them. */
const segmentsOf = (log: FlashLog): { base: number; last: number; facts: number }[] =>
  [1, 201, 401].map(base => ({ base, last: base + 199, facts: factsIn(log, base, base + 199) }))

for (const seed of [4, 5])
  test(`whatever happens, every fact is counted once (${seed})`, async () => {
    const next = prng(seed)
    const below = (n: number): number => Math.floor(next() * n)
    const keepBytes = seed === 4 ? 60_000 : 0
    const sql = { dir: join(mkdtempSync(join(root, 'r-')), 'sql'), readOnly: false, keepBytes, keepMs: 0 }
    const { db, add, quiet, dead, exact, wait } = await world({ windows: sql, maxPackets: seed === 4 ? 700 : 2000 })
    await db.connect()
    await add(100)
    for (let round = 0; round < 12; round++) {
      const what = below(6)
      if (what === 0) writeFileSync(wait, '')
      for (let k = below(6); k >= 0; k--) await add(1 + below(700), below(9))
      if (what === 0 && below(2) === 0) await dead()
      if (existsSync(wait)) rmSync(wait)
      if (what === 1) await quiet()
      else if (what === 2) await dead()
      else if (what === 3) {
        await db.pause('a test')
        await add(below(1500))
        await db.resume()
      } else if (what === 4) {
        await quiet()
        const names = windowsIn(sql.dir)
        const name = names[below(names.length)]
        if (name) {
          const bytes = readFileSync(join(sql.dir, name))
          bytes[bytes.length - 5]! ^= 1
          writeFileSync(join(sql.dir, name), bytes)
        }
        await db.queryPackets({ limit: 500, offset: below(3000) }).catch(() => undefined)
      }
      if (below(3) === 0) await exact(`round ${round}, ${what}`)
    }
    await exact('at the end')
    assert.ok(db.status().missed > 0)
  })
