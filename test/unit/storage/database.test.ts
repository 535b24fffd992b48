// The built bundle as worker thread, fed from a log on a real disk.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Backoff } from '../../../src/lib/backoff'
import { silentLogger } from '../../../src/lib/logger'
import { FlashLog, LogFiles, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { Database, type DatabaseOptions } from '../../../src/storage'
import { workerProgram } from '../../../src/storage/program'
import { windowName } from '../../../src/storage/windowfile'
import { until as waitUntil } from '../../lib/gateway'
import { ManualClock } from '../../lib/manual'
import { Trace } from '../../lib/trace'
import { openLog } from '../log/helpers'

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

test('the view is rebuilt from the log, queries wait for it, and new facts follow their commit', async () => {
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
  assert.equal(log.factsAfter(log.committedSeq), 1)
  assert.equal(db.lagRecords(), 0)
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

test('when the rebuild of the view takes longer than the wait, the answer is "database starting"', async () => {
  const { db, stop } = await openWith(20_000, { startWaitMs: 1 })
  await db.connect()
  await assert.rejects(db.queryDevices(), { code: 'DB_STARTING', message: 'database starting' })
  await until(() => db.status().state === 'up')
  assert.equal((await db.queryDevices()).total, 3)
  await stop()
})

test('a query waits five seconds for a view that starts', async t => {
  const { db, stop } = await openWith(1, {
    startWaitMs: undefined as never,
    program: () => ({ ...workerProgram(), script: 'setInterval(() => undefined, 1000)' }),
  })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await db.connect()
  let code = 'none yet'
  const asked = db.queryDevices().catch(error => {
    code = error.code
  })
  t.mock.timers.tick(4999)
  await new Promise(setImmediate)
  assert.equal(code, 'none yet')
  t.mock.timers.tick(1)
  await asked
  assert.equal(code, 'DB_STARTING')
  t.mock.timers.reset()
  await stop()
})

test('a worker that dies is restarted and the view is complete again', async () => {
  // the real worker, which dies when it is queried for the packet `die`
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

test('disabled storage, or an unknown dialect, is refused by name', async () => {
  const off = await openWith(0, { sql: { enabled: false } })
  await assert.rejects(off.db.connect(), { code: 'DB_NOT_CONFIGURED', message: 'database not configured' })
  await off.stop()
  const oracle = await openWith(0, { sql: { enabled: true, dialect: 'oracle' } })
  await assert.rejects(oracle.db.connect(), { code: 'DB_NOT_CONFIGURED', message: /oracle/ })
  await oracle.stop()
})

test('a view that is kept off says why, counts the queries it refused, and is complete again later', async () => {
  const { db, stop } = await openWith(100)
  // before its first start, as in safe mode
  await db.pause('kept off')
  await assert.rejects(db.queryPackets(), { code: 'DB_UNAVAILABLE', details: { reason: 'kept off' } })
  assert.deepEqual([db.status().state, db.status().reason, db.status().refused], ['down', 'kept off', 1])
  await db.resume()
  assert.equal((await db.queryPackets()).total, 100)
  // called immediately one after the other, the last call counts
  await Promise.all([db.pause('resting'), db.resume()])
  assert.equal((await db.queryPackets()).total, 100)
  await db.resume()
  assert.equal(db.status().state, 'up')
  await stop()
})

test('resume is refused as connect is', async () => {
  const { db, stop } = await openWith(0, { sql: { enabled: false } })
  await db.pause('kept off')
  await assert.rejects(db.resume(), { code: 'DB_NOT_CONFIGURED' })
  await stop()
})

test('resume starts no second worker next to the one that is scheduled', async () => {
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

test('before the first sealed window the log keeps its first record for the view, and a read-only view keeps none', async t => {
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

/** A worker of the test: answers with all messages it got so far, and reports what the main thread reads then. */
const scripted = (windows: readonly unknown[], answers: string) => `
  const { parentPort: port, resourceLimits, workerData: { wasm, ...setup } } = require('node:worker_threads')
  if (setup.windows) setup.windows.dir = ''
  const heard = [{ ...setup, youngMb: resourceLimits.maxYoungGenerationSizeMb }]
  const state = { counts: { packets: 0, duplicates: 0, left: 0 }, heap: 1000, hole: false }
  const say = (message, transfer = []) => port.postMessage({ ...message, ...state }, transfer)
  port.on('message', message => {
    const { bytes, ...rest } = message
    heard.push(bytes ? [rest, require('node:crypto').createHash('sha1').update(new Uint8Array(bytes, 0, rest.length)).digest('hex')] : rest)
    if (bytes) state.counts.packets += rest.length
    if (bytes || message.type === 'seal') say({ type: 'applied', upTo: rest.upTo, bytes }, bytes ? [bytes] : [])
    if (message.type !== 'question') return
    ${answers}
    say({ type: 'answer', id: message.id, answer: { heard: heard.splice(0) } })
  })
  say({ type: 'ready', windows: ${JSON.stringify(windows)} })
`

test('what a worker is fed and queried, and what the view reports, is as recorded', async t => {
  const trace = new Trace('unit/storage/database-trace.txt')
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { log, timers, files } = await openLog({ maxBytes: 4e6, segmentBytes: 32 * 1024, version: '1' })
  const add = async (from: number, to: number): Promise<void> => {
    for (let k = from; k < to; k++) log.appendFact(factOf(k), { medium: 'UDP' }, 'synced')
    log.appendCursor('main', from)
    if (from % 500 === 0) log.appendClock({ trueWallMs: 0, offsetMs: 9, source: 'ntp' })
    await timers.advance(1100)
  }
  for (let k = 0; k < 4000; k += 250) await add(k, k + 250)
  for (const name of files.list('/log').sort().slice(0, 2)) files.remove(`/log/${name}`)
  const source = new LogFiles('/log', files)
  source.refresh()
  const record = (seq: number) => source.reader(seq).next()!
  const note = (from: number, to: number, wrong = 0) => {
    const { seq, boot, wallMs } = record(to - 3)
    return { name: `${from}`, from, to, witness: { seq, boot, wall_ms: wallMs + wrong } }
  }
  const first = source.firstSeq
  const dir = join(root, 'of another log')
  mkdirSync(dir)
  writeFileSync(join(dir, windowName(9000, 9999)), '')
  const windows = { dir, readOnly: false, keepBytes: 5, keepMs: 6 }
  const one = note(first + 200, first + 300)
  // so many packets that one less would start later
  let most = 3000
  while (log.startOfLast(most) === log.startOfLast(most - 1)) most++
  let witnesses = 0
  const read = log.reader.bind(log)
  t.mock.method(log, 'reader', (from: number, options: { upTo?: number }) => {
    if (options?.upTo === from) witnesses++
    return read(from, options)
  })
  let listeners = 0
  const listen = log.onCommit.bind(log)
  t.mock.method(log, 'onCommit', (listener: () => void) => {
    const stop = listen(listener)
    listeners++
    return () => {
      listeners--
      stop()
    }
  })
  const lives: Record<string, [object, readonly unknown[], string?]> = {
    'bytes for so many packets': [{ maxBytes: 100 * most }, []],
    'no windows': [{ maxPackets: 1000 }, []],
    'few bytes': [{ maxBytes: 20_050 }, []],
    'windows, and nothing sealed': [{ windows }, []],
    'holes between windows': [{ windows }, [one, note(first + 301, first + 400), note(first + 500, first + 600)]],
    'a window of another log': [{ windows }, [note(first, first + 200, 7), note(first + 201, first + 300)]],
    'windows of another process': [{ windows: { ...windows, readOnly: true }, maxPackets: 300 }, [one]],
    'a hole': [{ windows }, [one], 'state.hole = message.question.name === "packet"'],
    'a worker that grew': [{ heapBytes: 5000, heapGrowth: 3 }, [], 'state.heap += 2000'],
    'a worker that reached the greatest heap': [
      {},
      [],
      'state.heap = state.heap < 5e7 ? 48 * 1024 * 1024 : state.heap + 1',
    ],
    'a worker that grew and rests': [{ heapBytes: 5000, heapGrowth: 3, idleMs: 1000 }, [], 'state.heap += 2000'],
    'a hole, and rest': [{ windows, idleMs: 1000 }, [one], 'state.hole = message.question.name === "packet"'],
    'a worker that rests': [{ idleMs: 1000 }, [], 'state.counts.duplicates++'],
    'a worker that rests until a window is due': [{ windows, idleMs: 1000, maxPackets: 4000 }, []],
    'a refusal': [
      {},
      [],
      'if (message.question.uuid) return say({ type: "failed", id: message.id, code: message.question.uuid, message: "no" })',
    ],
    'a death': [
      { backoff: new Backoff({ minMs: 300, maxMs: 300, random: () => 1 } as never) },
      [],
      'if (message.question.uuid) process.exit(3)',
    ],
    'a worker with windows': [
      {},
      [],
      'state.counts.sealed = { upTo: 9, files: 2, bytes: 30, damaged: 1, damaged_files: ["x"] }',
    ],
    'a worker that stays at the greatest heap': [{}, [], 'state.heap = 48 * 1024 * 1024'],
    'a worker of more than twice the bytes': [{ heapBytes: 1 }, [], 'state.heap += 300'],
  }
  for (const [name, [options, notes, answers = '']] of Object.entries(lives)) {
    const clock = new ManualClock()
    const said: string[] = []
    const logger = { ...silentLogger, warn: (text: string) => said.push(text) }
    const program = () => ({ wasm: new Uint8Array(8), script: scripted(notes, answers) })
    const db = new Database({ log, clock, logger, program, ...options } as DatabaseOptions)
    const state = (): unknown => [db.status(), said.splice(0)]
    const ask = async (run: () => Promise<unknown>): Promise<void> => {
      const answer = await run().catch(error => [error.code, error.message, error.details])
      trace.say(`${name}:`, [answer, state()])
    }
    const settled = async (): Promise<void> => {
      while (['starting', 'down'].includes(db.status().state) || db.lagRecords() > 0) await new Promise(setImmediate)
    }
    await ask(() => db.queryDevices())
    await db.connect()
    trace.say(name, [state()])
    await ask(() => db.queryDevices(7))
    await add(5000, 5003)
    await settled()
    await ask(() => db.counted())
    for (const odd of [{ limit: Number.NaN }, { since: Number.NaN }, { buckets: Number.NaN }, { offset: Number.NaN }]) {
      await ask(() => db.queryHistory({ device_id: 'a', sensor_id: 'b', ...odd }))
      await ask(() => db.querySensors(odd))
      await ask(() => db.queryPackets(odd))
    }
    await ask(() => db.queryPacket('STORAGE'))
    clock.advance(60_000)
    t.mock.timers.tick(300)
    await settled()
    await ask(() => db.queryPackets({ limit: 3 }))
    clock.advance(1)
    await ask(() => db.querySensors({ sensor_id: 'a' }))
    t.mock.timers.tick(999)
    trace.say(name, [state()])
    t.mock.timers.tick(1)
    trace.say(name, [state()])
    await add(6000, 6003)
    await ask(() => db.queryHistory({ device_id: 'a', sensor_id: 'b' }))
    await db.pause('kept off')
    await ask(() => db.queryPacket('odd'))
    await db.resume()
    await ask(() => db.queryPacket('odd'))
    await db.close()
    t.mock.timers.tick(60_000)
    trace.say(name, [state(), witnesses, listeners])
    witnesses = 0
  }
  // a window is due, or one packet or byte short of it
  const [facts, bytes] = [log.factsAfter(0), log.bytesAfter(0)]
  for (const more of [{ maxPackets: facts }, { maxPackets: facts + 1 }, { maxBytes: bytes }, { maxBytes: bytes + 1 }])
    for (const readOnly of [false, true]) {
      const bounds = {
        maxPackets: facts + 9,
        maxBytes: bytes + 9,
        ...more,
        windows: { ...windows, readOnly },
        idleMs: 9,
      }
      const db = new Database({
        log,
        ...bounds,
        program: () => ({ wasm: new Uint8Array(8), script: scripted([], '') }),
      })
      await db.connect()
      trace.say(JSON.stringify(more), [readOnly, db.status().state])
      await db.close()
    }
  trace.compare()
})
