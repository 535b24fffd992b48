// Damage at rest: the running log checks its sealed segments on its own, within a budget.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'
import type { FlashLogOptions } from '../../../src/log'
import { decodeHeader } from '../../../src/log/segment'
import { DIR, factOf, factsOf, LOCAL, openLog, type Rig, settle } from './helpers'
import { MemFiles, systemError } from './memfiles'

const BUDGET = 32 * 1024
const DAY = 86_400_000
const MINUTE = 60_000

/** Counts what checks read; a start uses `read`. */
class CountedFiles extends MemFiles {
  bytes_read = 0
  calls = 0
  override readAt(path: string, offset: number, length: number): Buffer {
    const bytes = super.readAt(path, offset, length)
    this.bytes_read += bytes.length
    this.calls++
    return bytes
  }
}

interface Checked extends Rig {
  files: CountedFiles
  warnings: string[]
}

/** An open log with a dozen sealed segments. */
async function checked(options: Partial<Omit<FlashLogOptions, 'files'>> = {}): Promise<Checked> {
  const warnings: string[] = []
  const logger = createLogger({ level: 'warn', write: line => void warnings.push(line.trim()) })
  const files = new CountedFiles()
  const rig = await openLog({
    ...{ files, logger, segmentBytes: 64 * 1024, maxBytes: 1024 * 1024, checkBytesS: BUDGET },
    ...options,
  })
  for (let k = 0; k < 2400; k++) {
    rig.log.appendFact(factOf(k, 'x'.repeat(200)), LOCAL)
    if (k % 100 === 99) await rig.log.flush()
  }
  await rig.log.flush()
  files.bytes_read = files.calls = 0
  return { ...rig, files, warnings }
}

const sealed = (files: MemFiles): string[] => files.segments(DIR).slice(0, -1)

test('every sealed segment is checked once a day, within the budget, and nothing wakes the check in between', async () => {
  const { log, files, timers } = await checked()
  const all = sealed(files).reduce((sum, name) => sum + files.size(`${DIR}/${name}`), 0)
  assert.ok(sealed(files).length >= 6)
  for (let s = 1; s <= 10; s++) {
    await timers.advance(1000)
    assert.ok(files.bytes_read <= BUDGET * s + 64 * 1024, `${files.bytes_read} bytes in ${s} s`)
  }
  await timers.advance((1000 * all) / BUDGET)
  const { check } = log.status()
  assert.deepEqual([check?.segments, check?.damaged, check?.unreadable], [sealed(files).length, 0, []])
  assert.equal(check?.bytes, files.bytes_read)
  assert.ok(files.bytes_read < 1.2 * all)
  const { calls } = files
  await timers.advance(DAY / 2)
  assert.equal(files.calls, calls, 'once a day')
  await timers.advance(DAY)
  assert.ok(files.bytes_read > 1.9 * all, 'and then again')
  // a segment sealed meanwhile is checked within the hour
  const before = log.status().check!.segments
  for (let k = 0; k < 400; k++) log.appendFact(factOf(k, 'x'.repeat(200)), LOCAL)
  await log.flush()
  await timers.advance(61 * MINUTE)
  assert.ok(log.status().check!.segments > before)
  await log.close()
})

test('a byte that rots in any part of a sealed segment is found, named, counted and warned of once', async () => {
  for (const part of [0.1, 0.5, 0.999]) {
    const { log, files, timers, warnings } = await checked()
    const name = sealed(files)[2]!
    const { data } = files.files.get(`${DIR}/${name}`)!
    data[Math.floor((data.length - 1) * part)]! ^= 4
    await timers.advance(3 * DAY)
    const { check, damaged, gaps } = log.status()
    assert.deepEqual([check?.damaged, damaged, gaps.length], [1, 1, 1], `at ${part}`)
    assert.equal(warnings.length, 1, warnings.join('\n'))
    assert.match(warnings[0]!, new RegExp(`records ${gaps[0]!.from} are lost`))
    assert.equal(factsOf(log).length, 2399)
    await log.close()
  }
})

test('a header that rots costs no record: it is repaired and counted', async () => {
  const { log, files, timers } = await checked()
  files.files.get(`${DIR}/${sealed(files)[1]!}`)!.data[70]! ^= 1
  await timers.advance(2 * DAY)
  assert.deepEqual([log.status().check?.damaged, log.status().damaged], [1, 0])
  assert.equal(factsOf(log).length, 2400)
  await log.close()
})

test('a truncated or missing segment is named', async () => {
  for (const harm of ['cut', 'gone'] as const) {
    const { log, files, timers } = await checked()
    const path = `${DIR}/${sealed(files)[3]!}`
    if (harm === 'cut') files.truncate(path, 20_000)
    else files.remove(path)
    await timers.advance(DAY)
    const { damaged, gaps } = log.status()
    assert.equal(gaps.length, 1, harm)
    assert.equal(damaged, 2400 - factsOf(log).length, harm)
    assert.ok(damaged > 100)
    await log.close()
  }
})

test('records of another segment in its place, or after its header, do not count as its records', async () => {
  for (const whole of [true, false]) {
    const { log, files, timers } = await checked()
    const [first, second] = sealed(files).map(name => files.files.get(`${DIR}/${name}`)!)
    const head = whole ? 0 : decodeHeader(second!.data)!.length
    const from = whole ? 0 : decodeHeader(first!.data)!.length
    const foreign = first!.data.subarray(from, from + second!.data.length - head)
    second!.data = Buffer.concat([
      second!.data.subarray(0, head),
      foreign,
      second!.data.subarray(head + foreign.length),
    ])
    await timers.advance(2 * DAY)
    assert.ok(log.status().damaged > 100)
    assert.equal(log.status().damaged, 2400 - factsOf(log).length)
    await log.close()
  }
})

test('a bad block is named in the status until the segment can be read again, and the records stay', async () => {
  const { log, files, timers, warnings } = await checked()
  const name = sealed(files)[4]!
  files.gate = (operation, path) => {
    if (operation === 'read' && path.endsWith(name)) throw systemError('EIO')
  }
  await timers.advance(DAY / 2)
  assert.deepEqual(log.status().check?.unreadable, [name])
  assert.equal(log.status().damaged, 0)
  assert.match(warnings.join(), /cannot be read/)
  files.gate = () => undefined
  await timers.advance(DAY)
  assert.deepEqual(log.status().check?.unreadable, [])
  assert.equal(factsOf(log).length, 2400)
  await log.close()
})

test('segments dropped during their check do no harm; a closed log and a budget of 0 read nothing', async () => {
  const { log, files, timers, warnings } = await checked({ maxBytes: 512 * 1024 })
  for (let k = 0; k < 4000; k++) {
    log.appendFact(factOf(k, 'x'.repeat(200)), LOCAL)
    if (k % 100 === 99) {
      await log.flush()
      await timers.advance(500)
    }
  }
  assert.equal(log.status().damaged, 0)
  assert.deepEqual(warnings, [])
  await log.close()
  const { calls } = files
  await timers.advance(2 * DAY)
  assert.equal(files.calls, calls)
  const off = await checked({ checkBytesS: 0 })
  await off.timers.advance(2 * DAY)
  await settle()
  assert.equal(off.files.calls, 0)
  assert.equal(off.log.status().check, undefined)
  await off.log.close()
})
