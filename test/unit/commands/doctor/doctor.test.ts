// The doctor: every check reports the right result for a healthy machine and for a faulty one, and what to do.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Finding } from '../../../../src/commands/doctor/finding'
import { INSTALLATION_CHECKS } from '../../../../src/commands/doctor/installation'
import { LINK_CHECKS } from '../../../../src/commands/doctor/link-checks'
import { MACHINE_CHECKS } from '../../../../src/commands/doctor/machine-checks'
import { CHECKS, examine } from '../../../../src/commands/verbs/doctor'
import { OsError } from '../../../../src/lib/errors'
import { fake, STATUS } from '../fake'
import { board, calm, check, firmware, GIB, hwmon, store, thermal, type World, well } from './doctor-world'

const uplinks = (...list: object[]) => ({ gateway: { uplinks: list } })
const link = (state: string, more = {}) => ({
  kind: 'medium',
  type: 'UDP',
  state,
  rx: 0,
  tx: 0,
  errors: 0,
  opens: 1,
  ...more,
})
const NAMES = Object.keys(CHECKS)

test('the doctor has every check that the issue lists, each once', () => {
  for (const name of [
    'ports',
    'groups',
    'clock',
    'disk',
    'throttling',
    'upstream',
    'config',
    'data_directory',
    'addon',
    'buses',
  ])
    assert.ok(NAMES.includes(name), name)
  assert.equal(
    NAMES.length,
    [INSTALLATION_CHECKS, MACHINE_CHECKS, LINK_CHECKS].reduce((sum, checks) => sum + Object.keys(checks).length, 0),
  )
})

test('on a healthy machine no check fails or warns', async () => {
  const { context } = fake(store({ assigned_id: 7, device_id: 'D' }), calm)
  const reports = await examine(context, well())
  assert.deepEqual(
    reports.filter(({ state }) => state === 'failed' || state === 'warning'),
    [],
  )
  assert.deepEqual(
    reports.map(({ name }) => name),
    NAMES,
  )
})

