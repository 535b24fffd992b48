// What a start of the log reads, syncs, keeps and removes: foreign files, adopted records, bad blocks, many starts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'
import { verify } from '../../../src/log'
import { segmentBase } from '../../../src/log/segment'
import { DIR, factOf, factsOf, LOCAL, openLog, seqsOf } from './helpers'
import { MemFiles, systemError } from './memfiles'
import { change, crashed, places } from './recovery-world'

test('after a start the last fact of an older segment is known: what follows it there is no backlog', async () => {
  const { log, files } = await openLog({ segmentBytes: 32 * 1024 })
  const ends: number[] = []
  for (let k = 0; files.segments(DIR).length < 5; k++) {
    ends.push(log.appendFact(factOf(k), LOCAL))
    for (let c = 0; c < 5; c++) log.appendCursor('main', log.lastSeq)
    await log.flush()
  }
  const [, second] = files.segments(DIR)
  const last = ends.filter(seq => seq < segmentBase(second!)!).at(-1)!
  for (const stopped of [false, true]) {
    if (stopped) await log.close()
    const { log: again } = await openLog({ files: files.afterPowerCut(), segmentBytes: 32 * 1024 })
    assert.equal(again.factsAfter(last), log.factsAfter(last))
    assert.equal(again.factsAfter(last), ends.filter(seq => seq > last).length)
  }
})

test('an unreadable or empty newest file, leftover .tmp files and foreign files do not stop a start', async () => {
  const files = await crashed()
  const last = files.segments(DIR).at(-1)!
  for (const content of [Buffer.alloc(0), Buffer.alloc(4096), Buffer.from('hello'), Buffer.alloc(300, 0xc5)]) {
    const copy = files.copy()
    const node = { data: content, durable: content }
    const name = `${DIR}/${String(segmentBase(last)! + 100_000).padStart(16, '0')}.seg`
    copy.files.set(name, node)
    copy.files.set(`${DIR}/x.seg.tmp`, node)
    copy.files.set(`${DIR}/notes.txt`, node)
    const { log } = await openLog({ files: copy })
    assert.equal(factsOf(log).length, 40)
    assert.equal(log.cursor('main') !== undefined, true)
    assert.ok(!copy.files.has(`${DIR}/x.seg.tmp`) && copy.files.has(`${DIR}/notes.txt`))
  }
})

test('many starts without data leave only a few files', async () => {
  let files = await crashed()
  for (let k = 0; k < 50; k++) ({ files } = await openLog({ files: files.afterPowerCut() }))
  assert.ok(files.segments(DIR).length <= 3)
  const { log } = await openLog({ files })
  assert.equal(log.boot, 52)
  assert.equal(factsOf(log).length, 40)
  assert.ok(log.cursor('main')! > 0)
})

test('a segment without facts stays where it has a packet or a clock record, which no header repeats', async () => {
  const { log, files, timers } = await openLog({ files: (await crashed()).afterPowerCut() })
  const packet = new TextEncoder().encode('a packet that shaped a template')
  const seq = log.appendPacket(packet, false)
  await timers.advance(5000)
  let cut = files.afterPowerCut()
  for (let k = 0; k < 3; k++) {
    const { log: next, files: now } = await openLog({ files: cut })
    assert.deepEqual([...next.read(seq)][0]?.packet?.bytes, packet)
    cut = now.afterPowerCut()
  }
})

test('records that a killed process wrote and did not sync are synced before the next start reports them as committed', async () => {
  const { log, files, timers } = await openLog()
  files.slow = () => new Promise(() => undefined)
  const seq = log.appendFact(factOf(1), LOCAL)
  log.appendCursor('main', seq)
  await timers.advance(1000) // written, and killed in the sync
  assert.equal(log.committedSeq < seq, true)
  files.slow = () => Promise.resolve()
  const { log: again } = await openLog({ files })
  await again.committed(seq) // an acknowledgement is sent now
  assert.equal(again.cursor('main'), seq)
  const count = again.status().records
  assert.deepEqual([count, verify(DIR, files).records], [1, 1], 'the cursor is no record for people')
  const { log: third } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(factsOf(third), [1])
  assert.equal(third.cursor('main'), seq)
})

test('a record truncated by one start stays out when a power cut undoes the truncation, however many starts later', async () => {
  const files = await crashed(12)
  const name = files.segments(DIR).at(-1)!
  const last = places(files, name).places.at(-1)!
  const whole = files.read(`${DIR}/${name}`)
  let now = change(files, name, bytes => bytes.subarray(0, last.at))
  for (let starts = 1; starts <= 4; starts++) {
    const { log, files: after } = await openLog({ files: now })
    assert.equal(seqsOf(log.read(0)).includes(last.seq), false, `start ${starts}`)
    log.appendFact(factOf(100 + starts), LOCAL)
    await log.flush()
    now = change(after.afterPowerCut(), name, () => whole)
  }
})

