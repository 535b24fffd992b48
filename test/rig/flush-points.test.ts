// The log, the windows, the ids and the small files of a gateway under load on ext4, over a disk that records every write (dm-log-writes).
// Then the disk as it was at every flush is mounted and started from, and so is that with a random part of the writes after the flush: all
// that was reported by then is present, nothing else is (R1). A run whose syncs are left out is caught. A limit of ext4: a sync of a new
// file keeps its name too, so a missing sync of the log's folder shows in log-points.test.ts only.
// Long: every point of the long run
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { type Files, realFiles } from '../../src/lib/files'
import { systemTimers } from '../../src/lib/timers'
import { FlashLog } from '../../src/log'
import type { Fact } from '../../src/pipeline/fact'
import { IdAllocator } from '../../src/protocol/ids/allocator'
import { FileIdStore } from '../../src/protocol/ids/id-store'
import { WindowFolder } from '../../src/storage/folder'
import { SqlView } from '../../src/storage/view'
import { NotedDisk, ReplayedDisk } from '../lib/log-writes'
import { prng, rounds } from '../lib/random'
import { inTheRig } from '../lib/rig'
import { subjects } from '../lib/state-subjects'
import { factOf, LOCAL } from '../unit/log/helpers'
import { loadSql, openSql } from '../unit/storage/sealedworld'

const DIR = '/noted'
const PLACE = { log: join(DIR, 'log'), windows: join(DIR, 'sql'), ids: join(DIR, 'ids.json') }
const ROUNDS = 60
/** one in so many points is checked */
const STRIDE = rounds(12, 1)
const SEED = Number(process.env.OS_NODE_SEED ?? 16)

/** What was reported when a mark was made; the state that a power cut leaves is between this mark and the next. */
interface Reported {
  /** seqs of facts up to here that were committed, and how many in total */
  readonly sure: number
  readonly cursor: number
  readonly counter: number
  /** the newest seq assigned, the oldest that is kept */
  readonly newest: number
  readonly first: number
  readonly sealedTo: number
  readonly ids: number
  /** number of changes of each small file */
  readonly changes: Readonly<Record<string, number>>
}

/** The small files, each kind in its own folder. */
const SMALL = Object.keys(subjects(DIR)).map(name => ({ name, subject: subjects(join(DIR, name))[name]! }))

const text = (value: unknown): string => JSON.stringify(value)

/** `files` as a process has them: the files it removes, and `end` closes those it left open. */
function processOf(files: Files): Files & { removed: string[]; end(): void } {
  const open = new Set<number>()
  const removed: string[] = []
  return {
    ...files,
    open: (path, flags) => {
      const fd = files.open(path, flags)
      open.add(fd)
      return fd
    },
    close: fd => {
      open.delete(fd)
      files.close(fd)
    },
    removed,
    remove: path => {
      removed.push(path)
      files.remove(path)
    },
    end: () => {
      for (const fd of open) files.close(fd)
    },
  }
}

