// Sealed windows: the same answers as one plain SQLite database, whatever was sealed, restarted, truncated or damaged in between.
// Long: more seeds, every operation
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { LogRecord } from '../../../src/log'
import type { SqlView } from '../../../src/storage/view'
import { windowName } from '../../../src/storage/windowfile'
import { LONG, rounds } from '../../lib/random'
import { MemFiles, type Operation, PowerCut, systemError } from '../log/memfiles'
import { assertSame, loadSql, names, openView, path, plainList, randomLog, recordOf, T0 } from './sealedworld'

before(loadSql)

function* batches(records: readonly LogRecord[], size: number): Iterable<readonly LogRecord[]> {
  for (let at = 0; at < records.length; at += size) yield records.slice(at, at + size)
}

/** A restart as the main thread does it: gaps first, each as a separate window, then the remainder of the log. */
function restarted(files: MemFiles, records: readonly LogRecord[]): SqlView {
  const { view, folder } = openView(files, { maxPackets: 40 })
  let next = 1
  for (const { from, to } of folder.sealed.map(({ summary }) => summary)) {
    if (from > next) {
      view.begin(next)
      view.apply(records.filter(({ seq }) => seq >= next && seq < from))
      view.seal(from - 1)
    }
    next = to + 1
  }
  view.begin(next)
  view.apply(records.filter(({ seq }) => seq >= next))
  return view
}

for (const seed of LONG ? [1, 2, 3] : [2]) {
  test(`random packets, duplicates and queries (${seed}): windows answer like one plain SQLite database`, () => {
    const records = randomLog(seed, 700)
    const { view, folder } = openView(new MemFiles(), { maxPackets: 20 + seed * 25 })
    let at = 0
    for (const batch of batches(records, 90)) {
      view.apply(batch)
      at += batch.length
      if (at % 180 === 0) assertSame(view, records.slice(0, at), 15, seed + at)
    }
    assert.ok(folder.sealed.length >= 5)
    assertSame(view, records, 120, seed)
    assert.equal(view.counts.duplicates, records.length - plainList(records).length)
  })
}

test('a start reads the windows from their files and only the remainder from the log', () => {
  const records = randomLog(9, 400)
  const files = new MemFiles()
  const first = openView(files)
  first.view.apply(records.slice(0, 250))
  for (const cut of [260, 300, 400]) {
    const { view, folder } = openView(files)
    const { lastSeq } = folder
    view.apply(records.slice(0, cut).filter(({ seq }) => seq > lastSeq))
    assertSame(view, records.slice(0, cut), 40, cut)
  }
})

test('last_seen of a sealed window is its newest fact up to a day after the newest record, by the clock of the log', () => {
  const now = 4_100_000_000
  for (const [ahead, seen] of [
    [86_400, now + 86_400],
    [86_401, now],
  ] as const) {
    const { view } = openView()
    const [one] = randomLog(1, 1)
    const of = (seq: number, s: number) =>
      recordOf(seq, { ...one!.fact!, id: 'dev', tRaw: s * 1000 }, { wallMs: now * 1000 + 999 })
    view.apply([of(1, now), of(2, now + ahead)])
    view.seal(2)
    assert.deepEqual(view.devices().devices, [{ device_id: 'dev', last_seen: seen, packet_count: 2 }])
  }
})

const LOSSES: readonly (readonly [number, boolean])[] = [
  ...([
    [0, false],
    [1, false],
    [1, true],
  ] as const),
  ...(LONG
    ? ([
        [0.5, false],
        [0.5, true],
      ] as const)
    : []),
]

test('after a power cut at any moment a start counts what the log counts', () => {
  const records = randomLog(5, 160)
  const done = openView(new MemFiles(), { maxPackets: 40 })
  for (const batch of batches(records, 30)) done.view.apply(batch)
  const operations = done.files.operations
  assert.ok(operations > 15)
  for (let cut = 1; cut <= operations; cut += rounds(2, 1))
    // the share of unsynced bytes that is kept, and whether as zeros
    for (const [kept, zeros] of LOSSES) {
      const files = new MemFiles()
      files.tear = kept
      let cutOff = false
      files.gate = (operation: Operation) => {
        if (cutOff) throw new PowerCut()
        if (operation === 'read' || operation === 'close' || files.operations < cut) return
        cutOff = true
        throw new PowerCut()
      }
      const dying = openView(files, { maxPackets: 40 })
      // a failed seal is a state; here nothing of it counts any more
      for (const batch of batches(records, 30)) dying.view.apply(batch)
      assert.ok(cutOff)
      for (const survives of [() => false, () => true, (name: string) => name.endsWith('.window')]) {
        const left = files.afterPowerCut(kept, zeros, survives)
        const view = restarted(left, records)
        assert.deepEqual(
          names(left).filter(name => name.includes('tmp')),
          [],
        )
        assertSame(view, records, 4, cut)
      }
    }
})