test('a sync of adopted records that fails leaves them uncommitted; they are written again and committed later', async () => {
  const { log, files, timers } = await openLog()
  files.slow = () => new Promise(() => undefined)
  const seq = log.appendFact(factOf(1), LOCAL)
  await timers.advance(1000)
  files.slow = () => Promise.resolve()
  let broken = true
  files.gate = operation => {
    if (broken && operation === 'sync') throw systemError('EIO')
  }
  const { log: again, timers: later } = await openLog({ files })
  assert.equal(again.status().state, 'degraded')
  assert.ok(again.committedSeq < seq)
  assert.deepEqual(factsOf(again, false), [1])
  broken = false
  await later.advance(10_000)
  assert.ok(again.committedSeq > seq)
  const { log: third } = await openLog({ files: files.afterPowerCut() })
  assert.deepEqual(factsOf(third), [1])
})

test('a file in place of the log folder is renamed and kept, and the log starts empty', async () => {
  const files = new MemFiles()
  const node = { data: Buffer.from('x'), durable: Buffer.from('x') }
  files.files.set(DIR, node)
  const lines: string[] = []
  const { log } = await openLog({ files, logger: createLogger({ write: line => void lines.push(line) }) })
  log.appendFact(factOf(1), LOCAL)
  await log.flush()
  const [aside] = [...files.files.keys()].filter(name => name.startsWith(`${DIR}.damaged-`))
  assert.equal(String(files.files.get(aside!)!.data), 'x')
  assert.ok(lines.some(line => line.includes('WARN') && line.includes(aside!)))
})

test('a segment with a bad block stops no start: its records are named, the file stays, and the next start may read it', async () => {
  const small = { segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 }
  const { log, files } = await openLog(small)
  for (let k = 0; k < 1500; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 40 === 0) await log.flush()
  }
  await log.flush()
  const names = files.segments(DIR)
  for (const k of [names.length - 1, names.length - 2]) {
    const bad = `${DIR}/${names[k]!}`
    const there = places(files, names[k]!).places.map(({ seq }) => seq)
    const copy = files.copy()
    let fails = true
    copy.gate = (operation, path) => {
      if (fails && operation === 'read' && path === bad) throw systemError('EIO')
    }
    const told: string[] = []
    const { log: next, timers } = await openLog({
      ...small,
      files: copy,
      logger: createLogger({ write: l => void told.push(l) }),
    })
    assert.equal(next.status().state, 'ok')
    assert.ok(next.lastSeq > there.at(-1)!, 'no number is used twice')
    assert.equal(next.losses.find(r => r.reason === 'damaged')?.from, there[0])
    assert.equal(told.filter(line => line.includes('WARN')).length, 1, told.join(''))
    next.appendFact(factOf(5000), LOCAL)
    await timers.advance(1000)
    assert.equal(factsOf(next).at(-1), 5000)
    await next.close()
    fails = false
    assert.ok(copy.files.has(bad))
    const { log: last } = await openLog({ ...small, files: copy })
    assert.equal(factsOf(last).length, 1501)
  }
})

test('a start reads two segments and 16 KiB of each other one, however large the log is', async () => {
  const readBy = async (megabytes: number): Promise<{ bytes: number; calls: number; segments: number }> => {
    const size = { segmentBytes: 64 * 1024, maxBytes: 16 * 1024 * 1024 }
    const { log, files } = await openLog(size)
    for (let k = 0; log.status().bytes < megabytes * 1024 * 1024; k++) {
      log.appendFact(factOf(k, 'x'.repeat(4000)), LOCAL)
      if (k % 15 === 0) await log.flush()
    }
    await log.flush()
    const copy = files.afterPowerCut()
    const { read, readAt } = copy
    let bytes = 0
    let calls = 0
    const counted = (got: Buffer): Buffer => {
      bytes += got.length
      calls++
      return got
    }
    copy.read = path => counted(read.call(copy, path))
    copy.readAt = (path, offset, length) => counted(readAt.call(copy, path, offset, length))
    const { log: again } = await openLog({ ...size, files: copy })
    assert.deepEqual(again.losses, [])
    return { bytes, calls, segments: copy.segments(DIR).length }
  }
  for (const megabytes of [1, 6]) {
    const { bytes, calls, segments } = await readBy(megabytes)
    assert.ok(segments > megabytes * 14, `${segments} segments`)
    const bound = 4 * 64 * 1024 + 16 * 1024 * segments
    assert.ok(bytes <= bound && bytes > 64 * 1024, `${bytes} bytes of ${megabytes} MiB, ${bound} are the bound`)
    assert.ok(calls <= segments + 10, `${calls} reads`)
  }
})

test('a start reads only the head of each sealed segment, and the newest one in full', async () => {
  const small = { segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 }
  const { log, files } = await openLog(small)
  for (let k = 0; k < 3000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 40 === 0) await log.flush()
  }
  await log.close()
  const copy = files.copy()
  const read: string[] = []
  const { read: whole } = copy
  copy.read = path => {
    read.push(path)
    return whole.call(copy, path)
  }
  const { log: again } = await openLog({ ...small, files: copy })
  assert.deepEqual(again.losses, [])
  assert.ok(read.filter(path => path.endsWith('.seg')).length <= 3, read.join(' '))
})
