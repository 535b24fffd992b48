// What a view answers and what it leaves in its folder, for one random log under several limits, compared with
// view-trace.txt: pages and totals of every filter, buckets, counts, files, and what a start reads of them.
//
// Needs: zlib
import { after, before, test } from 'node:test'
import { LogFiles, packetUuid, uuidText } from '../../../src/log'
import type { Fact } from '../../../src/pipeline/fact'
import { writeCsv, writeExport } from '../../../src/storage/export'
import type { SqlView } from '../../../src/storage/view'
import { prng } from '../../lib/random'
import { dice, digest, outcome, Trace } from '../../lib/trace'
import { openLog } from '../log/helpers'
import { MemFiles, systemError } from '../log/memfiles'
import { type Bounds, DIR, loadSql, openSql, openView, randomLog, T0 } from './sealedworld'

before(loadSql)
after(() => trace.compare())

const trace = new Trace('unit/storage/view-trace.txt')
const of = (value: unknown): number => digest(0, Buffer.from(JSON.stringify(value ?? null)))

/** Totals and digests of many queries. */
function ask(view: SqlView, uuids: readonly string[], seed: number): void {
  const next = prng(seed)
  const one = <T>(...list: T[]): T | undefined => (next() < 0.5 ? undefined : list[Math.floor(next() * list.length)])
  const span = () => ({ since: one(T0 - 300, T0, T0 + 50), until: one(T0 + 20, T0 + 90, T0 + 1000) })
  const page = () => ({ limit: one(0, 1, 7, 500, 9999), offset: one(0, 1, 40, 1e6) })
  trace.say('devices', [view.devices(), view.devices(2, 1), view.devices(0), view.devices(1e6, 99)].map(of))
  for (let k = 0; k < 9; k++) {
    const device_id = one('dev-0', 'dev-3', 'none')
    const packets = { ...span(), ...page(), device_id, status: one('ALARM', 'SLEEP'), medium: one('UDP', 'TCP') }
    const found = view.packets(packets as never)
    const sensors = { ...span(), ...page(), device_id, sensor_id: one('hum', 'temp', 'none') }
    const values = view.sensors(sensors as never)
    trace.say(JSON.stringify([packets, sensors]), [found.total, of(found), values.total, of(values)])
    const buckets = { device_id: 'dev-1', sensor_id: 'hum', ...span(), buckets: one(1, 10, 1000) ?? 3 }
    trace.say(JSON.stringify(buckets), of(view.history(buckets as never)))
  }
  trace.say('packets', of(uuids.map(uuid => view.packet(uuid))))
}

test('views with every limit answer and write as view-trace.txt has it', () => {
  const records = randomLog(21, 260)
  const uuids = records.filter((_, k) => k % 20 === 0).map(({ fact }) => uuidText(packetUuid(fact!)))
  const bounds: Record<string, Bounds> = {
    'windows by bytes': { maxPackets: 1e6, maxBytes: 15 * 4096 },
    'few kept': { maxPackets: 30, keepBytes: 50_000 },
    'the newest kept': { maxPackets: 30, keepMs: 60_000 },
  }
  for (const [name, bound] of Object.entries(bounds)) {
    const files = new MemFiles()
    let { view, folder, loads, databases } = openView(files, bound)
    for (let at = 0; at < records.length; at += 40) {
      view.apply(records.slice(at, at + 40))
      view.retain(records[Math.max(0, at - 150)]!.seq, (T0 + at / 3 + 200) * 1000)
      trace.say(`${name}, ${at}`, [view.counts, view.bytes, folder.lastSeq, folder.bytes])
    }
    ask(view, uuids, 5)
    const written = folder.sealed.map(({ name, size, summary }) => [name, size, summary])
    const bytes = files.list(DIR).map(name => digest(0, files.read(`${DIR}/${name}`)))
    trace.say('files', [files.operations, files.syncs, loads(), databases(), bytes, of(written)])
    const names = files.list(DIR).sort()
    if (names.length > 1) files.truncate(`${DIR}/${names[1]}`, files.size(`${DIR}/${names[1]}`) - 9)
    for (const readOnly of [true, false]) {
      ;({ view, folder, loads, databases } = openView(files, { ...bound, readOnly }))
      view.apply(records.filter(({ seq }) => seq > folder.lastSeq))
      trace.say('again', [view.counts, folder.lastSeq, folder.bytes, files.list(DIR).length])
      ask(view, uuids, 6)
      trace.say('loaded', [loads(), databases()])
    }
  }
})