test('whenever the disk refuses once, a start after a power cut counts what the log counts', () => {
  const records = randomLog(5, 200)
  for (const code of ['EIO', 'ENOSPC', 'EROFS'])
    for (let point = 1; ; point += rounds(2, 1)) {
      const files = new MemFiles()
      const refused = files.refuseOnce(point, code)
      const { view } = openView(files, { maxPackets: 40 })
      for (const batch of batches(records, 30)) view.apply(batch)
      if (!refused()) {
        assert.ok(point > 15, `${point} operations`)
        break
      }
      files.gate = () => undefined
      for (const kept of [0, 1]) {
        const again = restarted(files.afterPowerCut(kept), records)
        assert.equal(again.counts.sealed!.damaged, 0, `${code} at ${point}, kept ${kept}`)
        assertSame(again, records, 4, point)
      }
    }
})

test('a truncated, changed or missing file is named, counted and left out; the others answer', () => {
  const records = randomLog(6, 300)
  const made = openView()
  made.view.apply(records)
  const [, name = ''] = names(made.files)
  const whole = made.files.read(path(name))
  const damages: Record<string, (files: MemFiles) => void> = {
    'cut off': files => files.truncate(path(name), whole.length - 9),
    'no byte left': files => files.truncate(path(name), 0),
    'a byte of the head': files => {
      files.files.get(path(name))!.data[40]! ^= 4
    },
    'a byte of the lengths': files => {
      files.files.get(path(name))!.data[9]! ^= 4
    },
    'a byte of the rows': files => {
      files.files.get(path(name))!.data[whole.length - 20]! ^= 4
    },
    gone: files => files.remove(path(name)),
    'another file of that name': files => {
      files.files.get(path(name))!.data = Buffer.from(made.files.read(path(names(made.files)[0]!)))
    },
  }
  const { from, to } = made.folder.sealed[1]!.summary
  const rest = records.filter(({ seq }) => seq < from || seq > to)
  for (const [what, damage] of Object.entries(damages)) {
    const files = made.files.copy()
    if (what !== 'a byte of the rows' && what !== 'gone') damage(files)
    const { view, folder } = openView(files)
    if (what === 'a byte of the rows' || what === 'gone') damage(files)
    const { lastSeq } = folder
    view.apply(records.filter(({ seq }) => seq > lastSeq))
    // every window is opened
    for (const { fact } of plainList(records))
      view.packets({ since: Math.floor(fact!.tRaw / 1000), limit: 1, offset: 3 })
    const { damaged, damaged_files } = view.counts.sealed!
    assert.deepEqual([damaged, damaged_files], [1, [name]], what)
    assert.equal(view.hole, what === 'a byte of the rows' || what === 'gone', what)
    if (what !== 'gone') assert.ok(files.exists(path(`${name}.damaged`)), what)
    // a packet delivered again later is present from then on
    const found = view.packets({ limit: 500 }).total
    assert.ok(found >= plainList(rest).length - 40 && found < plainList(records).length, what)
    // the log has the records: a start fills the gap
    assertSame(restarted(files, records), records, 20, 1)
  }
})

test('a page opens only the windows it is in, a total opens none', () => {
  const { view, loads } = openView()
  view.apply(
    Array.from({ length: 1000 }, (_, k) =>
      recordOf(k + 1, {
        id: `dev-${k % 2}`,
        state: 'ONLINE',
        tRaw: (T0 + k) * 1000,
        aid: 1,
        sensors: [{ id: 's', status: 'OK', unit: 'K', value: k }],
      }),
    ),
  )
  assert.equal(view.counts.sealed!.files, 20)
  const cost = (run: () => unknown): number => {
    const had = loads()
    run()
    return loads() - had
  }
  assert.equal(
    cost(() => view.devices()),
    0,
  )
  assert.equal(
    cost(() => assert.equal(view.packets({ offset: 1000 }).total, 1000)),
    0,
  )
  assert.equal(
    cost(() => assert.equal(view.packets({ limit: 10 }).packets[0]!.timestamp_raw, T0 + 999)),
    1,
  )
  assert.equal(
    cost(() => assert.equal(view.packets({ limit: 10, offset: 720 }).packets[0]!.timestamp_raw, T0 + 279)),
    1,
  )
  assert.equal(
    cost(() => assert.equal(view.sensors({ sensor_id: 's', device_id: 'dev-1', offset: 1000 }).total, 500)),
    0,
  )
  // both ends of the range are inside a window
  assert.equal(
    cost(() => assert.equal(view.packets({ since: T0 + 120, until: T0 + 460, limit: 1 }).total, 341)),
    2,
  )
})

