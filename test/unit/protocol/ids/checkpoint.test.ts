// The allocator's files apart from the journal: the checkpoint written in pieces and read member by member, files of
// older versions, and what happens when one of them is damaged or the disk refuses writes.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { IdAllocator } from '../../../../src/protocol/ids/allocator'
import { changeText, recordFrom } from '../../../../src/protocol/ids/change'
import { checkpointPieces, readCheckpoint } from '../../../../src/protocol/ids/checkpoint'
import { FileIdStore } from '../../../../src/protocol/ids/id-store'
import { type IdChange, IdState } from '../../../../src/protocol/ids/state'
import { MemFiles, PowerCut, systemError } from '../../log/memfiles'

const NOW = 1_710_000_000
const PATH = '/data/ids.json'
const open = (files: MemFiles, maxReleased = 256): IdAllocator =>
  new IdAllocator({ maxReleased }, { store: new FileIdStore(PATH, files), now: () => NOW })
const textOf = (files: MemFiles, path: string): string => files.files.get(path)?.data.toString('utf8') ?? ''

/** Grows the journal until a checkpoint in pieces has started. */
async function growUntilCheckpoint(ids: IdAllocator, files: MemFiles): Promise<void> {
  for (let k = 0; !files.files.has(`${PATH}.tmp`); k++) {
    assert.ok(k < 100, 'no checkpoint began')
    for (let n = 0; n < 100; n++) ids.allocateId({ device_id: `grow-${k}-${n}`, note: 'x'.repeat(100) })
    await ids.commit()
  }
}

test('the file is JSON with an indent of two, as peers write it', () => {
  const files = new MemFiles()
  const ids = open(files)
  ids.allocateId({ device_id: 'a', list: [1, { b: 'ä"\\' }] })
  ids.releaseId(ids.allocateId(), true)
  ids.stop()
  const text = textOf(files, PATH)
  assert.equal(text, `${JSON.stringify(JSON.parse(text), null, 2)}\n`)
  assert.deepEqual(JSON.parse(text), ids.dump())
})

test('an empty allocator writes a valid file too', () => {
  const files = new MemFiles()
  const ids = open(files)
  ids.stats()
  ids.stop()
  assert.deepEqual(JSON.parse(textOf(files, PATH)).allocated, {})
  assert.equal(open(files).allocateId(), 1)
})

test('it is read in any spacing and order, member by member, across the ends of its pieces', () => {
  const files = new MemFiles()
  const made = new IdState()
  const meta = (id: number): string => JSON.stringify({ text: `}"{[\\ ${id} ${'é'.repeat(id % 700)}` })
  for (let id = 1; id <= 5000; id++) {
    const record = { meta: meta(id), ts: 1, last_seen: 2, lease_expires_at: 3, device_key: `k${id}`, offline_since: 0 }
    made.apply({ set: id, record: { ...record, state: 'active' } })
  }
  made.apply({ free: 77 })
  const value = JSON.parse([...checkpointPieces(made)].join(''))
  const shuffled = {
    unknown: [1, { a: '}' }],
    next_candidate: 6000,
    released: value.released,
    allocated: value.allocated,
  }
  for (const text of [JSON.stringify(shuffled), JSON.stringify(value, null, '\t')]) {
    files.files.set(PATH, { data: Buffer.from(text), durable: Buffer.alloc(0) })
    assert.ok(files.size(PATH) > 2 ** 20, 'more than one piece')
    const state = new IdState()
    for (const _ of readCheckpoint(PATH, files, state));
    assert.equal(state.entries.size, 4999)
    assert.deepEqual(state.released, [77])
    for (let id = 1; id <= 5000; id++) if (id !== 77) assert.equal(state.entries.get(id)?.meta, meta(id))
  }
})

test('truncated anywhere, or with bytes after it, the file is refused', () => {
  const files = new MemFiles()
  const ids = open(files)
  ids.allocateId({ device_id: 'a' })
  ids.stop()
  const text = textOf(files, PATH)
  for (let length = 0; length < text.length - 1; length++) {
    files.files.set(PATH, { data: Buffer.from(text.slice(0, length)), durable: Buffer.alloc(0) })
    assert.throws(() => open(files).allocateId(), { code: 'STORAGE' }, `cut at ${length}`)
  }
  for (const bad of ['{}', '[]', `${text}{}`, '{"allocated": 3}', '{"allocated": {"1": }}', 'null']) {
    files.files.set(PATH, { data: Buffer.from(bad), durable: Buffer.alloc(0) })
    assert.throws(() => open(files).allocateId(), { code: 'STORAGE' }, bad)
  }
})

