import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type CommandContext, parseCommand, runRequest, VERBS } from '../../../../src/commands'
import { ConfigStore } from '../../../../src/config'
import { OsError } from '../../../../src/lib/errors'
import { silentLogger } from '../../../../src/lib/logger'
import { fake, STATUS } from '../fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-verbs-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0
const config = (text = '{}'): ConfigStore => {
  const path = join(root, `${count++}.json`)
  writeFileSync(path, text)
  return ConfigStore.load({ path, env: {}, keep: false })
}
async function run(context: CommandContext, ...argv: string[]) {
  const { verb, options } = parseCommand(VERBS, argv)
  const result = await verb.run(context, options)
  const value: Record<string, unknown> = { ...result.value }
  return { ...result, value }
}
const plain = { bold: String, dim: String, good: String, bad: String, warn: String }
const code = (wanted: string) => (error: unknown) => error instanceof OsError && error.code === wanted

test('transmit gives the fields of the specification and sends by the default medium', async () => {
  const { context, calls } = fake(config())
  const { value, exitCode } = await run(context, 'transmit', '--value', '21.5', '--unit', 'Cel')
  assert.deepEqual(value, {
    assigned_id: 7,
    strategy: 'FULL_PACKET',
    packet_len: 6,
    packet_cmd: 63,
    dispatch_path: 'driver',
    sensors_count: 1,
    sent: true,
    delivery: 'sent',
  })
  assert.equal(exitCode, 0)
  assert.deepEqual(calls[0], ['transmit', [['V1', 'OK', 21.5, 'Cel']], null, 'ONLINE'])
  assert.equal(calls[1]?.[2], null)
})

test('a transmit that sends nothing is exit 1 with dispatch_path none; dropped rows are listed', async () => {
  const { context } = fake(config(), {
    node: {
      dispatch: async () => false,
      lastRejected: [{ index: 1, code: 'UNKNOWN_UNIT', reason: 'no unit zz' }],
      lastError: new OsError('NETWORK', 'the cable is out'),
    },
  })
  const { value, exitCode } = await run(context, 'transmit', '--sensors', '[["a","OK",1,"Pa"],["b","OK",1,"zz"]]')
  assert.equal(exitCode, 1)
  assert.equal(value?.sent, false)
  assert.equal(value?.dispatch_path, 'none')
  assert.equal(value?.delivery, undefined)
  assert.equal(value?.reason, 'the cable is out')
  assert.equal(value?.sensors_count, 1)
  assert.deepEqual(value?.rejected, [{ row: 1, code: 'UNKNOWN_UNIT', error: 'no unit zz' }])
})

test('refused rows are listed in one form, also when all of them were refused', async () => {
  const details = { rejected: [{ index: 0, code: 'UNKNOWN_UNIT', reason: 'no unit zz' }] }
  const refuse = () => {
    throw new OsError('ALL_READINGS_REFUSED', 'none is left', { details })
  }
  const told = {
    code: 'ALL_READINGS_REFUSED',
    details: {
      sent: false,
      reason: 'none is left',
      rejected: [{ row: 0, code: 'UNKNOWN_UNIT', error: 'no unit zz' }],
    },
  }
  await assert.rejects(run(fake(config(), { node: { transmit: refuse } }).context, 'transmit', '--unit', 'zz'), told)
  const { context } = fake(config(), { inGateway: true })
  const gateway = { ...context.gateway!, transmit: async () => refuse() }
  await assert.rejects(run({ ...context, gateway }, 'transmit', '--unit', 'zz'), told)
})

test('transmit over a medium without a driver says that nothing was sent, and why', async () => {
  const { context } = fake(config(), { inGateway: true })
  const refused = async () => Promise.reject(new OsError('NO_DRIVER', 'No available driver: FAX'))
  const gateway = { ...context.gateway!, transmit: refused }
  await assert.rejects(run({ ...context, gateway }, 'transmit', '--medium', 'FAX'), {
    code: 'NO_DRIVER',
    details: { sent: false, reason: 'No available driver: FAX' },
  })
})