/** check, world, state, text, hint */
const CASES: [name: string, world: World, state: Finding['state'], text: RegExp, hint?: RegExp][] = [
  ['version', { machine: { nodeVersion: '18.3.0' } }, 'failed', /Node 18/, /20\.19/],
  ['config', { config: '{ "device_id": 5 }' }, 'failed', /device_id must be a text/, /repair-config/],
  ['config', { config: { engine_settings: { precison: 3 } } }, 'warning', /did you mean precision/, /config-show/],
  ['gateway', {}, 'ok', /not running/],
  ['gateway', { status: { role: 'run' } }, 'ok', /runs \(run\) for 1 min 1 s/],
  ['gateway', { machine: { owner: async () => ({ pid: 9, role: 'run' }) } }, 'failed', /process 9/, /kill 9/],
  ['data_directory', { machine: { access: () => 'EACCES' } }, 'failed', /cannot be written \(EACCES\)/, /chown -R pi/],
  ['data_directory', { machine: { access: () => 'EROFS' } }, 'failed', /read-only file system/, /mount/],
  [
    'data_directory',
    { machine: { exists: path => !path.endsWith('data'), access: () => 'EACCES' } },
    'failed',
    /cannot be created/,
    /--data-dir/,
  ],
  ['data_directory', { machine: { exists: () => false } }, 'ok', /created at the first start/],
  ['disk', { machine: { space: () => ({ free: 9 << 20, total: 32 * GIB }) } }, 'failed', /9 MiB of/, /max_bytes/],
  ['disk', { machine: { space: () => ({ free: 100 << 20, total: GIB }) } }, 'warning', /may still grow/, /max_bytes/],
  ['disk', { machine: { space: () => undefined } }, 'skipped', /does not report/],
  ['identity', {}, 'warning', /no id yet/, /ensure-id/],
  ['identity', { status: { identity: { refused: 'ID_QUOTA' } } }, 'failed', /answers ID_QUOTA/, /limited/],
  [
    'safe_mode',
    { context: { safeMode: async () => ({ active: true, reason: '5 crashes', crashes: 5 }) } },
    'failed',
    /5 crashes/,
    /--leave/,
  ],
  ['web_access', { config: { web_user: { auth_enabled: false } } }, 'warning', /no token/, /auth_enabled/],
  [
    'web_access',
    { config: { RESOURCES: { service_plugins: { web_user: { host: '0.0.0.0' } } } } },
    'warning',
    /without TLS/,
    /self_signed/,
  ],
  ['database', { config: { storage: { sql: { enabled: false } } } }, 'skipped', /enabled is false/],
  ['database', { status: { storage: { state: 'down', reason: 'no worker' } } }, 'failed', /no worker/, /status/],
  [
    'database',
    {
      config: { storage: { sql: { dialect: 'postgresql' } } },
      status: { storage: { state: 'starting', last_error: { code: 'DB_UNREACHABLE', message: 'refused', at: 1 } } },
    },
    'failed',
    /postgresql is starting: refused/,
    /host, port and tls of storage.sql.driver/,
  ],
  ['database', { status: { storage: { state: 'closed' } } }, 'failed', /sqlite is closed/, /restart/],
  [
    'database',
    {
      config: { storage: { sql: { dialect: 'mysql' } } },
      status: { storage: { state: 'down', reason: 'no such user', code: 'DB_LOGIN' } },
    },
    'failed',
    /mysql is down: no such user/,
    /user and password of storage.sql.driver/,
  ],
  [
    'database',
    {
      config: { storage: { sql: { dialect: 'mysql', driver: { host: 'db.example' } } } },
      machine: { connects: async (host, port) => `${host} ${port} refuses` },
    },
    'failed',
    /mysql at db\.example:3306: db\.example 3306 refuses/,
    /server runs/,
  ],
  [
    'database',
    { config: { storage: { sql: { dialect: 'postgresql' } } } },
    'ok',
    /postgresql at 127\.0\.0\.1:5432 answers/,
  ],
  [
    'database',
    { config: { storage: { sql: { dialect: 'postgresql', driver: { host: '/run/postgresql' } } } } },
    'skipped',
    /running gateway/,
  ],
  ['database', {}, 'ok', /sqlite; opened by the gateway/],
  ['core', { config: { engine_settings: { core_backend: 'rscore' } } }, 'ok', /^rscore$/],
  ['core', {}, 'ok', /pycore/],
  ['clock', { machine: { wall: () => 1000 } }, 'failed', /1970/, /NTP/],
  ['clock', { machine: { clock: () => ({}) } }, 'warning', /not synchronized/, /set-ntp/],
  ['clock', { machine: { clock: () => ({ rtcS: Date.UTC(2027, 0, 1) / 1000 }) } }, 'ok', /RTC/],
  ['clock', { machine: { clock: () => ({}) }, status: { time: { quality: 'server' } } }, 'ok', /the upstream/],
  ['memory', { machine: { memory: () => ({ limit: 64 << 20, free: 60 << 20 }) } }, 'warning', /64 MiB/, /128 MiB/],
  ['memory', { machine: { memory: () => ({ limit: GIB, free: 9 << 20 }) } }, 'warning', /9 MiB free/, /other programs/],
  ['memory', { status: { guard: { level: 'tight', reason: 'memory' } } }, 'warning', /tight/],
  ['throttling', {}, 'skipped', /does not report/],
  ['throttling', firmware('0'), 'ok', /never throttled/],
  [
    'throttling',
    firmware('50005'),
    'failed',
    /supply voltage is too low; the processor is throttled/,
    /stronger supply/,
  ],
  ['throttling', firmware('20000'), 'warning', /runs slower at times/, /cool/],
  ['throttling', hwmon('1'), 'failed', /voltage is too low/, /supply/],
  ['throttling', hwmon('0'), 'ok', /voltage is sufficient/],
  ['temperature', thermal('85000'), 'warning', /85 °C/, /cool/],
  ['temperature', thermal('40000'), 'ok', /40 °C/],
  ['addon', { machine: { addon: () => 'native addon missing: not built' } }, 'warning', /not built/, /--native/],
  [
    'groups',
    {
      config: { gateway: { sources: [{ name: 'meter', type: 'modbus_rtu', port: '/dev/ttyUSB0' }] } },
      machine: { look: () => ({ state: 'forbidden', group: 'dialout' }) },
    },
    'failed',
    /meter: no permission to use \/dev\/ttyUSB0 \(group dialout\)/,
    /usermod -aG dialout pi/,
  ],
  [
    'groups',
    board({ state: 'no_right', used_by: ['source air'], todo: 'join i2c' }),
    'failed',
    /source air/,
    /join i2c/,
  ],
  [
    'buses',
    board({ state: 'missing', used_by: ['source air'], todo: 'dtparam=i2c_arm=on' }),
    'failed',
    /i2c1 is off/,
    /dtparam/,
  ],
  ['buses', board({ state: 'missing', used_by: [] }), 'ok', /no bus is configured/],
  [
    'buses',
    {
      config: uplinks({ name: 'up', medium: 'UART', port: '/dev/ttyUSB0' }),
      machine: { look: () => ({ state: 'missing' }) },
    },
    'failed',
    /up: \/dev\/ttyUSB0 does not exist/,
    /plug/,
  ],
  [
    'ports',
    { machine: { listen: async () => 'EADDRINUSE' } },
    'failed',
    /TCP 127\.0\.0\.1:8765 \(page\): another program/,
    /ss -lptun/,
  ],
  [
    'ports',
    {
      config: { gateway: { receivers: [{ name: 'in', medium: 'UDP', port: 99 }] } },
      machine: { listen: async (_, __, port) => (port === 99 ? 'EACCES' : undefined) },
    },
    'failed',
    /UDP 0\.0\.0\.0:99 \(receiver in\)/,
    /1024/,
  ],
  [
    'ports',
    {
      config: { gateway: { receivers: [{ name: 'in', medium: 'UDP' }] } },
      status: { links: { in: link('down', { reason: 'port 8080 is in use', hint: 'stop it' }) } },
    },
    'failed',
    /receiver in: port 8080 is in use/,
    /stop it/,
  ],
  ['ports', { status: { links: {} } }, 'ok', /listens; the page is off/],
  [
    'ports',
    { status: { links: {} }, context: { webUrl: () => 'http://127.0.0.1:9' } },
    'ok',
    /listens; page on http:\/\/127\.0\.0\.1:9$/,
  ],
  ['sources', {}, 'skipped', /source test/],
  [
    'sources',
    {
      config: { gateway: { sources: [{ name: 'boiler', type: 'cpu' }] } },
      status: { links: { boiler: link('down', { reason: 'no such port' }) } },
    },
    'failed',
    /boiler is down: no such port/,
  ],
  // sensors differ between machines
  [
    'sources',
    { status: { links: { boiler: link('absent', { reason: 'no zones' }) } } },
    'ok',
    /boiler is not present: no zones/,
  ],
  ['sources', { status: { links: { boiler: link('up') } } }, 'ok', /boiler is up/],
  ['upstream', {}, 'ok', /starts a local upstream/],
  ['upstream', { config: uplinks({ name: 'a', medium: 'UDP', host: 'h', port: 1 }) }, 'ok', /a: UDP h:1 answers/],
  [
    'upstream',
    {
      config: uplinks({ name: 'a', medium: 'UDP', host: 'h', port: 1 }),
      machine: { answers: async () => 'no answer' },
    },
    'failed',
    /no answer/,
    /best_effort/,
  ],
  [
    'upstream',
    {
      config: uplinks({ name: 'a', medium: 'UDP', host: 'h', port: 1, delivery: 'best_effort' }),
      machine: { answers: async () => 'no answer' },
    },
    'ok',
    /needs no answer/,
  ],
  [
    'upstream',
    { config: uplinks({ name: 'a', medium: 'TCP', host: 'h' }) },
    'failed',
    /switched off/,
    /transporter-toggle/,
  ],
  [
    'upstream',
    {
      config: { ...uplinks({ name: 'a', medium: 'TCP', host: 'h' }), RESOURCES: { transport_status: { tcp: true } } },
      machine: { connects: async () => 'ECONNREFUSED' },
    },
    'failed',
    /TCP h:8888: ECONNREFUSED/,
    /firewalls/,
  ],
  [
    'upstream',
    {
      config: uplinks({ name: 'a', medium: 'UDP', host: 'nowhere', port: 1 }),
      machine: { resolve: () => Promise.reject(new OsError('NETWORK', 'cannot resolve nowhere')) },
    },
    'failed',
    /cannot resolve nowhere/,
  ],
  ['upstream', { status: {} }, 'failed', /cloud is down: no answer/],
  [
    'upstream',
    { status: { forwarding: { uplink: 'b', backlog: 3 } } },
    'warning',
    /b is active, 3 facts waiting; cloud is down/,
  ],
]

