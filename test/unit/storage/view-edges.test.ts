// Boundary cases of a view and of its folder, compared with view-edges-trace.txt: windows that overlap, come late, cannot be
// written, read, removed or corrected; what a reader of another process's windows does not change; how much is removed from a
// view without windows.
//
// Needs: zlib
import { after, before, test } from 'node:test'
import type { LogRecord } from '../../../src/log'
import { newBloom } from '../../../src/storage/bloom'
import { WindowFolder } from '../../../src/storage/folder'
import { checkQuery } from '../../../src/storage/shapes'
import { SqlView } from '../../../src/storage/view'
import { KEY, WindowRows } from '../../../src/storage/window'
import { gatewayView, windowFolder } from '../../../src/storage/window-folder-options'
import type { Summary } from '../../../src/storage/windowfile'
import { outcome, Trace } from '../../lib/trace'
import { MemFiles, systemError } from '../log/memfiles'
import { DIR, loadSql, openSql, openView, recordOf, T0 } from './sealedworld'

before(loadSql)
after(() => trace.compare())

const trace = new Trace('unit/storage/view-edges-trace.txt')

const factRecord = (seq: number, more: Partial<LogRecord> = {}, device = `dev-${seq % 3}`): LogRecord =>
  recordOf(
    seq,
    {
      ...{ id: device, state: 'ONLINE', tRaw: (T0 + seq) * 1000, aid: 7 },
      sensors: [{ id: 'temp', status: 'OK', unit: 'K', value: seq }],
    },
    more,
  )
const clockRecord = (seq: number, offsetMs: number, quality: 'synced' | 'unsynced' = 'synced'): LogRecord => {
  const { fact: _, ...rest } = factRecord(seq)
  return { ...rest, kind: 'clock', quality, clock: { trueWallMs: 0, offsetMs, source: 'ntp' } }
}

test('a folder accepts, orders, renames and removes windows', () => {
  const files = new MemFiles()
  const open = (more: object = {}): WindowFolder =>
    new WindowFolder({ ...{ dir: DIR, files, readOnly: false, keepBytes: 0, keepMs: 0 }, ...more })
  const summary = (from: number, to: number): Summary => ({
    ...{ from, to, packets: 1, witness: { seq: to, boot: 1, wall_ms: to * 1000 } },
    ...{ unsynced: [], corrected: 0, moved: false, statuses: [], sensors: [] },
  })
  const fill = (folder: WindowFolder, from: number, to: number): unknown =>
    folder.write(summary(from, to), newBloom(1), Buffer.from(`rows ${from}`)).name
  const names = (): string[] => [...files.files.keys()].sort()
  const say = (what: string, folder: WindowFolder): void =>
    trace.say(what, [
      folder.sealed.map(w => w.name),
      folder.lastSeq,
      folder.bytes,
      folder.damaged,
      folder.problem,
      names(),
    ])
  say('nothing', open())
  const folder = open()
  for (const [from, to] of [
    [1, 10],
    [30, 40],
    [11, 29],
    [11, 29],
  ] as const)
    trace.say('written', fill(folder, from, to))
  say('three', folder)
  trace.say(
    'rows',
    folder.sealed.map(w => `${Buffer.from(folder.read(w))}`),
  )
  const cut = folder.sealed[0]!
  const whole = files.files.get(`${DIR}/${cut.name}`)!
  files.files.set(`${DIR}/${cut.name}`, { ...whole, data: whole.data.subarray(0, 60) })
  trace.say(
    'rows that are cut off',
    outcome(() => folder.read(cut)),
  )
  files.files.set(`${DIR}/${cut.name}`, whole)
  const other = new MemFiles()
  const overlap = new WindowFolder({ dir: DIR, files: other, readOnly: false, keepBytes: 0, keepMs: 0 })
  fill(overlap, 40, 50)
  fill(overlap, 41, 60)
  for (const [name, node] of other.files) files.files.set(name, node)
  files.files.set(`${DIR}/${folder.sealed[0]!.name}.abc.tmp`, files.files.get(`${DIR}/${folder.sealed[0]!.name}`)!)
  say('read only', open({ readOnly: true }))
  say('again', open())
  const kept = open({ keepBytes: folder.bytes, keepMs: 25_000 })
  for (const [first, now] of [
    [10, 1e9],
    [11, 35_000],
    [11, 35_001],
    [99, 40_000],
    [99, 54_001],
  ] as const) {
    trace.say(
      `from ${first} at ${now}`,
      kept.retain(first, now).map(w => w.name),
    )
    say('kept', kept)
  }
  for (const keepBytes of [kept.bytes, kept.bytes - 1, 1])
    trace.say(`${keepBytes} bytes`, open({ keepBytes }).retain(61, 1e9).length)
  const many = open()
  for (let k = 1; k < 6; k++) fill(many, k * 100, k * 100 + 9)
  trace.say('read only removes', open({ readOnly: true, keepMs: 1 }).retain(1e9, 1e9).length)
  for (const [k, why] of (['damaged', 'foreign', 'damaged'] as const).entries()) {
    many.drop(many.sealed[0]!.name, why)
    say(`dropped ${k}`, many)
  }
  many.drop('none.window', 'damaged')
  say('dropped what is not there', many)
  for (const gate of ['rename', 'remove', 'read', 'mkdir'] as const) {
    for (const from of [700, 800]) fill(open(), from, from + 9)
    files.gate = operation => {
      if (operation === gate) throw systemError('EIO')
    }
    const broken = open({ keepMs: 1 })
    say(`${gate} fails`, broken)
    trace.say(
      'read',
      outcome(() => (broken.sealed[0] ? `${Buffer.from(broken.read(broken.sealed[0]))}` : 'none')),
    )
    trace.say('kept', broken.retain(1e9, 1e9).length)
    if (broken.sealed[0]) broken.drop(broken.sealed[0].name, 'damaged')
    say('and dropped', broken)
    files.gate = () => undefined
  }
  fill(open(), 900, 909)
  files.gate = operation => {
    if (operation === 'rename') throw systemError('EIO')
  }
  const stuck = open()
  stuck.drop(stuck.sealed[0]!.name, 'damaged')
  say('a file that cannot be put aside', stuck)
  files.gate = () => undefined
  const readOnly = open({ readOnly: true })
  readOnly.drop(readOnly.sealed[0]?.name ?? 'none', 'damaged')
  say('a reader drops', readOnly)
  const none = new MemFiles()
  say('a reader of no folder', new WindowFolder({ dir: DIR, files: none, readOnly: true, keepBytes: 0, keepMs: 0 }))
  trace.say('made', none.operations)
})

