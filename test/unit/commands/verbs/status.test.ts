// What `os-node status` reports about flash (fill, oldest record, bytes written today, wear) and about a database that
// does not work.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { status } from '../../../../src/commands/verbs/status'
import type { FlashReport } from '../../../../src/gateway/guard/flash'
import type { GatewayStatus } from '../../../../src/gateway/status'
import { STATUS } from '../fake'

const plain = { bold: String, dim: String, good: String, warn: String, bad: String }
const FLASH: FlashReport = {
  device: 'mmcblk0p3',
  bytes_written_today: 41 * 2 ** 20,
  endurance_bytes: 8e12,
  wear_percent_year: 0.18,
}

const text = (change: Partial<GatewayStatus>): string[] =>
  status.text!({ ...STATUS, ...change, via: 'gateway' } as never, plain as never).split('\n')

test('status shows how full the log is and how far back it goes, and how fast the flash wears', async () => {
  const oldest = Date.now() - 3 * 86_400_000 - 1000
  const text = (change: Partial<GatewayStatus>): string[] =>
    status.text!({ ...STATUS, ...change, via: 'gateway' } as never, plain as never).split('\n')
  const log = { ...STATUS.log, bytes: 64 * 2 ** 20, max_bytes: 256 * 2 ** 20, oldest }
  const lines = text({ log, flash: FLASH })
  assert.match(lines[2]!, /^log: 9 records, 64 MiB \(25 % full, oldest 3 d 0 h\), /)
  assert.equal(lines[3], 'flash mmcblk0p3: written today 41 MiB, 0.18 % of 8 TB in a year')
  assert.match(text({ log: { ...log, oldest: null } })[2]!, /\(25 % full\), /)
  assert.equal(text({ log, flash: { ...FLASH, wear_percent_year: null } })[3], 'flash mmcblk0p3: written today 41 MiB')
  // read from the files: the limit is unknown
  assert.match(text({})[2]!, /^log: 9 records, 100 B, /)
})

test('status shows a failing database with its reason, but not one that works, is idle or starts', () => {
  const { storage } = STATUS
  const lines = (change: Partial<typeof storage>): string[] =>
    text({ storage: { ...storage, dialect: 'postgresql', ...change } }).filter(line => line.startsWith('database'))
  const last_error = { code: 'DB_UNREACHABLE', message: 'connect ECONNREFUSED', at: 1 } as const
  for (const state of ['up', 'resting', 'closed'] as const) assert.deepEqual(lines({ state, last_error }), [])
  assert.deepEqual(lines({ state: 'starting' }), [])
  const why = 'the log keeps every record meanwhile'
  assert.deepEqual(lines({ state: 'starting', last_error }), [
    `database: postgresql is down: connect ECONNREFUSED; ${why}`,
  ])
  assert.deepEqual(lines({ state: 'down', reason: 'no worker' }), [`database: postgresql is down: no worker; ${why}`])
  assert.equal(lines({ state: 'down', reason: 'no worker', missed: 4 })[0], 'database: postgresql is down: no worker')
  assert.deepEqual(lines({ state: 'up', windows: { damaged: 2 } as never }), [
    'database: 2 windows damaged and not used; records are read from the log if it has them',
  ])
})

test('status shows why the native core is not used, where it was chosen', () => {
  const problem = 'rscore is not available: this Node runs without WebAssembly'
  const lines = (core: GatewayStatus['core']): string[] =>
    text({ ...(core && { core }) }).filter(line => line.startsWith('rscore'))
  assert.deepEqual(lines({ uplinks: 'pycore', receivers: 'pycore', problem }), [problem])
  assert.deepEqual([lines({ uplinks: 'rscore', receivers: 'pycore' }), lines(undefined)], [[], []])
})

test('status shows facts that the SQL view missed, with what to do', () => {
  const lines = (missed: number): string[] =>
    text({ storage: { ...STATUS.storage, missed } }).filter(line => line.startsWith('database'))
  assert.deepEqual(lines(0), [])
  assert.deepEqual(lines(223_278), [
    'database: 223278 facts missed, by a full log or a damaged window; enlarge gateway.log.max_bytes',
  ])
})

test('status shows the records that wait for an uplink, but not in safe mode, where the gateway has no uplinks', () => {
  const forwarding = { uplink: 'main', since: 0, cursor: 117_440_529, backlog: 3 }
  const lines = (change: object): string[] =>
    text({ forwarding, ...change } as Partial<GatewayStatus>).filter(line => line.startsWith('upstream'))
  assert.deepEqual(lines({}), ['upstream: main active since 1970-01-01T00:00:00.000Z; 3 facts waiting'])
  assert.deepEqual(lines({ safe_mode: 'five crashes' }), [])
})
