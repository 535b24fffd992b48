// Cuts the power at every single write, sync, rename, remove and truncate of a short run of the log, including the recovery
// after a damaged start, and checks the next start (R1). Unsynced data is lost, or half present, or present as zeros; of files
// created and removed since their folder was synced, the later changes are on the medium and the earlier ones are not, or the reverse.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FlashLog } from '../../src/log'
import { ManualClock } from '../lib/manual'
import { factOf, LOCAL, ManualTimers } from '../unit/log/helpers'
import { MemFiles, PowerCut } from '../unit/log/memfiles'

const OPTIONS = { dir: '/log', segmentBytes: 32 * 1024, maxBytes: 256 * 1024 }

interface Life {
  acknowledged: number[]
  /** every seq that the log assigned, with its content */
  given: Map<number, number>
  cursor: number
}

const open = (files: MemFiles): Promise<FlashLog> => {
  const clock = new ManualClock()
  return FlashLog.open({ ...OPTIONS, files, clock, timers: new ManualTimers(clock) })
}

/** Opens, appends, commits, rolls, drops, closes and opens again. */
async function live(files: MemFiles, life: Life, runs = 2): Promise<void> {
  for (let run = 0; run < runs; run++) {
    const log = await open(files)
    let waiting: number[] = []
    for (let k = 0; k < 60; k++) {
      const value = run * 1000 + k
      const seq = log.appendFact(factOf(value, 'x'.repeat(6000)), LOCAL)
      assert.ok(!life.given.has(seq), `seq ${seq} is used twice`)
      life.given.set(seq, value)
      waiting.push(seq)
      if (k % 4 !== 3) continue
      if (k % 8 === 7) log.appendCursor('main', seq)
      await log.flush()
      if (log.committedSeq >= seq) {
        life.acknowledged.push(...waiting)
        waiting = []
        if (k % 8 === 7) life.cursor = seq
      }
    }
    if (run === 0) await log.close()
  }
}

async function check(files: MemFiles, life: Life, where: string): Promise<void> {
  const log = await open(files)
  assert.equal(log.status().state, 'ok', where)
  const facts = [...log.read(0, { kinds: ['fact'] })]
  const seqs = facts.map(r => r.seq)
  assert.deepEqual(
    seqs,
    [...new Set(seqs)].sort((a, b) => a - b),
    where,
  )
  const there = new Set(seqs)
  for (const seq of life.acknowledged) {
    if (seq >= log.firstSeq) assert.ok(there.has(seq), `${where}: ${seq} was acknowledged`)
    else assert.ok(log.status().dropped > 0, where)
  }
  for (const { seq, fact } of facts) {
    const given = life.given.get(seq)
    if (given !== undefined) assert.equal(fact!.tRaw, factOf(given).tRaw, where)
  }
  const newest = Math.max(0, ...life.given.keys())
  assert.ok(log.lastSeq > newest, `${where}: ${log.lastSeq} after ${newest}`)
  if (life.cursor > 0) assert.ok((log.cursor('main') ?? 0) >= life.cursor, where)
  assert.equal(log.status().damaged, 0, where)
  await log.close()
}

async function cutAt(
  point: number,
  start: MemFiles,
  tear: number,
  runs: number,
): Promise<{ files: MemFiles; life: Life; cut: boolean }> {
  const files = start.copy()
  const life: Life = { acknowledged: [], given: new Map(), cursor: 0 }
  let cut = false
  files.tear = tear
  files.gate = operation => {
    if (cut || (operation !== 'read' && operation !== 'close' && files.operations > point)) {
      cut = true
      throw new PowerCut(`at operation ${point}`)
    }
  }
  // after the cut nothing reaches the disk: the process would be gone, so its later operations do not count
  const before = new Map<number, number>()
  try {
    const seen = new Proxy(life, { get: (l, key) => (cut && key === 'given' ? before : Reflect.get(l, key)) })
    await live(files, seen, runs)
  } catch (error) {
    if (!cut) throw error
  }
  return { files, life, cut }
}

type Survives = (name: string) => boolean
/** Names are numbers of records, so a later segment has a greater one. */
const laterNames = ({ removed }: MemFiles): Survives => {
  const last = removed.sort().at(-1) ?? ''
  return name => name >= last
}
const earlierNames = ({ removed }: MemFiles): Survives => {
  const first = removed.sort()[0] ?? ''
  return name => name <= first
}

