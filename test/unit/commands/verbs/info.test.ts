// inject, id-info, snapshot, pipeline-info, db-status, core, log-level: what they print, with and without a gateway.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type CommandContext, parseCommand, VERBS } from '../../../../src/commands'
import { ConfigStore } from '../../../../src/config'
import { Engine, Fusion } from '../../../../src/index'
import { fake } from '../fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-info-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

function config(values: object = {}): ConfigStore {
  const cwd = mkdtempSync(join(root, `${count++}-`))
  writeFileSync(join(cwd, 'Config.json'), JSON.stringify(values))
  return ConfigStore.load({ cwd, env: {} })
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
async function run(context: CommandContext, ...argv: string[]): Promise<{ value: any; exitCode: number }> {
  const { verb, options } = parseCommand(VERBS, argv)
  const { value = {}, exitCode = 0 } = await verb.run(context, options)
  return { value, exitCode }
}
const paint = Object.fromEntries(
  ['bold', 'dim', 'good', 'bad', 'warn'].map(how => [how, (text: string) => text]),
) as never
const text = async (context: CommandContext, ...argv: string[]): Promise<string> => {
  const { verb, options } = parseCommand(VERBS, argv)
  return verb.text!((await verb.run(context, options)).value!, paint)
}

test('inject prints each stage up to the requested one', async () => {
  const { context } = fake(config({ assigned_id: 7, device_id: 'D' }))
  const keys = async (...argv: string[]) => Object.keys((await run(context, 'inject', ...argv)).value)
  assert.deepEqual(await keys('--module', 'standardize'), ['standardize'])
  assert.deepEqual(await keys('--module', 'compress'), ['standardize', 'compress'])
  assert.deepEqual(await keys('--module', 'fuse'), ['standardize', 'compress', 'fuse'])
  assert.deepEqual(await keys(), ['standardize', 'compress', 'fuse'])
  await assert.rejects(run(context, 'inject', '--module', 'send'), { code: 'USAGE' })
})

test('a peer can read what inject produces: canonical unit, compressed text, a FULL packet with the id', async () => {
  const { context, calls } = fake(config({ assigned_id: 7, device_id: 'D' }))
  const { value, exitCode } = await run(context, 'inject', '--sensor-id', 'P1', '--value', '1.5', '--unit', 'kPa')
  assert.equal(exitCode, 0)
  const { standardize, compress, fuse } = value
  assert.deepEqual([standardize.id, standardize.s1_id, standardize.s1_v, standardize.s1_u], ['D', 'P1', 1500, 'Pa'])
  assert.equal(new Engine().decompress(compress).s1_v, 1500)
  const packet = Buffer.from(fuse.hex, 'hex')
  assert.equal(packet.length, fuse.length)
  const decoded = new Fusion(null, { registryDir: null }).decompress(packet)
  assert.deepEqual([decoded.s1_v, decoded.s1_u, decoded.__packet_meta__.source_aid], [1500, 'Pa', 7])
  assert.equal(decoded.__packet_meta__.cmd, 0x3f)
  assert.deepEqual(calls, [], 'nothing is transmitted')
})

test('inject works without an id and without a name, and lists refused rows', async () => {
  const { context } = fake(config())
  const { value } = await run(context, 'inject')
  const decoded = new Fusion(null, { registryDir: null }).decompress(Buffer.from(value.fuse.hex, 'hex'))
  assert.deepEqual([decoded.id, decoded.__packet_meta__.source_aid], ['UNKNOWN', 0])
  const rows = '[["T","OK",1,"Cel"],["X","OK",1,"no-such-unit"]]'
  const some = await run(context, 'inject', '--sensors', rows)
  assert.equal(some.exitCode, 0)
  assert.deepEqual(
    some.value.rejected.map(({ row, code }: { row: number; code: string }) => [row, code]),
    [[1, 'UNKNOWN_UNIT']],
  )
  assert.equal((await run(context, 'inject', '--unit', 'no-such-unit')).exitCode, 1)
})

test('inject follows the unit dialect and the precision of the configuration', async () => {
  const settings = { engine_settings: { unit_dialect: 'attribute', precision: 2 } }
  const { context } = fake(config(settings))
  const { value } = await run(context, 'inject', '--unit', 'Cel', '--value', '1', '--module', 'standardize')
  assert.deepEqual(Object.keys(value.standardize).includes('t_raw'), false, 'the fact of the reference')
})

test('inject reads a file in the calling process only', async () => {
  const { verb, options } = parseCommand(VERBS, ['inject', '--sensors-file', 'r.json'])
  const prepared = await verb.prepare?.(
    options,
    async () => '["T1","OK",5,"Cel"]',
    async () => '',
    () => undefined,
  )
  assert.equal(prepared?.sensors, '["T1","OK",5,"Cel"]')
  await assert.rejects(verb.run(fake(config()).context, options), { code: 'USAGE' })
})

test('id-info shows name, id and where the id comes from', async () => {
  const { context } = fake(config({ device_id: 'D', Client_Core: { server_host: '192.0.2.1', server_port: 99 } }))
  const { value } = await run(context, 'id-info')
  assert.deepEqual([value.device_id, value.assigned_id, value.assigned], ['D', 4294967295, false])
  assert.match(
    await text(context, 'id-info'),
    /device +D\nid +none yet; os-node ensure-id requests one from 192\.0\.2\.1:99/,
  )
  const known = fake(config({ assigned_id: 7 })).context
  assert.equal((await run(known, 'id-info')).value.assigned, true)
  assert.match(await text(known, 'id-info'), /id +7\n/)
})

test('snapshot shows identity, services and the available media', async () => {
  const services = { mode: 'runtime', mount_index: ['tui'], runtime_index: [], config_index: {} }
  const plugins = async () => ({ manager: { snapshot: () => services } }) as never
  const { context } = fake(config({ assigned_id: 7, device_id: 'D' }), { plugins })
  const { value } = await run(context, 'snapshot')
  assert.deepEqual(value, { device_id: 'D', assigned_id: 7, services, transporters: [] })
})

test('pipeline-info and db-status add the counters of a running gateway', async () => {
  const local = fake(config({ engine_settings: { precision: 6 } })).context
  assert.equal((await run(local, 'pipeline-info')).value.precision, 6)
  assert.equal((await run(local, 'pipeline-info')).value.intake, undefined)
  assert.match(await text(local, 'pipeline-info'), /core +pycore\nprecision +6\n/)
  assert.deepEqual((await run(local, 'db-status')).value, { enabled: true, dialect: 'sqlite' })
  const inGateway = fake(config({ storage: { sql: { enabled: false } } }), { inGateway: true }).context
  assert.deepEqual((await run(inGateway, 'pipeline-info')).value.uplinks, {
    cloud: { carrying: undefined, acked: 4, sent: 2, resent: 0, backlog: 5, in_flight: undefined },
  })
  assert.deepEqual((await run(inGateway, 'db-status')).value, { enabled: false, dialect: 'sqlite', lag_records: 0 })
  // an idle view is queried: it does not count on its own
  const gateway = { ...inGateway.gateway!, database: { counted: async () => ({ packets: 90 }) } as never }
  assert.equal((await run({ ...inGateway, gateway }, 'db-status')).value.packets, 90)
})

test('core lists the cores of this build and refuses others', async () => {
  const store = config()
  const { context } = fake(store)
  assert.deepEqual((await run(context, 'core')).value, {
    active: 'pycore',
    configured: 'pycore',
    available: ['pycore', 'rscore'],
  })
  const measured = { uplinks: { pycore: 2, rscore: 1 }, receivers: { pycore: 1, rscore: 2 } }
  writeFileSync(join(store.dataDir, 'cores.json'), JSON.stringify({ key: 'any', measured }))
  const last = { uplinks: 'rscore', receivers: 'pycore', measured }
  assert.deepEqual((await run(context, 'core')).value.gateway, last)
  assert.match(await text(context, 'core'), /\ngateway: rscore for uplinks, pycore for receivers, as measured here$/)
  const problem = 'rscore is not available: for a test'
  const running = { ...fake(store, { inGateway: true }).context }
  const report = { uplinks: 'pycore', receivers: 'pycore', problem }
  const gateway = { ...running.gateway!, status: () => ({ core: report }) as never }
  assert.deepEqual((await run({ ...running, gateway }, 'core')).value.gateway, report)
  assert.match(
    await text({ ...running, gateway }, 'core'),
    /\ngateway: pycore for both: rscore is not available: for a test$/,
  )
  await assert.rejects(run(context, 'core', '--set', 'nocore'), { code: 'NOT_FOUND' })
  assert.deepEqual(
    [(await run(context, 'core', '--set', 'rscore', '--persist')).value, (await run(context, 'core')).value.active],
    [{ active: 'rscore', configured: 'rscore', available: ['pycore', 'rscore'], needs_restart: false }, 'rscore'],
  )
})

test('log-level shows the level and stores it in the configuration', async () => {
  const store = config()
  const { context } = fake(store)
  assert.deepEqual((await run(context, 'log-level')).value, { level: 'info' })
  assert.deepEqual((await run(context, 'log-level', '--set', 'debug')).value, { level: 'debug', old: 'info' })
  assert.match(readFileSync(store.path, 'utf8'), /"log_level": *"debug"/)
  await assert.rejects(run(context, 'log-level', '--set', 'loud'), { code: 'USAGE' })
})