test('without a gateway, a medium without a driver is an error', async () => {
  const lastError = new OsError('NO_DRIVER', 'No available driver: FAX')
  const { context } = fake(config(), { node: { dispatch: async () => false, lastError } })
  await assert.rejects(run(context, 'transmit', '--medium', 'FAX'), {
    code: 'NO_DRIVER',
    details: { sent: false, reason: 'No available driver: FAX' },
  })
})

test('transmit in a gateway goes through its intake', async () => {
  const { context, calls } = fake(config(), { inGateway: true })
  const { value } = await run(
    context,
    'transmit',
    '--device-id',
    'D',
    '--status',
    'TEST',
    '--medium',
    'TCP',
    '--value',
    '2',
  )
  assert.equal(value?.strategy, 'DIFF_PACKET')
  assert.deepEqual(calls, [
    ['transmit', { sensors: [['V1', 'OK', 2, 'Pa']], device_id: 'D', device_status: 'TEST', medium: 'TCP' }],
  ])
})

test('transmit reads a file in the calling process only; --sensors takes precedence over it', async () => {
  const { verb, options } = parseCommand(VERBS, ['transmit', '--sensors-file', 'r.json'])
  const read = async (): Promise<string> => '["T1","OK",5,"Cel"]'
  const prepared = await verb.prepare?.(options, read, read, () => undefined)
  assert.equal(prepared?.sensors, '["T1","OK",5,"Cel"]')
  assert.equal(prepared?.['sensors-file'], undefined)
  const { context, calls } = fake(config())
  await verb.run(context, prepared ?? {})
  assert.deepEqual(calls[0]?.[1], [['T1', 'OK', 5, 'Cel']], 'one reading is taken as a list of one')
  await assert.rejects(
    verb.prepare!(
      options,
      async () => 'nonsense',
      read,
      () => undefined,
    ),
    code('USAGE'),
  )
  const request = { id: 1, command: 'transmit', options: { 'sensors-file': '/etc/shadow' } }
  await assert.rejects(runRequest(context, request), code('USAGE'))
})

test('a byte order mark before the readings is accepted', async () => {
  const { context, calls } = fake(config())
  await run(context, 'transmit', '--sensors', '\ufeff[["a","OK",1,"Pa"]]')
  assert.deepEqual(calls[0]?.[1], [['a', 'OK', 1, 'Pa']])
})

test('transmit names what is wrong with --sensors', async () => {
  const { context } = fake(config())
  await assert.rejects(run(context, 'transmit', '--sensors', '[['), /--sensors JSON parse failed: /)
  await assert.rejects(run(context, 'transmit', '--sensors', '{}'), /must be a JSON array/)
})

test('decode accepts hex in the usual spellings; an error result is exit 1', async () => {
  const { context } = fake(config())
  for (const hex of ['3f0a', '0x3F 0x0a', '3f:0a']) {
    assert.deepEqual(await run(context, 'decode', '--hex', hex), { value: { id: 'gw', s: 'ONLINE' }, exitCode: 0 })
  }
  assert.deepEqual(await run(context, 'decode', '--hex', '00'), { value: { error: 'Unknown command' }, exitCode: 1 })
  for (const wrong of ['3', 'zz', '', ' '])
    await assert.rejects(run(context, 'decode', `--hex=${wrong}`), code('USAGE'))
})

test('ensure-id and time-sync use Client_Core unless an option names another host', async () => {
  const store = config('{"Client_Core": {"server_host": "10.0.0.9", "server_port": 9}}')
  const { context, calls } = fake(store)
  assert.deepEqual(await run(context, 'ensure-id'), { value: { ok: true, assigned_id: 7 }, exitCode: 0 })
  assert.deepEqual(await run(context, 'time-sync', '--host', 'h', '--port', '5'), {
    value: { server_time: 1710000000 },
    exitCode: 0,
  })
  assert.deepEqual(calls, [
    ['ensureId', '10.0.0.9', 9, null, 5],
    ['ensureTime', 'h', 5, 3],
  ])
  const silent = fake(store, { node: { ensureId: async () => false, ensureTime: async () => null } })
  assert.equal((await run(silent.context, 'ensure-id')).exitCode, 1)
  assert.deepEqual(await run(silent.context, 'time-sync'), {
    value: { server_time: null, error: 'the server did not answer' },
    exitCode: 1,
  })
})