test('changes during a checkpoint stay in the journal', async () => {
  const files = new MemFiles()
  const ids = open(files)
  await growUntilCheckpoint(ids, files)
  ids.releaseId(1, true)
  assert.equal(ids.allocateId({ device_id: 'during' }), 1)
  await ids.commit()
  await ids.settled()
  assert.ok(files.size(`${PATH}.journal`) < 2000, 'only the lines of that time')
  assert.ok(files.files.has(PATH))
  const again = open(files.afterPowerCut(0))
  assert.deepEqual(again.getMeta(1), { device_id: 'during' })
  assert.equal(again.stats().total_allocated, ids.stats().total_allocated)
})

test('ids that are freed and assigned again between two pieces leave every other id in the file, once', () => {
  const state = new IdState()
  const record = { meta: '{}', ts: 1, last_seen: 2, lease_expires_at: 3, device_key: '', offline_since: 0 }
  for (let id = 1; id <= 2000; id++) state.apply({ set: id, record: { ...record, state: 'active' } })
  const pieces = checkpointPieces(state)
  let text = pieces.next().value as string
  for (let id = 1; id <= 2000; id += 10) state.apply({ free: id })
  for (let id = 1; id <= 2000; id += 20) state.apply({ set: id, record: { ...record, state: 'active' } })
  for (const piece of pieces) text += piece
  const names = [...text.matchAll(/^ {4}"(\d+)": /gm)].map(match => Number(match[1]))
  assert.equal(new Set(names).size, names.length)
  for (let id = 1; id <= 2000; id++) assert.ok(id % 10 === 1 || names.includes(id), `${id} is lost`)
})

test('a stop during a checkpoint aborts it and writes its own', async () => {
  const files = new MemFiles()
  const ids = open(files)
  await growUntilCheckpoint(ids, files)
  const { total_allocated } = ids.stats()
  ids.stop()
  await ids.settled()
  assert.equal(files.files.has(`${PATH}.tmp`), false)
  assert.equal(Object.keys(JSON.parse(textOf(files, PATH)).allocated).length, total_allocated)
  assert.equal(files.size(`${PATH}.journal`), 0)
})

test('a failed checkpoint is counted, leaves no partial file, and is not retried immediately', async () => {
  const files = new MemFiles()
  const ids = open(files)
  files.gate = (operation, path) => {
    if (operation === 'sync' && path.endsWith('.tmp')) throw systemError('ENOSPC')
  }
  await growUntilCheckpoint(ids, files)
  await ids.settled()
  assert.equal(ids.checkpointFailures, 1)
  assert.equal(files.files.has(`${PATH}.tmp`), false)
  ids.allocateId({ device_id: 'later' })
  await ids.commit()
  await ids.settled()
  assert.equal(ids.checkpointFailures, 1)
})

test('the journal grows to exactly 256 KiB before a checkpoint', async () => {
  for (const [bytes, begins] of [
    [256 * 1024 - 1, false],
    [256 * 1024, true],
  ] as const) {
    const files = new MemFiles()
    const store = new FileIdStore(PATH, files)
    for (const step = store.load(new IdState()); !step.next().done; );
    const line = (note: number): IdChange => ({ set: 1, record: recordFrom({ meta: { note: 'x'.repeat(note) } })! })
    const least = changeText(line(0)).length + 10
    const full = Math.floor(bytes / 4096) - 1
    for (let k = 0; k < full; k++) store.append(line(4096 - least))
    store.append(line(bytes - 4096 * full - least))
    await store.commit()
    assert.equal(files.size(`${PATH}.journal`), bytes)
    await store.checkpoint()
    assert.equal(files.exists(PATH), begins)
    assert.equal(files.size(`${PATH}.journal`), begins ? 0 : bytes)
  }
})

