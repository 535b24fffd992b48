// R21: a board whose clock starts at 1970 or stale and then jumps. Readings carry a quality, are corrected once when the time
// becomes right, keep their order, and never have a time before the build.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { ConfigStore } from '../../../../src/config'
import { Gateway } from '../../../../src/gateway/gateway'
import { restoreMemory } from '../../../../src/gateway/restore'
import { TimeCorrections } from '../../../../src/gateway/time/corrections'
import { TimeKeeper } from '../../../../src/gateway/time/gateway-time'
import type { ClockSigns } from '../../../../src/gateway/time/time-sources'
import { holding } from '../../../../src/gateway/uplink/build'
import { realFiles } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'
import { yieldToLoop } from '../../../../src/lib/yield'
import { Registry } from '../../../../src/links/registry'
import { FlashLog, type FlashLogOptions, type LogRecord } from '../../../../src/log'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { ManualClock } from '../../../lib/manual'
import { MemFiles, systemError } from '../../log/memfiles'

const BUILD = Date.UTC(2026, 0, 1)
const TRUE = Date.UTC(2026, 10, 21)
const DAY = 86_400_000
const JUMPS = [50 * 365 * DAY, -14 * DAY, -3_600_000, -TRUE]

const open: Gateway[] = []

async function machine(dir: string, wall: number, signs: () => ClockSigns = () => ({})) {
  writeFileSync(
    join(dir, 'Config.json'),
    JSON.stringify({ device_id: 'GW', assigned_id: 5, storage: { sql: { enabled: false } } }),
  )
  const clock = new ManualClock(wall, 1000)
  const gateway = await Gateway.open({
    config: ConfigStore.load({ path: join(dir, 'Config.json'), env: {}, cwd: dir }),
    registry: new Registry({}),
    units: { ...wireUnits(), resolve },
    script: '',
    version: '0',
    builtAt: BUILD,
    logger: silentLogger,
    defaultSources: [],
    role: 'serve',
    clock,
    clockSigns: signs,
  })
  await gateway.start()
  open.push(gateway)
  const records = (): LogRecord[] => {
    const reader = gateway.log.reader(1, { kinds: ['fact', 'clock'], committedOnly: false })
    const list: LogRecord[] = []
    for (let record = reader.next(); record; record = reader.next()) list.push(record)
    return list
  }
  return { gateway, clock, records }
}

const folder = (t: TestContext): string => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-clock-'))
  t.after(async () => {
    for (const gateway of open.splice(0)) await gateway.stop()
    rmSync(dir, { recursive: true, force: true })
  })
  return dir
}

/** Times of the facts as every reader that applies corrections has them. */
function corrected(records: readonly LogRecord[]): number[] {
  const corrections = new TimeCorrections()
  for (const { boot, seq, clock, quality } of records)
    if (clock) corrections.note(boot, seq, clock.offsetMs, quality === 'synced')
  return records.filter(({ fact }) => fact).map(record => record.fact!.tRaw + corrections.of(record))
}

for (const start of [0, TRUE - 200 * DAY, TRUE])
  for (const jump of JUMPS)
    for (const by of ['server', 'ntp'] as const)
      test(`R21: start at ${new Date(start).toISOString()}, a jump of ${jump / DAY} days, then ${by}`, async t => {
        let ntp = false
        const kernel = () => ({ kernel: { synced: ntp, offset_us: 0, maxerror_us: 0 } })
        const { gateway, clock, records } = await machine(folder(t), start, kernel)
        const read = (): void => {
          for (let k = 0; k < 3; k++) {
            gateway.submit([['T1', 'OK', 20 + k, 'Cel']])
            clock.advance(1000)
          }
        }
        read()
        clock.wallMs += jump
        read()
        const facts = records().filter(({ fact }) => fact)
        assert.ok(facts.every(({ quality }) => quality === 'unsynced'))
        assert.ok(
          facts.every(({ fact }) => fact!.tRaw >= BUILD),
          'never before the build',
        )
        const sinceStart = clock.monoMs - 1000
        if (by === 'server') gateway.time.noteServerTime(TRUE / 1000)
        else {
          ntp = true
          clock.wallMs = TRUE + 500
          clock.advance(60_000)
          gateway.time.confirmTime('ntp')
          clock.advance(-60_000)
        }
        assert.equal(gateway.time.quality, by)
        read()
        const all = records()
        assert.deepEqual(
          all.filter(({ fact }) => fact).map(({ quality }) => quality === 'synced'),
          [...Array(6).fill(false), ...Array(3).fill(true)],
        )
        assert.equal(
          all.filter(({ clock: c, quality }) => c && quality === 'synced').length,
          1,
          'one record for the sync',
        )
        const times = corrected(all)
        for (let k = 1; k < times.length; k++) assert.ok(times[k]! > times[k - 1]!, `in order: ${times}`)
        // the jump itself took no time: each reading is where it was by the monotonic clock, to the resolution of one
        // second
        const real = TRUE + 500 - sinceStart
        if (by === 'server')
          for (const [k, time] of times.entries())
            assert.ok(Math.abs(time - real - 1000 * k) <= 1500, `${k}: ${time - real}`)
      })