test('corrected times: in sealed windows, in the open one, for a reader, and where the file cannot be written', () => {
  const times = (view: SqlView): unknown => view.packets({ limit: 500 }).packets.map(p => p.timestamp_raw - T0)
  for (const why of ['well', 'a full disk', 'a damaged window', 'a reader']) {
    const files = new MemFiles()
    const { view, folder } = openView(files, { maxPackets: 10 })
    const quality = 'unsynced' as const
    view.apply(Array.from({ length: 25 }, (_, k) => factRecord(k + 1, k < 14 ? { quality } : {})))
    view.apply([factRecord(26, { quality, boot: 2 }), factRecord(27, { quality, link: { future: true } as never })])
    const say = (what: string, one = view): void =>
      trace.say(`${why}, ${what}`, [one.counts, one.hole, files.list(DIR).sort(), times(one)])
    say('before')
    const limits = { dir: DIR, files, readOnly: true, keepBytes: 0, keepMs: 0 }
    const fresh = new SqlView(
      openSql(),
      { maxPackets: 9, maxBytes: 9 },
      { folder: new WindowFolder(limits), open: openSql },
    )
    trace.say('a new view, before it is fed', fresh.counts)
    trace.say(
      'summaries',
      folder.sealed.map(({ summary }) => [summary.unsynced, summary.corrected, summary.moved]),
    )
    if (why === 'a reader') {
      const before = files.operations
      const reader = openView(files, { readOnly: true }).view
      reader.apply([factRecord(30, { quality }), clockRecord(31, 9000)])
      reader.retain(1e9, Date.now())
      say('another process', reader)
      trace.say('operations', files.operations - before)
    }
    if (why === 'a full disk')
      files.gate = operation => {
        if (operation === 'open') throw systemError('ENOSPC')
      }
    if (why === 'a damaged window') files.truncate(`${DIR}/${files.list(DIR).sort()[0]}`, 100)
    view.apply([clockRecord(28, 5000, 'unsynced')])
    say('moved a little')
    files.gate = () => undefined
    view.apply([clockRecord(40, 3_600_000), clockRecord(41, 7000)])
    say('moved')
    trace.say(
      'summaries',
      folder.sealed.map(({ summary }) => [summary.unsynced, summary.corrected, summary.moved]),
    )
    // a packet received before under its old time is still the same one
    view.apply([factRecord(3).fact, factRecord(26).fact].map((fact, k) => ({ ...factRecord(50 + k), fact: fact! })))
    say('again')
  }
})

