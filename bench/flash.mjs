// What a record costs on flash: sectors (512 B) and cache flushes that reach a block device, at 1 to 1,000 readings a second, for the log
// and for SQLite in WAL and rollback mode with the same readings, committed once a second each. The device is a file behind a loop device
// with ext4, so the journal and the metadata of the file system count. The clock is moved by hand: a minute of readings takes as long as
// its 60 commits.
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

const RATES = [1, 10, 100, 1000]
const SECONDS = 60
/** the budget: a commit, and 1.3 times the bytes of a record of one sensor */
const COMMIT_BYTES = 8192
const RECORD_BYTES = 110
const DISK_BYTES = 256 * 2 ** 20
const T0 = 1_710_000_000_000

function run(name, ...args) {
  const { status, stdout, stderr, error } = spawnSync(name, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${name}: ${error?.message ?? stderr.trim()}`)
  return stdout.trim()
}

/** Sectors written and flushes since the device was created. */
function counters(device) {
  const fields = readFileSync(`/sys/block/${basename(device)}/stat`, 'utf8')
    .trim()
    .split(/\s+/)
    .map(Number)
  return { sectors: fields[6], flushes: fields[15] }
}

/** Reading number `k` of sensor 0. */
const kelvin = k => Math.round((20 + 10 * Math.sin(k / 50)) * 1e4) / 1e4
const timeOf = (k, rate) => T0 + Math.floor((k * 1000) / rate)

/** A minute of readings into a log whose clock is moved by hand; no timer of its own runs. */
async function intoLog(FlashLog, dir, rate) {
  let now = 0
  const clock = { wall: () => T0 + now, mono: () => now }
  const log = await FlashLog.open({ dir, clock, timers: { after: () => () => undefined } })
  for (let k = 0; k < rate * SECONDS; k++) {
    const sensors = [{ id: 's0', status: 'OK', unit: 'K', value: kelvin(k) }]
    const fact = { id: 'bench', state: 'ONLINE', tRaw: timeOf(k, rate), aid: 7, sensors }
    log.appendFact(fact, { medium: 'local' }, 'synced')
    if ((k + 1) % rate !== 0) continue
    now += 1000
    await log.flush()
  }
  await log.close()
}

/** The same minute into SQLite, a transaction a second; without an index, which would cost more. */
function intoSqlite(mode, dir, rate) {
  mkdirSync(dir)
  const lines = [
    `PRAGMA journal_mode=${mode};`,
    'PRAGMA synchronous=FULL;',
    'CREATE TABLE readings (t INTEGER, device TEXT, state TEXT, sensor TEXT, status TEXT, unit TEXT, value REAL);',
  ]
  for (let k = 0; k < rate * SECONDS; k++) {
    if (k % rate === 0) lines.push('BEGIN;')
    lines.push(`INSERT INTO readings VALUES (${timeOf(k, rate)},'bench','ONLINE','s0','OK','K',${kelvin(k)});`)
    if ((k + 1) % rate === 0) lines.push('COMMIT;')
  }
  const { status, stderr } = spawnSync('sqlite3', ['-bail', join(dir, 'readings.db')], {
    input: lines.join('\n'),
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`sqlite3: ${stderr}`)
}

export async function benchFlash({ FlashLog }, { put, mark, gate, problems }) {
  if (process.getuid() !== 0 || !existsSync('/dev/loop-control')) {
    console.log('flash/sectors_per_record: not measured, a loop device takes root and /dev/loop-control')
    return
  }
  const hasSqlite = spawnSync('sqlite3', ['-version']).status === 0
  if (!hasSqlite) console.log('flash/sqlite: not measured, this machine has no sqlite3')
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-flash-'))
  const file = join(dir, 'disk')
  const at = join(dir, 'mnt')
  mkdirSync(at)
  closeSync(openSync(file, 'w'))
  truncateSync(file, DISK_BYTES)
  let device
  try {
    run('mkfs.ext4', '-q', '-F', '-E', 'lazy_itable_init=0,lazy_journal_init=0', file)
    device = run('losetup', '--show', '-f', file)
    run('mount', '-o', 'noatime', device, at)
  } catch (error) {
    console.log(`flash/sectors_per_record: not measured, no loop device can be had here (${error.message})`)
    if (device) run('losetup', '-d', device)
    rmSync(dir, { recursive: true, force: true })
    return
  }
  /** The writes of `work`, including the file system's own writes at its end. */
  const measured = async (rate, work) => {
    run('sync', '-f', at)
    const before = counters(device)
    await work(join(at, 'data'))
    run('sync', '-f', at)
    const after = counters(device)
    rmSync(join(at, 'data'), { recursive: true })
    const records = rate * SECONDS
    const per = count => Math.round((count / records) * 1000) / 1000
    const sectors = after.sectors - before.sectors
    return { sectors: per(sectors), bytes: per(sectors * 512), flushes: per(after.flushes - before.flushes) }
  }
  try {
    for (const rate of RATES) {
      const ways = { '': dir => intoLog(FlashLog, dir, rate) }
      if (hasSqlite)
        Object.assign(ways, {
          'sqlite_wal/': dir => intoSqlite('WAL', dir, rate),
          'sqlite_rollback/': dir => intoSqlite('DELETE', dir, rate),
        })
      const sectors = {}
      for (const [way, work] of Object.entries(ways)) {
        const cost = await measured(rate, work)
        sectors[way] = cost.sectors
        if (way === '') mark(`flash/sectors_per_record/${rate}`, cost.sectors, 'below SQLite')
        else put(`flash/${way}sectors_per_record/${rate}`, cost.sectors)
        if (way === '')
          gate(`flash/bytes_per_record/${rate}`, cost.bytes, Math.round(COMMIT_BYTES / rate + RECORD_BYTES))
        else put(`flash/${way}bytes_per_record/${rate}`, cost.bytes)
        put(`flash/${way}flushes_per_record/${rate}`, cost.flushes)
      }
      const { '': own, 'sqlite_wal/': wal } = sectors
      if (own > wal) problems.push(`flash: ${own} sectors a record at ${rate} readings/s, SQLite in WAL mode ${wal}`)
    }
  } finally {
    run('umount', at)
    run('losetup', '-d', device)
    rmSync(dir, { recursive: true, force: true })
  }
}
