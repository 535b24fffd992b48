// Segments that are gone or destroyed between two starts are named at the next one (R29), and chain.json, which knows their numbers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'
import { verify } from '../../../src/log'
import { segmentBase } from '../../../src/log/segment'
import { DIR, factOf, LOCAL, openLog } from './helpers'
import { MemFiles } from './memfiles'
import { crashed, lostSeqs, places } from './recovery-world'

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
