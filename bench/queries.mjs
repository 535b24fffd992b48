// `sql/newest_p95_ms`, `old_p95_ms`, `history7d_ms`: queries to the SQL view while it receives 1,000 packets a second. It contains a
// million packets of four sensors, seven days of 101 devices, of which one reports every two seconds. Also the longest block of the
// event loop meanwhile, the size of the windows' files, and the memory of the process, log and view. Then `history7d_http_ms`: the same
// question to `/api/data/history` of a gateway with that view.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { ask, Fleet, freeTcp, freeUdp, until } from './fleet.mjs'

const PACKETS = Number(process.env.OS_NODE_QUERY_PACKETS ?? 1_000_000)
const DAYS_S = 7 * 86_400
const EVERY_S = 2
const OTHERS = 100
const T0 = 1_710_000_000
const PAGE = 50
const SENSORS = ['t', 'h', 'p', 'v']

const p95 = list => list.sort((a, b) => a - b)[Math.ceil(list.length * 0.95) - 1]
const rounded = ms => Math.round(ms * 10) / 10

/** Milliseconds of each query, one after another. */
async function timed(count, ask) {
  const ms = []
  for (let k = 0; k < count; k++) {
    const since = performance.now()
    await ask(k)
    ms.push(performance.now() - since)
  }
  return ms
}

/** Milliseconds of each history by the HTTP API of a gateway that has this log and view. */
async function overHttp(script, dir, steps, problems) {
  const [udp, web] = [await freeUdp(), await freeTcp()]
  const fleet = new Fleet(script, dir)
  try {
    const config = { storage: { sql: { enabled: true } }, web_user: { auth_enabled: false } }
    const ports = ['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(web)]
    const data = fleet.start('server', 'serve', config, ...ports)
    await until('its view has all', async () => (await ask(data, 'status')).storage.lag_records === 0)
    let values = 0
    const ms = await timed(20, async k => {
      const span = `since=${T0}&until=${T0 + DAYS_S - 1}&buckets=300`
      const answer = await fetch(
        `http://127.0.0.1:${web}/api/data/history?device_id=dev-0&sensor_id=${SENSORS[k % 4]}&${span}`,
      )
      values = (await answer.json()).buckets.reduce((sum, { count }) => sum + count, 0)
    })
    if (values !== steps) problems.push(`sql: the history over HTTP has ${values} of ${steps} values`)
    return ms
  } finally {
    await fleet.end()
  }
}

/** `mark(key, value, hoped)` and `put(key, value)` record the figures, `problems` the faults. */
export async function benchQueries({ FlashLog, DatabaseManager }, script, { put, mark, problems }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-queries-'))
  const data = join(dir, 'server', 'data')
  const log = await FlashLog.open({
    dir: join(data, 'log'),
    maxBytes: 512 * 1024 * 1024,
    bufferBytes: 64 * 1024 * 1024,
  })
  const add = (id, seconds, value) => {
    const sensors = SENSORS.map((sensor, n) => ({ id: sensor, status: 'OK', unit: 'K', value: value + n }))
    log.appendFact({ id, state: 'ONLINE', tRaw: seconds * 1000, aid: 7, sensors }, { medium: 'UDP' }, 'synced')
  }
  const steps = Math.min(DAYS_S / EVERY_S, PACKETS)
  const beside = (PACKETS - steps) / steps
  let others = 0
  for (let k = 0; k < steps; k++) {
    const at = T0 + k * EVERY_S
    add('dev-0', at, k % 1000)
    for (; others < (k + 1) * beside; others++) add(`dev-${1 + (others % OTHERS)}`, at, others / 7)
    if (k % 2000 === 0) await log.flush()
  }
  await log.flush()
  const db = new DatabaseManager({ storage: { sql: { dialect: 'sqlite' } } }, { log, dataDir: data })
  await db.connect()
  while (db.status().lag_records > 0) await new Promise(resolve => setTimeout(resolve, 20))
  const { total } = await db.queryPackets(null, null, null, null, 1)
  if (total !== steps + others) problems.push(`sql: ${total} of ${steps + others} packets are in the view`)

  let written = 0
  const end = T0 + DAYS_S
  const writes = setInterval(() => {
    for (let k = 0; k < 10; k++, written++) add(`new-${written % OTHERS}`, end + Math.floor(written / OTHERS), written)
  }, 10)
  const pauses = monitorEventLoopDelay({ resolution: 1 })
  pauses.enable()
  const hour = k => T0 + ((k * 7919) % (DAYS_S / 3600 - 1)) * 3600
  const newest = await timed(200, () => db.queryPackets(null, null, null, null, PAGE))
  const old = await timed(100, k => db.queryPackets(null, null, hour(k), hour(k) + 3599, PAGE))
  let history
  const histories = await timed(20, async k => {
    history = await db.queryHistory('dev-0', SENSORS[k % 4], T0, end - 1, 300)
  })
  pauses.disable()
  clearInterval(writes)
  const values = history.buckets.reduce((sum, { count }) => sum + count, 0)
  if (values !== steps) problems.push(`sql: the history has ${values} of ${steps} values`)
  mark('sql/newest_p95_ms', rounded(p95(newest)), '≤ 150')
  mark('sql/old_p95_ms', rounded(p95(old)), '≤ 500')
  mark('sql/history7d_ms', rounded(p95(histories)), '≤ 200')
  put('sql/pause_ms/max', rounded(pauses.max / 1e6))
  const { windows, packets } = db.status()
  put('sql/file_bytes_per_packet', Math.round(windows.bytes / packets))
  put('sql/rss_mb', Math.round(process.memoryUsage().rss / 1e6))
  await db.close()
  await log.close()
  mark('sql/history7d_http_ms', rounded(p95(await overHttp(script, dir, steps, problems))), '≤ 200')
  rmSync(dir, { recursive: true, force: true })
}