test('waiting clock records are dropped where other records begin', () => {
  const { view, files, databases } = openView(new MemFiles(), { maxPackets: 10 })
  let tries = 0
  const say = (what: string): void => {
    const times = view.packets({ limit: 20 }).packets.map(p => p.timestamp_raw - T0)
    trace.say(what, [tries, databases(), view.counts, times])
  }
  const first = Array.from({ length: 10 }, (_, k) => factRecord(k + 1, { quality: 'unsynced' }))
  view.apply(first)
  files.gate = (operation, path) => {
    if (operation !== 'open' || !path.startsWith(`${DIR}/0000000000000001-`)) return
    tries++
    throw systemError('EIO')
  }
  view.apply([clockRecord(11, 5000)])
  say('it waits')
  view.apply(first.map(({ fact }, k) => factRecord(k + 12, {}, fact!.id)))
  say('no window is written behind it')
  for (let seq = 30; seq < 1100; seq++) {
    const before = tries
    view.apply([factRecord(seq)])
    if (tries > before) trace.say('tried again at', seq)
  }
  files.gate = () => undefined
  view.begin(2000)
  say('other records')
  view.apply(Array.from({ length: 10 }, (_, k) => factRecord(k + 2000)))
  view.apply([clockRecord(2010, 60_000)])
  say('another clock record')
})

test('a window that cannot be written is retried after a thousand facts, and excess packets are removed', () => {
  const files = new MemFiles()
  const { view } = openView(files, { maxPackets: 20 })
  let tries = 0
  files.gate = operation => {
    if (operation !== 'open') return
    tries++
    throw systemError('ENOSPC')
  }
  for (let seq = 1; seq <= 2100; seq++) {
    const before = tries
    view.apply([factRecord(seq)])
    if (tries > before || seq % 500 === 0) trace.say(`fact ${seq}`, [tries, view.counts])
  }
  files.gate = () => undefined
  for (let seq = 2101; seq <= 3100; seq++) {
    const before = files.list(DIR).length
    view.apply([factRecord(seq)])
    if (files.list(DIR).length > before && before < 2) trace.say(`written at ${seq}`, view.counts)
  }
  // a failed batch leaves no part of itself
  const state = [view.counts, view.packets().total]
  const broken = { ...factRecord(3101), fact: { ...factRecord(3101).fact!, sensors: null } }
  trace.say(
    'broken',
    outcome(() => view.apply([factRecord(3101), broken as never])),
  )
  trace.say('the same', JSON.stringify(state) === JSON.stringify([view.counts, view.packets().total]))
})

test('a view without windows drops its oldest hundredth when it is too large, and the excess when it has too many', () => {
  for (const [maxPackets, maxBytes] of [
    [1e6, 22 * 4096],
    [150, 1e9],
    [150, 70_000],
    [1, 1],
    [0, 1e9],
  ] as const) {
    const view = new SqlView(openSql(), { maxPackets, maxBytes })
    trace.say('empty', [view.counts, view.devices(), view.packets(), view.packet('none'), view.bytes])
    for (let seq = 1; seq <= 1500; ) {
      view.apply(Array.from({ length: [1, 64, 65, 1][seq % 4]! }, () => factRecord(seq++)))
      if (seq % 7 === 0) trace.say(`${maxPackets} ${maxBytes}, ${seq}`, [view.counts, view.bytes])
    }
    view.apply([factRecord(1500, {}, 'again'), factRecord(1500, {}, 'again'), clockRecord(1600, 5)])
    view.retain(9, 9)
    view.seal(9)
    view.begin(5, ['none'])
    trace.say('end', [view.counts, view.devices(3), view.packets({ limit: 2 }).total])
  }
})

