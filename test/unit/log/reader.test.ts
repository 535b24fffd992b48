import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { DIR, factOf, factsOf, LOCAL, openLog, random, seqsOf } from './helpers'

test('a reader continues where it was, in RAM and on disk, over segments and restarts', async () => {
  const small = { segmentBytes: 32 * 1024, maxBytes: 4 * 1024 * 1024 }
  let { log, files } = await openLog(small)
  const reader = log.reader(0, { kinds: ['fact'] })
  const seen: number[] = []
  const drain = (): void => {
    for (let r = reader.next(); r; r = reader.next()) seen.push(r.fact!.tRaw - 1_710_000_000_000)
  }
  const next = random(1)
  for (let k = 0; k < 6000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (next() < 0.01) await log.flush()
    // lets the reader fall behind RAM sometimes
    if (next() < 0.0005) drain()
  }
  await log.flush()
  drain()
  const all = Array.from({ length: 6000 }, (_, k) => k)
  assert.deepEqual(seen, all)
  assert.equal(reader.next(), null)
  assert.deepEqual(factsOf(log), all)
  ;({ log, files } = await openLog({ ...small, files: files.afterPowerCut() }))
  assert.deepEqual(factsOf(log), all)
  const seqs = seqsOf(log.read(0))
  assert.deepEqual(
    seqs,
    [...seqs].sort((a, b) => a - b),
  )
  assert.equal(new Set(seqs).size, seqs.length)
  assert.equal(verify(DIR, files).ok, true)
})

test('uncommitted records are shown only to readers that request them', async () => {
  const { log } = await openLog()
  const follower = log.reader(0, { kinds: ['fact'] })
  const eager = log.reader(0, { kinds: ['fact'], committedOnly: false })
  const seq = log.appendFact(factOf(1), LOCAL)
  assert.equal(follower.next(), null)
  assert.equal(eager.next()!.seq, seq)
  await log.flush()
  assert.equal(follower.next()!.seq, seq)
  assert.equal(eager.next(), null)
})

test('reading from any seq gives exactly the records from there on', async () => {
  const { log } = await openLog({ segmentBytes: 32 * 1024, maxBytes: 1024 * 1024 })
  for (let k = 0; k < 3000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 100 === 0) await log.flush()
  }
  await log.flush()
  const all = seqsOf(log.read(0))
  for (let from = 0; from < log.lastSeq + 3; from += 37) {
    assert.deepEqual(
      seqsOf(log.read(from)),
      all.slice(
        all.findIndex(s => s >= from),
        from > all.at(-1)! ? 0 : undefined,
      ),
    )
  }
  assert.equal([...log.read(0, { limit: 5 })].length, 5)
  assert.equal(log.factsAfter(0), 3000)
  assert.equal(log.factsAfter(log.lastSeq), 0)
})

test('records are copied out unchanged, as many as fit', async () => {
  const { log } = await openLog()
  for (let k = 0; k < 50; k++) log.appendFact(factOf(k), LOCAL)
  await log.flush()
  const reader = log.reader(0, { kinds: ['fact'] })
  const into = Buffer.alloc(1000)
  let records = 0
  for (let end = reader.fill(into); end > 0; end = reader.fill(into)) {
    for (let at = 0; at < end; at += into[at + 1]! | (into[at + 2]! << 8)) records++
  }
  assert.equal(records, 50)
})

test('a reader whose segment was dropped continues at the oldest record', async () => {
  const { log } = await openLog({ maxBytes: 256 * 1024, segmentBytes: 32 * 1024 })
  const reader = log.reader(0)
  log.appendFact(factOf(0), LOCAL)
  await log.flush()
  assert.ok(reader.next())
  for (let k = 1; k < 8000; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 50 === 0) await log.flush()
  }
  await log.flush()
  assert.equal(reader.next()!.seq, log.firstSeq)
  assert.ok(log.firstSeq > 1)
})
