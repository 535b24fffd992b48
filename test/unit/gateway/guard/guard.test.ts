// The guard: messages to systemd, the progress token, the count of crashes, the limits of a stop, memory and lag.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { ConfigStore } from '../../../../src/config'
import { runSteps } from '../../../../src/gateway/guard/bounded-stop'
import { Crashes } from '../../../../src/gateway/guard/crashes'
import { Guard } from '../../../../src/gateway/guard/guard'
import { Progress } from '../../../../src/gateway/guard/progress-token'
import { memoryLimit, type ResourceSample, Resources } from '../../../../src/gateway/guard/resources'
import { makeNotifier, type Notifier, watchdogMs } from '../../../../src/gateway/guard/sdnotify'
import { OsError } from '../../../../src/lib/errors'
import { createLogger, silentLogger } from '../../../../src/lib/logger'
import { ManualClock, ManualTimers } from '../../../lib/manual'

test('WATCHDOG_USEC counts only for the process it names', () => {
  assert.equal(watchdogMs({ WATCHDOG_USEC: '30000000' }, 7), 30_000)
  assert.equal(watchdogMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '7' }, 7), 30_000)
  assert.equal(watchdogMs({ WATCHDOG_USEC: '30000000', WATCHDOG_PID: '8' }, 7), 0)
  assert.equal(watchdogMs({ WATCHDOG_USEC: 'x' }, 7), 0)
  assert.equal(watchdogMs({}, 7), 0)
})

test('systemd is notified by datagrams, children do not inherit the socket, and a full queue is retried', async () => {
  const timers = new ManualTimers(new ManualClock())
  const env: Record<string, string | undefined> = { NOTIFY_SOCKET: '@up', WATCHDOG_USEC: '2000000', HOME: '/' }
  const sent: string[] = []
  let full = 2
  const datagram = (path: string, bytes: Uint8Array): void => {
    if (full-- > 0) throw Object.assign(new Error('full'), { code: 'EAGAIN' })
    sent.push(`${path} ${Buffer.from(bytes)}`)
  }
  const notifier = makeNotifier({ env, logger: silentLogger, timers, datagram, pid: 1 })
  assert.deepEqual(Object.keys(env), ['HOME'])
  notifier.send({ READY: 1, STATUS: 'two\nWATCHDOG=trigger' })
  await timers.advance(1000)
  assert.deepEqual(sent, ['@up READY=1\nSTATUS=two WATCHDOG=trigger'])
  assert.equal(notifier.watchdogMs, 2000)
  assert.equal(makeNotifier({ env: {}, logger: silentLogger, datagram }).active, false)
})

test('without the addon systemd-notify sends the messages; without both there is one warning', () => {
  const lines: string[] = []
  const logger = createLogger({ write: line => void lines.push(line) })
  const calls: string[][] = []
  const notifier = makeNotifier({
    env: { NOTIFY_SOCKET: '/run/n' },
    logger,
    pid: 3,
    datagram: () => {
      throw new OsError('E_NO_ADDON', 'native addon missing')
    },
    program: (args, _, failed) => {
      calls.push(args)
      failed(new Error('no such program'))
    },
  })
  for (let k = 0; k < 3; k++) notifier.send({ WATCHDOG: 1 })
  assert.deepEqual(calls, [['--pid=3', 'WATCHDOG=1']])
  assert.equal(lines.length, 1)
})

function progress(pass: () => Promise<void>, stallMs = 30_000) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const stalls: number[] = []
  const token = new Progress({
    ...{ clock, timers, pass, logger: silentLogger },
    stallMs: () => stallMs,
    stalled: ms => void stalls.push(ms),
  })
  return { clock, timers, stalls, token }
}

test('a stall limit as short as the interval between two tokens is not a stall either', async () => {
  const { timers, stalls, token } = progress(async () => undefined, 5000)
  token.start()
  for (let k = 0; k < 600; k++) {
    await timers.advance(100)
    assert.ok(token.alive)
  }
  assert.deepEqual(stalls, [])
})

test('a token that returns is progress, for hours', async () => {
  const { timers, stalls, token } = progress(async () => undefined)
  token.start()
  await timers.advance(3_600_000)
  assert.deepEqual(stalls, [])
  assert.ok(token.alive)
})