test('a commit after a failed sync rejects as long as the file cannot be rewritten', async () => {
  const files = new MemFiles()
  const store = new FileIdStore(PATH, files)
  for (const step = store.load(new IdState()); !step.next().done; );
  store.append({ free: 7 })
  files.gate = operation => {
    if (operation === 'sync') throw systemError('EIO')
  }
  await assert.rejects(store.commit(), { code: 'EIO' })
  await assert.rejects(store.commit(), { code: 'EIO' }, 'the new file cannot be synced either')
  assert.equal(files.files.has(`${PATH}.tmp`), false)
  assert.throws(() => store.checkpointNow(), { code: 'EIO' })
  assert.equal(files.files.has(`${PATH}.tmp`), false)
  files.gate = () => undefined
  await store.commit()
  assert.ok(files.exists(PATH))
  store.close()
  assert.equal(files.opened, 0)
})

test('after a failed sync the journal is not trusted: the next commit writes everything again', async () => {
  const files = new MemFiles()
  const ids = open(files)
  files.gate = operation => {
    if (operation === 'sync') throw systemError('EIO')
  }
  ids.allocateId({ device_id: 'a' })
  await assert.rejects(ids.commit(), /EIO/)
  files.gate = () => undefined
  await ids.commit()
  assert.ok(files.files.has(PATH), 'a checkpoint')
  assert.equal(open(files.afterPowerCut(0)).allocateId({ device_id: 'a' }), 1)
})

test('freed ids beyond max_released are assigned when the range is exhausted, also after a kill and after a stop', async () => {
  const files = new MemFiles()
  const make = (from: MemFiles): IdAllocator =>
    new IdAllocator({ maxReleased: 256, endId: 6000 }, { store: new FileIdStore(PATH, from), now: () => NOW })
  const ids = make(files)
  const all = ids.allocatePool(6000)
  ids.releasePool(all, true)
  await ids.commit()
  assert.equal(ids.stats().total_released, 6000)
  const killed = make(files.afterPowerCut(0))
  assert.equal(killed.stats().total_released, 6000)
  assert.deepEqual(killed.allocatePool(6000), all)
  ids.stop()
  assert.deepEqual(JSON.parse(textOf(files, PATH)).released, all.slice(0, 256))
  const stopped = make(files)
  assert.equal(stopped.stats().total_released, 6000)
  assert.deepEqual(stopped.allocatePool(6000), all)
  assert.throws(() => stopped.allocateId(), { code: 'ID_POOL_EXHAUSTED' })
})

/** What version 1.0 left behind when it was killed: made with its code, `expected` is what it read from it. */
const BEFORE = join(process.cwd(), 'test/corpus/ids-before')

function killedBefore(name: string, at: string): { files: MemFiles; expected: Record<string, unknown> } {
  const files = new MemFiles()
  const expected = JSON.parse(readFileSync(join(BEFORE, `${name}.expected.json`), 'utf8'))
  for (const file of readdirSync(BEFORE)) {
    if (!file.startsWith(`${name}-`)) continue
    const data = readFileSync(join(BEFORE, file))
    const node = { data, durable: data }
    const path = join(dirname(at), file.slice(name.length + 1))
    files.files.set(path, node)
    files.durableNames.set(path, node)
  }
  return { files, expected }
}

test('checkpoint, journal and spill file of an older version are read once and converted to the new files', async () => {
  const at = '/data/id_allocation.json'
  const { files, expected } = killedBefore('range', at)
  const make = (from: MemFiles): IdAllocator =>
    new IdAllocator({ maxReleased: 256 }, { store: new FileIdStore(at, from), now: () => expected['now'] as number })
  const check = (ids: IdAllocator): void => {
    assert.deepEqual((ids.dump() as { allocated: unknown }).allocated, expected['allocated'])
    const { total_allocated, total_released } = ids.stats()
    // the id that was taken back counts as free too
    assert.deepEqual(
      [total_allocated, total_released],
      [expected['total_allocated'], (expected['total_released'] as number) + 1],
    )
  }
  const ids = make(files)
  await ids.start()
  check(ids)
  await ids.settled()
  assert.equal(files.files.has(`${at}.released`), false)
  assert.equal(files.size(`${at}.journal`), 0)
  check(make(files.afterPowerCut(0)))
  const next = ids.allocatePool(260)
  const before = expected['next'] as number[]
  assert.deepEqual(next.slice(0, 253), before.slice(0, 253), 'the lowest first, as before')
  const owned = new Set(Object.keys(expected['allocated'] as object).map(Number))
  for (const id of next) assert.ok(!owned.has(id), `${id} has an owner`)
})

