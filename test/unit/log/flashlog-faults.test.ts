import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { DIR, factOf, factsOf, LOCAL, openLog, random, settle } from './helpers'
import { MemFiles, PowerCut, systemError } from './memfiles'

for (const code of ['ENOSPC', 'EIO', 'EROFS']) {
  test(`${code} at a write: live data flows on, the state says so, and the log recovers without help`, async () => {
    const { log, files, timers } = await openLog()
    const live = log.reader(0, { committedOnly: false, kinds: ['fact'] })
    for (let k = 0; k < 10; k++) log.appendFact(factOf(k), LOCAL)
    await timers.advance(1000)
    files.gate = operation => {
      if (operation !== 'read' && operation !== 'close') throw systemError(code)
    }
    files.tear = 0.5
    let acknowledged = false
    for (let k = 10; k < 30; k++) {
      const seq = log.appendFact(factOf(k), LOCAL)
      void log.committed(seq).then(() => {
        acknowledged = true
      })
      await timers.advance(1000)
    }
    let seen = 0
    while (live.next()) seen++
    assert.equal(seen, 30)
    assert.equal(acknowledged, false)
    assert.equal(log.status().state, 'degraded')
    assert.ok(log.status().reason)
    files.gate = () => undefined
    await timers.advance(6000)
    assert.deepEqual([log.status().state, log.status().reason], ['ok', undefined])
    assert.equal(acknowledged, true)
    assert.equal(log.committedSeq, log.lastSeq)
    const { log: again } = await openLog({ files: files.afterPowerCut() })
    assert.deepEqual(
      factsOf(again),
      Array.from({ length: 30 }, (_, k) => k),
    )
    assert.deepEqual([again.status().damaged, again.status().lost], [0, 0])
  })
}

test('a failed fdatasync is not trusted: everything since the last good one is written again', async () => {
  const { log, files, timers } = await openLog()
  log.appendFact(factOf(1), LOCAL)
  await timers.advance(1000)
  let fail = true
  files.gate = operation => {
    if (operation === 'sync' && fail) {
      fail = false
      throw systemError('EIO')
    }
  }
  log.appendFact(factOf(2), LOCAL)
  await timers.advance(1000)
  assert.equal(log.status().state, 'degraded')
  await timers.advance(1000)
  assert.equal(log.status().state, 'ok')
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(factsOf(again), [1, 2])
})

for (const truncates of [true, false]) {
  test(`data a failed sync left in the file is ${truncates ? 'truncated' : 'skipped when it cannot be truncated'}`, async () => {
    const { log, files, timers } = await openLog()
    log.appendFact(factOf(1), LOCAL)
    await timers.advance(1000)
    let failing = true
    files.gate = operation => {
      if (failing && (operation === 'sync' || (operation === 'resize' && !truncates))) throw systemError('EIO')
    }
    log.appendFact(factOf(2), LOCAL)
    await timers.advance(1000)
    failing = false
    await timers.advance(1000)
    log.appendFact(factOf(3), LOCAL)
    await timers.advance(1000)
    assert.deepEqual(factsOf(log), [1, 2, 3])
    const left = files.afterPowerCut(1)
    const found = verify(DIR, left)
    assert.deepEqual([found.ok, found.records, found.torn_bytes > 0], [true, 3, !truncates])
    const { log: again } = await openLog({ files: left })
    assert.deepEqual(factsOf(again), [1, 2, 3])
    assert.deepEqual([again.status().damaged, again.status().torn, again.factsAfter(0)], [0, 0, 3])
  })
}

test('what a failed sync left in the file is on flash before a start after a kill acknowledges it', async () => {
  const { log, files, timers } = await openLog()
  log.appendFact(factOf(1), LOCAL)
  await timers.advance(1000)
  files.gate = operation => {
    if (operation === 'sync' || operation === 'resize') throw systemError('EIO')
  }
  const seq = log.appendFact(factOf(2), LOCAL)
  await timers.advance(1000)
  assert.equal(log.status().state, 'degraded')
  // the process is killed, and the disk works again
  files.gate = () => undefined
  const { log: again } = await openLog({ files })
  assert.ok(again.committedSeq > seq)
  const { log: third } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(factsOf(third), [1, 2])
  assert.deepEqual([third.status().damaged, third.status().lost], [0, 0])
})

test('a power cut while a start writes what it found again loses nothing that was on flash', async () => {
  const { log, files } = await openLog()
  for (let k = 0; k < 40; k++) log.appendFact(factOf(k), LOCAL)
  await log.flush()
  for (const tear of [0, 0.5, 1]) {
    const left = files.copy()
    left.tear = tear
    left.gate = operation => {
      if (operation === 'write') throw new PowerCut()
    }
    const { log: cut } = await openLog({ files: left })
    assert.equal(cut.status().state, 'degraded')
    const { log: again } = await openLog({ files: left.afterPowerCut(0.5) })
    assert.equal(factsOf(again).length, 40, `${tear}`)
  }
})