test('a correct time continues over a jump of the OS clock, marked as doubtful until a time source confirms it', async t => {
  let ntp = true
  const { gateway, clock, records } = await machine(folder(t), TRUE, () => ({
    kernel: { synced: ntp, offset_us: 0, maxerror_us: 0 },
  }))
  assert.equal(gateway.time.quality, 'ntp')
  gateway.submit([['T1', 'OK', 20, 'Cel']])
  clock.advance(1000)
  clock.wallMs += 50 * 365 * DAY
  ntp = false
  assert.equal(gateway.time.now(), TRUE + 1000)
  assert.equal(gateway.time.quality, 'unsynced')
  gateway.submit([['T1', 'OK', 20, 'Cel']])
  assert.deepEqual(
    records().map(({ clock: c, quality, fact }) => [c?.source ?? fact!.tRaw - TRUE, quality]),
    [
      [0, 'synced'],
      ['jump', 'unsynced'],
      [1000, 'unsynced'],
    ],
  )
  gateway.time.noteServerTime(TRUE / 1000 + 1)
  assert.equal(gateway.time.quality, 'server')
  assert.deepEqual(gateway.status().time.jumps, 1)
})

test("a board without an RTC starts at the time of the last run's end, and timestamps in a wrong future affect nothing else", async t => {
  const dir = folder(t)
  const first = await machine(dir, TRUE, () => ({ kernel: { synced: true, offset_us: 0, maxerror_us: 0 } }))
  first.gateway.submit([['T1', 'OK', 20, 'Cel']])
  first.clock.advance(5000)
  await first.gateway.stop()
  const second = await machine(dir, 0)
  assert.equal(second.gateway.time.quality, 'saved')
  assert.ok(second.gateway.time.now() >= TRUE + 5000)
  second.clock.wallMs = TRUE + 50 * 365 * DAY
  second.gateway.submit([['T1', 'OK', 20, 'Cel']])
  await second.gateway.stop()
  const third = await machine(dir, 0)
  assert.ok(Math.abs(third.gateway.time.now() - TRUE) < DAY, 'an unconfirmed time is not kept')
  third.gateway.time.noteServerTime(TRUE / 1000 + 3600)
  third.gateway.submit([['T1', 'OK', 20, 'Cel']])
  assert.equal(third.records().at(-1)!.fact!.tRaw, TRUE + 3_600_500)
})

test('facts older than what a start reads back are corrected when an uplink reaches them', async t => {
  const dir = folder(t)
  const fact = (k: number) => ({ id: 'D', state: 'ONLINE', tRaw: 1000 + k, aid: 5, sensors: [] })
  const first = await FlashLog.open({ dir })
  first.appendFact(fact(0), { medium: 'local' }, 'unsynced')
  first.appendClock({ trueWallMs: 0, offsetMs: 7_000, source: 'jump' }, 'unsynced')
  first.appendFact(fact(1), { medium: 'local' }, 'unsynced')
  first.appendClock({ trueWallMs: 0, offsetMs: 500_000, source: 'server' }, 'synced')
  // several segments of reads later
  for (let k = 2; k < 30_000; k++) first.appendFact(fact(k), { medium: 'local' }, 'synced')
  await first.close()
  const log = await FlashLog.open({ dir })
  t.after(() => log.close())
  const corrections = new TimeCorrections()
  const nobody = {
    noteSaved: () => undefined,
    noteStamp: () => undefined,
    take: () => undefined,
    restoreMemory: () => undefined,
  }
  const memories = {
    time: nobody,
    receiver: nobody,
    frames: nobody,
    corrections,
    local: () => undefined,
    packet: () => undefined,
  }
  restoreMemory(log, memories as never, 10)
  log.appendClock({ trueWallMs: 0, offsetMs: 9_000_000, source: 'server' }, 'synced')
  corrections.note(log.boot, log.lastSeq, 9_000_000, true)
  const reader = log.reader(1, { kinds: ['fact'], committedOnly: false })
  const times = [0, 1, 2].map(() => {
    const record = reader.next()!
    corrections.correct(record)
    return record.fact!.tRaw
  })
  assert.deepEqual(times, [1000 + 507_000, 1001 + 500_000, 1002])
})