test('config-get, config-set and config-show read, change and print the configuration', async () => {
  const { context } = fake(config('{"RESOURCES": {"application_config": {"mqtt": {"password": "hush"}}}}'))
  const key = 'engine_settings.precision'
  assert.deepEqual(await run(context, 'config-get', '--key', key), { value: { key, value: 4 } })
  const none = await run(context, 'config-get', '--key', 'engine_settings.precison')
  assert.equal(none.exitCode, 1)
  assert.deepEqual(none.value, { error: 'key not found', key: 'engine_settings.precison', did_you_mean: key })
  assert.deepEqual(await run(context, 'config-set', '--key', key, '--value', '6', '--type', 'int'), {
    value: { key, old: 4, new: 6 },
  })
  const typo = 'engine_settings.precison'
  await assert.rejects(run(context, 'config-set', '--key', typo, '--value', '6'), {
    code: 'UNKNOWN_KEY',
    message: `${typo} is not a known key; did you mean precision?`,
  })
  assert.deepEqual(await run(context, 'config-unset', '--key', key), { value: { key, old: 6, new: 4 } })
  await run(context, 'config-set', '--key', key, '--value', '6')
  assert.deepEqual(await run(context, 'config-unset', key), { value: { key, old: 6, new: 4 } })
  await run(context, 'config-set', '--key', key, '--value', '6')
  // a running gateway says that the value applies from its next start
  assert.deepEqual(await run(fake(config(), { inGateway: true }).context, 'config-set', '--key', key, '--value', '6'), {
    value: { key, old: 4, new: 6, needs_restart: true },
  })
  await assert.rejects(
    run(context, 'config-set', '--key', key, '--value', '11', '--type', 'int'),
    code('CONFIG_INVALID'),
  )
  // the command line fills in the value read from stdin
  await assert.rejects(run(context, 'config-set', '--key', key), code('USAGE'))
  await assert.rejects(run(context, 'config-set', '--key', key, '--value-stdin'), code('USAGE'))
  const whole = JSON.stringify((await run(context, 'config-show')).value)
  assert.ok(whole.includes('"precision":6') && !whole.includes('hush'))
  const part = await run(context, 'config-show', '--section', 'Client_Core')
  assert.deepEqual(part.value, { Client_Core: { server_host: '127.0.0.1', server_port: 8080 } })
  const keys = await run(context, 'config-show', '--keys', '--section', 'engine_settings')
  assert.ok((keys.value?.keys as { key: string }[] | undefined)?.some(row => row.key === key))
  assert.equal((await run(context, 'config-show', '--section', 'nothing')).exitCode, 1)
})

test('status is that of the running gateway, or is read from the files in the same form', async () => {
  const inside = await run(fake(config(), { inGateway: true }).context, 'status')
  assert.deepEqual(inside.value, STATUS)
  const outside = await run(fake(config('{"device_id": "gw", "assigned_id": 5}')).context, 'status')
  for (const key of Object.keys(STATUS)) assert.ok(key in (outside.value ?? {}), key)
  assert.deepEqual(outside.value?.identity, { device_id: 'gw', assigned_id: 5 })
  assert.deepEqual(outside.value?.links, {})
  assert.deepEqual(outside.value?.log, STATUS.log)
})

