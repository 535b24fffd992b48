// `postgresql/packets_per_s`: facts with four sensors from a log into PostgreSQL of this machine, until the last one is committed there;
// and the processor share of the worker and the server. Needs Debian's postgresql-15; as root the server runs as another user.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const BIN = '/usr/lib/postgresql/15/bin'
const COUNT = 200_000
/** packets of four sensors per second, with the server on the same two cores */
const MARK = 25_000

/** processor seconds of a process and its running children */
const cpu = pid => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /, '').split(' ')
  return (Number(stat[11]) + Number(stat[12])) / 100
}

/** `mark(key, value, hoped)` and `put(key, value)` record the figures, `problems` the faults. */
export async function benchPostgresql({ FlashLog, DatabaseManager }, { put, mark, problems }) {
  if (!existsSync(`${BIN}/initdb`)) return problems.push('postgresql: needs the package postgresql-15')
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-'))
  const root = process.getuid() === 0
  const as = root ? ['setpriv', '--pdeathsig=KILL', '--reuid=nobody', '--init-groups'] : ['setpriv', '--pdeathsig=KILL']
  writeFileSync(join(dir, 'password'), 'bench')
  if (root) spawnSync('chown', ['-R', 'nobody', dir])
  const data = join(dir, 'data')
  const made = [
    ...as,
    `${BIN}/initdb`,
    '-D',
    data,
    '-U',
    'os_node',
    '--pwfile',
    join(dir, 'password'),
    '-A',
    'scram-sha-256',
    '-E',
    'UTF8',
    '--locale=C',
  ]
  spawnSync(made[0], made.slice(1), { cwd: dir })
  const settings = ['listen_addresses=', `unix_socket_directories=${dir}`, 'shared_buffers=128MB', 'max_wal_size=4GB']
  const run = [...as, `${BIN}/postgres`, '-D', data, ...settings.flatMap(one => ['-c', one])]
  const server = spawn(run[0], run.slice(1), { cwd: dir, stdio: ['ignore', 'ignore', 'pipe'] })
  await new Promise(ready => server.stderr.on('data', text => /ready to accept/.test(text) && ready()))
  const log = await FlashLog.open({ dir: join(dir, 'log'), maxBytes: 512 * 1024 * 1024, bufferBytes: 64 * 1024 * 1024 })
  const sensors = k => ['t', 'h', 'p', 'v'].map((id, n) => ({ id, status: 'OK', unit: 'K', value: k / 7 + n }))
  const t0 = Date.now() - COUNT * 4
  for (let k = 0; k < COUNT; k++) {
    log.appendFact(
      { id: `dev-${k % 1000}`, state: 'ONLINE', tRaw: t0 + k * 4, aid: 7, sensors: sensors(k) },
      { medium: 'UDP' },
      'synced',
    )
    if (k % 5000 === 0) await log.flush()
  }
  await log.flush()
  const driver = { host: dir, database: 'postgres', password: 'bench' }
  const db = new DatabaseManager({ storage: { sql: { dialect: 'postgresql', driver } } }, { log })
  const start = process.cpuUsage()
  const from = performance.now()
  await db.connect()
  while (db.status().lag_records > 0) await new Promise(resolve => setTimeout(resolve, 5))
  const seconds = (performance.now() - from) / 1000
  const { user, system } = process.cpuUsage(start)
  const backend = spawnSync('pgrep', ['-f', 'postgres: os_node postgres']).stdout.toString().trim().split('\n')
  const { total } = await db.queryPackets(null, null, null, null, 1)
  if (total !== COUNT) problems.push(`postgresql: ${total} of ${COUNT} packets arrived`)
  mark('postgresql/packets_per_s', Math.round(COUNT / seconds), `≥ ${MARK}`)
  put('postgresql/worker_us_per_packet', Math.round(((user + system) / COUNT) * 100) / 100)
  const spent = backend.map(pid => (existsSync(`/proc/${pid}/stat`) ? cpu(pid) : 0))
  put('postgresql/server_us_per_packet', Math.round(((Math.max(0, ...spent) * 1e6) / COUNT) * 100) / 100)
  await db.close()
  await log.close()
  server.kill()
  await new Promise(resolve => server.once('exit', resolve))
  rmSync(dir, { recursive: true, force: true })
}
