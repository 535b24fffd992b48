import assert from 'node:assert/strict'
import { test } from 'node:test'
import { factOf, factsOf, LOCAL, openLog, settle } from './helpers'
import { type MemFiles, systemError } from './memfiles'

test('the oldest pending record is committed after the interval, all of them with one sync', async () => {
  const { log, files, timers } = await openLog()
  const before = files.syncs
  const commits: number[] = []
  log.onCommit(seq => commits.push(seq))
  const first = log.appendFact(factOf(1), LOCAL)
  await timers.advance(600)
  const second = log.appendFact(factOf(2), LOCAL)
  await timers.advance(399)
  assert.equal(log.committedSeq, first - 1)
  await timers.advance(1)
  assert.equal(log.committedSeq, second)
  assert.deepEqual(commits, [second])
  assert.equal(files.syncs - before, 1)
})

test('a record that a caller waits for is committed after ack_commit_ms', async () => {
  const { log, timers } = await openLog()
  const seq = log.appendFact(factOf(1), LOCAL)
  await timers.advance(50)
  let done = false
  const waiting = log.committed(seq).then(() => {
    done = true
  })
  await timers.advance(99)
  assert.equal(done, false)
  await timers.advance(1)
  await waiting
  assert.equal(done, true)
  await log.committed(seq)
})

test('commit_bytes pending starts a commit immediately', async () => {
  const { log, timers } = await openLog({ commitBytes: 1000 })
  let seq = 0
  for (let k = 0; k < 20; k++) seq = log.appendFact(factOf(k), LOCAL)
  await timers.advance(0)
  assert.equal(log.committedSeq, seq)
})

test('two syncs never overlap, and records appended during one are committed by the next', async () => {
  const { log, files, timers } = await openLog({ commitBytes: 500 })
  let release: () => void = () => undefined
  files.slow = () => new Promise(resolve => (release = resolve))
  for (let k = 0; k < 10; k++) log.appendFact(factOf(k), LOCAL)
  const mid = log.lastSeq
  await timers.advance(2000)
  for (let k = 0; k < 10; k++) log.appendFact(factOf(k), LOCAL)
  await timers.advance(5000)
  assert.ok(log.committedSeq < mid)
  release()
  await settle()
  assert.equal(log.committedSeq, mid)
  await timers.advance(0)
  release()
  await settle()
  assert.equal(log.committedSeq, log.lastSeq)
  assert.equal(files.syncsAtOnce, 1)
})

test('a commit that hangs for two minutes reads as degraded', async () => {
  const { log, files, timers } = await openLog()
  files.slow = () => new Promise(() => undefined)
  log.appendFact(factOf(1), LOCAL)
  await timers.advance(119_000)
  assert.equal(log.status().state, 'ok')
  await timers.advance(3_000)
  assert.equal(log.status().state, 'degraded')
  assert.match(log.status().reason!, /waiting for the disk for 12\d s/)
})

test('cursors, counters and clock are records and cost no sync of their own', async () => {
  const { log, files, timers } = await openLog()
  const seq = log.appendFact(factOf(1), LOCAL)
  const before = files.syncs
  log.appendCursor('main', seq)
  log.appendCounter('next_tid', 199)
  log.appendClock({ trueWallMs: 1, offsetMs: 2, source: 'test' })
  await timers.advance(1000)
  assert.equal(files.syncs - before, 1)
  assert.equal(log.cursor('main'), seq)
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.equal(again.cursor('main'), seq)
  assert.equal(again.cursor('other'), undefined)
  assert.deepEqual(
    [again.counter('next_tid'), again.cursor('next_tid'), log.counter('none')],
    [199, undefined, undefined],
  )
  again.appendCursor('main', 0)
  assert.equal(again.cursor('main'), undefined)
})

test('close commits everything; the next start sees the clean stop and continues the count', async () => {
  const { log, files } = await openLog()
  assert.deepEqual([log.boot, log.cleanStop], [1, false])
  log.appendFact(factOf(1), LOCAL)
  await log.close()
  await log.close()
  assert.throws(() => log.appendFact(factOf(2), LOCAL), { code: 'STORAGE' })
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual([again.boot, again.cleanStop], [2, true])
  assert.equal(again.lastSeq, 4)
})

