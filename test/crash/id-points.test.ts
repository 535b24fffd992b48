// Cuts the power at every single write, sync, rename, remove and truncate of a short run of the ID allocator, with released
// ids spilled, checkpoints written in pieces and in one step, and pools granted by an upstream; then checks the next start.
// Unsynced data is lost, or half present, or present as zeros.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdAllocator } from '../../src/protocol/ids/allocator'
import { FileIdStore } from '../../src/protocol/ids/id-store'
import { MemFiles, PowerCut } from '../unit/log/memfiles'

const NOW = 1_710_000_000
const PATH = '/data/ids.json'

class Life {
  /** sent to their devices, and not released since */
  readonly owner = new Map<number, string>()
  /** reported to the upstream as accepted */
  readonly granted = new Set<number>()
  cut = false
  /** commits and stops that the disk refused; each commit was requested again */
  refused = 0

  async commit(ids: IdAllocator): Promise<void> {
    await ids.commit().catch((error: unknown) => {
      if (this.cut) throw error
      this.refused++
      return ids.commit()
    })
  }

  /** A stop that the disk refuses reports that; the next start is as after a kill. */
  async stop(ids: IdAllocator): Promise<void> {
    try {
      ids.stop()
    } catch (error) {
      if (this.cut) throw error
      this.refused++
      // what it wrote in this turn is in the file before the next start
      await new Promise(setImmediate)
    }
  }

  /** Assigns ids to new devices and sends them once they are stored. */
  async tell(ids: IdAllocator, devices: string[], note = ''): Promise<void> {
    const given = devices.map(device_id => [ids.allocateId({ device_id, note }), device_id] as const)
    await this.commit(ids)
    if (this.cut) return
    for (const [id, device] of given) {
      const known = this.owner.get(id)
      assert.ok(known === undefined || known === device, `${id} told to ${known} and ${device}`)
      this.owner.set(id, device)
    }
  }

  async giveBack(ids: IdAllocator, list: readonly number[]): Promise<void> {
    for (const id of list) this.owner.delete(id)
    ids.releasePool(list, true)
    await this.commit(ids)
  }
}

const names = (prefix: string, count: number): string[] => Array.from({ length: count }, (_, k) => `${prefix}${k}`)

const ranged = (files: MemFiles): IdAllocator =>
  new IdAllocator({ maxReleased: 256 }, { store: new FileIdStore(PATH, files), now: () => NOW })

const pooled = (files: MemFiles): IdAllocator =>
  new IdAllocator({ startId: 1, endId: 0 }, { store: new FileIdStore(PATH, files), now: () => NOW })

/** Spills, empties the spill file, lets the journal grow into a checkpoint in pieces, stops, starts again. */
async function liveRanged(files: MemFiles, life: Life): Promise<void> {
  const long = 'x'.repeat(6000)
  let ids = ranged(files)
  await life.tell(ids, names('a', 400))
  await life.giveBack(ids, [...life.owner.keys()].slice(10, 390))
  await life.tell(ids, names('b', 20), long)
  await life.tell(ids, names('c', 30), long)
  // while the checkpoint is written
  await life.tell(ids, names('d', 5), long)
  await life.giveBack(ids, [...life.owner.keys()].slice(0, 8))
  await life.tell(ids, names('e', 3))
  await ids.settled()
  await life.tell(ids, names('f', 2))
  // spilled, and not written before the stop does it
  const high = [...life.owner.keys()].filter(id => id > 395)
  await life.giveBack(ids, high)
  await life.stop(ids)
  ids = ranged(files)
  await life.tell(ids, names('g', 250))
  await life.giveBack(ids, [...life.owner.keys()].slice(-20))
  await life.tell(ids, names('h', 90))
  ids.allocateId({ device_id: 'untold' })
  await life.stop(ids)
  ids = ranged(files)
  await life.tell(ids, names('i', 3))
}

async function livePooled(files: MemFiles, life: Life): Promise<void> {
  let ids = pooled(files)
  const grant = async (from: number): Promise<void> => {
    const list = Array.from({ length: 8 }, (_, k) => from + k)
    ids.grant(list, 1000)
    await life.commit(ids)
    if (!life.cut) for (const id of list) life.granted.add(id)
  }
  await grant(500)
  await life.tell(ids, names('a', 3))
  await grant(900)
  await life.tell(ids, names('b', 7))
  await life.stop(ids)
  ids = pooled(files)
  await life.tell(ids, names('c', 2))
  await grant(100)
  await life.tell(ids, names('d', 3))
}