/** A gateway's time that no source has confirmed, and its log. */
async function unsynced(t: TestContext, options: Partial<FlashLogOptions> = {}) {
  const dir = folder(t)
  writeFileSync(join(dir, 'Config.json'), '{}')
  const config = ConfigStore.load({ path: join(dir, 'Config.json'), env: {}, cwd: dir })
  const clock = new ManualClock(0, 1000)
  const keeper = await TimeKeeper.open({
    ...{ config, clock, files: realFiles, logger: silentLogger, builtAt: BUILD },
    clockSigns: () => ({}),
  })
  const log = await FlashLog.open({ dir: join(dir, 'log'), clock: keeper.time.quiet, files: realFiles, ...options })
  t.after(() => {
    keeper.stop()
    return log.close()
  })
  let pumps = 0
  keeper.begin(log, () => pumps++)
  const hold = holding({ config, time: keeper.time, timeKept: () => keeper.kept })
  return { keeper, log, hold, holdMs: config.config.gateway.time.hold_unsynced_s * 1000, pumps: () => pumps }
}

test('a corrected time is sent upstream only when its correction record is on flash: a power cut takes back no time that was sent', async t => {
  const { keeper, log, hold, holdMs, pumps } = await unsynced(t)
  assert.equal(hold('unsynced'), holdMs)
  keeper.time.noteServerTime(TRUE / 1000)
  assert.equal(pumps(), 1)
  assert.equal(hold('synced'), 0)
  assert.ok(hold('unsynced') > 0, 'its correction is in RAM only')
  await log.flush()
  await yieldToLoop()
  assert.equal(hold('unsynced'), 0)
  assert.equal(pumps(), 2)
})

test('a corrected time waits for its record while the disk refuses, too; a record that RAM could not keep is appended again', async t => {
  const files = new MemFiles()
  const { keeper, log, hold } = await unsynced(t, { files, bufferBytes: 4096 })
  const fact = () => log.appendFact({ id: 'D', state: 'ONLINE', tRaw: 1, aid: 5, sensors: [] }, { medium: 'local' })
  const steps = (of: FlashLog) => [...of.read(0, { kinds: ['clock'] })].map(({ clock }) => clock!.offsetMs)
  log.appendFact({ id: 'D', state: 'ONLINE', tRaw: 1, aid: 5, sensors: [] }, { medium: 'local' }, 'unsynced')
  await log.flush()
  files.gate = operation => {
    if (operation === 'sync') throw systemError('EIO')
  }
  const before = keeper.time.now()
  keeper.time.noteServerTime(TRUE / 1000)
  const moved = keeper.time.now() - before
  await log.flush()
  await yieldToLoop()
  assert.deepEqual([log.degraded, log.quality, hold('synced')], [true, 'synced', 0])
  assert.ok(hold('unsynced') > 0, 'a power cut would take the correction back')
  const first = log.lastSeq
  for (let k = 0; k < 100_000 && log.status().overflow === 0; k++) fact()
  await yieldToLoop()
  assert.ok(log.losses.some(({ from, to, reason }) => reason === 'overflow' && from <= first && first <= to))
  assert.ok(hold('unsynced') > 0)
  files.gate = () => undefined
  await log.flush()
  await yieldToLoop()
  assert.deepEqual([log.degraded, hold('unsynced')], [false, 0])
  assert.deepEqual(steps(log), [moved])
})
