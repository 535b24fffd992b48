// db export as a command: its output, its exit codes, and that a gateway writes no files for a caller.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { runCli } from '../../../../src/cli'
import { runRequest, VERBS } from '../../../../src/commands'
import { roleOf } from '../../../../src/commands/roles'
import { ConfigStore } from '../../../../src/config'
import { acquireLock } from '../../../../src/gateway/lock'
import { FlashLog } from '../../../../src/log'
import { fake } from '../fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-db-'))
after(() => rmSync(root, { recursive: true, force: true }))

before(async () => {
  writeFileSync(join(root, 'Config.json'), '{}')
  const log = await FlashLog.open({ dir: join(root, 'data/log'), commitIntervalMs: 5, ackCommitMs: 2 })
  const sensors = [{ id: 's', status: 'OK', unit: 'K', value: 1 }]
  for (let k = 0; k < 3; k++) log.appendFact({ id: 'd', state: 'ONLINE', tRaw: k, aid: 7, sensors }, { medium: 'UDP' })
  await log.close()
})

async function cli(...argv: string[]) {
  let [stdout, stderr] = ['', '']
  const sink = (write: (text: string) => void) => ({
    write: (text: string) => {
      write(text)
      return true
    },
    on: () => undefined,
    once: () => undefined,
    off: () => undefined,
  })
  const code = await runCli(argv, {
    version: '9.9.9',
    env: {},
    cwd: root,
    stdout: sink(text => {
      stdout += text
    }),
    stderr: sink(text => {
      stderr += text
    }),
    signal: new AbortController().signal,
    waitMs: 100,
    context: async ({ config, print, signal, logger }) => fake(config, { print, signal, logger }).context,
  })
  return { code, stdout, stderr }
}

test('db export prints the content of the file in the calling process, also while a gateway owns the data directory', async () => {
  const file = join(root, 'out.sqlite')
  const lock = await acquireLock(join(root, 'data'), 'run')
  const { code, stdout } = await cli('db', 'export', file, '--json')
  lock.release()
  const { bytes, ...said } = JSON.parse(stdout)
  assert.equal(code, 0)
  const rows = { os_packets: 3, os_sensors: 3 }
  assert.deepEqual(said, { ok: true, file, rows, windows: 0, duplicates: 0, via: 'local' })
  assert.equal(bytes % 4096, 0)
  const again = await cli('db', 'export', file)
  assert.deepEqual([again.code, again.stdout], [2, ''])
  assert.match(again.stderr, /out\.sqlite already exists\n.*--force/)
  const forced = await cli('db', 'export', '--file', file, '--force')
  assert.equal(forced.code, 0)
  assert.match(forced.stdout, /out\.sqlite: 3 packets, 3 sensor values, 16 KiB\n$/)
  assert.deepEqual(readdirSync(root).sort(), ['Config.json', 'data', 'out.sqlite'])
  rmSync(file)
})

test('a name that ends in .csv makes one row per sensor reading', async () => {
  const file = join(root, 'out.csv')
  const { code, stdout, stderr } = await cli('db', 'export', file)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /out\.csv: 3 packets, 3 sensor values/)
  const [head, ...rows] = readFileSync(file, 'utf8').split('\r\n')
  assert.equal(
    head,
    'time,t_raw_ms,device_id,device_status,sensor_index,sensor_id,sensor_status,value,unit,packet_uuid,created_at',
  )
  assert.deepEqual(
    rows.map(row => row.split(',').slice(0, 9).join(',')),
    [
      '1970-01-01T00:00:00.000Z,0,d,ONLINE,1,s,OK,1,K',
      '1970-01-01T00:00:00.001Z,1,d,ONLINE,1,s,OK,1,K',
      '1970-01-01T00:00:00.002Z,2,d,ONLINE,1,s,OK,1,K',
      '',
    ],
  )
  assert.equal((await cli('db', 'export', file, '--force', '--units', 'display')).code, 0)
  assert.match(readFileSync(file, 'utf8'), /,s,OK,-272\.15,°C,/)
  assert.equal((await cli('db', 'export', file, '--force', '--units', 'imperial')).code, 2)
  rmSync(file)
})

test('a missing window is named, with exit code 4', async () => {
  const windows = join(root, 'data/sql')
  const { Database } = await import('../../../../src/storage')
  const log = await FlashLog.open({ dir: join(root, 'data/log'), commitIntervalMs: 5, ackCommitMs: 2 })
  const view = new Database({
    log,
    maxPackets: 2,
    windows: { dir: windows, readOnly: false, keepBytes: 0, keepMs: 0 },
  })
  await view.connect()
  assert.equal((await view.queryPackets()).total, 3)
  await view.close()
  await log.close()
  const [name] = readdirSync(windows)
  truncateSync(join(windows, name!), 99)
  const { code, stdout } = await cli('db', 'export', join(root, 'x'), '--json')
  const { ok, rows, left_out } = JSON.parse(stdout)
  assert.deepEqual([code, ok, rows.os_packets, left_out], [4, false, 3, [`${name}: its summary is damaged`]])
})

test('a gateway writes no file for a caller, and only an admin may request one', async () => {
  const { context } = fake(ConfigStore.load({ cwd: root, env: {}, keep: false }), { inGateway: true })
  await assert.rejects(runRequest(context, { id: 1, command: 'db export', options: { file: '/x' } }), { code: 'USAGE' })
  const verb = VERBS.find(({ name }) => name === 'db export')!
  assert.equal(roleOf(verb, { file: '/x' }), 'admin')
})

test('db export without a file is wrong usage, and its help has examples', async () => {
  assert.equal((await cli('db', 'export')).code, 2)
  assert.match((await cli('db', '--help')).stdout, /db export/)
  assert.match((await cli('db', 'export', '--help')).stdout, /--force[\s\S]*os-node db export packets\.sqlite/)
})