test('exports contain what windows and log contain, with its times, as view-trace.txt has it', async () => {
  const { log, files, timers } = await openLog({ maxBytes: 4e6, segmentBytes: 32 * 1024, version: '1' })
  const { below, chance, pick, text } = dice(7)
  const facts: Fact[] = []
  for (let k = 0; k < 2100; k++) {
    const fact: Fact =
      k > 0 && chance(0.03)
        ? pick(facts.slice(-90).concat(facts.slice(0, 1)))
        : {
            ...{ id: pick(['dev', 'a,b', '=x', 'q"']), state: pick(['ONLINE', '-', 'é']), aid: 7 },
            tRaw: chance(0.002) ? pick([Number.NaN, 9e15]) : (T0 + k) * 1000 + below(5000),
            sensors: Array.from({ length: below(3) }, () => ({
              ...{ id: text('ab+,"\n@', 3), status: pick(['OK', 'ERROR']), unit: pick(['K', 'Pa', '%', '']) },
              value: pick([null, k / 3, -k, 1e21, below(9) / 10 + 273.15]),
            })),
            ...(chance(0.1) && { extras: { msg: text('x"\n', 5) } }),
          }
    facts.push(fact)
    log.appendFact(
      fact,
      { medium: 'UDP', ...(chance(0.02) && { future: true }) },
      pick(['synced', 'synced', 'unsynced', 'unknown']),
    )
    if (k % 200 === 190)
      log.appendClock({ trueWallMs: 0, offsetMs: below(9e6) - 4e6, source: 'ntp' }, pick(['synced', 'unsynced']))
    if (k % 64 === 0) await timers.advance(1100)
  }
  await timers.advance(2000)
  const sealUpTo = (seq: number): void => {
    const { view, folder } = openView(files, { maxPackets: 320 })
    for (const record of log.read(folder.lastSeq, { kinds: ['fact', 'clock'] })) {
      if (record.seq >= seq) break
      // a disk that is full for a while
      if (record.seq === 1700)
        files.gate = operation => {
          if (operation === 'open') throw systemError('ENOSPC')
        }
      if (record.seq === 1900) files.gate = () => undefined
      view.apply([record])
      if (record.seq % 100 === 0) trace.say('view', [view.counts, of(view.devices())])
    }
    files.gate = () => undefined
  }
  let databases = 0
  const openCounted = (bytes?: Uint8Array) => {
    const db = openSql(bytes)
    databases++
    const close = db.close.bind(db)
    db.close = () => {
      databases--
      close()
    }
    return db
  }
  const source = { log: new LogFiles('/log', files), files, open: openCounted }
  const write = (what: string, display: boolean, windows?: string, read: (path: string) => void = () => {}): void => {
    for (const one of [writeExport, writeCsv]) {
      const told: unknown[] = []
      let open = 0
      let reads = 0
      files.gate = (operation, path) => {
        if (operation === 'open') open++
        if (operation === 'close') open--
        if (operation !== 'read') return
        reads++
        read(path)
      }
      const done = outcome(() => one({ ...source, windows, display }, '/out', (...far) => told.push(far)))
      files.gate = () => undefined
      const left = [files.list('/').length, open, databases]
      trace.say(what, [JSON.parse(done), told, digest(0, files.read('/out')), reads, left])
    }
  }
  write('the log alone', true)
  sealUpTo(900)
  write('windows and log', false, DIR)
  sealUpTo(1e9)
  const names = files.list(DIR).sort()
  for (const name of files.list('/log').sort().slice(0, 3)) files.remove(`/log/${name}`)
  write('windows behind which the log begins', false, DIR)
  // a gateway writes and removes windows meanwhile
  const last = `${DIR}/${names.at(-1)}`
  const node = files.files.get(last)!
  files.files.delete(last)
  write('a window that is written meanwhile', false, DIR, path => {
    if (path === `${DIR}/${names[0]}`) files.files.set(last, node)
  })
  let looks = 0
  write('a window that is removed meanwhile', false, DIR, path => {
    if (path === DIR) looks = 0
    if (path === last && ++looks === 2) files.files.delete(last)
    if (path === `${DIR}/${names[0]}` && looks > 0) files.files.delete(last)
  })
  files.files.set(last, node)
  let seen = 0
  write('a window that can be read the second time', false, DIR, path => {
    if (path === last && seen++ % 9 === 3) throw systemError('EIO')
  })
  write('a folder that cannot be read', false, DIR, path => {
    if (path === DIR) throw systemError('EACCES')
  })
  files.truncate(`${DIR}/${names[1]}`, files.size(`${DIR}/${names[1]}`) - 9)
  files.truncate(`${DIR}/${names.at(-2)}`, 30)
  write('damaged windows', true, DIR)
  const other = new MemFiles()
  const foreign = openView(other, { maxPackets: 90 })
  foreign.view.begin(1543)
  foreign.view.apply(randomLog(3, 100).map(record => ({ ...record, seq: record.seq + 1542 })))
  const [name] = other.list(DIR)
  files.remove(`${DIR}/${names.at(-2)}`)
  files.files.set(`${DIR}/${name}`, other.files.get(`${DIR}/${name}`)!)
  write('a window of another log', false, DIR)
  files.gate = (operation, path) => {
    if (operation === 'write' && path === '/out') throw systemError('ENOSPC')
    if (operation === 'read' && path.startsWith(DIR)) throw systemError('EIO')
  }
  trace.say(
    'full',
    outcome(() => writeExport({ ...source, windows: DIR }, '/out')),
  )
})
