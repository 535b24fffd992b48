// What a log does to its files, and what it reports, step by step, compared with flashlog-trace.txt: every write, sync, rename
// and removal in its order with its bytes, each status, each loss, each warning.
import { test } from 'node:test'
import { Trace } from '../../lib/trace'
import { DIR, factOf, LOCAL, random } from './helpers'
import { LONG, type Traced, tracedLog } from './traced'

const trace = new Trace('unit/log/flashlog-trace.txt')
const { say } = trace
const { traced, open, state, fill, look } = tracedLog(trace)

test('the file operations and messages of a log are as flashlog-trace.txt has them', async () => {
  say('# one life: commits by time, by size, on request; everything that can be appended')
  const files = traced()
  let rig = await open(files, { isAlarm: fact => fact.tRaw % 7 === 0 })
  rig.log.onCommit(seq => say('  committed', seq))
  let more = 2
  const stop = rig.log.beforeCommit(() => {
    if (more-- > 0) rig.log.appendCounter('tid', more)
    return more > 0
  })
  for (let k = 0; k < 5; k++) rig.log.appendFact(factOf(k), LOCAL)
  for (const ms of [10, 15, 80, 900, 200]) {
    await rig.timers.advance(ms)
    say(`+${ms} ms`)
    state(rig, files)
  }
  const own = rig.log.appendCursor('up', 3)
  const waited = rig.log.committed(own)
  await rig.timers.advance(99)
  state(rig, files)
  await rig.timers.advance(2)
  await waited
  stop()
  rig.log.appendCounter('next', 12)
  rig.log.appendClock({ offsetMs: 5000, source: 'test' } as never)
  rig.log.setQuality('unsynced')
  say(
    'too large',
    String(
      await Promise.resolve()
        .then(() => rig.log.appendFact(factOf(1, 'y'.repeat(70_000)), LOCAL))
        .catch(String),
    ),
  )
  await rig.log.flush()
  state(rig, files)
  await fill(rig, 10, 80, LONG)
  state(rig, files)
  look(rig, files)
  say('kept', [rig.log.cursor('up'), rig.log.cursorNames(), rig.log.counter('next'), rig.log.counter('tid')])

  say('# full: the oldest goes, a pinned record stays, age counts only with a trusted clock')
  await fill(rig, 80, 420, LONG)
  state(rig, files)
  look(rig, files)
  await rig.log.close()
  files.done()
  say('closed', files.list(DIR))
  rig = await open(files, { maxAgeS: 60, isAlarm: fact => fact.tRaw % 7 === 0 })
  let lowest: number | undefined = rig.log.status().first_seq + 60
  rig.log.pin(() => lowest)
  await rig.timers.advance(120_000)
  await fill(rig, 420, 440, LONG)
  state(rig, files)
  rig.log.setQuality('synced')
  await fill(rig, 440, 480, LONG)
  state(rig, files)
  lowest = undefined
  await fill(rig, 480, 520, LONG)
  state(rig, files)
  look(rig, files)

  say('# a kill, and a tail that is torn')
  let left = traced(rig.files)
  const newest = left.segments(DIR).at(-1)!
  left.truncate(`${DIR}/${newest}`, left.written(`${DIR}/${newest}`) - 5)
  left.done()
  rig = await open(left)
  state(rig, left)
  await fill(rig, 520, 530, '')
  await rig.log.close()
  left.done()

  say('# damage of every kind, each in a copy')
  const whole = left
  const names = whole.segments(DIR)
  const damages: Record<string, (files: Traced, path: string) => void> = {
    'a byte in the middle': (f, path) => {
      f.files.get(path)!.data[9000]! ^= 1
    },
    'a byte of the header': (f, path) => {
      f.files.get(path)!.data[6]! ^= 1
    },
    'zeros over the second half': (f, path) => f.files.get(path)!.data.fill(0, 16_000),
    'cut in the middle': (f, path) => f.truncate(path, 12_345),
    empty: (f, path) => f.truncate(path, 0),
    gone: (f, path) => f.files.delete(path),
  }
  for (const at of [1, names.length - 2])
    for (const [what, harm] of Object.entries(damages)) {
      say(`# ${what}, file ${at}`)
      left = traced(whole)
      const path = `${DIR}/${names[at]}`
      const data = left.files.get(path)!.data
      left.files.set(path, { data: Buffer.from(data), durable: Buffer.from(data) })
      harm(left, path)
      left.done()
      rig = await open(left)
      look(rig, left)
      await rig.timers.advance(2000)
      state(rig, left)
      await rig.log.close()
      left.done()
      say('left', left.list(DIR).length)
    }
  say('# damage under a reader')
  left = traced(whole)
  rig = await open(left)
  left.files.get(`${DIR}/${names[2]}`)!.data[9000]! ^= 1
  look(rig, left)
  await rig.timers.advance(2000)
  state(rig, left)
  await rig.log.close()
  left.done()
  say('# chain.json damaged')
  left = traced(whole)
  for (const name of left.list(DIR).filter(name => name.endsWith('.json')))
    left.files.set(`${DIR}/${name}`, { data: Buffer.from('{'), durable: Buffer.from('{') })
  rig = await open(left)
  state(rig, left)

  say('# a disk that is full, then slow, then well; RAM is bounded meanwhile')
  const full = traced()
  rig = await open(full, { bufferBytes: 64 * 1024, commitBytes: 8 * 1024 })
  await fill(rig, 0, 20, LONG)
  full.fails = operation => (operation === 'write' || operation === 'open' ? 'ENOSPC' : undefined)
  await fill(rig, 20, 60, LONG)
  state(rig, full)
  await fill(rig, 60, 200, LONG)
  state(rig, full)
  say('a lost one', await rig.log.committed(rig.log.status().committed_seq + 3).catch(error => error.code))
  full.fails = () => undefined
  await rig.timers.advance(61_000)
  state(rig, full)
  full.fails = operation => (operation === 'sync' ? 'EIO' : undefined)
  await fill(rig, 200, 216, LONG)
  state(rig, full)
  full.fails = () => undefined
  await rig.timers.advance(61_000)
  await fill(rig, 216, 217, LONG)
  await rig.log.flush()
  state(rig, full)
  look(rig, full)
  await rig.log.close()
  full.done()

  say('# refuse: nothing goes that a cursor has not passed')
  const strict = traced()
  rig = await open(strict, { whenFull: 'refuse' })
  rig.log.appendCursor('up', 1)
  const next = random(3)
  let refused = 0
  for (let k = 0; k < 400; k++) {
    try {
      rig.log.appendFact(factOf(k, LONG.slice(Math.floor(next() * 400))), LOCAL)
    } catch (error) {
      if (refused++ === 0) say(`refused at ${k}: ${(error as { code?: string }).code}`)
    }
    if (k % 16 === 15) await rig.timers.advance(1100)
    if (k === 330) rig.log.appendCursor('up', 100)
  }
  say('refused', refused)
  state(rig, strict)
  await rig.log.close()
  strict.done()

  say('# files larger than what a reader takes at once, records from 60 bytes to as large as may be, commits by size')
  const large = traced()
  const sizes = { maxBytes: 4 << 20, segmentBytes: 512 * 1024, commitBytes: 3 * 85 }
  rig = await open(large, sizes)
  for (let k = 0; k < 6; k++) rig.log.appendFact(factOf(k), LOCAL)
  await rig.timers.advance(1)
  state(rig, large)
  for (let k = 0; k < 400; k++) {
    const length = k % 10 === 0 ? Math.floor(next() * 65_000) : Math.floor(next() ** 4 * 20_000)
    const fact = factOf(k, LONG.slice(0, length % LONG.length))
    const more = Array.from({ length: length / LONG.length }, (_, i) => ({ ...fact.sensors[0]!, id: `${i}${LONG}` }))
    rig.log.appendFact({ ...fact, sensors: [...fact.sensors, ...more] }, LOCAL)
    if (k % 4 === 3) await rig.timers.advance(25)
  }
  state(rig, large)
  look(rig, large)
  let again = traced(rig.files)
  rig = await open(again, sizes)
  look(rig, again)
  for (let k = 0; k < 40; k++) {
    const reader = rig.log.reader(Math.floor(next() * 430))
    again.reads = again.readBytes = 0
    const found = [reader.next()?.seq, reader.next()?.seq, reader.position]
    say('from somewhere', [...found, again.reads, again.readBytes])
  }
  for (const part of [0.2, 0.5, 0.8]) {
    const copy = traced(again)
    for (const name of copy.segments(DIR).slice(0, 3)) {
      const { data } = copy.files.get(`${DIR}/${name}`)!
      data[Math.floor(data.length * part)]! ^= 0x10
    }
    const damaged = await open(copy, sizes)
    look(damaged, copy)
    await damaged.timers.advance(2000)
    state(damaged, copy)
    await damaged.log.close()
    copy.done()
  }
  again = traced(again)
  await (await open(again, sizes)).log.close()
  again.done()

  trace.compare()
})