test('bytes written today restart at midnight and survive a restart', async () => {
  const { log, files, clock, timers } = await openLog()
  log.appendFact(factOf(1), LOCAL)
  await timers.advance(1000)
  const opened = clock.wall()
  const today = log.status().bytes_written_today
  assert.equal(today, files.bytes)
  await log.close()
  const again = await openLog({ files: files.copy(), clock })
  assert.ok(again.log.status().bytes_written_today > today)
  // what an output needs about the fill level: the limit, and how far back it goes
  const { bytes, max_bytes, oldest } = again.log.status()
  assert.ok(bytes < max_bytes)
  assert.equal(oldest, opened - 1000)
  clock.advance(86_400_000)
  assert.equal(again.log.status().bytes_written_today, 0)
})

test('a fact beyond the record limit is refused and uses no seq', async () => {
  const { log } = await openLog()
  const seq = log.lastSeq
  const big = {
    ...factOf(1),
    sensors: Array.from({ length: 300 }, () => ({ ...factOf(1).sensors[0]!, id: 'x'.repeat(2000) })),
  }
  assert.throws(() => log.appendFact(big, LOCAL), { code: 'PACKET_TOO_LARGE' })
  const large = { ...big, sensors: big.sensors.slice(0, 100) }
  assert.equal(log.appendFact(large, LOCAL), seq + 1)
  await log.flush()
  assert.deepEqual([...log.read(seq + 1)][0]!.fact, large)
})

/** What a process that is killed now leaves: all that was written, synced or not. */
const killed = async (files: MemFiles): Promise<number[]> => factsOf((await openLog({ files: files.copy() })).log)

test('a killed process loses nothing older than 20 ms, with a hanging sync or not; that costs no sync and no bytes', async () => {
  const { log, files, timers } = await openLog()
  const counted = { writes: 0, bytes: 0 }
  files.gate = (operation, path, bytes) => {
    if (operation !== 'write' || !path.endsWith('.seg')) return
    counted.writes++
    counted.bytes += bytes!
  }
  const syncs = files.syncs
  log.appendFact(factOf(1), LOCAL)
  await settle()
  assert.deepEqual(await killed(files), [1], 'after a quiet time at the end of the turn')
  const size = counted.bytes
  log.appendFact(factOf(2), LOCAL)
  await timers.advance(10)
  log.appendFact(factOf(3), LOCAL)
  assert.equal(counted.writes, 1, 'writes are gathered')
  await timers.advance(10)
  assert.deepEqual(await killed(files), [1, 2, 3])
  assert.deepEqual([files.syncs - syncs, counted.writes], [0, 2])
  let release: () => void = () => undefined
  files.slow = () => new Promise(resolve => (release = resolve))
  await timers.advance(1000)
  log.appendFact(factOf(4), LOCAL)
  await timers.advance(20)
  assert.deepEqual(await killed(files), [1, 2, 3, 4])
  const during = log.lastSeq
  release()
  await settle()
  assert.equal(log.committedSeq, during - 1, 'the sync began before record 4 was written')
  assert.equal(log.status().pending, 1)
  files.slow = () => Promise.resolve()
  await timers.advance(1000)
  assert.equal(log.committedSeq, during)
  assert.equal(counted.bytes, 4 * size, 'each record is written once')
})

test('a write that fails between two commits is handled by the next commit: no record is lost or duplicated', async () => {
  const { log, files, timers } = await openLog()
  let broken = false
  files.gate = (operation, path) => {
    if (broken && operation === 'write' && path.endsWith('.seg')) throw systemError('ENOSPC')
  }
  files.tear = 0.5
  log.appendFact(factOf(1), LOCAL)
  await timers.advance(5)
  broken = true
  log.appendFact(factOf(2), LOCAL)
  await timers.advance(100)
  assert.equal(log.status().state, 'degraded')
  assert.deepEqual(factsOf(log, false), [1, 2])
  broken = false
  await timers.advance(10_000)
  assert.equal(log.status().state, 'ok')
  assert.deepEqual(factsOf(log), [1, 2])
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(factsOf(again), [1, 2])
  assert.equal(again.status().damaged, 0)
})

test('RAM stays limited behind a sync that hangs: records not handed over are dropped and counted', async () => {
  const { log, files, timers } = await openLog({
    segmentBytes: 32 * 1024,
    maxBytes: 256 * 1024,
    bufferBytes: 64 * 1024,
  })
  files.slow = () => new Promise(() => undefined)
  for (let k = 0; k < 4000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 20 === 0) await timers.advance(20)
  }
  assert.ok(log.pendingBytes <= 2 * 64 * 1024, `${log.pendingBytes}`)
  assert.ok(log.status().overflow > 0)
})