test('a rare sensor is searched by its rows, a common one by time; both give the same page', () => {
  const db = openSql()
  const asked: string[] = []
  const view = new SqlView(db, { maxPackets: 1e6, maxBytes: 1e9 })
  view.apply(Array.from({ length: 40 }, (_, k) => factRecord(k + 1)))
  const rows = new WindowRows({
    prepare: (sql: string) => {
      asked.push(sql.replace(/\s+/g, ' ').replace(/SELECT .*? FROM/, 'SELECT … FROM'))
      return db.prepare(sql)
    },
    getRowsModified: () => db.getRowsModified(),
  } as never)
  for (const what of ['packets', 'sensors'] as const)
    for (const filter of [
      {},
      { sensor: 'temp' },
      { device: 'dev-1' },
      { since: T0 },
      { until: T0 + 9 },
      { status: 'ONLINE' },
    ]) {
      if (what === 'packets' ? 'sensor' in filter : 'status' in filter) continue
      const pages = [2000, 2001].map(rare => JSON.stringify(rows.page(what, filter, 3, 1, rare)))
      trace.say(`${what} ${JSON.stringify(filter)}`, [
        rows.count(what, filter),
        pages[0] === pages[1],
        rows.keys(what, filter, 2).length / KEY,
        asked.splice(0),
      ])
    }
})

test('the history of a window that is inside the range and in one bucket needs no rows', () => {
  const { view, loads } = openView(new MemFiles(), { maxPackets: 10 })
  view.apply(Array.from({ length: 30 }, (_, k) => factRecord(k + 1, {}, 'dev')))
  for (const [since, until, buckets] of [
    [1, 30, 1],
    [2, 30, 1],
    [1, 29, 1],
    [1, 30, 3],
    [1, 30, 4],
    [0, 31, 1],
    [11, 20, 1],
    [10, 21, 1],
    [11, 19, 1],
    [31, 40, 1],
    [20, 11, 1],
  ] as const) {
    const before = loads()
    const found = view.history({ device_id: 'dev', sensor_id: 'temp', since: T0 + since, until: T0 + until, buckets })
    trace.say(`${since} to ${until} in ${buckets}`, [
      loads() - before,
      found.buckets.map(b => [b.t - T0, b.count, b.min, b.mean, b.max]),
    ])
  }
})

test('windows whose times meet in one second are one list: by time, then position in the packet, then the newest record', () => {
  const { view } = openView(new MemFiles(), { maxPackets: 10 })
  const secondOf = (seq: number): number => (seq <= 10 ? seq : seq <= 20 ? seq - 1 : seq - 29)
  const record = (seq: number): LogRecord => {
    const sensors = ['a', 'b'].map(id => ({ id, status: 'OK', unit: 'K', value: seq }))
    return recordOf(seq, { id: 'dev', state: 'ONLINE', tRaw: (T0 + secondOf(seq)) * 1000, aid: 7, sensors })
  }
  view.apply(Array.from({ length: 30 }, (_, k) => record(k + 1)))
  for (const [limit, offset] of [
    [500, 0],
    [7, 17],
    [3, 38],
  ] as const) {
    const { sensors } = view.sensors({ limit, offset })
    trace.say(
      `sensors ${offset}`,
      sensors.map(s => `${s.timestamp_raw - T0} ${s.sensor_id} ${s.normalized_value}`).join(', '),
    )
    const { packets } = view.packets({ limit, offset: Math.floor(offset / 2) })
    trace.say(`packets ${offset}`, packets.map(p => p.created_at - T0).join(' '))
  }
})

test('an empty history, and queries with invalid numbers, are answered', () => {
  const { view } = openView()
  trace.say('nothing', view.history({ device_id: 'a', sensor_id: 'b' }))
  for (const key of ['since', 'until', 'limit', 'offset', 'buckets'])
    for (const value of [Number.NaN, null, 1.5, '1']) {
      const checked = outcome(() => checkQuery({ [key]: value }))
      trace.say(`${key} ${value}`, checked)
    }
})

test("the location of a gateway's windows, and how much of them is kept, follow the configuration", () => {
  for (const path of ['', ':memory:', 'x', '/abs/x', 'y.db', 'z.sqlite', '../up', 'a.db/b'])
    trace.say(path, windowFolder(path, '/data'))
  for (const max_bytes of [4, 24 * 2 ** 20, 24 * 2 ** 20 + 4, 1e9])
    for (const path of ['', ':memory:']) {
      const config = { gateway: { log: { max_bytes, max_age_s: 7 } }, storage: { sql: { driver: { path } } } }
      trace.say(`${max_bytes}`, gatewayView({ config, dataDir: '/data' } as never))
    }
})
