// What a view answers and what it leaves in its folder, for one random log under several bounds, beside view-trace.txt: pages
// and totals of every filter, buckets, counts, files, and what a start makes of them.
import { before, test } from 'node:test'
import { packetUuid, uuidText } from '../../../src/log'
import type { SqlView } from '../../../src/storage/view'
import { prng } from '../../lib/random'
import { digest, Trace } from '../../lib/trace'
import { MemFiles } from '../log/memfiles'
import { type Bounds, DIR, loadSql, openView, randomLog, T0 } from './sealedworld'

before(loadSql)

const trace = new Trace('unit/storage/view-trace.txt')
const of = (value: unknown): number => digest(0, Buffer.from(JSON.stringify(value ?? null)))

/** Totals and digests of many questions. */
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

test('views of every bound answer and write as written down', () => {
  const records = randomLog(21, 260)
  const uuids = records.filter((_, k) => k % 20 === 0).map(({ fact }) => uuidText(packetUuid(fact!)))
  const bounds: Record<string, Bounds> = {
    'windows by bytes': { maxPackets: 1e6, maxBytes: 60_000 },
    'few kept': { maxPackets: 30, keepBytes: 50_000 },
    'the newest kept': { maxPackets: 30, keepMs: 60_000 },
  }
  for (const [name, bound] of Object.entries(bounds)) {
    const files = new MemFiles()
    let { view, folder, loads } = openView(files, bound)
    for (let at = 0; at < records.length; at += 65) {
      view.apply(records.slice(at, at + 65))
      view.retain(records[Math.max(0, at - 150)]!.seq, (T0 + at / 3 + 200) * 1000)
      trace.say(`${name}, ${at}`, [view.counts, view.bytes, folder.lastSeq, folder.bytes])
    }
    ask(view, uuids, 5)
    const written = folder.sealed.map(({ name, size, summary }) => [name, size, summary])
    trace.say('files', [files.operations, files.syncs, loads(), files.list(DIR).length, of(written)])
    view.close()
    const names = files.list(DIR).sort()
    if (names.length > 1) files.truncate(`${DIR}/${names[1]}`, files.size(`${DIR}/${names[1]}`) - 9)
    for (const readOnly of [true, false]) {
      ;({ view, folder, loads } = openView(files, { ...bound, readOnly }))
      view.apply(records.filter(({ seq }) => seq > folder.lastSeq))
      trace.say('again', [view.counts, folder.lastSeq, folder.bytes, files.list(DIR).length])
      ask(view, uuids, 6)
      view.close()
    }
  }
  trace.compare()
})
