import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLogger } from '../../../src/lib/logger'
import { verify } from '../../../src/log'
import { Retention, type RetentionOptions } from '../../../src/log/retention'
import type { Segment } from '../../../src/log/segments'
import { DIR, factOf, factsOf, LOCAL, openLog, random } from './helpers'
import { systemError } from './memfiles'

test('the log never takes more than max_bytes, and the counters equal the ledger', async () => {
  for (let seed = 1; seed <= 6; seed++) {
    const next = random(seed)
    const maxBytes = 256 * 1024 + Math.floor(next() * 512 * 1024)
    const options = { maxBytes, segmentBytes: 32 * 1024 + Math.floor(next() * 64 * 1024) }
    let { log, files } = await openLog(options)
    let given = 0
    for (let round = 0; round < 150; round++) {
      for (let k = Math.floor(next() * 200); k >= 0; k--) {
        log.appendFact(factOf(given++, 'x'.repeat(Math.floor(next() * 200))), LOCAL)
      }
      if (next() < 0.1) log.appendCursor(`uplink-${Math.floor(next() * 5)}`, log.lastSeq)
      await log.flush()
      const blocks = [...files.files.keys()].reduce(
        (sum, path) => sum + Math.ceil(files.written(path) / 4096) * 4096,
        0,
      )
      assert.ok(blocks <= maxBytes, `${blocks} of ${maxBytes}`)
      const segments = files.segments(DIR).reduce((sum, name) => sum + files.written(`${DIR}/${name}`), 0)
      assert.equal(log.status().bytes, segments)
      if (next() < 0.05) ({ log, files } = await openLog({ ...options, files: files.afterPowerCut() }))
    }
    const kept = factsOf(log)
    const { dropped, lost, damaged } = log.status()
    assert.ok(dropped > 0)
    assert.equal(dropped + kept.length, given)
    assert.deepEqual([lost, damaged], [dropped, 0])
    const ledger = log.losses.filter(r => r.reason === 'dropped')
    assert.equal(
      ledger.reduce((sum, r) => sum + r.records, 0),
      dropped,
    )
    assert.ok(ledger.at(-1)!.to < log.firstSeq)
    assert.deepEqual(
      kept,
      Array.from({ length: kept.length }, (_, k) => given - kept.length + k),
    )
    await log.flush()
    const found = verify(DIR, files)
    assert.deepEqual(
      [found.ok, found.lost, found.first_seq, found.last_seq],
      [true, dropped, log.firstSeq, log.lastSeq],
    )
  }
})

test('of the segments that a full log drops each is gone from the medium before the next: a power cut leaves no hole', async () => {
  const options = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024 }
  const { files } = await openLog(options)
  // each start begins a segment
  for (let k = 0; k < 40; k++) {
    const { log } = await openLog({ ...options, files })
    log.appendFact(factOf(k), LOCAL)
    await log.flush()
  }
  const removed: string[] = []
  let most = 0
  files.gate = operation => {
    if (operation === 'remove') most = Math.max(most, removed.push(operation))
    if (operation === 'syncDir') removed.length = 0
  }
  const { log } = await openLog({ ...options, files })
  for (let k = 40; k < 140; k++) {
    log.appendFact(factOf(k, 'x'.repeat(5000)), LOCAL)
    if (k % 5 === 0) await log.flush()
  }
  await log.flush()
  assert.ok(log.status().dropped > 40)
  assert.equal(most, 1)
})

test('cursors and counters survive the segments they were written to', async () => {
  const { log, files } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024 })
  log.appendCursor('slow', 1)
  log.appendCounter('tid', 12)
  for (let k = 0; k < 8000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  await log.flush()
  assert.ok(log.firstSeq > 100)
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.equal(again.cursor('slow'), 1)
  assert.equal(again.counter('tid'), 12)
})

test('segments dropped just before a power cut are still counted', async () => {
  const options = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024 }
  const { log, files } = await openLog(options)
  for (let k = 0; k < 3000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  const copy = files.afterPowerCut()
  copy.remove(`${DIR}/${copy.segments(DIR)[0]!}`)
  const { log: again } = await openLog({ ...options, files: copy })
  assert.equal(again.status().dropped + factsOf(again).length, 2901)
})