test('a token that does not return for 30 s, or throws, is a stall, reported once', async () => {
  for (const pass of [() => new Promise<void>(() => undefined), () => Promise.reject(new Error('stuck'))]) {
    const { timers, stalls, token } = progress(pass)
    token.start()
    await timers.advance(25_000)
    assert.ok(token.alive)
    await timers.advance(60_000)
    assert.equal(stalls.length, 1)
    assert.ok(!token.alive)
  }
})

test('a machine that was suspended is not a stall', async () => {
  const { clock, timers, stalls, token } = progress(async () => undefined)
  token.start()
  await timers.advance(12_000)
  clock.advance(8 * 3_600_000)
  await timers.advance(60_000)
  assert.deepEqual(stalls, [])
})

function marks(t: TestContext) {
  const dataDir = mkdtempSync(join(tmpdir(), 'os-node-crashes-'))
  t.after(() => rmSync(dataDir, { recursive: true, force: true }))
  const next = (change: { boot?: string; fingerprint?: string } = {}): Crashes =>
    new Crashes({ dataDir, boot: 'b1', fingerprint: 'f1', limit: 5, ...change })
  return { dataDir, next }
}

test('five crashes in a row lead to safe mode, and the reason is reported', t => {
  const { next } = marks(t)
  for (let k = 0; k < 5; k++) {
    const run = next()
    assert.equal(run.begin(), undefined, `start ${k}`)
    run.crashed('boom')
  }
  assert.match(next().begin() ?? '', /5 crashes in a row, the last: boom/)
  assert.equal(next().begin('off'), undefined)
})

test('a crash that could not be recorded by the crashed process is reported by the next start', t => {
  const { next } = marks(t)
  for (let k = 0; k < 4; k++) next().begin()
  next().begin(undefined, 'no crash before')
  assert.match(next().begin(undefined, 'frozen in spin') ?? '', /5 crashes in a row, the last: frozen in spin/)
  assert.match(next().begin() ?? '', /the last: frozen in spin/)
})

test('a clean stop, a healthy run and a power cut do not count as crashes', t => {
  const { next } = marks(t)
  for (let round = 0; round < 3; round++) {
    for (let k = 0; k < 3; k++) assert.equal(next().begin(), undefined)
    const run = next()
    assert.equal(run.begin(), undefined)
    if (round === 0) run.stopped()
    else run.healthy()
  }
  for (let k = 0; k < 9; k++) assert.equal(next({ boot: `cut ${k}` }).begin(), undefined)
})

test('a changed configuration is tried once; safe mode lasts over its own stops until it is left', t => {
  const { next } = marks(t)
  for (let k = 0; k < 5; k++) next().begin()
  const safe = next()
  assert.ok(safe.begin())
  safe.stopped(true)
  assert.equal(next().look(false).active, true)
  assert.equal(next({ fingerprint: 'f2' }).begin(), undefined)
  assert.ok(next({ fingerprint: 'f2' }).begin(), 'it crashed again')
  assert.equal(next().look(true).active, false)
  assert.equal(next().begin(), undefined)
})

test('a refused start is no crash, and a damaged file counts as no crashes', t => {
  const { next, dataDir } = marks(t)
  for (let k = 0; k < 9; k++) {
    const run = next()
    assert.equal(run.begin(), undefined)
    run.undo()
    run.stopped()
  }
  writeFileSync(join(dataDir, 'starts.json'), '{"crashes": -1')
  assert.equal(next().begin(), undefined)
})

test('a step of the stop that hangs or throws delays no other step', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const ran: string[] = []
  const done = runSteps(
    [
      { name: 'throws', limitMs: 100, run: () => Promise.reject(new Error('x')) },
      { name: 'hangs', limitMs: 5000, run: () => new Promise(() => undefined) },
      { name: 'hangs too', limitMs: 5000, run: () => new Promise(() => undefined) },
      { name: 'late', limitMs: 100, run: () => void ran.push('late') },
      { name: 'commit', limitMs: 1000, must: true, run: () => void ran.push('commit') },
    ],
    8000,
    { clock, timers, logger: silentLogger },
  )
  await timers.advance(8000)
  assert.deepEqual(await done, ['throws', 'hangs', 'hangs too', 'late'])
  assert.deepEqual(ran, ['commit'])
})

