import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'
import { verify } from '../../../src/log'
import { decodeHeader, scanSegment, segmentBase } from '../../../src/log/segment'
import { DIR, factOf, factsOf, LOCAL, openLog, random, seqsOf } from './helpers'
import { MemFiles, systemError } from './memfiles'

interface Place {
  seq: number
  at: number
  end: number
}

/** The offset of each record of a segment, and the end of the last one. */
function places(files: MemFiles, name: string): { places: Place[]; header: number; size: number } {
  const bytes = files.read(`${DIR}/${name}`)
  const found: Place[] = []
  scanSegment(bytes, { base: segmentBase(name)! }, (at, length) =>
    found.push({ seq: Number(bytes.readBigUInt64LE(at + 8)), at, end: at + length }),
  )
  const header = decodeHeader(bytes)!.length
  return { places: found, header, size: found.at(-1)?.end ?? header }
}

function change(files: MemFiles, name: string, edit: (bytes: Buffer) => Buffer): MemFiles {
  const copy = files.copy()
  const node = copy.files.get(`${DIR}/${name}`)!
  node.data = edit(Buffer.from(node.data))
  node.durable = Buffer.from(node.data)
  return copy
}

/** A log of several segments that ended without a clean stop. */
async function crashed(facts = 40): Promise<MemFiles> {
  const { log, files } = await openLog()
  for (let k = 0; k < facts; k++) log.appendFact(factOf(k), LOCAL)
  log.appendCursor('main', log.lastSeq)
  await log.flush()
  return files.afterPowerCut()
}

const lostSeqs = (log: { losses: readonly { reason: string; from: number; to: number }[] }): number[] =>
  log.losses
    .filter(r => r.reason === 'damaged' || r.reason === 'torn')
    .flatMap(r => Array.from({ length: r.to - r.from + 1 }, (_, k) => r.from + k))

test('a file truncated anywhere in its last two records: all others are present, the torn record is named, the piece is kept', async () => {
  const files = await crashed()
  const name = files.segments(DIR).at(-1)!
  const { places: all, size } = places(files, name)
  const [before, last] = [all.at(-2)!, all.at(-1)!]
  for (let cut = before.at; cut <= size; cut++) {
    const { log, files: after } = await openLog({ files: change(files, name, b => b.subarray(0, cut)) })
    const whole = all.filter(p => p.end <= cut).map(p => p.seq)
    assert.deepEqual(
      seqsOf(log.read(0)).filter(s => s <= last.seq),
      whole,
      `cut at ${cut}`,
    )
    const torn = all.find(p => p.at < cut && cut < p.end)
    assert.deepEqual(lostSeqs(log), torn ? [torn.seq] : [])
    assert.equal(log.status().torn, torn ? 1 : 0)
    assert.equal(after.list(`${DIR}/damaged`).length, torn ? 1 : 0)
    assert.ok(log.lastSeq > last.seq + 1000, 'the rest of the reserved range is not used again')
    assert.equal(verify(DIR, after).ok, true)
  }
})

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

test('zeros inside the newest segment are a write before the sync, and torn; in an older one, or after a clean stop, they are damage', async () => {
  const files = await crashed(12)
  const name = files.segments(DIR).at(-1)!
  const { places: all } = places(files, name)
  const zeroed = (of: MemFiles): MemFiles => change(of, name, b => b.fill(0, all[4]!.at, all[5]!.end))
  const lost = async (of: MemFiles): Promise<unknown[]> => {
    const { log, files: after } = await openLog({ files: zeroed(of) })
    const rest = all.filter((_, k) => k < 4 || k > 5).map(({ seq }) => seq)
    assert.deepEqual(
      seqsOf(log.read(0)).filter(seq => seq <= all.at(-1)!.seq),
      rest,
    )
    assert.equal(verify(DIR, after).ok, true)
    return [log.status().torn, log.status().damaged, ...lostSeqs(log)]
  }
  const both = [all[4]!.seq, all[5]!.seq]
  assert.deepEqual(await lost(files), [2, 0, ...both])
  const { log, files: older } = await openLog({ files: files.copy() })
  log.appendFact(factOf(99), LOCAL)
  await log.flush()
  assert.deepEqual(await lost(older.afterPowerCut()), [0, 2, ...both])
  const { log: stopping, files: stopped } = await openLog()
  for (let k = 0; k < 12; k++) stopping.appendFact(factOf(k), LOCAL)
  stopping.appendCursor('main', stopping.lastSeq)
  await stopping.close()
  assert.deepEqual(await lost(stopped), [0, 2, ...both])
})