test('a start after a kill writes only the segment again in which the process wrote last', async () => {
  const { log, files } = await openLog({ segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
  for (let k = 0; k < 1000; k++) log.appendFact(factOf(k), LOCAL)
  await log.flush()
  const rewritten: string[] = []
  const start = async (): Promise<string[]> => {
    rewritten.length = 0
    const before = files.segments(DIR)
    files.gate = (operation, path) => {
      if (operation === 'write' && before.some(name => path.endsWith(name))) rewritten.push(path.slice(DIR.length + 1))
    }
    await openLog({ files })
    return rewritten
  }
  const newest = files.segments(DIR).at(-1)!
  assert.deepEqual(await start(), [newest])
  // that start wrote no facts, and what was there before is on flash
  assert.deepEqual(await start(), [])
})

test('when RAM is full too, the oldest waiting records are dropped: counted, named, and rejected to their callers', async () => {
  const { log, files, timers } = await openLog({
    segmentBytes: 32 * 1024,
    maxBytes: 8 * 1024 * 1024,
    bufferBytes: 64 * 1024,
  })
  log.appendFact(factOf(0), LOCAL)
  await timers.advance(1000)
  files.gate = operation => {
    if (operation === 'write') throw systemError('ENOSPC')
  }
  const first = log.appendFact(factOf(1), LOCAL)
  const waiting = assert.rejects(log.committed(first), { code: 'DISK_FULL' })
  for (let k = 2; k < 3000; k++) log.appendFact(factOf(k), LOCAL)
  await waiting
  await timers.advance(1000)
  assert.ok(log.pendingBytes <= 64 * 1024)
  const { overflow } = log.status()
  assert.ok(overflow > 1000)
  await assert.rejects(log.committed(first + 1), { code: 'DISK_FULL' })
  // live readers see the newest
  assert.equal(factsOf(log, false).at(-1), 2999)
  files.gate = () => undefined
  await timers.advance(10_000)
  await log.flush()
  await assert.rejects(log.committed(first + 1), { code: 'DISK_FULL' })
  const kept = factsOf(log)
  assert.equal(kept.length + overflow, 3000)
  const { log: again, files: left } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(factsOf(again), kept)
  assert.equal(again.status().overflow, overflow)
  const [range] = again.losses.filter(r => r.reason === 'overflow')
  assert.deepEqual([range!.from, range!.records, again.status().damaged], [first, overflow, 0])
  assert.equal(verify(DIR, left).ok, true)
})

test('a log that cannot be written from the start still opens, accepts records and recovers', async () => {
  const files = new MemFiles()
  files.gate = operation => {
    if (operation === 'open' || operation === 'write') throw systemError('EROFS')
  }
  const { log, timers } = await openLog({ files })
  assert.equal(log.status().state, 'degraded')
  log.appendFact(factOf(1), LOCAL)
  assert.deepEqual(factsOf(log, false), [1])
  assert.deepEqual(factsOf(log), [])
  files.gate = () => undefined
  await timers.advance(5000)
  assert.deepEqual(factsOf(log), [1])
  assert.equal(log.status().state, 'ok')
})

test('closing on a disk that refuses writes reports it and answers every waiting caller', async () => {
  const { log, files } = await openLog()
  files.gate = operation => {
    if (operation === 'write') throw systemError('ENOSPC')
  }
  const seq = log.appendFact(factOf(1), LOCAL)
  const waiting = assert.rejects(log.committed(seq), { code: 'DISK_FULL' })
  await assert.rejects(log.close(), { code: 'DISK_FULL' })
  await waiting
})

test('a path that can never be a folder is an error with a hint', async () => {
  const files = new MemFiles()
  files.gate = operation => {
    if (operation === 'mkdir') throw systemError('ENOTDIR')
  }
  await assert.rejects(openLog({ files }), { code: 'DATA_DIR' })
})

for (const code of ['ENOSPC', 'EROFS', 'EACCES', 'EIO', 'EMFILE']) {
  test(`${code}: a folder that cannot be created is a state; records wait in RAM and are written to it in order`, async () => {
    const files = new MemFiles()
    let refuses = true
    let made = 0
    files.gate = operation => {
      if (refuses && operation !== 'read' && operation !== 'close') throw systemError(code)
      if (operation === 'mkdir') made++
    }
    const { log, timers } = await openLog({ files })
    assert.match(log.status().reason ?? '', new RegExp(`\\(${code}\\)`))
    for (let k = 0; k < 20; k++) log.appendFact(factOf(k), LOCAL)
    await timers.advance(20_000)
    assert.deepEqual([log.status().state, factsOf(log), files.segments(DIR)], ['degraded', [], []])
    refuses = false
    await timers.advance(5000)
    assert.ok(made > 0)
    assert.deepEqual([log.status().state, log.status().lost], ['ok', 0])
    const { log: again } = await openLog({ files: files.afterPowerCut() })
    assert.deepEqual(
      factsOf(again),
      Array.from({ length: 20 }, (_, k) => k),
    )
  })
}

test('a folder that cannot be read at the start is not written to: records stay in RAM until the next start', async () => {
  const { log: first, files } = await openLog()
  for (let k = 0; k < 10; k++) first.appendFact(factOf(k), LOCAL)
  await first.close()
  let hidden = true
  files.gate = operation => {
    if (hidden && operation === 'read') throw systemError('EACCES')
  }
  const { log, timers } = await openLog({ files })
  assert.equal(log.status().state, 'degraded')
  log.appendFact(factOf(100), LOCAL)
  assert.deepEqual(factsOf(log, false), [100])
  hidden = false
  const before = files.segments(DIR)
  await timers.advance(10_000)
  assert.deepEqual(files.segments(DIR), before)
  assert.match(log.status().reason ?? '', /could not be read at the start/)
  const { log: again } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(
    factsOf(again),
    Array.from({ length: 10 }, (_, k) => k),
  )
})

test('leftovers of an aborted start that cannot be removed from a read-only disk stop nothing', async () => {
  const { log: first, files } = await openLog()
  first.appendFact(factOf(1), LOCAL)
  await first.close()
  files.files.set(`${DIR}/chain.json.tmp`, { data: Buffer.alloc(3), durable: Buffer.alloc(3) })
  files.gate = operation => {
    if (operation !== 'read' && operation !== 'close') throw systemError('EROFS')
  }
  const { log } = await openLog({ files })
  assert.deepEqual(factsOf(log), [1])
  assert.equal(log.status().state, 'degraded')
})

test('a segment that a faulty disk neither fills nor removes is not taken for damaged once the next one has its name', async () => {
  const { log, files, timers } = await openLog({
    checkBytesS: 1024 * 1024,
    segmentBytes: 32 * 1024,
    maxBytes: 1024 * 1024,
  })
  for (let k = 0; k < 100; k++) log.appendFact(factOf(k, 'x'.repeat(200)), LOCAL)
  await log.flush()
  let created = false
  files.gate = operation => {
    if (created && (operation === 'sync' || operation === 'remove')) throw systemError('EIO')
    created ||= operation === 'syncDir'
  }
  for (let k = 100; k < 200; k++) log.appendFact(factOf(k, 'x'.repeat(200)), LOCAL)
  await log.flush()
  assert.deepEqual([created, log.degraded, files.segments(DIR).length], [true, true, 2])
  files.gate = () => undefined
  log.appendCursor('another header', 1)
  await timers.advance(10_000)
  assert.equal(log.degraded, false)
  await timers.advance(2 * 86_400_000)
  assert.equal(log.status().check?.damaged, 0)
  const all = Array.from({ length: 200 }, (_, k) => k)
  assert.deepEqual(factsOf(log), all)
  const { log: again } = await openLog({ files: files.afterPowerCut(1) })
  assert.deepEqual(factsOf(again), all)
})

test('random faults at every kind of operation: no acknowledged record is lost, none is duplicated', async () => {
  for (let seed = 1; seed <= 25; seed++) {
    const next = random(seed)
    const { log, files, timers } = await openLog({ segmentBytes: 32 * 1024, maxBytes: 4 * 1024 * 1024 })
    const acknowledged = new Set<number>()
    let faulty = 0
    files.gate = operation => {
      if (operation === 'read' || operation === 'close') return
      if (next() < 0.02) faulty = Math.floor(next() * 8)
      if (faulty-- > 0) throw systemError('EIO')
    }
    for (let k = 0; k < 1500; k++) {
      const seq = log.appendFact(factOf(k), LOCAL)
      if (next() < 0.05) void log.committed(seq).then(() => acknowledged.add(seq))
      files.tear = next()
      if (next() < 0.1) await timers.advance(next() * 3000)
    }
    await settle()
    const copy = files.afterPowerCut(next())
    const { log: again } = await openLog({ files: copy })
    const there = Array.from(again.read(0, { kinds: ['fact'] }), r => r.seq)
    assert.equal(new Set(there).size, there.length)
    assert.deepEqual(
      there,
      [...there].sort((a, b) => a - b),
    )
    for (const seq of acknowledged) assert.ok(there.includes(seq), `seed ${seed}: ${seq}`)
    assert.ok(again.lastSeq > log.lastSeq, 'seqs are not reused')
    assert.ok(acknowledged.size > 10)
  }
})