test('core: a machine without WebAssembly has pycore only', async () => {
  const kept = Object.getOwnPropertyDescriptor(globalThis, 'WebAssembly')!
  Reflect.deleteProperty(globalThis, 'WebAssembly')
  try {
    const found = await check('core', { config: { engine_settings: { core_backend: 'rscore' } } })
    assert.deepEqual([found.state, found.hint], ['warning', 'os-node core pycore'])
    assert.match(found.text, /rscore is not available .*without WebAssembly.*: pycore encodes/)
    // nothing to do where it was not chosen
    const other = await check('core', {})
    assert.deepEqual([other.state, other.hint], ['ok', undefined])
    assert.match(other.text, /^pycore; rscore is not available .*without WebAssembly/)
  } finally {
    Object.defineProperty(globalThis, 'WebAssembly', kept)
  }
})

test('every check fails once in these tests, and says what to do', () => {
  const bad = CASES.filter(([, , state, , hint]) => (state === 'failed' || state === 'warning') && hint)
  // the log and the core have tests of their own; a source's hint is that of its link
  const seen = [...bad.map(([name]) => name), 'log', 'sources', 'core']
  assert.deepEqual(
    NAMES.filter(name => !seen.includes(name)),
    [],
  )
})

for (const [name, world, state, text, hint] of CASES)
  test(`${name}: ${state}, ${String(text).slice(1, -1)}`, async () => {
    const found = await check(name, world)
    assert.equal(found.state, state, JSON.stringify(found))
    assert.match(found.text, text)
    if (hint) assert.match(found.hint ?? '', hint)
  })

test('a degraded log is a failed check, lost records are a warning', async () => {
  const log = (status: object) => ({ summary: async () => ({ ...STATUS.log, ...status }) })
  const of = async (status: object) => (await check('log', { context: { log: log(status) } })).state
  assert.deepEqual(
    [
      await of({}),
      await of({ lost: 3 }),
      await of({ chain: 'log damaged' }),
      await of({ state: 'degraded', reason: 'EIO' }),
    ],
    ['ok', 'warning', 'warning', 'failed'],
  )
})