/** A gateway's storage under full load; `reported` has an entry for each mark of the disk. */
class Life {
  readonly reported: Reported[] = []
  /** every fact that got a seq, and those that were committed, in order */
  readonly given = new Map<number, Fact>()
  readonly sure: number[] = []
  /** what a reader of each small file finds after its nth change */
  readonly states: Record<string, string[]> = {}
  readonly ids: { device: string; id: number }[] = []
  #now = {
    sure: 0,
    cursor: 0,
    counter: 0,
    newest: 0,
    sealedTo: 0,
    ids: 0,
    changes: {} as Record<string, number>,
  }
  readonly #disk: NotedDisk
  readonly #files: Files
  #process!: ReturnType<typeof processOf>
  readonly #random = prng(SEED)
  #log!: FlashLog
  #alive = { yes: true }
  #folder!: WindowFolder
  #view!: SqlView
  #applied = 0

  constructor(disk: NotedDisk, files: Files) {
    this.#disk = disk
    this.#files = files
  }

  async run(count: number): Promise<void> {
    const small = SMALL.map(({ name, subject }) => {
      realFiles.mkdir(join(DIR, name))
      this.states[name] = [text(subject.read(this.#files))]
      this.#now.changes[name] = 0
      return { name, subject, change: subject.open(this.#files).change }
    })
    const ids = openIds(this.#files)
    this.#folder = openFolder(this.#files)
    const sealing = { folder: this.#folder, open: openSql }
    this.#view = new SqlView(openSql(), { maxPackets: 25, maxBytes: 1e9 }, sealing)
    this.#view.begin(1)
    await this.#start()
    for (let k = 0; k < count; k++) {
      await this.#commit(k)
      if (k % 3 === 1) {
        const { name, subject, change } = small[Math.floor(k / 3) % small.length]!
        await change(this.states[name]!.length)
        this.states[name]!.push(text(subject.read(this.#files)))
        this.#now.changes[name]!++
        this.#mark()
      } else if (k % 3 === 2) {
        const device = `device-${k}`
        this.ids.push({ device, id: ids.allocateId({ device_id: device, note: 'x'.repeat(6000) }) })
        await ids.commit()
        this.#now.ids++
        this.#mark()
      }
      if (k % 50 === 20) await this.#killed(k)
      if (k % 50 === 40) await this.#stopped()
    }
    ids.stop()
    await this.#log.close()
    if (count < ROUNDS) return
    const { sealedTo, cursor } = this.#now
    assert.ok(this.#log.firstSeq > 1 && sealedTo > 1 && cursor > 1, 'segments were dropped, windows sealed')
  }

  #mark(): void {
    // the log drops segments also between our own commits
    this.reported.push({ ...this.#now, first: this.#log.firstSeq, changes: { ...this.#now.changes } })
    assert.equal(this.#disk.mark(), this.reported.length - 1)
  }

  async #start(): Promise<void> {
    const alive = { yes: true }
    this.#alive = alive
    this.#process = processOf(this.#files)
    this.#log = await openLog(this.#process, run => alive.yes && run())
    this.#look()
  }

  #append(k: number, n: number): number {
    const fact = factOf(k * 10 + n, 'x'.repeat(Math.floor(5000 * this.#random())))
    const seq = this.#log.appendFact(fact, LOCAL)
    assert.ok(!this.given.has(seq) && seq > this.#now.newest, `seq ${seq} is used twice`)
    this.given.set(seq, fact)
    this.#now.newest = seq
    return seq
  }

  async #commit(k: number): Promise<void> {
    const seqs = Array.from({ length: 1 + Math.floor(4 * this.#random()) }, (_, n) => this.#append(k, n))
    if (k % 4 === 1) this.#log.appendCursor('main', this.#now.newest)
    if (k % 5 === 1) this.#log.appendCounter('tid', k)
    await this.#log.flush()
    assert.ok(this.#log.committedSeq >= this.#now.newest)
    this.#look()
    assert.deepEqual(this.sure.slice(-seqs.length), seqs)
  }

  /** Records the committed state as reported, then seals a full window. */
  #look(): void {
    this.#now.cursor = this.#log.cursor('main') ?? 0
    this.#now.counter = this.#log.counter('tid') ?? 0
    this.#now.newest = Math.max(this.#now.newest, this.#log.lastSeq)
    const fresh = [...this.#log.read(this.#applied + 1)]
    for (const { seq, fact } of fresh) if (fact) this.sure.push(seq)
    this.#now.sure = this.sure.length
    this.#mark()
    const { lastSeq } = this.#folder
    this.#view.apply(fresh)
    this.#applied = fresh.at(-1)?.seq ?? this.#applied
    if (this.#folder.lastSeq === lastSeq) return
    this.#now.sealedTo = this.#folder.lastSeq
    this.#mark()
  }

  /** As after `kill -9`: data handed to the kernel is present, and the next start continues with it. */
  async #killed(k: number): Promise<void> {
    for (let n = 5; n < 9; n++) this.#append(k, n)
    // they are handed over at the end of this turn, or a little later
    await new Promise(resolve => setImmediate(resolve))
    this.#alive.yes = false
    this.#process.end()
    await this.#start()
  }

  async #stopped(): Promise<void> {
    await this.#log.close()
    this.#look()
    await this.#start()
  }
}

const openLog = (files: Files, guard = (run: () => void): unknown => run()): Promise<FlashLog> =>
  FlashLog.open({
    dir: PLACE.log,
    files,
    segmentBytes: 32 * 1024,
    maxBytes: 256 * 1024,
    timers: { after: (ms, run) => systemTimers.after(ms, () => guard(run)) },
  })

const openIds = (files: Files): IdAllocator =>
  new IdAllocator({}, { store: new FileIdStore(PLACE.ids, files), now: () => 1_710_000_000 })

const openFolder = (files: Files): WindowFolder => new WindowFolder({ dir: PLACE.windows, files, readOnly: false })

/** A start has what was `reported` before the power cut, and nothing that was not in progress `then`. */
async function check(
  files: ReturnType<typeof processOf>,
  { given, sure, states, ids }: Life,
  reported: Reported,
  then: Reported,
): Promise<void> {
  const log = await openLog(files)
  // the new segment of a start drops the oldest of a full log
  const first = files.removed.some(path => path.endsWith('.seg')) ? Math.max(log.firstSeq, then.first) : then.first
  const { damaged, overflow, gaps, state, chain } = log.status()
  assert.deepEqual(
    { damaged, overflow, gaps, state, chain },
    { damaged: 0, overflow: 0, gaps: [], state: 'ok', chain: undefined },
  )
  assert.ok(log.lastSeq > reported.newest, `a start goes on at ${log.lastSeq}, after ${reported.newest}`)
  const facts = [...log.read(0, { kinds: ['fact'] })]
  const there = new Set<number>()
  let last = 0
  for (const { seq, fact } of facts) {
    assert.ok(seq > last, `${seq} after ${last}`)
    last = seq
    there.add(seq)
    assert.deepEqual(fact, given.get(seq), `fact ${seq}`)
  }
  for (const seq of sure.slice(0, reported.sure))
    if (seq >= first) assert.ok(there.has(seq), `fact ${seq} was reported as committed`)
  assert.ok(
    (log.cursor('main') ?? 0) >= reported.cursor,
    `the cursor is at ${log.cursor('main')}, not at ${reported.cursor}`,
  )
  assert.ok(
    (log.counter('tid') ?? 0) >= reported.counter,
    `the counter is ${log.counter('tid')}, not ${reported.counter}`,
  )

  const folder = openFolder(files)
  assert.deepEqual([folder.damaged, folder.problem], [[], undefined])
  assert.ok(folder.lastSeq >= reported.sealedTo, `windows up to ${folder.lastSeq}, not ${reported.sealedTo}`)
  let packets = 0
  for (const window of folder.sealed) {
    folder.read(window)
    packets += window.summary.packets
  }
  // one packet is one fact here
  assert.equal(packets, sure.filter(seq => seq <= folder.lastSeq).length, 'packets in windows')
  for (const seq of sure.slice(0, reported.sure))
    assert.ok(seq <= folder.lastSeq || there.has(seq), `fact ${seq} is in no window and not in the log`)
  await log.close()

  const allocator = openIds(files)
  for (const { device, id } of ids.slice(0, reported.ids))
    assert.equal(allocator.allocateId({ device_id: device }), id, `the id of ${device}`)
  const stranger = allocator.allocateId({ device_id: 'stranger' })
  assert.ok(!ids.slice(0, reported.ids).some(({ id }) => id === stranger), `id ${stranger} is given again`)
  allocator.stop()

  for (const { name, subject } of SMALL) {
    const found = text(subject.read(files))
    const n = reported.changes[name]!
    assert.ok(states[name]!.slice(n, n + 2).includes(found), `${name}: ${found} after change ${n}, ${states[name]![n]}`)
  }
}

/** Runs once and starts from about one in `stride` of its points; returns how many of each kind, and how many there are. */
async function liveAndCheck(name: string, count: number, stride: number, files = realFiles) {
  const disk = new NotedDisk(name, DIR)
  const life = new Life(disk, files)
  await life.run(count)
  disk.close()
  const replayed = new ReplayedDisk(name)
  const random = prng(SEED + 1)
  const seen = { flush: 0, part: 0, all: 0 }
  for (const { mark, entry, kind, disk: bytes } of disk.points(prng(SEED))) {
    seen.all++
    if (random() * stride >= 1) continue
    seen[kind]++
    const where = `${kind} at entry ${entry}, mark ${mark}`
    const then = life.reported[mark + 1] ?? life.reported.at(-1)!
    try {
      await replayed.at(bytes, DIR, async () => {
        const found = processOf(realFiles)
        await check(found, life, life.reported[mark]!, then).finally(() => found.end())
      })
    } catch (error) {
      throw new Error(`${where}: ${(error as Error).message}`, { cause: error })
    }
  }
  return seen
}

const without = (name: keyof Files, does: unknown): Files => ({ ...realFiles, [name]: does })

inTheRig(
  () => {
    before(loadSql)

    test(`a start from the flush points of ${ROUNDS} loaded commits has everything that was reported, and nothing else`, async t => {
      const { flush, part, all } = await liveAndCheck('whole', ROUNDS, STRIDE)
      t.diagnostic(`${flush} flush points, ${part} with a part of what came behind them, of ${all}`)
      assert.ok(flush > 240 / STRIDE && part > 120 / STRIDE, `${flush} and ${part}`)
    })

    test('a commit without its sync is noticed', () =>
      assert.rejects(
        liveAndCheck(
          'unsynced',
          12,
          1,
          without('sync', async () => undefined),
        ),
        /fact \d+ was reported as committed|the cursor is at/,
      ))

    test('a rename without a sync of its folder is noticed', () =>
      assert.rejects(
        liveAndCheck(
          'unnamed',
          12,
          1,
          without('syncDir', () => undefined),
        ),
        /after change 1/,
      ))
  },
  { memory: 1024, seconds: 1500 },
)