test('a clock record corrects the packets of sealed windows too, once, over any restarts in between', () => {
  const files = new MemFiles()
  const records = Array.from({ length: 120 }, (_, k) =>
    recordOf(
      k + 1,
      { id: 'own', state: 'ONLINE', tRaw: (5000 + k) * 1000, aid: 1, sensors: [] },
      { quality: 'unsynced', boot: k < 10 ? 3 : 4 },
    ),
  )
  const { fact: _fact, ...clock } = recordOf(121, records[0]!.fact!, { kind: 'clock', boot: 4 })
  const sync = { ...clock, clock: { trueWallMs: 0, offsetMs: 1_000_000, source: 'test' } }
  const first = openView(files)
  first.view.apply([...records, sync])
  const times = (view: typeof first.view): number[] => {
    const { packets } = view.packets({ limit: 500 })
    assert.equal(packets.length, 120)
    return packets.map(p => p.timestamp_raw).sort((a, b) => a - b)
  }
  const moved = records.map((_, k) => 5000 + k + (k < 10 ? 0 : 1000)).sort((a, b) => a - b)
  assert.deepEqual(times(first.view), moved)
  const again = openView(files)
  const { lastSeq } = again.folder
  again.view.apply([...records.filter(({ seq }) => seq > lastSeq), sync])
  assert.deepEqual(times(again.view), moved)
  // a duplicate of a corrected packet is still one
  again.view.apply([recordOf(200, { ...records[30]!.fact!, aid: 5 })])
  assert.equal(again.view.counts.duplicates, 1)
  assert.equal(again.view.packets({ since: 6010, until: 6049 }).total, 40)
})

test('a jump of an unconfirmed clock is not applied twice by a start that reads it again', () => {
  const files = new MemFiles()
  const fact = (k: number) => ({ id: 'own', state: 'ONLINE', tRaw: (5000 + k) * 1000, aid: 1, sensors: [] })
  const records = Array.from({ length: 70 }, (_, k) => recordOf(k + 1, fact(k), { quality: 'unsynced' }))
  const { fact: _fact, ...clock } = recordOf(71, fact(0), { kind: 'clock', quality: 'unsynced' })
  const jump = { ...clock, clock: { trueWallMs: 0, offsetMs: 1_000_000, source: 'jump' } }
  const first = openView(files)
  first.view.apply([...records, jump])
  for (let start = 0; start < 2; start++) {
    const { view, folder } = openView(files)
    const { lastSeq } = folder
    view.apply([...records.filter(({ seq }) => seq > lastSeq), jump])
    const { packets } = view.packets({ limit: 500 })
    assert.deepEqual(
      packets.map(p => p.timestamp_raw),
      records.map((_, k) => 6069 - k),
    )
  }
})

test('windows that another process writes are read, and nothing in the folder changes', () => {
  const files = new MemFiles()
  const records = randomLog(11, 260)
  openView(files).view.apply(records)
  files.files.get(path(names(files)[1]!))!.data[70]! ^= 1
  files.open(path(`${windowName(9000, 9001)}.1.tmp`), 'w')
  const state = names(files)
  const { operations } = files
  const { view, folder } = openView(files, { readOnly: true })
  view.apply(records.filter(({ seq }) => seq > folder.lastSeq))
  assert.equal(view.counts.sealed!.damaged, 1)
  assert.deepEqual([names(files), files.operations], [state, operations])
})

test('a disk that refuses writes keeps the window open and limited, reports that, and gets it later', () => {
  const { view, files, folder } = openView(new MemFiles(), { maxPackets: 500 })
  files.gate = operation => {
    if (operation === 'write') throw systemError('ENOSPC')
  }
  const records = randomLog(12, 4000)
  for (const batch of batches(records.slice(0, 900), 100)) view.apply(batch)
  assert.match(view.counts.sealed!.problem!, /ENOSPC/)
  assert.equal(folder.sealed.length, 0)
  assert.equal(view.counts.packets, 500)
  assert.ok(view.counts.left > 0)
  files.gate = () => undefined
  for (const batch of batches(records.slice(900), 100)) view.apply(batch)
  assert.equal(view.counts.sealed!.problem, undefined)
  assert.ok(folder.sealed.length > 1)
  // removed packets were never reported to be in a file
  assert.ok(folder.sealed[0]!.summary.from > 1)
})
