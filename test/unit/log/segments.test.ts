// The active segment is longer than its records, with zeros at its end. What a kill or a power cut leaves of that is no
// damage, whichever sectors reached the medium.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { scanSegment, segmentBase } from '../../../src/log/segment'
import { DIR, factOf, factsOf, LOCAL, openLog, seqsOf } from './helpers'
import { type MemFiles, PowerCut, systemError } from './memfiles'

const KIB = 1024
const STEP = 64 * KIB
const SMALL = { segmentBytes: 32 * KIB, maxBytes: 256 * KIB }

const pathOf = (files: MemFiles, nth = -1): string => `${DIR}/${files.segments(DIR).at(nth)!}`

/** A copy whose file `path` has these bytes, as after a power cut. */
function withBytes(files: MemFiles, path: string, bytes: Buffer): MemFiles {
  const copy = files.copy()
  copy.files.set(path, { data: Buffer.from(bytes), durable: Buffer.from(bytes) })
  return copy
}

/** Where the last record of a segment ends. */
function endOf(files: MemFiles, path: string): number {
  const { sound } = scanSegment(files.read(path), { base: segmentBase(path.slice(DIR.length + 1))! })
  return sound.at(-1)!
}

/** A log that was killed after `facts` facts. */
async function killed(facts: number, text = ''): Promise<MemFiles> {
  const { log, files } = await openLog(SMALL)
  for (let k = 0; k < facts; k++) log.appendFact(factOf(k, text), LOCAL)
  await log.flush()
  return files
}

test('the active file grows in steps of 64 KiB; a sealed one, and any after a clean stop, ends with its last record', async () => {
  const { log, files } = await openLog({ segmentBytes: 512 * KIB, maxBytes: 8192 * KIB })
  const sizes: number[] = []
  files.gate = operation => {
    if (operation === 'resize') sizes.push(files.size(pathOf(files)))
  }
  const text = 'x'.repeat(900)
  for (let k = 0; files.segments(DIR).length < 2; k++) {
    log.appendFact(factOf(k, text), LOCAL)
    await log.flush()
    if (files.segments(DIR).length < 2) assert.equal(files.size(pathOf(files)) % STEP, 0)
  }
  // seven times longer, then sealed, and the next one gets its first step
  assert.deepEqual(sizes, [1, 2, 3, 4, 5, 6, 7, 8].map(step => step * STEP).concat(0))
  assert.equal(files.size(pathOf(files, 0)), endOf(files, pathOf(files, 0)))
  assert.equal(log.status().bytes, endOf(files, pathOf(files, 0)) + endOf(files, pathOf(files)))
  await log.close()
  const after = files.afterPowerCut()
  for (const nth of [0, 1]) assert.equal(after.size(pathOf(after, nth)), endOf(after, pathOf(after, nth)))
})

test('zeros after the last record are no damage: a start after a kill truncates them, and writes the records alone again', async () => {
  const files = (await killed(30)).afterPowerCut()
  const path = pathOf(files)
  const end = endOf(files, path)
  assert.equal(files.size(path), STEP)
  assert.deepEqual([verify(DIR, files).ok, verify(DIR, files).torn_bytes], [true, 0])
  let written = 0
  files.gate = (operation, at, bytes) => {
    if (operation === 'write' && at === path) written += bytes!
  }
  const { log } = await openLog({ ...SMALL, files })
  assert.deepEqual([log.losses, factsOf(log).length, written], [[], 30, end])
  // also after a torn record
  const torn = (await killed(30)).afterPowerCut()
  torn.files.get(path)!.data.fill(0, end - 20)
  written = 0
  torn.gate = files.gate
  const { log: after } = await openLog({ ...SMALL, files: torn })
  assert.deepEqual([after.status().torn, factsOf(after).length, torn.size(path)], [1, 29, endOf(torn, path)])
  assert.ok(written <= end - 20 && written > end - 30, `${written} of ${end}`)
  assert.equal(files.afterPowerCut().size(path), end)
  assert.ok(!files.exists(`${DIR}/damaged`))
  // the header of the next segment lists its size: the start after that reads only its head
  const { log: next, files: later } = await openLog({ ...SMALL, files: files.afterPowerCut() })
  next.appendFact(factOf(30), LOCAL)
  await next.flush()
  const last = later.afterPowerCut()
  const { read } = last
  const whole: string[] = []
  last.read = at => {
    whole.push(at)
    return read.call(last, at)
  }
  const { log: third } = await openLog({ ...SMALL, files: last })
  assert.deepEqual([third.losses, factsOf(third).length], [[], 31])
  assert.ok(!whole.includes(path))
})

