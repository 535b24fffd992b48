// How the worker of a view starts, is fed, dies and ends, seen from the main thread: each worker here is a script of the test.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { Backoff } from '../../../src/lib/backoff'
import { silentLogger } from '../../../src/lib/logger'
import type { FlashLog } from '../../../src/log'
import { Database, type DatabaseOptions } from '../../../src/storage'
import { windowName } from '../../../src/storage/windowfile'
import { until as waitUntil } from '../../lib/gateway'
import { ManualClock } from '../../lib/manual'
import { openLog } from '../log/helpers'

const root = mkdtempSync(join(tmpdir(), 'os-node-life-'))
after(() => rmSync(root, { recursive: true, force: true }))

/** `heard`: what it does with a message; available from its first line on. */
const worker =
  (heard: string, begin = '') =>
  () => ({
    wasm: new Uint8Array(8),
    script: `
    const { parentPort: port } = require('node:worker_threads')
    const state = { counts: { packets: 0, duplicates: 0, left: 0 }, heap: 1, hole: false }
    let batches = 0
    port.on('message', message => {
      const { type, upTo, bytes, id } = message
      if (type === 'batch') batches++
      ${heard}
    })
    port.postMessage({ type: 'ready', windows: [], ...state })
    ${begin}`,
  })
const takes = "port.postMessage({ type: 'applied', upTo, bytes, ...state }, [bytes])"
const answers = "if (type === 'question') port.postMessage({ type: 'answer', id, answer: {}, ...state })"

async function opened(
  facts: number,
  more: Partial<DatabaseOptions>,
): Promise<{ log: FlashLog; db: Database; more: () => Promise<void> }> {
  const { log, timers } = await openLog({ version: '1' })
  for (let k = 0; k < facts; k++) {
    const sensors = [{ id: 'temp', status: 'OK', unit: 'K', value: k }]
    log.appendFact({ id: 'dev', state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid: 7, sensors }, { medium: 'UDP' })
    if (k % 1000 === 999) await timers.advance(1100)
  }
  await timers.advance(1100)
  const one = async (): Promise<void> => {
    log.appendFact({ id: 'dev', state: 'ONLINE', tRaw: 1_720_000_000_000, aid: 7, sensors: [] }, { medium: 'UDP' })
    await timers.advance(1100)
  }
  return { log, more: one, db: new Database({ log, startWaitMs: 60_000, ...more }) }
}

const until = (check: () => boolean): Promise<boolean> => waitUntil(String(check), check)

test('two batches are in flight, and the lag falls with each that the worker accepted', async t => {
  const { log, db } = await opened(9000, { program: worker(`if (type === 'batch' && batches === 1) ${takes}`) })
  let fills = 0
  const read = log.reader.bind(log)
  t.mock.method(log, 'reader', (...of: Parameters<FlashLog['reader']>) => {
    const reader = read(...of)
    const fill = reader.fill.bind(reader)
    reader.fill = (...into) => {
      fills++
      return fill(...into)
    }
    return reader
  })
  await db.connect()
  await until(() => db.lagRecords() < 9000)
  assert.equal(fills, 3)
  assert.ok(db.lagRecords() > 1000, `${db.lagRecords()}`)
  await db.close()
})

test('pause() resolves when the worker has ended', async t => {
  const { db } = await opened(1, { program: worker(`${answers}\nif (type === 'batch') ${takes}`) })
  await db.connect()
  await db.queryPackets()
  let ended = (): void => undefined
  const end = t.mock.method(Worker.prototype, 'terminate', () => new Promise<void>(resolve => (ended = resolve)))
  let paused = false
  const pausing = db.pause('kept off').then(() => {
    paused = true
  })
  await new Promise(setImmediate)
  assert.deepEqual([end.mock.callCount(), paused], [1, false])
  ended()
  await pausing
  end.mock.restore()
  await Worker.prototype.terminate.call(end.mock.calls[0]!.this as Worker)
})

test('100 devices are listed where no limit is requested', async () => {
  const echo = `if (type === 'question') port.postMessage({ type: 'answer', id, answer: message.question, ...state })`
  const { db } = await opened(1, { program: worker(`${echo}\nif (type === 'batch') ${takes}`) })
  await db.connect()
  assert.deepEqual(await db.queryDevices(), { name: 'devices', limit: 100, offset: 0 })
  assert.deepEqual(await db.queryDevices(501, 7), { name: 'devices', limit: 500, offset: 7 })
  await db.close()
})

test('a view whose start takes longer than the wait for its counts is not stopped as unused', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const script = "require('node:worker_threads').parentPort.on('message', () => undefined)"
  const { db } = await opened(1, { idleMs: 5, program: () => ({ wasm: new Uint8Array(8), script }) })
  await db.connect()
  assert.equal(db.status().state, 'resting')
  const counting = db.counted()
  await new Promise(setImmediate)
  t.mock.timers.tick(20_000)
  assert.equal((await counting).state, 'starting')
  t.mock.timers.tick(5)
  assert.equal(db.status().state, 'starting')
  await db.close()
})