test('a segment dropped to make room in a full log with when_full "refuse" is no damage after a kill, with its note or without', async () => {
  for (const noted of [false, true]) {
    const options = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' } as const
    const { log, files } = await openLog(options)
    const count = (): number => files.segments(DIR).length
    for (let k = 0, before = 0; count() >= before; k++) {
      before = count()
      log.appendCursor('uplink', log.committedSeq)
      log.appendFact(factOf(k), LOCAL)
      if (k % 10 === 0 && count() >= before) await log.flush()
    }
    if (noted) await log.flush()
    // noted: also where it is far from full
    const maxBytes = noted ? 4 * 1024 * 1024 : options.maxBytes
    const { log: again } = await openLog({ ...options, maxBytes, files: files.copy() })
    const { dropped, damaged } = again.status()
    assert.deepEqual([damaged, dropped > 0], [0, true], `noted: ${noted}`)
  }
})

test('when_full "refuse" drops nothing for records that wait in RAM while the disk refuses: a kill would take them', async () => {
  const options = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' } as const
  const { log, files } = await openLog(options)
  let facts = 0
  while (files.segments(DIR).length < 5) {
    log.appendFact(factOf(facts++), LOCAL)
    if (facts % 10 === 0) await log.flush()
  }
  await log.flush()
  log.appendCursor('uplink', log.committedSeq)
  await log.flush()
  files.gate = operation => {
    if (operation === 'write' || operation === 'sync') throw systemError('EIO')
  }
  while (log.pendingBytes < 128 * 1024) log.appendFact(factOf(facts), LOCAL)
  files.gate = () => undefined
  const { log: again } = await openLog({ ...options, files })
  const { damaged, dropped } = again.status()
  assert.deepEqual([damaged, dropped, factsOf(again).length], [0, 0, facts])
})