/** the share of unsynced bytes that is kept, whether as zeros, how much of the last write is done, which names stay or are gone */
const LOSSES: readonly (readonly [
  kept: number,
  zeros: boolean,
  tear: number,
  survives?: (files: MemFiles) => Survives,
])[] = [
  [0, false, 0],
  [1, false, 0.5],
  [0.5, false, 0.3],
  [0.7, true, 0],
  [0, false, 0, laterNames],
  [1, false, 0.5, laterNames],
  [1, false, 0, earlierNames],
]

/** A log of small segments, of which a new one takes the place of several: each start began one. */
async function afterStarts(): Promise<MemFiles> {
  const files = new MemFiles()
  for (let k = 0; k < 40; k++) {
    const log = await open(files)
    log.appendFact(factOf(k), LOCAL)
    await log.flush()
    await log.close()
  }
  return files.copy()
}

for (const [what, runs, losses, start] of [
  ['an empty folder', 2, LOSSES, async () => new MemFiles()],
  ['many small segments', 1, LOSSES.filter(([, , , survives]) => survives), afterStarts],
] as const)
  test(`after a power cut at every operation of a short run on ${what} the next start has everything that was acknowledged`, async () => {
    const fresh = await start()
    let points = 0
    for (; points < 2000; points++) {
      // one run for the losses that tear alike: what is lost is decided after it
      const lives = new Map<number, Awaited<ReturnType<typeof cutAt>>>()
      for (const [kept, zeros, tear, survives] of losses) {
        const lived = lives.get(tear) ?? (await cutAt(points, fresh, tear, runs))
        lives.set(tear, lived)
        const { files, life } = lived
        await check(
          files.afterPowerCut(kept, zeros, survives?.(files)),
          life,
          `operation ${points}, kept ${kept}${zeros ? ' zeros' : ''} ${survives?.name ?? ''}`,
        )
      }
      if ([...lives.values()].every(({ cut }) => !cut)) break
    }
    assert.ok(points > 60, `${points} points`)
  })

test('after a power cut at every operation of a recovery it can be repeated, and losses are counted once', async () => {
  const first = new MemFiles()
  const log = await open(first)
  for (let k = 0; k < 30; k++) {
    log.appendFact(factOf(k, 'x'.repeat(3000)), LOCAL)
    if (k % 3 === 2) await log.flush()
  }
  await log.flush()
  const damaged = first.afterPowerCut()
  const name = damaged.segments('/log').at(-1)!
  const node = damaged.files.get(`/log/${name}`)!
  node.data[node.data.findLastIndex(byte => byte !== 0) - 5000]! ^= 1
  node.durable = Buffer.from(node.data)
  const whole = await open(damaged.copy())
  const expected = { damaged: whole.status().damaged, facts: [...whole.read(0, { kinds: ['fact'] })].length }
  assert.equal(expected.damaged, 1)
  assert.equal(expected.facts, 29)
  for (let point = 0; point < 200; point++) {
    const files = damaged.copy()
    let cut = false
    files.gate = operation => {
      if (operation === 'read' || operation === 'close') return
      if (cut || files.operations > point) {
        cut = true
        throw new PowerCut(`at operation ${point}`)
      }
    }
    await open(files).catch(() => undefined)
    for (const kept of [0, 0.5, 1]) {
      const again = await open(files.afterPowerCut(kept))
      assert.equal(again.status().damaged, expected.damaged, `operation ${point}, kept ${kept}`)
      assert.equal([...again.read(0, { kinds: ['fact'] })].length, expected.facts, `operation ${point}, kept ${kept}`)
    }
    if (!cut) return
  }
  assert.fail('recovery never ended')
})

test('the disk refuses at every operation of a short run, once: the log recovers, and acknowledged records survive a power cut', async () => {
  for (const code of ['EIO', 'ENOSPC', 'EROFS'])
    for (let point = 1; point < 2000; point++) {
      const files = new MemFiles()
      const life: Life = { acknowledged: [], given: new Map(), cursor: 0 }
      const refused = files.refuseOnce(point, code)
      // a stop that the disk refuses reports that; the next start is as after a kill
      await live(files, life).catch((error: { code?: unknown }) => {
        assert.match(String(error.code), /^(STORAGE|DISK_FULL)$/, `${code} at ${point}`)
      })
      if (!refused()) break
      assert.ok(life.acknowledged.length > 5, `${code} at ${point}: ${life.acknowledged.length}`)
      for (const kept of [0, 1]) await check(files.afterPowerCut(kept), life, `${code} at ${point}, kept ${kept}`)
    }
})
