// Calls that may block, on separate threads. What really blocks here is a FIFO without a writer: reading it waits in the
// kernel, like a bus whose chip holds a line low.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Worker } from 'node:worker_threads'
import { OsError } from '../../../src/lib/errors'
import { nativeOrNull } from '../../../src/native'
import { FileReader } from '../../../src/native/files'
import { I2cBus } from '../../../src/native/i2c'
import { BUS_JOBS, stuckThreads } from '../../../src/native/native-thread'
import { getRs485 } from '../../../src/native/rs485'
import { SpiBus } from '../../../src/native/spi'
import { until } from '../../lib/gateway'
import { HangingFile, heldClock } from '../../lib/hanging'
import { leastGrowth } from '../../lib/leak'
import { onTty } from '../../lib/on-tty'

const lacks = nativeOrNull() && existsSync('/proc/self/fd') ? false : 'this machine has no C compiler'

const emulated = process.env.OS_NODE_EMULATED ? 'the emulator starts no emulated programs' : false

const LONG = 60_000
const MOST_MB = 12
const descriptors = (): number => readdirSync('/proc/self/fd').length
const threads = (): number => readdirSync('/proc/self/task').length
const code = (expected: string) => (error: OsError) => error instanceof OsError && error.code === expected

/** A file whose reader waits until it is released. */
function hanging(t: TestContext): HangingFile {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-fifo-'))
  const made = new HangingFile(join(dir, 'chip'))
  t.after(() => {
    made.letGo()
    rmSync(dir, { recursive: true })
  })
  return made
}

function reader(t: TestContext, name: string): FileReader {
  const made = new FileReader(name)
  t.after(() => made.close())
  return made
}

test('calls run in order, into buffers of the caller', { skip: lacks }, async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bus-'))
  t.after(() => rmSync(dir, { recursive: true }))
  const bus = reader(t, 'files')
  const done: number[] = []
  const buffers = Array.from({ length: BUS_JOBS }, () => Buffer.alloc(8, '.'))
  await Promise.all(
    buffers.map(async (buffer, k) => {
      const path = join(dir, `f${k}`)
      writeFileSync(path, 'x'.repeat(k % 12))
      assert.equal(await bus.read(path, buffer, LONG), Math.min(k % 12, 8))
      done.push(k)
    }),
  )
  assert.deepEqual(
    done,
    buffers.map((_, k) => k),
  )
  assert.equal(buffers[3]!.toString(), 'xxx.....')
  await assert.rejects(bus.read(join(dir, 'none'), buffers[0]!, LONG), code('NOT_FOUND'))
  await assert.rejects(bus.read(dir, buffers[0]!, LONG), (error: OsError) => error.details['errno'] === 'EISDIR')
})

test('a call that misses its deadline marks the bus stuck until it returns; no later call is started', {
  skip: lacks,
}, async t => {
  const chip = hanging(t)
  const clock = heldClock(t)
  const states: boolean[] = []
  const bus = new FileReader('chip', { onStuck: stuck => states.push(stuck) })
  t.after(() => bus.close())
  const into = Buffer.alloc(8, '.')
  const first = assert.rejects(bus.read(chip.path, into, 20), code('TIMEOUT'))
  const behind = assert.rejects(bus.read('/proc/self/stat', into, LONG), code('BUS_STUCK'))
  await chip.begun()
  assert.equal(bus.stuck, false)
  clock.pass(21)
  await Promise.all([first, behind])
  assert.equal(bus.stuck, true)
  await assert.rejects(bus.read('/proc/self/stat', into, LONG), code('BUS_STUCK'))
  assert.deepEqual(states, [true])
  chip.letGo()
  await until('the call returns', () => !bus.stuck)
  assert.deepEqual(states, [true, false])
  assert.equal(into.toString(), '........', 'a late answer is thrown away')
  assert.equal(await bus.read('/proc/self/stat', into, LONG), 8)
})

