// What a log does when the disk refuses one operation at a bad moment, and at the exact limits of its times and sizes, compared with
// flashlog-faults-trace.txt.
import { test } from 'node:test'
import { verify } from '../../../src/log'
import { Trace } from '../../lib/trace'
import { DIR, factOf, LOCAL, settle } from './helpers'
import type { Operation } from './memfiles'
import { LONG, type Traced, tracedLog } from './traced'

const trace = new Trace('unit/log/flashlog-faults-trace.txt')
const { say } = trace
const { traced, open, state, fill, look } = tracedLog(trace)

/** The operation fails once, after `nth` others of its kind. */
const failOnce = (files: Traced, operation: Operation, nth = 0, part = /./): void => {
  let left = nth
  files.fails = (now, path) => {
    if (now !== operation || !part.test(path) || left-- !== 0) return undefined
    return 'EIO'
  }
}

test('one refused operation, and times and sizes at their limits, behave as flashlog-faults-trace.txt has it', async () => {
  for (const operation of ['write', 'sync', 'open', 'syncDir', 'rename', 'truncate', 'resize', 'remove'] as const)
    for (const nth of operation === 'write' ? [0, 1, 2, 3, 4, 5, 6] : [0, 1, 2]) {
      say(`# ${operation} ${nth} fails once`)
      const files = traced()
      files.tear = 0.5
      const rig = await open(files, { commitIntervalMs: 500 })
      await fill(rig, 0, 33, LONG)
      failOnce(files, operation, nth)
      for (let k = 33; k < 75; k++) {
        rig.log.appendFact(factOf(k, LONG), LOCAL)
        if (k % 3 === 0) await rig.timers.advance(30)
        if (k % 8 === 0) await rig.timers.advance(600)
      }
      state(rig, files)
      await rig.timers.advance(7000)
      state(rig, files)
      look(rig, files)
      await rig.log.close().catch(error => say('close', error.message))
      files.done()
      say('verify', verify(DIR, files))
    }

  say('# the first records of a new segment cannot be written')
  let files = traced()
  let rig = await open(files)
  await fill(rig, 0, 33, LONG)
  let made = false
  files.fails = (operation, path) => {
    if (operation === 'syncDir' && path === DIR) made = true
    else if (operation === 'write' && made && path.endsWith('.seg')) return 'ENOSPC'
    return undefined
  }
  await fill(rig, 33, 48, LONG)
  await rig.timers.advance(1000)
  state(rig, files)
  files.fails = () => undefined
  await rig.timers.advance(6000)
  state(rig, files)
  look(rig, files)

  say('# RAM overflows twice: each time is said')
  files = traced()
  rig = await open(files, { bufferBytes: 32 * 1024, commitBytes: 8 * 1024 })
  for (let round = 0; round < 2; round++) {
    files.fails = operation => (operation === 'write' || operation === 'open' ? 'ENOSPC' : undefined)
    await fill(rig, 100 * round, 100 * round + 90, LONG)
    state(rig, files)
    files.fails = () => undefined
    await rig.timers.advance(6000)
    state(rig, files)
  }
  const { last_seq } = rig.log.status()
  for (const seq of [1, 3, 30, last_seq])
    say(
      `committed ${seq}`,
      await rig.log.committed(seq).then(
        () => true,
        error => error.message,
      ),
    )

  say('# a reader in a segment that goes')
  files = traced()
  rig = await open(files)
  await fill(rig, 0, 60, LONG)
  const reader = rig.log.reader(0)
  say('first', [reader.next()?.seq, reader.position])
  await fill(rig, 60, 480, LONG)
  say('oldest', rig.log.status().first_seq)
  say('then', [reader.next()?.seq, reader.position])

  say(
    '# a reader at work while its segment is mended, in a file larger than a block; and one whose file cannot be read',
  )
  files = traced()
  const wide = { maxBytes: 4 << 20, segmentBytes: 512 * 1024 }
  let big = await open(files, wide)
  await fill(big, 0, 300, LONG)
  await big.log.close()
  for (const fails of [undefined, 'EIO'] as const) {
    const left = traced(files)
    const after = await open(left, wide)
    const slow = after.log.reader(0)
    say('at first', [slow.next()?.seq, slow.next()?.seq])
    const [name] = left.segments(DIR)
    left.files.get(`${DIR}/${name}`)!.data.fill(7, 9000, 20_000)
    let once = fails
    left.fails = (operation, path) => {
      if (operation !== 'read' || !path.endsWith('.seg')) return undefined
      const code = once
      once = undefined
      return code
    }
    look(after, left)
    await after.timers.advance(2000)
    const seqs: (number | undefined)[] = []
    for (let record = slow.next(); record; record = slow.next()) seqs.push(record.seq)
    say('then', [seqs.length, seqs[0], seqs.at(-1), slow.position])
    state(after, left)
  }

  say('# the end of a range lies in a gap between two files')
  files = traced()
  big = await open(files)
  await fill(big, 0, 20, '')
  for (let life = 0; life < 2; life++) {
    big = await open(traced(files))
    await fill(big, 20, 40, '')
    await big.log.close()
    files = big.files as Traced
    files.done()
  }
  big = await open(files)
  for (const upTo of [20, 21, 22, 1000, 2 ** 24 + 10])
    for (const kinds of [['fact'], ['boot']] as const) {
      const some = big.log.reader(0, { upTo, kinds })
      let count = 0
      while (some.next()) count++
      say(`up to ${upTo}`, [kinds, count, some.position])
    }

  say('# damage that cannot be mended')
  for (const operation of ['rename', 'mkdir', 'write'] as const) {
    const left = traced(rig.files)
    const damaged = await open(left)
    left.files.get(`${DIR}/${left.segments(DIR)[1]}`)!.data[9000]! ^= 1
    failOnce(left, operation, 0, /damaged/)
    look(damaged, left)
    await damaged.timers.advance(2000)
    state(damaged, left)
    left.done()
    say('verify', verify(DIR, left))
  }
  for (const at of [8, 60, 20_000]) {
    const left = traced(rig.files)
    const newest = left.segments(DIR).at(-2)!
    left.files.get(`${DIR}/${newest}`)!.data[at]! ^= 1
    say(`verify with a flaw at ${at}`, verify(DIR, left))
    left.truncate(`${DIR}/${left.segments(DIR).at(-1)}`, at)
    say('and the last cut off there', verify(DIR, left))
    left.done()
  }

  say('# a folder that cannot be read, and a damaged chain.json')
  {
    const left = traced(rig.files)
    left.fails = (operation, path) => (operation === 'read' && path === DIR ? 'EIO' : undefined)
    const blind = await open(left)
    left.fails = () => undefined
    state(blind, left)
    const other = traced(rig.files)
    const broken = Buffer.from('{"base":1}')
    other.files.set(`${DIR}/chain.json`, { data: broken, durable: broken })
    say('verify', verify(DIR, other))
    state(await open(other), other)
  }

  say('# a header that is cut off, and one that is overwritten')
  for (const harm of ['cut', 'overwritten']) {
    const left = traced(rig.files)
    const path = `${DIR}/${left.segments(DIR)[2]}`
    const { data } = left.files.get(path)!
    const length = data.readUInt32LE(8)
    const rest = harm === 'cut' ? data.subarray(length) : Buffer.from(data).fill(1, 0, length)
    left.files.set(path, { data: rest, durable: rest })
    say(harm, verify(DIR, left))
    const again = await open(left)
    look(again, left)
    await again.timers.advance(2000)
    state(again, left)
  }

  say('# exactly commit_bytes, exactly 20 ms after the last write, exactly the interval')
  files = traced()
  rig = await open(files)
  const before = rig.log.pendingBytes
  rig.log.appendFact(factOf(1), LOCAL)
  const size = rig.log.pendingBytes - before
  await rig.log.close()
  for (const count of [3, 4]) {
    files = traced()
    rig = await open(files, { commitBytes: 4 * size })
    for (let k = 0; k < count; k++) rig.log.appendFact(factOf(k), LOCAL)
    await rig.timers.advance(0)
    state(rig, files)
  }
  await rig.timers.advance(5000)
  for (const ms of [1, 19, 20, 21]) {
    rig.log.appendFact(factOf(1), LOCAL)
    await settle()
    rig.clock.advance(ms)
    say(`${ms} ms`)
    rig.log.appendFact(factOf(1), LOCAL)
    await settle()
    state(rig, files)
    await rig.timers.advance(5000)
  }
  for (const ms of [999, 1]) {
    rig.log.appendCursor('up', 1 + ms)
    await rig.timers.advance(ms)
    state(rig, files)
  }
  trace.compare()
})