test('a truncation that a power cut undid is no damage, in a sealed segment, after a clean stop, and where the disk refuses it', async () => {
  const { log, files } = await openLog(SMALL)
  for (let k = 0; k < 1500; k++) {
    log.appendFact(factOf(k), LOCAL)
    if (k % 20 === 0) await log.flush()
  }
  await log.close()
  assert.ok(files.segments(DIR).length > 3)
  for (const nth of [0, 1, -2, -1]) {
    const path = pathOf(files, nth)
    const longer = withBytes(files, path, Buffer.concat([files.read(path), Buffer.alloc(40 * KIB)]))
    assert.equal(verify(DIR, longer).ok, true)
    const { log: again } = await openLog({ ...SMALL, files: longer })
    assert.deepEqual([again.losses, again.cleanStop, factsOf(again).length], [[], true, 1500])
    assert.equal(longer.size(path), files.size(path))
    assert.ok(!longer.exists(`${DIR}/damaged`))

    const stuck = withBytes(files, path, Buffer.concat([files.read(path), Buffer.alloc(40 * KIB)]))
    stuck.gate = operation => {
      if (operation === 'truncate') throw systemError('EIO')
    }
    const { log: other } = await openLog({ ...SMALL, files: stuck })
    assert.deepEqual([other.losses, other.status().bytes, factsOf(other).length], [[], again.status().bytes, 1500])
  }
  // zeros in the place of a sealed segment's last record are damage
  const path = pathOf(files, 1)
  const hurt = files.read(path)
  hurt.fill(0, hurt.length - 60)
  const { log: again } = await openLog({
    ...SMALL,
    files: withBytes(files, path, Buffer.concat([hurt, Buffer.alloc(KIB)])),
  })
  assert.equal(again.status().damaged, 1)
})

test('what the disk refuses to truncate is not written again, and counts as taken', async () => {
  const files = (await killed(30)).afterPowerCut()
  const path = pathOf(files)
  const end = endOf(files, path)
  let written = 0
  files.gate = (operation, at, bytes) => {
    if (operation === 'truncate') throw systemError('EIO')
    if (operation === 'write' && at === path) written += bytes!
  }
  const { log, timers } = await openLog({ ...SMALL, files })
  assert.deepEqual([factsOf(log).length, written], [30, end])
  // a commit that failed leaves its records behind
  files.gate = operation => {
    if (operation === 'sync' || operation === 'resize') throw systemError('EIO')
  }
  for (let k = 30; k < 40; k++) log.appendFact(factOf(k), LOCAL)
  await timers.advance(1000)
  assert.equal(log.status().state, 'degraded')
  files.gate = () => undefined
  await timers.advance(2000)
  assert.equal(factsOf(log).length, 40)
  const taken = files
    .segments(DIR)
    .map(name => (name === files.segments(DIR)[0] ? end : files.written(`${DIR}/${name}`)))
  assert.equal(
    log.status().bytes,
    taken.reduce((sum, size) => sum + size, 0),
  )
})

test('a refused extension is a refused write: records wait in RAM, and the log recovers', async () => {
  for (const code of ['ENOSPC', 'EIO', 'EROFS']) {
    const { log, files, timers } = await openLog(SMALL)
    for (let k = 0; k < 5; k++) log.appendFact(factOf(k), LOCAL)
    await timers.advance(1000)
    let refuses = true
    files.gate = operation => {
      if (refuses && operation === 'resize') throw systemError(code)
    }
    const text = 'x'.repeat(5000)
    for (let k = 5; k < 20; k++) {
      log.appendFact(factOf(k, text), LOCAL)
      await timers.advance(1000)
    }
    assert.equal(log.status().state, 'degraded')
    refuses = false
    await timers.advance(6000)
    assert.equal(log.status().state, 'ok')
    for (const kept of [0, 1]) {
      const { log: again } = await openLog({ ...SMALL, files: files.afterPowerCut(kept) })
      assert.deepEqual([factsOf(again).length, again.status().damaged], [20, 0], `${code}, kept ${kept}`)
    }
  }
})