test('a call that timed out in the queue is removed, and the bus is not stuck', { skip: lacks }, async t => {
  const chip = hanging(t)
  const bus = reader(t, 'chip')
  const first = bus.read(chip.path, Buffer.alloc(8), LONG)
  await assert.rejects(bus.read('/proc/self/stat', Buffer.alloc(8), 20), code('TIMEOUT'))
  assert.equal(bus.stuck, false)
  await chip.release()
  assert.equal(await first, 0)
})

test('more than 64 calls are refused, not queued', { skip: lacks }, async t => {
  const chip = hanging(t)
  const bus = reader(t, 'chip')
  const calls = Array.from({ length: BUS_JOBS }, (_, k) =>
    bus.read(k === 0 ? chip.path : '/proc/self/stat', Buffer.alloc(4), LONG),
  )
  await assert.rejects(bus.read('/proc/self/stat', Buffer.alloc(4), LONG), code('BUS_BUSY'))
  await chip.release()
  await Promise.all(calls)
  assert.equal(await bus.read('/proc/self/stat', Buffer.alloc(4), LONG), 4)
})

test('closing a stuck bus leaves its thread alone; the same path is not opened again until it returns', {
  skip: lacks,
}, async t => {
  const chip = hanging(t)
  const clock = heldClock(t)
  const [fds, running] = [descriptors(), threads()]
  const bus = new FileReader('stuck chip')
  const call = assert.rejects(bus.read(chip.path, Buffer.alloc(8), 20), code('TIMEOUT'))
  await chip.begun()
  clock.pass(21)
  await call
  bus.close()
  bus.close()
  assert.equal(stuckThreads('stuck chip'), 1)
  assert.throws(() => new FileReader('stuck chip'), code('BUS_STUCK'))
  await assert.rejects(bus.read(chip.path, Buffer.alloc(8), 20), code('LINK_DOWN'))
  chip.letGo()
  await until('the thread is back', () => stuckThreads('stuck chip') === 0)
  await until('the thread ends', () => threads() <= running)
  new FileReader('stuck chip').close()
  await until('descriptors are back', () => descriptors() <= fds)
})

test('closing rejects the running calls', { skip: lacks }, async t => {
  const { path } = hanging(t)
  const bus = new FileReader('chip')
  const calls = [bus.read(path, Buffer.alloc(8), LONG), bus.read(path, Buffer.alloc(8), LONG)]
  bus.close()
  for (const call of calls) await assert.rejects(call, code('LINK_DOWN'))
  assert.equal(stuckThreads('chip'), 0, 'its deadline is far')
})

test('a thousand buses leave no threads, descriptors or memory behind', { skip: lacks }, async () => {
  const turn = async (count: number): Promise<void> => {
    const into = Buffer.alloc(64)
    for (let k = 0; k < count; k++) {
      const bus = new FileReader('turn')
      await bus.read('/proc/self/stat', into, LONG)
      bus.close()
    }
    await new Promise(setImmediate)
    collect()
  }
  const running = threads()
  await turn(200)
  const fds = descriptors()
  const thousand = async (): Promise<void> => {
    await turn(1000)
    await until('threads have ended', () => threads() <= running)
    await until('descriptors are back', () => descriptors() <= fds)
  }
  const grown = await leastGrowth(thousand, MOST_MB)
  // the sanitizers keep freed memory for a while
  if (!process.env.OS_NODE_ADDON_DIR) assert.ok(grown < MOST_MB, `${grown} MiB more`)
})

test('a hundred thousand calls leak no memory', { skip: lacks }, async t => {
  const bus = reader(t, 'many')
  const into = Buffer.alloc(64)
  const turn = async (count: number): Promise<void> => {
    for (let k = 0; k < count; k++) await bus.read('/proc/self/comm', into, LONG)
    collect()
  }
  await turn(5000)
  const grown = await leastGrowth(() => turn(process.env.OS_NODE_ADDON_DIR ? 5000 : 40_000), MOST_MB)
  if (!process.env.OS_NODE_ADDON_DIR) assert.ok(grown < MOST_MB, `${grown} MiB more`)
})

