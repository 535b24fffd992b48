// A log folder read in parallel with the process that writes it.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLogger } from '../../../src/lib/logger'
import { FlashLog, LogFiles, verify } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'

const root = mkdtempSync(join(tmpdir(), 'os-node-logfiles-'))
after(() => rmSync(root, { recursive: true, force: true }))

const factOf = (k: number): Fact => ({
  id: 'dev',
  state: 'ONLINE',
  tRaw: 1_710_000_000_000 + k,
  aid: 7,
  sensors: [{ id: 'temp', status: 'OK', unit: 'K', value: k }],
})

const listing = (dir: string): string =>
  readdirSync(dir)
    .sort()
    .map(name => `${name} ${readFileSync(join(dir, name)).toString('base64')}`)
    .join('\n')

test('it sees committed records, then newer ones; readers continue over new segments; the folder is not changed', async () => {
  const dir = join(root, 'a')
  const files = new LogFiles(dir)
  assert.equal(files.refresh(), false, 'no folder, no records')
  assert.deepEqual([files.committedSeq, files.startOfLast(10), files.factsAfter(0)], [0, 1, 0])
  // small segments, so that there are several
  const log = await FlashLog.open({ dir, commitIntervalMs: 5, ackCommitMs: 2, maxBytes: 1 << 20 })
  const append = async (from: number, to: number): Promise<void> => {
    for (let k = from; k < to; k++) log.appendFact(factOf(k), { medium: 'UDP' })
    await log.flush()
  }
  await append(0, 100)
  let heard = 0
  const stop = files.onCommit(seq => {
    heard = seq
  })
  writeFileSync(join(dir, 'somebody.tmp'), 'half written')
  const before = listing(dir)
  assert.equal(files.refresh(), true)
  assert.equal(files.refresh(), false, 'nothing new')
  assert.equal(listing(dir), before)
  assert.deepEqual([heard, files.committedSeq, files.factsAfter(0)], [log.committedSeq, log.committedSeq, 100])
  const reader = files.reader(0, { kinds: ['fact'] })
  const values: unknown[] = []
  const drain = (): void => {
    for (let record = reader.next(); record; record = reader.next()) values.push(record.fact!.sensors[0]!.value)
  }
  drain()
  assert.equal(values.length, 100)
  await append(100, 3000)
  drain()
  assert.equal(values.length, 100, 'only what a refresh found')
  assert.equal(files.refresh(), true)
  drain()
  assert.deepEqual(values, [...Array(3000).keys()])
  stop()
  await append(3000, 20_000)
  files.refresh()
  assert.ok(heard < files.committedSeq)
  drain()
  assert.equal(values.at(-1), 19_999)
  assert.ok(files.startOfLast(10) > 0 && files.startOfLast(10) <= files.committedSeq)
  assert.ok(readdirSync(dir).length > 3, 'several segments')
  await log.close()
})

test('it sees records in a file whose size stays, also one that was not complete before', async () => {
  const dir = join(root, 'stays')
  const log = await FlashLog.open({ dir, commitIntervalMs: 5, ackCommitMs: 2 })
  const path = join(dir, readdirSync(dir).find(name => name.endsWith('.seg'))!)
  const files = new LogFiles(dir)
  files.refresh()
  const { length } = readFileSync(path)
  for (let k = 0; k < 5; k++) {
    const before = readFileSync(path)
    const seq = log.appendFact(factOf(k), { medium: 'UDP' })
    await log.flush()
    const after = readFileSync(path)
    assert.equal(after.length, length)
    const added = [...after.keys()].filter(at => after[at] !== before[at])
    // its first bytes alone, as another process may see it; zero is the next one
    const part = Buffer.from(before)
    after.copy(part, added[0]!, added[0]!, added[0]! + 2)
    assert.equal(after[added[0]! + 2], 0)
    writeFileSync(path, part)
    assert.equal(files.refresh(), false)
    writeFileSync(path, after)
    assert.equal(files.refresh(), true)
    assert.deepEqual([files.committedSeq, files.refresh()], [seq, false])
  }
  await log.close()
})

test('a folder that cannot be read is STORAGE, and the next call retries', async () => {
  const dir = join(root, 'b')
  const log = await FlashLog.open({ dir, commitIntervalMs: 5, ackCommitMs: 2 })
  log.appendFact(factOf(1), { medium: 'UDP' })
  await log.close()
  const { realFiles } = await import('../../../src/lib/files')
  let broken = true
  const files = new LogFiles(dir, {
    ...realFiles,
    read: path => {
      if (broken) throw Object.assign(new Error('read error'), { code: 'EIO' })
      return realFiles.read(path)
    },
  })
  assert.throws(() => files.refresh(), { code: 'STORAGE' })
  broken = false
  assert.equal(files.refresh(), true)
  assert.equal(files.factsAfter(0), 1)
})

test('a file that only has the name of a segment is named and left alone: its records are lost, the others are present', async () => {
  const dir = join(root, 'other')
  const o = { dir, commitIntervalMs: 5, ackCommitMs: 2, maxBytes: 1 << 20, segmentBytes: 16 * 1024 }
  const log = await FlashLog.open(o)
  for (let k = 0; k < 4000; k++) {
    log.appendFact(factOf(k), { medium: 'UDP' })
    if (k % 100 === 0) await log.flush()
  }
  await log.close()
  const names = readdirSync(dir)
    .filter(name => name.endsWith('.seg'))
    .sort()
  const before = verify(dir)
  const lost = new Set<number>()
  const others: Record<string, (path: string) => void> = {
    'is a folder': path => mkdirSync(path),
    'is no regular file': path => execFileSync('mkfifo', [path]),
    'no such file': path => symlinkSync('/nonexistent/file', path),
    'too many symbolic links': path => symlinkSync(path, path),
    'has 600000000 bytes': path => {
      writeFileSync(path, '')
      truncateSync(path, 600_000_000)
    },
  }
  for (const [k, [why, make]] of Object.entries(others).entries()) {
    const path = join(dir, names[k + 1]!)
    for (let seq = Number(names[k + 1]!.slice(0, 16)); seq < Number(names[k + 2]!.slice(0, 16)); seq++) lost.add(seq)
    rmSync(path)
    make(path)
    assert.equal(verify(dir).ok, false)
    const lines: string[] = []
    const again = await FlashLog.open({ ...o, logger: createLogger({ write: line => void lines.push(line) }) })
    assert.ok(
      lines.some(line => line.includes(path) && line.includes(why)),
      lines.join('\n'),
    )
    assert.equal(again.status().damaged, lost.size, why)
    again.appendFact(factOf(0), { medium: 'UDP' })
    await again.close()
    assert.ok(verify(dir).records > before.records - lost.size)
  }
})

test('a log whose segments are all folders, or have impossible numbers, continues under a free name', async () => {
  for (const name of ['0000000000000001.seg', '0000000000000054.seg', '9999999999999999.seg']) {
    const dir = join(root, `free-${name}`)
    mkdirSync(join(dir, name), { recursive: true })
    const log = await FlashLog.open({ dir, commitIntervalMs: 5 })
    const seq = log.appendFact(factOf(1), { medium: 'UDP' })
    await log.close()
    const again = await FlashLog.open({ dir, commitIntervalMs: 5 })
    assert.ok(again.appendFact(factOf(2), { medium: 'UDP' })! > seq!, name)
    await again.close()
    assert.equal(verify(dir).damaged, 0, name)
    assert.ok(readdirSync(dir).length > 2, name)
  }
})
