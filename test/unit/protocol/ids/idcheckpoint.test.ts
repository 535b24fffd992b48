// The allocator's files beyond the journal: the checkpoint written in pieces and read member by member, the spill of released
// ids, and what happens when one of them is damaged or the disk refuses.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdAllocator } from '../../../../src/protocol/ids/allocator'
import { checkpointPieces, readCheckpoint } from '../../../../src/protocol/ids/checkpoint'
import { FileSpill } from '../../../../src/protocol/ids/spill'
import { IdState } from '../../../../src/protocol/ids/state'
import { FileIdStore } from '../../../../src/protocol/ids/store'
import { MemFiles, systemError } from '../../log/memfiles'

const NOW = 1_710_000_000
const PATH = '/data/ids.json'
const open = (files: MemFiles, maxReleased = 256): IdAllocator =>
  new IdAllocator({ maxReleased }, { store: new FileIdStore(PATH, files), now: () => NOW })
const textOf = (files: MemFiles, path: string): string => files.files.get(path)?.data.toString('utf8') ?? ''

/** Grows the journal until a checkpoint in pieces has begun. */
async function growUntilCheckpoint(ids: IdAllocator, files: MemFiles): Promise<void> {
  for (let k = 0; !files.files.has(`${PATH}.tmp`); k++) {
    assert.ok(k < 100, 'no checkpoint began')
    for (let n = 0; n < 100; n++) ids.allocateId({ device_id: `grow-${k}-${n}`, note: 'x'.repeat(100) })
    await ids.commit()
  }
}

test('the file is JSON with an indent of two, as the peers write it', () => {
  const files = new MemFiles()
  const ids = open(files)
  ids.allocateId({ device_id: 'a', list: [1, { b: 'ä"\\' }] })
  ids.releaseId(ids.allocateId(), true)
  ids.stop()
  const text = textOf(files, PATH)
  assert.equal(text, `${JSON.stringify(JSON.parse(text), null, 2)}\n`)
  assert.deepEqual(JSON.parse(text), ids.dump())
})

test('an empty allocator is a file too', () => {
  const files = new MemFiles()
  const ids = open(files)
  ids.stats()
  ids.stop()
  assert.deepEqual(JSON.parse(textOf(files, PATH)).allocated, {})
  assert.equal(open(files).allocateId(), 1)
})

test('it is read whatever its spacing and order, member by member, over the ends of its pieces', () => {
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
    readCheckpoint(PATH, files, state)
    assert.equal(state.allocated.size, 4999)
    assert.deepEqual(state.released.inMemory(), [77])
    for (let id = 1; id <= 5000; id++)
      if (id !== 77) assert.equal(state.allocated.record(state.allocated.find(id)).meta, meta(id))
  }
})

test('cut anywhere, or with more behind it, the file is refused', () => {
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

test('what changes while a checkpoint is written stays in the journal', async () => {
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

test('a stop while a checkpoint is written ends that one and makes its own', async () => {
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

test('a checkpoint that fails is counted, leaves no piece behind, and is not tried at once again', async () => {
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

test('after a failed sync the journal is not believed: the next commit keeps everything anew', async () => {
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

test('released ids survive in the spill, over a restart and a kill, and are given out before new ones', async () => {
  const files = new MemFiles()
  const ids = open(files)
  const all = ids.allocatePool(6000)
  ids.releasePool(all, true)
  await ids.commit()
  assert.equal(ids.stats().total_released, 6000)
  const killed = open(files.afterPowerCut(0))
  assert.equal(killed.stats().total_released, 6000)
  assert.deepEqual(killed.allocatePool(6000), all)
  ids.stop()
  assert.equal(JSON.parse(textOf(files, PATH)).released.length, 256)
  const restarted = open(files)
  assert.equal(restarted.stats().total_released, 6000)
  assert.deepEqual(restarted.allocatePool(6001), [...all, 6001])
  restarted.stop()
  assert.equal(files.size(`${PATH}.released`), 0, 'nothing dead stays in it')
})

test('a damaged spill is kept aside, and its ids are found before the range counts as used up', () => {
  const files = new MemFiles()
  const make = (): IdAllocator =>
    new IdAllocator({ maxReleased: 256, endId: 1000 }, { store: new FileIdStore(PATH, files), now: () => NOW })
  const ids = make()
  ids.releasePool(ids.allocatePool(1000), true)
  ids.stop()
  files.files.get(`${PATH}.released`)!.data[20]! ^= 1
  const again = make()
  const { total_released } = again.stats()
  assert.ok(total_released < 1000)
  assert.ok(files.files.has(`${PATH}.released.damaged`))
  assert.equal(new Set(again.allocatePool(1000)).size, 1000)
  assert.throws(() => again.allocateId(), { code: 'ID_POOL_EXHAUSTED' })
})

test('a spill of many lines gives its lowest ids first, from an order of its own making', () => {
  const files = new MemFiles()
  const spill = new FileSpill(`${PATH}.released`, files)
  const all: number[] = []
  for (let line = 0; line < 50; line++) {
    const ids = Array.from({ length: 100 }, (_, k) => 1 + (((line * 100 + k) * 7919) % 5003))
    spill.append(ids)
    all.push(...ids)
  }
  all.sort((a, b) => a - b)
  for (const from of [0, 2000, 4900]) {
    const { ids, below } = spill.read(from, 300)
    assert.deepEqual(
      ids.sort((a, b) => a - b),
      all.filter(id => id >= from && id < below),
    )
    assert.ok(ids.length >= 300 || below === Number.POSITIVE_INFINITY)
  }
  assert.ok(spill.read(0, 300).below < 5000, 'not the whole file')
  assert.equal(spill.count, all.length)
  const again = new FileSpill(`${PATH}.released`, files)
  assert.deepEqual(again.read(0, Number.POSITIVE_INFINITY).ids, all)
})