/** Code that opens a bus on `path`, whose read never returns, using the addon alone. */
const STUCK = `
  const { workerData, isMainThread, parentPort } = require('node:worker_threads')
  const { addonPath, path } = workerData ?? JSON.parse(process.argv[1])
  const module_ = { exports: {} }
  process.dlopen(module_, addonPath)
  const addon = module_.exports
  const bus = addon.busStart()
  const events = addon.busEvents(bus)
  globalThis.kept = [bus, events]
  const answers = [addon.watch(events, 1, () => undefined), addon.fileRead(bus, path, 100), addon.fileRead(bus, path, 100)]
  if (answers.some(answer => !(answer >= 0))) throw new Error(answers.join())
  // it stays until it is killed
  parentPort?.on('message', () => undefined).postMessage('asked')
  const { readdirSync, readlinkSync } = require('node:fs')
  const reads = fd => {
    try { return readlinkSync('/proc/self/fd/' + fd) === path } catch { return false }
  }
  if (isMainThread) setInterval(() => readdirSync('/proc/self/fd').some(reads) && process.exit(7), 2)`

const addonPath = (): string => {
  const folder = process.env.OS_NODE_ADDON_DIR ?? join(process.env.OS_NODE_TEST_ROOT!, 'dist/native')
  return join(folder, `${process.platform}-${process.arch}/os_node.node`)
}

test('a Node thread ends while its bus is stuck, and a late return does no harm', {
  skip: lacks,
}, async t => {
  const chip = hanging(t)
  const [fds, running] = [descriptors(), threads()]
  for (let k = 0; k < 4; k++) {
    const worker = new Worker(STUCK, { eval: true, workerData: { addonPath: addonPath(), path: chip.path } })
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
    await chip.begun(k + 1)
    await worker.terminate()
  }
  assert.equal(chip.readers, 4, 'they are stuck to this moment')
  await until('the stuck threads end', () => {
    chip.letGo()
    return threads() <= running
  })
  await until('descriptors are back', () => descriptors() <= fds)
})

test('a process ends while its bus is stuck', { skip: lacks || emulated }, t => {
  const { path } = hanging(t)
  const ran = spawnSync(process.execPath, ['-e', STUCK, JSON.stringify({ addonPath: addonPath(), path })], {
    encoding: 'utf8',
    timeout: 120_000,
  })
  assert.deepEqual([ran.status, ran.signal, ran.stderr], [7, null, ''])
})

test('a missing path, a path that is no bus, and one without permission are reported as such', {
  skip: lacks,
}, async () => {
  await assert.rejects(SpiBus.open('/dev/spidev99.0'), code('NOT_FOUND'))
  await assert.rejects(I2cBus.open('/dev/i2c-99'), code('NOT_FOUND'))
  await assert.rejects(SpiBus.open('/dev/null'), code('UNSUPPORTED'))
  await assert.rejects(I2cBus.open('/dev/null'), code('UNSUPPORTED'))
  await assert.rejects(onTty('/dev/ttyNONE', getRs485), code('NOT_FOUND'))
})

test('without the addon opening says why it fails', { skip: lacks }, async () => {
  process.env.OS_NODE_NO_ADDON = '1'
  try {
    await assert.rejects(SpiBus.open('/dev/spidev0.0'), code('E_NO_ADDON'))
    await assert.rejects(I2cBus.open('/dev/i2c-1'), code('E_NO_ADDON'))
    await assert.rejects(onTty('/dev/ttyS0', getRs485), code('E_NO_ADDON'))
    assert.throws(() => new FileReader('files'), code('E_NO_ADDON'))
  } finally {
    delete process.env.OS_NODE_NO_ADDON
  }
})

function collect(): void {
  setFlagsFromString('--expose_gc')
  runInNewContext('gc')()
}