test('an older spill file is removed only when the new file is on flash: a power cut is possible at any operation before', async () => {
  const at = '/data/id_allocation.json'
  let done = false
  for (let point = 0; !done; point++) {
    const { files, expected } = killedBefore('range', at)
    const before = textOf(files, at)
    const make = (from: MemFiles): IdAllocator =>
      new IdAllocator({ endId: 620 }, { store: new FileIdStore(at, from), now: () => expected['now'] as number })
    files.gate = operation => {
      if (operation !== 'read' && operation !== 'close' && files.operations > point) throw new PowerCut()
    }
    const ids = make(files)
    await ids.start()
    await ids.settled()
    done = ids.checkpointFailures === 0
    if (!files.files.has(`${at}.released`)) assert.notEqual(textOf(files, at), before, `operation ${point}`)
    for (const kept of [0, 1]) {
      const again = make(files.afterPowerCut(kept))
      assert.deepEqual((again.dump() as { allocated: unknown }).allocated, expected['allocated'], `operation ${point}`)
      const owned = Object.keys(expected['allocated'] as object).length
      assert.equal(new Set(again.allocatePool(620)).size, 620 - owned, `operation ${point}: every free id, once`)
    }
    assert.ok(point < 100)
  }
})

test('a damaged older spill file costs no id of the range', () => {
  const at = '/data/id_allocation.json'
  const { files, expected } = killedBefore('range', at)
  files.files.get(`${at}.released`)!.data[20]! ^= 1
  const ids = new IdAllocator(
    { endId: 620 },
    { store: new FileIdStore(at, files), now: () => expected['now'] as number },
  )
  const owned = Object.keys(expected['allocated'] as object).length
  assert.equal(new Set(ids.allocatePool(620)).size, 620 - owned)
})

test('the upstream pool stored by an older version stays in use', () => {
  const at = '/data/id_pool.json'
  const { files, expected } = killedBefore('pool', at)
  const ids = new IdAllocator(
    { startId: 1, endId: 0 },
    { store: new FileIdStore(at, files), now: () => expected['now'] as number },
  )
  const dump = ids.dump() as { allocated: unknown; granted_until: number }
  assert.deepEqual(dump.allocated, expected['allocated'])
  assert.equal(dump.granted_until, expected['granted_until'])
  assert.equal(ids.grantsLeft, expected['left'])
  assert.deepEqual(ids.allocatePool(20), expected['next'])
})

test('start() reads in slices: the event loop runs in between, and a caller that needs everything reads the remainder immediately', async () => {
  const files = new MemFiles()
  const made = open(files)
  for (let k = 0; k < 30_000; k++) made.allocateId({ device_id: `n${k}` })
  made.stop()
  const longest = async (ids: IdAllocator): Promise<number> => {
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    await ids.start()
    clearInterval(timer)
    return turns
  }
  const ids = open(files)
  const turns = longest(ids)
  assert.equal(ids.reading, true)
  assert.ok((await turns) > 2, 'it came in more than one piece')
  assert.equal(ids.reading, false)
  assert.equal(ids.stats().total_allocated, 30_000)

  const hurried = open(files)
  const started = hurried.start()
  assert.equal(hurried.allocateId({ device_id: 'n7' }), 8)
  assert.equal(hurried.reading, false)
  await started

  const stopped = open(files)
  const ended = stopped.start()
  stopped.stop()
  await ended
  assert.equal(Object.keys(JSON.parse(textOf(files, PATH)).allocated).length, 30_000, 'a stop meanwhile writes nothing')
})

test('start() reports why no id can be assigned, also when that was found before', async () => {
  const files = new MemFiles()
  files.files.set(PATH, { data: Buffer.from('{"allocated": 7'), durable: Buffer.alloc(0) })
  const ids = open(files)
  await assert.rejects(ids.start(), { code: 'STORAGE' })
  assert.throws(() => ids.allocateId(), { code: 'STORAGE' })
  await assert.rejects(ids.start(), { code: 'STORAGE' })
  assert.equal(ids.reading, false)
})