test('max_age_s drops older records, but not by an unreliable clock', async () => {
  const { log, timers, clock } = await openLog({ maxAgeS: 800, segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
  const hour = async (): Promise<void> => {
    for (let k = 0; k < 36; k++) {
      log.appendFact(factOf(k), LOCAL)
      await timers.advance(100_000)
    }
  }
  log.setQuality('synced')
  await hour()
  const kept = factsOf(log).length
  assert.ok(kept >= 8 && kept <= 11, `${kept}`)
  log.setQuality('unsynced')
  clock.wallMs += 50 * 365 * 86_400_000
  log.appendFact(factOf(0), LOCAL)
  await timers.advance(1000)
  assert.equal(factsOf(log).length, kept + 1)
})

test('a pin protects segments from the age limit, but live data takes precedence at the byte limit', async () => {
  const { log, timers } = await openLog({ maxAgeS: 10, maxBytes: 256 * 1024, segmentBytes: 32 * 1024 })
  log.setQuality('synced')
  log.pin(() => 1)
  for (let k = 0; k < 20; k++) {
    log.appendFact(factOf(k), LOCAL)
    await timers.advance(10_000)
  }
  assert.equal(factsOf(log).length, 20)
  log.pin(() => undefined)
  log.appendFact(factOf(20), LOCAL)
  await timers.advance(10_000)
  assert.ok(factsOf(log).length < 5)
  log.pin(() => 1)
  for (let k = 0; k < 8000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  await log.flush()
  assert.equal(log.status().state, 'ok')
  assert.equal(factsOf(log).at(-1), 7999)
})

test('a log that refuses records and is full to its last block accepts the cursor that makes room', async () => {
  const { log } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' })
  log.appendCursor('uplink', 1)
  const fill = async (append: (k: number) => void): Promise<void> => {
    for (let k = 0; k < 20_000; k++) {
      append(k)
      if (k % 20 === 0) await log.flush()
      if (log.failure) throw log.failure
    }
  }
  await assert.rejects(
    fill(k => log.appendFact(factOf(k), LOCAL)),
    { code: 'DISK_FULL' },
  )
  assert.equal(log.status().state, 'ok')
  // an outage in which counters are stored: they fill the space that the facts left
  await assert.rejects(
    fill(k => log.appendCounter('pulses', k)),
    { code: 'DISK_FULL' },
  )
  assert.equal(log.status().state, 'degraded')
  const passed = log.appendCursor('uplink', log.committedSeq)
  await log.flush()
  assert.equal(log.status().state, 'ok')
  assert.ok(log.committedSeq >= passed)
  log.appendFact(factOf(1), LOCAL)
})

test('zeros that a power cut left of the only segment take no room of a log that refuses records', async () => {
  const options = { maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' } as const
  const { log, files } = await openLog(options)
  log.appendFact(factOf(0), LOCAL)
  await log.flush()
  const [name] = files.segments(DIR)
  files.files.get(`${DIR}/${name}`)!.data = Buffer.alloc(256 * 1024)
  const next = await openLog({ ...options, files })
  next.log.appendFact(factOf(1), LOCAL)
  await next.log.flush()
  assert.deepEqual([next.log.failure, factsOf(next.log)], [undefined, [1]])
  assert.ok(next.log.status().damaged > 0)
})

test('when_full "refuse" drops nothing while there is no cursor', async () => {
  const { log } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' })
  let taken = 0
  let refused = 0
  for (let k = 0; k < 20_000 && refused === 0; k++) {
    try {
      log.appendFact(factOf(k), LOCAL)
      taken++
    } catch (error) {
      assert.equal((error as { code: string }).code, 'DISK_FULL')
      refused++
    }
    if (k % 50 === 0) await log.flush()
  }
  await log.flush()
  assert.equal(refused, 1)
  assert.deepEqual(
    factsOf(log),
    Array.from({ length: taken }, (_, k) => k),
  )
  assert.equal(log.status().dropped, 0)
})

test('when_full "refuse" keeps what no cursor has passed and refuses new facts until one has', async () => {
  const { log } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024, whenFull: 'refuse' })
  log.appendCursor('main', log.lastSeq)
  log.appendCounter('tid', 1)
  let taken = 0
  const fill = async (): Promise<void> => {
    for (let k = 0; k < 20_000; k++) {
      try {
        log.appendFact(factOf(taken), LOCAL)
        taken++
      } catch (error) {
        assert.equal((error as { code: string }).code, 'DISK_FULL')
        return
      }
      if (k % 50 === 0) await log.flush()
    }
    assert.fail('never full')
  }
  await fill()
  await log.flush()
  assert.equal(factsOf(log).length, taken)
  assert.equal(log.status().refused, 1)
  assert.equal(log.status().dropped, 0)
  const before = taken
  // the uplink catches up: cursors are still accepted, and room returns once they are on the medium (decision 0008)
  log.appendCursor('main', log.lastSeq)
  assert.throws(() => log.appendFact(factOf(taken), LOCAL), { code: 'DISK_FULL' })
  assert.equal(log.status().dropped, 0)
  await log.flush()
  await fill()
  assert.ok(taken > before)
  assert.equal(log.status().state, 'ok')
})

const BLOCK = 4096
const T0 = 1_710_000_000_000

/** Retention over ten blocks of which the segments 1 to `count` (ten records each) take one each; the last one is active. */
function retention(count: number, options: Partial<RetentionOptions> = {}, kept: [string, number][] = []) {
  const list = Array.from(
    { length: count },
    (_, k): Segment => ({
      ...{ base: 10 * k + 1, name: `${k + 1}`, path: '', size: BLOCK, headerLength: 0, generation: 0 },
      ...{ last: 10 * k + 10, facts: 10, lastFact: 10 * k + 9, created: T0 + 1000 * k },
    }),
  )
  const segments = {
    list,
    active: list.at(-1),
    get taken() {
      return BLOCK * list.length
    },
    cost: (bytes: number) => bytes,
    remove: (segment: Segment) => list.splice(list.indexOf(segment), 1),
  }
  const warned: string[] = []
  const logger = { ...silentLogger, warn: (text: string) => void warned.push(text) }
  const whole = { maxBytes: 10 * BLOCK, maxAgeMs: 0, whenFull: 'drop_oldest' as const, logger, ...options }
  const retention = new Retention(whole, segments as never, { kept: new Map(kept) } as never)
  const dropped: string[] = []
  retention.onDropped = segment => void dropped.push(segment.name)
  return { retention, dropped, warned, list }
}

test('exactly max_bytes is allowed, one byte more drops the oldest segment, and never the active one', () => {
  const { retention: bytes, dropped, warned } = retention(8)
  bytes.damagedBytes = BLOCK
  bytes.makeRoom(BLOCK, false)
  bytes.makeRoom(1, true)
  assert.deepEqual(dropped, [])
  bytes.makeRoom(BLOCK + 1, false)
  assert.deepEqual(dropped, ['1'])
  bytes.makeRoom(2 * BLOCK + 1, true)
  assert.deepEqual([dropped, warned], [['1', '2'], []])
  assert.throws(() => bytes.makeRoom(9 * BLOCK, false), { code: 'DISK_FULL' })
  assert.equal(dropped.at(-1), '7')
})

test('a segment that the SQL view still needs is dropped with a warning, one that it has passed without', () => {
  const { retention: bytes, dropped, warned } = retention(10)
  bytes.pinned = () => 11
  bytes.makeRoom(1, false)
  assert.deepEqual([dropped, warned], [['1'], []])
  bytes.pinned = () => 20
  bytes.makeRoom(BLOCK + 1, false)
  assert.deepEqual(dropped, ['1', '2'])
  assert.match(warned.join(), /drops segment 2/)
})

test('"refuse" accepts exactly what fits above the reserve, and drops only what every cursor has passed', () => {
  const cursors: [string, number][] = [
    ['a', 99],
    ['b', 9],
  ]
  const { retention: full, dropped } = retention(7, { whenFull: 'refuse' }, cursors)
  full.damagedBytes = BLOCK
  assert.equal(full.admits(1000, BLOCK - 1000, BLOCK), true)
  assert.deepEqual(dropped, [], 'ten blocks of ten')
  assert.equal(full.admits(1001, BLOCK - 1000, BLOCK), true)
  assert.deepEqual(dropped, [], 'the cursor b is at the last fact of segment 1, which goes when the room is needed')
  assert.equal(full.admits(2 * BLOCK, BLOCK, BLOCK), false)
  assert.throws(() => full.makeRoom(5 * BLOCK, true), { code: 'DISK_FULL' })
  assert.deepEqual(dropped, ['1'])
  const last = retention(1, { whenFull: 'refuse' }, [['a', 99]])
  assert.equal(last.retention.admits(BLOCK * 9, 0, BLOCK), false, 'the active segment stays')
  assert.equal(retention(10).retention.admits(BLOCK, 0, 0), true, 'the other policy refuses nothing')
})

test('by age: what is before the first segment within the age is dropped, to the millisecond', () => {
  const at = T0 + 60_000
  const aged = (wallMs: number, options: Partial<RetentionOptions> = {}, pin?: number): string[] => {
    const { retention: age, dropped } = retention(5, { maxAgeMs: 60_000, ...options })
    age.pinned = () => pin
    age.byAge(wallMs)
    return dropped
  }
  assert.deepEqual(aged(at + 1999), ['1'])
  assert.deepEqual(aged(at + 2000), ['1', '2'], 'segment 3 is made at the limit')
  assert.deepEqual(aged(at + 9000), ['1', '2', '3', '4'], 'the active one stays')
  assert.deepEqual(aged(at + 9000, { maxAgeMs: 0 }), [], 'no limit')
  assert.deepEqual(aged(at + 9000, {}, 20), ['1'], 'record 20 is needed')
  assert.deepEqual(aged(at + 9000, {}, 21), ['1', '2'])
  const { retention: distrusted, dropped, list } = retention(5, { maxAgeMs: 60_000 })
  distrusted.timeTrusted = false
  distrusted.byAge(at + 9000)
  distrusted.timeTrusted = true
  for (const segment of list) segment.created = 1_704_067_199_999
  distrusted.byAge(at + 9000)
  assert.deepEqual(dropped, [], 'neither a clock nor a segment that cannot be believed')
  list[3]!.created++
  distrusted.byAge(at + 9000)
  assert.deepEqual(dropped, ['1', '2', '3'])
})

test('a segment ends after an eighth of the age if it contains facts', () => {
  const { retention: age, list } = retention(1, { maxAgeMs: 8000 })
  assert.deepEqual([age.tooOld(list[0]!, T0 + 1000), age.tooOld(list[0]!, T0 + 1001)], [false, true])
  list[0]!.facts = 0
  assert.equal(age.tooOld(list[0]!, T0 + 1001), false)
  assert.equal(retention(1).retention.tooOld({ ...list[0]!, facts: 1 }, T0 + 99_999), false)
})