test('status shows why a link is down, and for a working link its last error', () => {
  const up = {
    state: 'up',
    last_error: 'unplugged',
    last_error_at: Date.now() - 5000,
    delivery: null,
    rx: 1,
    tx: 2,
    errors: 3,
  }
  const value = {
    ...STATUS,
    links: {
      ...STATUS.links,
      wire: up,
      calm: { ...up, last_error: undefined },
      chips: { state: 'absent', reason: 'no hwmon sensors on this machine', delivery: null, rx: 0, tx: 0, errors: 0 },
    },
    attention: [
      { device_id: 'gw', sensor_id: 'level', status: 'ERROR', reason: 'no answer from slave 7', at: 1 },
      { device_id: 'pump', status: 'ALARM', at: 1 },
    ],
    identity: { device_id: 'gw', assigned_id: 4_294_967_295, refused: 'ID_QUOTA' },
    via: 'gateway',
  }
  const lines = parseCommand(VERBS, ['status']).verb.text!(value as never, plain).split('\n')
  const line = (name: string) => lines.find(text => text.startsWith(name))
  assert.equal(line('no id'), 'no id: the upstream answers ID_QUOTA; readings stay in the log')
  assert.match(line('cloud')!, / no answer$/)
  assert.match(line('wire')!, / 3 +last error ([5-9]|\d\d+) s ago: unplugged$/)
  assert.match(line('calm')!, / 3$/)
  // a sensor that this machine lacks is grey and no fault
  assert.match(line('chips')!, /^chips +not present .*no hwmon sensors/)
  assert.equal(line('level'), 'level of gw: ERROR (no answer from slave 7)')
  assert.equal(line('pump'), 'pump: ALARM')
})

test('log verify of a damaged log is exit 4; log export starts at the requested position', async () => {
  const { context } = fake(config())
  assert.equal((await run(context, 'log', 'verify')).exitCode, 0)
  const found = {
    ...{ ok: false, records: 9, first_seq: 1, last_seq: 9, damaged: 4, lost: 2 },
    pieces: [{ file: 'chain.json', offset: 0, length: 0 }],
    gaps: [
      { reason: 'damaged', from: 3, to: 5, records: 3 },
      { reason: 'damaged', from: 8, to: 8, records: 1 },
      { reason: 'dropped', from: 1, to: 2, records: 2 },
    ] as const,
  }
  const damaged = { ...context, log: { ...context.log, verify: async () => found } }
  const { exitCode, value } = await run(damaged, 'log', 'verify')
  assert.deepEqual([exitCode, value?.gaps], [4, found.gaps])
  assert.equal(
    VERBS.find(({ name }) => name === 'log verify')!.text!(value!, plain),
    [
      'the log is damaged: 9 records; lost 4 to damage, 2 to the limits of log and RAM',
      'damaged: chain.json',
      'damaged: records 3-5, 8 are lost',
      'dropped: records 1-2 are lost',
    ].join('\n'),
  )
  const { rows } = await run(context, 'log', 'export', '--from', '5')
  const seqs: unknown[] = []
  for await (const row of rows ?? []) seqs.push((row as { seq: number }).seq)
  assert.deepEqual(seqs, [5, 6, 7])
})

test('run and serve pass on their options and run until they are stopped', async () => {
  const { context, calls, printed } = fake(config())
  assert.equal((await run(context, 'run', '--host', 'h', '--port', '1')).exitCode, 0)
  await run(context, 'serve', '--port', '2', '--web-port', '3')
  await run(context, 'run')
  await run(context, 'run', '--lan', '--port', '4')
  assert.deepEqual(calls, [
    ['startGateway', 'run', { host: 'h', webPort: 1 }],
    ['startGateway', 'serve', { port: 2, webPort: 3 }],
    ['startGateway', 'run', {}],
    ['startGateway', 'run', { host: '0.0.0.0', lan: true, webPort: 4 }],
  ])
  await assert.rejects(run(context, 'run', '--lan', '--host', '192.0.2.1'), { code: 'USAGE' })
  const open = fake(config('{"web_user": {"auth_enabled": false}}'))
  await assert.rejects(run(open.context, 'run', '--lan'), { code: 'CONFIG_INVALID' })
  assert.deepEqual(open.calls, [])
  assert.match(printed[0] ?? '', /"ok":true,"role":"run".*"url"/)
  assert.match(printed[1] ?? '', /look at http/)
})

