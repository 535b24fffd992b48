// The start after damage: a torn tail, zeros, flipped bytes and missing segments; all other records are present, and the damage is named
// (R2).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { DIR, factOf, factsOf, LOCAL, openLog, random, seqsOf } from './helpers'
import type { MemFiles } from './memfiles'
import { change, crashed, lostSeqs, places } from './recovery-world'

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