test('a byte flipped anywhere in a segment: all undamaged records are present and the ledger names exactly the others', async () => {
  const files = await crashed(12)
  const name = files.segments(DIR).at(-1)!
  const { places: all, size } = places(files, name)
  for (let at = 0; at < size; at++) {
    const broken = change(files, name, b => {
      b[at]! ^= 0x41
      return b
    })
    const { log, files: after } = await openLog({ files: broken })
    const hit = all.find(p => p.at <= at && at < p.end)
    const rest = all.filter(p => p !== hit).map(p => p.seq)
    assert.deepEqual(
      seqsOf(log.read(0)).filter(s => s <= all.at(-1)!.seq),
      rest,
      `flip at ${at}`,
    )
    assert.deepEqual(lostSeqs(log), hit ? [hit.seq] : [], `flip at ${at}`)
    assert.ok(after.list(`${DIR}/damaged`).length >= 1)
    assert.ok(log.firstSeq <= rest[0]! && log.boot === 2)
    if (hit?.seq !== all.at(-1)!.seq) assert.equal(log.cursor('main'), all.at(-1)!.seq - 1)
    assert.equal(verify(DIR, after).ok, true, `flip at ${at}`)
    // the loss is counted once, however often the log is opened
    const { log: again } = await openLog({ files: after.afterPowerCut() })
    assert.deepEqual(lostSeqs(again), hit ? [hit.seq] : [])
    assert.deepEqual([again.status().damaged, again.status().torn], [log.status().damaged, log.status().torn])
  }
})