test('memory and lag above their limits are reduced in steps, and the measures are undone after a delay', async () => {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  let sample: ResourceSample = { rss: 50, lagMs: 0 }
  const levels: string[] = []
  const guard = new Resources({
    ...{ logger: silentLogger, timers },
    memoryLimit: () => 100,
    lagLimit: () => 500,
    sample: () => sample,
    changed: level => void levels.push(level),
  })
  guard.start()
  await timers.advance(60_000)
  sample = { rss: 90, lagMs: 0 }
  await timers.advance(5000)
  sample = { rss: 50, lagMs: 0 }
  await timers.advance(20_000)
  assert.deepEqual(levels, [], 'one look is no reason')
  sample = { rss: 99, lagMs: 0 }
  await timers.advance(10_000)
  assert.deepEqual(levels, ['tight'])
  sample = { rss: 84, lagMs: 0 }
  await timers.advance(30_000)
  assert.deepEqual(levels, ['tight', 'lean'])
  await timers.advance(300_000)
  assert.deepEqual(levels, ['tight', 'lean'], 'just below the bound is not enough')
  sample = { rss: 50, lagMs: 10 }
  await timers.advance(30_000)
  assert.deepEqual(levels, ['tight', 'lean', 'normal'])
  sample = { rss: 50, lagMs: 2000 }
  await timers.advance(10_000)
  assert.deepEqual(guard.report().taken, { lean: 0, tight: 2 })
  assert.match(guard.report().reason ?? '', /event loop late by 2000 ms/)
  guard.stop()
})

test('the memory limit is the configured one, otherwise that of the control group, otherwise that of the machine', () => {
  const MB = 1_048_576
  assert.equal(memoryLimit(100, 256 * MB, 4096 * MB), 100 * MB)
  assert.equal(memoryLimit(0, 250 * MB, 4096 * MB), 200 * MB)
  assert.equal(memoryLimit(0, undefined, 1000 * MB), 400 * MB)
  assert.equal(memoryLimit(0, undefined, 256 * MB), 192 * MB)
  assert.equal(memoryLimit(0, undefined, 24_576 * MB), 1024 * MB)
})

function guard(notifier?: Notifier, works = () => false) {
  const clock = new ManualClock()
  const timers = new ManualTimers(clock)
  const counts = { lines: 0, works: 0, proven: 0 }
  const gateway = {
    watchdog: { enabled: false, stall_s: 30 },
    guard: { enabled: false, memory_mb: 0, lag_ms: 0 },
    safe_mode: { healthy_s: 600 },
  }
  const made = new Guard({
    ...{ clock, timers, logger: silentLogger, notifier, config: { config: { gateway } } as unknown as ConfigStore },
    pass: async () => undefined,
    line: () => `line ${++counts.lines}`,
    works: () => {
      counts.works++
      return works()
    },
    level: () => undefined,
    proven: () => counts.proven++,
  })
  return { made, timers, counts }
}

test('the status line for systemd is built only under systemd, since it needs a full status', async () => {
  const alone = guard()
  alone.made.started()
  await alone.timers.advance(60_000)
  assert.equal(await alone.made.reloading(async () => 5), 5)
  assert.equal(alone.counts.lines, 0)
  alone.made.stopping(0)
  const sent: unknown[] = []
  const listened = guard({ active: true, watchdogMs: 0, send: notice => sent.push(notice.STATUS) })
  listened.made.started()
  await listened.timers.advance(20_000)
  await listened.made.reloading(async () => undefined)
  listened.made.stopping(0)
  await listened.timers.advance(60_000)
  assert.deepEqual(sent, [
    'line 1',
    'line 2',
    'line 3',
    'reading the configuration again',
    'line 4',
    'stopping: draining and committing',
  ])
})

test('a gateway that was seen to work is not checked again', async () => {
  let works = false
  const { made, timers, counts } = guard(undefined, () => works)
  made.started()
  await timers.advance(20_000)
  works = true
  await timers.advance(60_000)
  made.stopping(0)
  assert.deepEqual(counts, { lines: 0, works: 3, proven: 1 })
})
