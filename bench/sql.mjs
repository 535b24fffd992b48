// `sql/…`: facts with four sensors from a log into the SQL view, sealed windows included, in batches as a gateway feeds them; packets a
// second, and the processor time of the process, in which nothing else runs meanwhile. V8 has compiled SQLite completely before that.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const WARM = 80_000
const COUNT = 200_000
const RUNS = 3
const DEVICES = 1000
const T0 = 1_710_000_000_000

/** A view built from the log: processor time and wall time of its last COUNT packets or so. */
async function built(DatabaseManager, log, dataDir) {
  const db = new DatabaseManager({ storage: { sql: { dialect: 'sqlite' } } }, { log, dataDir })
  const left = async most => {
    while (db.status().lag_records > most) await new Promise(resolve => setTimeout(resolve, 2))
    return db.status().lag_records
  }
  await db.connect()
  const count = await left(COUNT)
  const start = process.cpuUsage()
  const from = performance.now()
  await left(0)
  const seconds = (performance.now() - from) / 1000
  const { user, system } = process.cpuUsage(start)
  const { total } = await db.queryPackets(null, null, null, null, 1)
  await db.close()
  return { total, us: (user + system) / count, perSecond: count / seconds }
}

export async function benchSql({ FlashLog, DatabaseManager }, { put, mark, problems }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-sql-'))
  const log = await FlashLog.open({ dir: join(dir, 'log'), maxBytes: 512 * 1024 * 1024, bufferBytes: 64 * 1024 * 1024 })
  for (let k = 0; k < WARM + COUNT; k++) {
    const sensors = ['t', 'h', 'p', 'v'].map((id, n) => ({ id, status: 'OK', unit: 'K', value: k / 7 + n }))
    const fact = { id: `dev-${k % DEVICES}`, state: 'ONLINE', tRaw: T0 + k * 4, aid: 7, sensors }
    log.appendFact(fact, { medium: 'UDP' }, 'synced')
    if (k % 5000 === 0) await log.flush()
  }
  await log.flush()
  const runs = []
  for (let k = 0; k < RUNS; k++) runs.push(await built(DatabaseManager, log, join(dir, `view-${k}`)))
  for (const { total } of runs)
    if (total !== WARM + COUNT) problems.push(`sql: ${total} of ${WARM + COUNT} packets arrived`)
  mark('sql/packets_per_s', Math.round(Math.max(...runs.map(run => run.perSecond))), '≥ 60000')
  put('sql/worker_us_per_packet', Math.round(Math.min(...runs.map(run => run.us)) * 100) / 100)
  await log.close()
  rmSync(dir, { recursive: true, force: true })
}