function checkRanged(files: MemFiles, life: Life, where: string): void {
  const ids = ranged(files)
  const { total_allocated, total_released, next_candidate } = ids.stats()
  assert.equal(total_allocated + total_released, next_candidate - 1, `${where}: an id is lost, or there twice`)
  for (const [id, device_id] of life.owner) assert.equal(ids.allocateId({ device_id }), id, `${where}: ${device_id}`)
  const strangers = ids.allocatePool(total_released + 5)
  assert.equal(new Set(strangers).size, total_released + 5, where)
  for (const id of strangers) assert.ok(!life.owner.has(id), `${where}: ${id} of ${life.owner.get(id)} given again`)
}

function checkPooled(files: MemFiles, life: Life, where: string): void {
  const ids = pooled(files)
  for (const [id, device_id] of life.owner) assert.equal(ids.allocateId({ device_id }), id, `${where}: ${device_id}`)
  const strangers: number[] = []
  while (ids.grantsLeft > 0) strangers.push(ids.allocateId())
  for (const id of strangers) assert.ok(!life.owner.has(id), `${where}: ${id} of ${life.owner.get(id)} given again`)
  for (const id of life.granted) assert.ok(ids.isAllocated(id), `${where}: ${id} was taken from the upstream and lost`)
  assert.throws(() => ids.allocateId({ device_id: 'late' }), { code: 'ID_POOL_EXHAUSTED' })
}

const journalOnly = (name: string): boolean => name.endsWith('.journal')
const allBut = (end: string) => (name: string) => !name.endsWith(end)

/** the share of unsynced bytes that is kept, and whether as zeros; how much of the last write is done; which new names stay */
const LOSSES: readonly (readonly [kept: number, zeros: boolean, tear: number, survives?: (name: string) => boolean])[] =
  [
    [0, false, 0],
    [1, false, 0.5],
    [0.5, false, 0.3],
    [0.7, true, 0],
    [0, false, 0, journalOnly],
    [1, false, 0, allBut('.journal')],
    [1, false, 0, allBut('.released')],
  ]

/** Runs until the power is cut at operation `point`, or to the end. */
async function cutAt(
  point: number,
  tear: number,
  live: (files: MemFiles, life: Life) => Promise<void>,
): Promise<{ files: MemFiles; life: Life; done: boolean }> {
  const files = new MemFiles()
  const life = new Life()
  files.tear = tear
  files.gate = operation => {
    if (life.cut || (operation !== 'read' && operation !== 'close' && files.operations > point)) {
      life.cut = true
      throw new PowerCut(`at operation ${point}`)
    }
  }
  try {
    await live(files, life)
  } catch (error) {
    if (!life.cut) throw error
  }
  const done = !life.cut
  life.cut = true
  return { files, life, done }
}

async function everyPoint(
  live: (files: MemFiles, life: Life) => Promise<void>,
  check: (files: MemFiles, life: Life, where: string) => void,
): Promise<number> {
  for (let point = 0; point < 1000; point++) {
    // one run for the losses that tear alike: what is lost is decided after it
    const lives = new Map<number, Awaited<ReturnType<typeof cutAt>>>()
    for (const [kept, zeros, tear, survives] of LOSSES) {
      const lived = lives.get(tear) ?? (await cutAt(point, tear, live))
      lives.set(tear, lived)
      const { files, life } = lived
      check(
        files.afterPowerCut(kept, zeros, survives),
        life,
        `operation ${point}, kept ${kept}${zeros ? ' zeros' : ''} ${survives ?? ''}`,
      )
    }
    if ([...lives.values()].every(({ done }) => done)) return point
  }
  return assert.fail('the life never ended')
}

test('a power cut at every operation of the allocator leaves no id with two owners, and loses none', async () => {
  const points = await everyPoint(liveRanged, checkRanged)
  assert.ok(points > 60, `${points} points`)
})

test('a power cut at every operation of a pool keeps what was reported upstream, and leaves no id with two owners', async () => {
  const points = await everyPoint(livePooled, checkPooled)
  assert.ok(points > 25, `${points} points`)
})

for (const [name, live, check] of [
  ['the allocator', liveRanged, checkRanged],
  ['a pool', livePooled, checkPooled],
] as const)
  test(`the disk refuses at every operation of ${name}, once: the commit is retried, and every id that was sent survives a power cut`, async () => {
    let refused = 0
    for (const code of ['EIO', 'ENOSPC', 'EROFS'])
      for (let point = 1; point < 1000; point++) {
        const files = new MemFiles()
        const life = new Life()
        const happened = files.refuseOnce(point, code)
        await live(files, life)
        if (!happened()) break
        refused += life.refused
        for (const kept of [0, 1]) check(files.afterPowerCut(kept), life, `${code} at ${point}, kept ${kept}`)
      }
    assert.ok(refused > 30, `${refused} refused`)
  })