test('of a commit that a power cut stopped, whatever sectors remain: committed records are present, and nothing is damage', async () => {
  const { log, files, timers } = await openLog(SMALL)
  // committed up to a few bytes before the end of a sector: what follows there is shorter than a record
  for (let k = 0; files.files.size === 0 || endOf(files, pathOf(files)) % 512 < 490; k++) {
    log.appendFact(factOf(0, 'x'.repeat(k)), LOCAL)
    await log.flush()
  }
  await timers.advance(100)
  // in one write, without a sync
  for (let k = 7; k < 26; k++) log.appendFact(factOf(k, 'x'.repeat(k === 12 ? 1300 : k)), LOCAL)
  await timers.advance(30)
  const path = pathOf(files)
  const { data, durable } = files.files.get(path)!
  const places: { seq: number; at: number; end: number }[] = []
  scanSegment(data, { base: 1 }, (at, length) => places.push({ seq: data.readUInt32LE(at + 8), at, end: at + length }))
  const sectors = [...Array(STEP / 512).keys()].filter(
    k => !data.subarray(k * 512, (k + 1) * 512).equals(durable.subarray(k * 512, (k + 1) * 512)),
  )
  assert.ok(sectors.length >= 7 && sectors.length <= 9, `${sectors.length}`)
  const committed = log.committedSeq
  for (let mask = 0; mask < 2 ** sectors.length; mask++) {
    const left = Buffer.from(durable)
    const there = sectors.filter((_, k) => mask & (1 << k))
    for (const k of there) data.copy(left, k * 512, k * 512, (k + 1) * 512)
    const intact = places.filter(({ at, end }) => left.subarray(at, end).equals(data.subarray(at, end)))
    assert.ok(intact.at(-1)!.seq >= committed)
    // the longer size is on the medium, or only what the sectors that were written need
    const shortest = Math.max(((there.at(-1) ?? 0) + 1) * 512, places.find(({ seq }) => seq === committed)!.end)
    for (const size of [STEP, shortest]) {
      const cut = withBytes(files.afterPowerCut(), path, left.subarray(0, size))
      const where = `sectors ${mask.toString(2)} of ${sectors.length}, ${size} bytes`
      assert.equal(verify(DIR, cut).ok, true, where)
      const { log: again } = await openLog({ ...SMALL, files: cut })
      assert.deepEqual(
        seqsOf(again.read(0)).filter(seq => seq <= places.at(-1)!.seq),
        intact.map(({ seq }) => seq),
        where,
      )
      assert.deepEqual([again.status().damaged, again.status().state], [0, 'ok'], where)
      assert.ok(again.status().torn <= places.length - intact.length, where)
      assert.ok(again.lastSeq > places.at(-1)!.seq, where)
    }
  }
})

test('a power cut between a kill and the end of the next start leaves every committed record', async () => {
  const files = await killed(40)
  for (let point = 0; point < 100; point++)
    for (const [kept, zeros] of [
      [0, false],
      [0.5, false],
      [1, false],
      [1, true],
    ] as const) {
      const start = files.copy()
      let cut = false
      start.gate = operation => {
        if (operation === 'read' || operation === 'close') return
        cut ||= start.operations > point
        if (cut) throw new PowerCut()
      }
      await openLog({ ...SMALL, files: start }).catch(() => undefined)
      const { log } = await openLog({ ...SMALL, files: start.afterPowerCut(kept, zeros) })
      const { damaged, torn } = log.status()
      // of the start's own records one may be torn
      assert.deepEqual([factsOf(log).length, damaged], [40, 0], `operation ${point}, kept ${kept}`)
      assert.ok(torn <= 1 && log.losses.every(({ from }) => from > 41), `operation ${point}, kept ${kept}`)
      if (!cut) return
    }
  assert.fail('the start never ended')
})

test('a record whose checksum ends with zeros is complete', async () => {
  let found = 0
  for (let k = 0; found < 3 && k < 3000; k++) {
    const { log, files } = await openLog(SMALL)
    log.appendFact(factOf(k), LOCAL)
    await log.flush()
    const path = pathOf(files)
    if (files.read(path)[endOf(files, path) - 1] !== 0) continue
    found++
    const { log: again } = await openLog({ ...SMALL, files: files.afterPowerCut() })
    assert.deepEqual([factsOf(again), again.losses], [[k], []])
  }
  assert.equal(found, 3)
})

test('zeros behind the records of a commit that failed take no space, and a segment without facts before dropped ones is no hole', async () => {
  const large = { ...SMALL, maxBytes: 512 * KIB }
  const { log, files, timers } = await openLog(large)
  files.gate = operation => {
    if (operation === 'sync' || operation === 'resize') throw systemError('EIO')
  }
  for (let k = 0; k < 10; k++) log.appendFact(factOf(k), LOCAL)
  await timers.advance(1000)
  files.gate = () => undefined
  await timers.advance(2000)
  for (let k = 10; files.segments(DIR).length < 12; k++) {
    log.appendFact(factOf(k, 'x'.repeat(900)), LOCAL)
    await log.flush()
  }
  // the first has the start alone, then those records and zeros, which the disk refused to truncate
  const first = pathOf(files, 0)
  const { sound, facts } = scanSegment(files.read(first), { base: 1, limit: 2, knownLast: 1 })
  assert.deepEqual([facts, files.size(first), files.written(first) > sound.at(-1)!], [0, STEP, true])
  const { bytes } = log.status()
  const refusing = (...refused: string[]): MemFiles => {
    const start = files.afterPowerCut(1)
    start.gate = operation => {
      if (refused.includes(operation)) throw systemError('EIO')
    }
    return start
  }
  const { log: same } = await openLog({ ...large, files: refusing('write', 'truncate') })
  assert.deepEqual([same.status().bytes, same.losses], [bytes, []])

  // a start with a smaller limit drops segments, and the next one cannot be created
  const start = refusing('resize')
  await openLog({ ...SMALL, files: start })
  const left = start.segments(DIR).length
  assert.ok(left < 12 && left > 6, `${left} segments`)
  const { log: again } = await openLog({ ...SMALL, files: start.afterPowerCut(1) })
  assert.deepEqual([...new Set(again.losses.map(({ reason }) => reason))], ['dropped'])
})