test('serve reports once which uplinks and sources of the file it ignores; run, and a file without any, report nothing', async () => {
  const told = async (verb: string, gateway: object): Promise<string[]> => {
    const lines: string[] = []
    const logger = { ...silentLogger, warn: (line: string) => void lines.push(line) }
    await run(fake(config(JSON.stringify({ gateway })), { logger }).context, verb)
    return lines
  }
  const uplinks = [{ name: 'cloud', medium: 'UDP', host: '10.0.0.9', port: 9 }]
  const sources = [
    { name: 'air', type: 'host' },
    { name: 'cellar', type: 'host' },
  ]
  assert.deepEqual(await told('serve', { uplinks, sources }), [
    'serve ignores gateway.uplinks (cloud) and gateway.sources (air, cellar): os-node run opens them',
  ])
  assert.deepEqual(await told('serve', { sources }), [
    'serve ignores gateway.sources (air, cellar): os-node run opens them',
  ])
  for (const none of [{}, { uplinks: [], sources: [] }]) assert.deepEqual(await told('serve', none), [])
  assert.deepEqual(await told('run', { uplinks, sources }), [])
})

test('token requires --new', async () => {
  const { context } = fake(config())
  assert.equal((await run(context, 'token', '--new')).value?.token, 'a-new-token')
  await assert.rejects(run(context, 'token'), code('USAGE'))
})

test('a gateway runs requests by name or command line, validates their options, and starts no second gateway', async () => {
  const { context } = fake(config(), { inGateway: true })
  const byName = await runRequest(context, { id: 1, command: 'config-get', options: { key: 'device_id' } })
  assert.deepEqual(byName, { result: { key: 'device_id', value: '', via: 'gateway' }, exitCode: 0 })
  const byLine = await runRequest(context, { id: 1, argv: ['config-get', '--key', 'device_id'] })
  assert.deepEqual(byLine, byName)
  for (const request of [
    { id: 1, command: 'run', options: {} },
    { id: 1, argv: ['serve'] },
    { id: 1, command: 'nothing', options: {} },
    { id: 1, command: 'status now', options: {} },
    { id: 1, command: 'status', options: { verbose: true } },
    { id: 1, command: 'config-get', options: { key: 5 } },
    { id: 1, command: 'config-get', options: {} },
    { id: 1, command: 'status', options: JSON.parse('{"__proto__": 1}') },
  ]) {
    await assert.rejects(runRequest(context, request), code('USAGE'), JSON.stringify(request))
  }
  assert.equal((await runRequest(context, { id: 1, command: 'log export', options: { from: 1 } })).result, undefined)
})

test('source test shows raw bytes, values and reasons; a sensor without a value is exit 1', async () => {
  const { context, calls } = fake(config())
  const { value, exitCode } = await run(context, 'source', 'test', 'boiler')
  assert.deepEqual(calls, [['test', 'boiler']])
  assert.equal(exitCode, 1)
  const text = parseCommand(VERBS, ['source', 'test', 'x']).verb.text!(value!, plain)
  assert.match(text, /^boiler \(modbus_rtu\), 12 ms\n/)
  assert.match(text, /\nt +02 7a +OK +63\.4 +°C\n/)
  assert.match(text, /\nr +- +ERROR +- +no answer from slave 7$/)
  assert.equal((await run(context, 'source', 'test', 'cellar')).exitCode, 0)
})

test('source list shows the states of a running gateway', async () => {
  const { value } = await run(fake(config()).context, 'source', 'list')
  const text = parseCommand(VERBS, ['source', 'list']).verb.text!(value!, plain)
  assert.match(text, /\nboiler +modbus_rtu +down +1 s +no such port\ncellar +bme280 +not running$/)
})