test('a view rests a while after its last query, whatever arrives meanwhile', async t => {
  const program = worker(`${answers}\nif (type === 'batch') ${takes}`)
  const { db, more } = await opened(1, { idleMs: 100, program })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await db.connect()
  const states: string[] = []
  await db.queryPackets()
  for (const asks of [true, false, false]) {
    t.mock.timers.tick(60)
    states.push(db.status().state)
    if (asks) await db.queryPackets()
    await more()
    while (db.status().state === 'up' && db.lagRecords() > 0) await new Promise(setImmediate)
  }
  t.mock.timers.tick(60)
  states.push(db.status().state)
  assert.deepEqual(states, ['up', 'up', 'resting', 'resting'])
  await db.close()
})

test('a query that waits for a view is answered when the view is closed', async () => {
  const { db } = await opened(1, { program: worker('') })
  await db.connect()
  const asked = assert.rejects(db.queryPackets(), { code: 'DB_NOT_CONFIGURED' })
  await new Promise(setImmediate)
  await db.close()
  await asked
})

test('messages of a worker after its view was closed are ignored', async t => {
  let hear = (_message: unknown): void => undefined
  const on = Worker.prototype.on
  t.mock.method(Worker.prototype, 'on', function (this: Worker, name: string, listener: () => void) {
    if (name === 'message') hear = listener
    return on.call(this, name, listener)
  })
  const { db } = await opened(1, { program: worker(`if (type === 'batch') ${takes}`) })
  await db.connect()
  await until(() => db.status().state === 'up')
  await db.close()
  hear({ type: 'applied', upTo: 1e9, counts: { packets: 7, duplicates: 0, left: 0 }, heap: 1, hole: false })
  assert.deepEqual([db.status().state, db.status().packets], ['closed', 0], 'the counts of the worker')
})

test('a view that cannot start retries after half a second, later within half a minute', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  t.mock.method(Math, 'random', () => 0.999_999)
  const clock = new ManualClock()
  const pauses: number[] = []
  const warn = (text: string): void => void pauses.push(1000 * Number(/again in ([\d.]+) s$/.exec(text)![1]))
  const program = (): never => {
    throw new Error('no worker')
  }
  const { db } = await opened(1, { clock, logger: { ...silentLogger, warn }, program })
  await db.connect()
  for (let k = 0; k < 16; k++) {
    await new Promise(setImmediate)
    const pause = pauses.at(-1)!
    clock.advance(k === 8 ? 601_000 : pause)
    t.mock.timers.tick(pause)
  }
  await new Promise(setImmediate)
  await db.close()
  const rounded = pauses.map(ms => Math.round(ms / 100) * 100)
  assert.equal(rounded[0], 500)
  assert.equal(Math.max(...rounded), 30_000)
})

test('a worker that was up for more than a minute is restarted as soon as one that dies for the first time', async () => {
  const clock = new ManualClock()
  const pauses: unknown[] = []
  const warn = (text: string): void => void pauses.push(/again in ([\d.]+) s$/.exec(text)![1])
  const backoff = new Backoff({ minMs: 100, maxMs: 800, random: () => 0.999_999 })
  const program = worker(`if (type === 'question') process.exit(3)\nif (type === 'batch') ${takes}`)
  const { db } = await opened(1, { clock, logger: { ...silentLogger, warn }, backoff, program })
  await db.connect()
  for (let k = 0; k < 4; k++) {
    await until(() => db.status().state === 'up')
    clock.advance(61_000)
    await assert.rejects(db.queryPackets(), { code: 'DB_UNAVAILABLE' })
  }
  await db.close()
  assert.deepEqual(pauses, ['0.1', '0.1', '0.1', '0.1'])
})

test('no timer of an idle or failed view keeps the process alive', async t => {
  const made: [number, NodeJS.Timeout][] = []
  const real = setTimeout
  t.mock.method(globalThis, 'setTimeout', ((run: () => void, ms: number) => {
    const timer = real(run, ms)
    made.push([ms, timer])
    return timer
  }) as never)
  const backoff = new Backoff({ minMs: 4321, maxMs: 4321, quickMs: 4321, random: () => 0.999_999 })
  const idle = await opened(1, { idleMs: 12_345, program: worker(`${answers}\nif (type === 'batch') ${takes}`) })
  const down = await opened(1, { backoff, program: worker('', 'process.exit(3)') })
  for (const { db } of [idle, down]) await db.connect()
  await idle.db.queryPackets()
  await until(() => down.db.status().state === 'down')
  const held = made.filter(([ms]) => ms === 12_345 || (ms > 4000 && ms <= 4321)).map(([, timer]) => timer.hasRef())
  assert.deepEqual([held.length > 1, held.includes(true)], [true, false])
  for (const { db } of [idle, down]) await db.close()
})

test('the log keeps the records after the newest window, unless that is of another log', async t => {
  const { log } = await opened(5, {})
  const last = log.lastSeq
  const pin = t.mock.method(log, 'pin')
  for (const [names, kept] of [
    [[], 1],
    [['note.txt'], 1],
    [[windowName(1, last - 1), windowName(1, 1), 'note.txt'], last],
    [[windowName(1, last)], last + 1],
    [[windowName(1, last + 1)], 1],
  ] as const) {
    const dir = mkdtempSync(join(root, 'windows-'))
    for (const name of names) writeFileSync(join(dir, name), '')
    const db = new Database({ log, windows: { dir, readOnly: false }, program: worker('') })
    await db.connect()
    assert.equal(pin.mock.calls.at(-1)!.arguments[0](), kept, `${names}`)
    await db.close()
  }
})