test('several damaged places, zeros, truncation and missing segments in a long log are recovered and named', async () => {
  const { log, files } = await openLog({ segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
  for (let k = 0; k < 3000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 40 === 0) await log.flush()
  }
  await log.flush()
  const names = files.segments(DIR)
  assert.ok(names.length > 5)
  const next = random(5)
  for (let round = 0; round < 30; round++) {
    const broken = files.copy()
    const hurt = new Set<number>()
    for (const name of names.slice(-2)) {
      const { places: all } = places(files, name)
      const bytes = broken.files.get(`${DIR}/${name}`)!.data
      const from = Math.floor(next() * (all.length - 4))
      const width = 1 + Math.floor(next() * 3)
      const kind = Math.floor(next() * 3)
      const range = all.slice(from, from + width)
      if (kind === 2 && name !== names.at(-1)) {
        broken.files.get(`${DIR}/${name}`)!.data = bytes.subarray(0, all[from]!.at + 5)
        for (const p of all.slice(from)) hurt.add(p.seq)
      } else {
        bytes.fill(kind === 0 ? 0 : 0xc5, range[0]!.at, range.at(-1)!.end)
        for (const p of range) hurt.add(p.seq)
      }
    }
    const { log: after } = await openLog({ files: broken, segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
    assert.deepEqual(
      lostSeqs(after).sort((a, b) => a - b),
      [...hurt].sort((a, b) => a - b),
      `round ${round}`,
    )
    assert.equal(factsOf(after).length, 3000 - after.status().damaged - after.status().torn)
  }
})

test('damage in an old segment is found when it is read, named, and repaired', async () => {
  const small = { segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 }
  const { log, files } = await openLog(small)
  for (let k = 0; k < 3000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 40 === 0) await log.flush()
  }
  await log.close()
  const name = files.segments(DIR)[1]!
  const hit = places(files, name).places[10]!
  const broken = change(files, name, b => {
    b[hit.at + 40]! ^= 1
    return b
  })
  assert.deepEqual(
    verify(DIR, broken).pieces.map(p => [p.from, p.to]),
    [[hit.seq, hit.seq]],
  )
  const { log: again, files: after } = await openLog({ ...small, files: broken })
  assert.equal(again.status().damaged, 0)
  assert.equal(factsOf(again).length, 2999)
  assert.deepEqual(lostSeqs(again), [hit.seq])
  await again.flush()
  await again.flush()
  assert.equal(verify(DIR, after).ok, true)
  assert.equal(factsOf(again).length, 2999)
  // and where repair is not possible, readers skip it
  const { log: third, files: stuck } = await openLog({ ...small, files: broken })
  stuck.gate = operation => {
    if (operation !== 'read') throw Object.assign(new Error('EROFS'), { code: 'EROFS' })
  }
  assert.equal(factsOf(third).length, 2999)
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

test('a damaged segment that the start drops to make room does not come back with its repair', async () => {
  const small = { segmentBytes: 32 * 1024, maxBytes: 256 * 1024 }
  const { log, files } = await openLog({ ...small, maxBytes: 512 * 1024 })
  for (let k = 0; k < 9000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 40 === 0) await log.flush()
  }
  await log.close()
  // a start reads every segment that the newest header describes otherwise
  const [oldest] = files.segments(DIR)
  const broken = change(files, oldest!, b => {
    b[b.length >> 1]! ^= 1
    return Buffer.concat([b, Buffer.alloc(9)])
  })
  const { log: again, files: after } = await openLog({ ...small, files: broken })
  const bytes = after.segments(DIR).reduce((sum, name) => sum + after.written(`${DIR}/${name}`), 0)
  assert.ok(!after.segments(DIR).includes(oldest!), 'the dropped segment')
  assert.ok(bytes <= small.maxBytes && again.status().bytes <= small.maxBytes, `${bytes} bytes`)
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

test('a segment that is overwritten, zeroed, truncated or deleted is named at the next start: ledger, status, one WARN line (R29)', async () => {
  const small = { segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 }
  const grown = async (facts: number, clean: boolean): Promise<MemFiles> => {
    const { log, files } = await openLog(small)
    for (let k = 0; k < facts; k++) {
      log.appendFact(factOf(k), LOCAL)
      if (k % 40 === 0) await log.flush()
    }
    await (clean ? log.close() : log.flush())
    return files
  }
  const hurts: Record<string, (bytes: Buffer) => Buffer | null> = {
    overwritten: bytes => Buffer.alloc(bytes.length, 0x5a),
    zeroed: bytes => Buffer.alloc(bytes.length),
    cut: bytes => bytes.subarray(0, 40),
    deleted: () => null,
  }
  const long = { killed: await grown(3000, false), stopped: await grown(3000, true) }
  const short = { killed: await grown(20, false), stopped: await grown(20, true) }
  const names = long.stopped.segments(DIR)
  assert.ok(names.length > 5)
  const cases = [
    ...[0, 2, names.length - 2].map(k => ({ files: long.stopped, which: [k], known: true })),
    { files: long.stopped, which: [2, 3], known: true },
    { files: long.stopped, which: [names.length - 1], known: true },
    { files: long.killed, which: [names.length - 1], known: false },
    { files: short.stopped, which: [0], known: true },
    { files: short.killed, which: [0], known: false },
  ]
  for (const { files, which, known } of cases)
    for (const [kind, hurt] of Object.entries(hurts)) {
      // a file truncated at its head cannot be distinguished from one that a crash cut before its first record
      if (kind === 'cut' && !known) continue
      const where = `${kind}, segments ${which}, ${known ? 'end known' : 'end unknown'}`
      const broken = files.copy()
      const lost = which.flatMap(k => places(files, files.segments(DIR)[k]!).places.map(({ seq }) => seq))
      for (const k of which) {
        const path = `${DIR}/${files.segments(DIR)[k]!}`
        const bytes = hurt(Buffer.from(broken.files.get(path)!.data))
        if (bytes) broken.files.set(path, { data: bytes, durable: bytes })
        else broken.files.delete(path)
      }
      // the oldest may be one that a gateway is dropping
      const oldest = kind === 'deleted' && which[0] === 0 && files === long.stopped
      assert.equal(verify(DIR, broken).ok, oldest, where)
      const told: string[] = []
      const logger = createLogger({ write: line => void told.push(line) })
      const { log, files: after } = await openLog({ ...small, files: broken, logger })
      const expected = known ? lost : [lost[0]!]
      assert.deepEqual(lostSeqs(log), expected, where)
      const gaps = log.status().gaps.flatMap(({ from, to }) => [from, to])
      assert.deepEqual([gaps[0], gaps.at(-1)], [expected[0], expected.at(-1)], where)
      assert.equal(log.status().damaged, expected.length, where)
      const warned = told.filter(line => /WARN|ERROR/.test(line))
      assert.equal(warned.length, 1, `${where}: ${warned.join('\n')}`)
      assert.ok(warned[0]!.includes(`${expected[0]}`), `${where}: ${warned[0]}`)
      assert.equal(/ and later/.test(warned[0]!), kind === 'deleted' && !known, where)
      assert.ok(log.lastSeq > Math.max(...lost), `${where}: no number is used twice`)
      told.length = 0
      const { log: again } = await openLog({ ...small, files: after.afterPowerCut(), logger })
      assert.deepEqual(lostSeqs(again), expected, where)
      assert.deepEqual(
        told.filter(line => /WARN|ERROR/.test(line)),
        [],
        where,
      )
    }
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

test('a damaged chain.json is reported: a WARN line, in status, named by verify, and rebuilt', async () => {
  for (const text of ['', '{"base":1', '{"base":-1,"boot":1,"first":1}', '{"base":1,"boot":1,"first":1,"runs":[7]}']) {
    const files = (await crashed()).copy()
    const node = { data: Buffer.from(text), durable: Buffer.from(text) }
    files.files.set(`${DIR}/chain.json`, node)
    const found = verify(DIR, files)
    assert.deepEqual([found.ok, found.pieces.map(({ file }) => file)], [false, ['chain.json']])
    const told: string[] = []
    const { log } = await openLog({ files, logger: createLogger({ write: line => void told.push(line) }) })
    assert.match(told.filter(line => line.includes('WARN')).join('\n'), /chain\.json is damaged/)
    assert.match(log.status().chain ?? '', /chain\.json is damaged/)
    assert.equal(verify(DIR, files).ok, true)
    await log.close()
    const { log: again } = await openLog({ files })
    assert.equal(again.status().chain, undefined)
  }
})

test('when segments are missing after kills, their own numbers count as lost, not those that a killed start skipped', async () => {
  const grown = async (clean: boolean): Promise<MemFiles> => {
    const files = new MemFiles()
    // starts without facts leave a segment that the next start removes
    for (const facts of [3, 3, 0, 0, 3, 3, 3]) {
      const { log } = await openLog({ files })
      for (let k = 0; k < facts; k++) log.appendFact(factOf(k), LOCAL)
      await log.flush()
      if (clean && log.boot === 7) await log.close()
    }
    return files
  }
  for (const clean of [false, true]) {
    const files = await grown(clean)
    const names = files.segments(DIR)
    assert.equal(names.length, 5)
    for (const which of [[0], [1], [2], [3], [4], [3, 4], [2, 3, 4], [0, 1, 2, 3, 4], [0, 4]]) {
      const where = `segments ${which}, ${clean ? 'stopped' : 'killed'}`
      const broken = files.copy()
      const lost = which.flatMap(k => {
        broken.files.delete(`${DIR}/${names[k]!}`)
        const seqs = places(files, names[k]!).places.map(({ seq }) => seq)
        // nothing says where the newest one ended after a kill
        return k === 4 && !clean ? seqs.slice(0, 1) : seqs
      })
      // the oldest may be one that a gateway is dropping
      const named = which.length < 5 ? lost.filter(seq => seq > 4 || which[0] !== 0) : lost
      const found = verify(DIR, broken)
      const seqsIn = found.gaps.flatMap(({ from, to }) => Array.from({ length: to - from + 1 }, (_, k) => from + k))
      assert.deepEqual([found.damaged, seqsIn], [named.length, named], where)
      assert.equal(found.pieces.length, which.filter(k => k > 0 || which.length === 5).length, where)
      const { log } = await openLog({ files: broken })
      assert.deepEqual([log.status().damaged, lostSeqs(log)], [lost.length, lost], where)
      // and the ledger names it once the damage is repaired
      const { ok, gaps } = verify(DIR, broken)
      assert.deepEqual([ok, gaps], [true, log.losses], where)
    }
  }
})

test('a chain.json without the runs of older segments: every number since the oldest counts where all are gone', async () => {
  const files = (await crashed()).copy()
  for (const name of files.segments(DIR)) files.files.delete(`${DIR}/${name}`)
  const data = Buffer.from('{"base":100,"boot":2,"first":7,"last":110}')
  files.files.set(`${DIR}/chain.json`, { data, durable: data })
  const { gaps } = verify(DIR, files)
  assert.deepEqual(gaps, [{ reason: 'damaged', from: 7, to: 110, records: 104 }])
  const { log } = await openLog({ files })
  assert.deepEqual(log.losses, gaps)
})

test('chain.json stays within one block after many kills: before the newest 64 runs it counts every number', async () => {
  const files = new MemFiles()
  for (let start = 0; start < 70; start++) {
    const { log } = await openLog({ files })
    log.appendFact(factOf(start), LOCAL)
    await log.flush()
  }
  const chain = files.read(`${DIR}/chain.json`)
  assert.deepEqual([JSON.parse(String(chain)).runs.length, chain.length < 4096], [64, true])
  const bases = files.segments(DIR).map(name => segmentBase(name)!)
  for (const name of files.segments(DIR)) files.files.delete(`${DIR}/${name}`)
  const { gaps } = verify(DIR, files)
  const last = bases.slice(-64)
  assert.equal(gaps.length, 64, 'what the ledger keeps')
  assert.deepEqual(gaps.map(({ from }) => from).slice(-63), last.slice(-63))
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
