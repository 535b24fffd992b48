// What is refused when a configuration is written, before any of its links opens: units, sensor ids, limits of the drivers.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { HOST_TYPES } from '../../../../drivers/host'
import { configSet } from '../../../../src/commands/verbs/config'
import { repairConfig } from '../../../../src/commands/verbs/repair'
import { ConfigStore } from '../../../../src/config'
import { adviseOn, checkLinks, linkProblems, unknownLinkOptions } from '../../../../src/gateway/guard/check-links'
import { unitWarnings } from '../../../../src/gateway/guard/check-sensors'
import { SensorIds } from '../../../../src/gateway/intake/sensor-ids'
import { fragments, mediaTable, sourceTable } from '../../../../src/index'
import { OsError } from '../../../../src/lib/errors'
import { MOST_BYTES } from '../../../../src/lib/files'
import { silentLogger } from '../../../../src/lib/logger'
import { Registry } from '../../../../src/links/registry'
import { bytesText } from '../../../../src/units/display'
import { webConfig } from '../../../../src/web/from-gateway'
import { CONFIG } from '../../../../src/web/routes/config'

const registry = new Registry({ sources: sourceTable })

const dir = mkdtempSync(join(tmpdir(), 'check-links-'))
after(() => rmSync(dir, { recursive: true, force: true }))

const configOf = (sources: object[]) => {
  const path = join(dir, 'Config.json')
  writeFileSync(path, JSON.stringify({ device_id: 'GW', gateway: { sources, uplinks: [] } }))
  return ConfigStore.load({ path, env: {}, cwd: dir, keep: false }).config
}

const tank = (name: string, more: object = {}, id = 'level') => ({
  ...{ name, type: 'modbus_tcp', host: '192.0.2.1' },
  registers: [{ id, address: 1, unit: '%', ...more }],
})

const refused = (sources: object[], before: object[] = []): Promise<OsError> =>
  checkLinks(configOf(before), configOf(sources), registry).then(
    () => assert.fail('it was taken'),
    (error: OsError) => {
      assert.ok(error instanceof OsError && error.code === 'CONFIG_INVALID', String(error))
      return error
    },
  )

const taken = (sources: object[], before: object[] = []): Promise<void> =>
  checkLinks(configOf(before), configOf(sources), registry)

test('a new configuration in which two sources share a sensor id is refused with a name to use', async () => {
  const { message, hint, details } = await refused([tank('one'), tank('two')], [tank('one')])
  assert.equal(message, 'gateway.sources.1 (two): the sensor id level belongs to one already')
  assert.deepEqual([hint, details.proposed], ['give this sensor the id two_level', 'two_level'])
  // by default ids too: two chips of one type
  const chips = [
    { name: 'air', type: 'bme280', channels: { temperature: { id: 'warm' } } },
    { name: 'room', type: 'sht3x', channels: { temperature: { id: 'warm' } } },
  ]
  assert.match((await refused(chips)).message, /sensor id warm belongs to air/)
  await taken([tank('one'), tank('two', {}, 'two_level')])
  await taken([
    { name: 'air', type: 'bme280' },
    { name: 'room', type: 'bme280', address: 0x77 },
  ])
  // the proposed name is unused: a later source has two_level already
  const third = tank('three', {}, 'two_level')
  assert.equal((await refused([tank('one'), tank('two'), third])).details.proposed, 'two_level_2')
  // a conflict that the file had before does not block other changes
  await taken([tank('one'), tank('two', { scale: 2 })], [tank('one'), tank('two')])
})

test('sources with sensors known by their type are refused as well: cpu, memory, uptime, disk, and named CAN signals', async () => {
  for (const [type, id] of Object.entries({
    cpu: 'cpu_busy',
    memory: 'mem_total',
    uptime: 'uptime',
    disk: 'disk_root_free',
  })) {
    const both = [
      { name: 'c1', type },
      { name: 'c2', type },
    ]
    const { message, hint, details } = await refused(both, both.slice(0, 1))
    assert.equal(message, `gateway.sources.1 (c2): the sensor id ${id} belongs to c1 already`)
    assert.equal(details.proposed, `c2_${id}`)
    assert.match(hint, /choose other sensors with match, or leave out this source/)
    await taken(both, both)
    assert.match((await linkProblems(configOf(both), registry))[0]!.hint, /choose other sensors with match/)
  }
  await taken([
    { name: 'busy', type: 'cpu', match: 'cpu_busy' },
    { name: 'load', type: 'cpu', match: 'load_*' },
  ])
  const path = { name: 'c1', type: 'disk', paths: ['/mnt/usb'], match: 'disk_mnt*' }
  assert.match((await refused([path, { ...path, name: 'c2' }])).message, /sensor id disk_mnt_usb_free belongs to c1/)
  // usually a data directory is on the root file system, and has no sensors of its own
  const data = { type: 'disk', match: 'disk_data*' }
  await taken([
    { ...data, name: 'one', data_dir: '/var/lib/os-node' },
    { ...data, name: 'two', data_dir: '/mnt/usb' },
  ])
  const can = { type: 'can', interface: 'can0', dbc: '/x.dbc', channels: { Speed: { id: 'speed' } } }
  const cans = [
    { ...can, name: 'a' },
    { ...can, name: 'b' },
  ]
  assert.equal((await refused(cans)).hint, 'give this sensor the id b_speed')
  await taken([cans[0]!, { ...cans[1]!, match: 'Engine.*' }])
})

test('two CAN sources with one DBC file are refused with a name to use; a file that cannot be read, or its units, cause no refusal', async () => {
  const dbc = join(dir, 'engine.dbc')
  writeFileSync(
    dbc,
    [
      'BO_ 1 Engine: 8 X',
      ' SG_ Speed : 0|8@1+ (1,0) [0|0] "furlongs!" X',
      ' SG_ Oil : 8|8@1+ (1,0) [0|0] "bar" X\n',
    ].join('\n'),
  )
  const can = (name: string, more: object = {}) => ({ name, type: 'can', interface: 'can0', dbc, ...more })
  const both = [can('east'), can('west')]
  const { message, hint, details } = await refused(both, both.slice(0, 1))
  assert.equal(message, 'gateway.sources.1 (west): the sensor id Speed belongs to east already')
  assert.deepEqual(
    [hint, details.proposed],
    ['give this sensor the id west_Speed; 1 more sensor id of west clash', 'west_Speed'],
  )
  // a file with the conflict still loads, and the doctor reports it once for each source
  await taken([...both, tank('one')], both)
  assert.deepEqual(
    (await linkProblems(configOf(both), registry)).map(({ text, warns }) => [text, warns]),
    [['west: the sensor id Speed belongs to east already', true]],
  )
  // as the file and the options together name them
  await taken([can('east', { match: 'Oil' }), can('west', { match: 'Speed' })])
  const ids = { Speed: { id: 'west_speed' }, Oil: { id: 'west_oil' } }
  await taken([can('east'), can('west', { channels: ids })])
  assert.match(
    (await refused([tank('one', {}, 'Oil'), can('east')])).message,
    /\(east\): the sensor id Oil belongs to one/,
  )
  // nothing to compare: no such file, a file without messages, a pattern that matches no signal
  writeFileSync(join(dir, 'empty.dbc'), '')
  for (const none of [{ dbc: join(dir, 'none.dbc') }, { dbc: join(dir, 'empty.dbc') }, { match: 'Tyre' }])
    await taken([can('east', none), can('west', none)])
})

test('a LoRa link that the regulation or the chip forbids is refused when it is written, with the error of its opening', async () => {
  const media = new Registry({ sources: sourceTable, media: mediaTable })
  const radio = (gateway: object, lora: object = {}) => {
    const path = join(dir, 'radio.json')
    const RESOURCES = { physical_config: { lora } }
    writeFileSync(path, JSON.stringify({ device_id: 'GW', RESOURCES, gateway: { sources: [], ...gateway } }))
    return ConfigStore.load({ path, env: {}, cwd: dir, keep: false, fragments: fragments() }).config
  }
  const link = (more: object = {}) => ({ name: 'l', medium: 'LoRa', spi: '/dev/spidev0.0', ...more })
  const none = radio({ uplinks: [] })
  const law = { code: 'CONFIG_INVALID', hint: /^set bandwidth_khz to 500/ }
  const us = { region: 'US915', bandwidth_khz: 125 }
  for (const kind of ['uplinks', 'receivers']) {
    const next = radio({ uplinks: [], [kind]: [link(us)] })
    const message = /^gateway\.\w+\.0 \(l\): US915: one fixed channel of 125 kHz: FCC 15\.247 \(a\)\(1\)\(i\)/
    await assert.rejects(checkLinks(none, next, media), { ...law, message })
    const [problem] = await linkProblems(next, media)
    assert.match(problem!.text, /^l: US915: one fixed channel of 125 kHz: FCC 15\.247/)
    assert.equal(problem!.warns, false)
    // it does not block a change of other keys
    await checkLinks(next, radio({ uplinks: [], [kind]: [link(us), link({ name: 'm' })] }), media)
  }
  const power = radio({ uplinks: [link({ power_dbm: 20 })] })
  await assert.rejects(checkLinks(none, power, media), { message: /LoRa power_dbm: 20 dBm and 2 dBi are 22 dBm EIRP/ })
  await checkLinks(none, radio({ uplinks: [link({ ...us, bandwidth_khz: 500 })] }), media)
  // the settings of the bus are also its own
  const uplinks = [link()]
  await assert.rejects(checkLinks(radio({ uplinks }), radio({ uplinks }, us), media), {
    ...law,
    message: /FCC 15\.247/,
  })
  await checkLinks(radio({ uplinks }), radio({ uplinks }, { ...us, fixed_channel_allowed: true }), media)
})

test('the first source keeps its sensor ids, later ones get the source name as prefix, and unused ids stay as they are', () => {
  const ids = new SensorIds()
  assert.deepEqual(ids.claim('a', ['x', 'y', 'c_x']), [])
  assert.deepEqual(
    ids.claim('b', ['x', 'z']).map(({ id, owner, proposed }) => [id, owner, proposed]),
    [['x', 'a', 'b_x']],
  )
  assert.deepEqual(ids.claim('b', ['x', 'z']), [], 'said once')
  assert.equal(ids.claim('c', ['x'])[0]!.proposed, 'c_x_2', 'c_x is somebody else')
  assert.deepEqual(
    ['x', 'z'].map(id => ids.nameOf('b', id)),
    ['b_x', 'z'],
  )
  assert.equal(ids.claim(`${'n'.repeat(64)} ö`, ['y'])[0]!.proposed.length, 64)
  ids.release('a')
  assert.deepEqual(ids.claim('d', ['x']), [], 'free again')
  assert.equal(ids.nameOf('b', 'x'), 'b_x', 'nothing of it changes while it runs')
})

test('an unknown unit is refused by every type of source, with the nearest known one', async () => {
  const { message, hint } = await refused([tank('one', { unit: 'Cell' })])
  assert.match(message, /gateway\.sources\.0 \(one\): registers\.0\.unit: "Cell" is not a known unit/)
  assert.match(hint, /did you mean Cel\?/)
  // one letter is equally near to any other
  assert.match((await refused([tank('one', { unit: 'c' })])).hint, /^did you mean C\?|^units are/)
  const unit = 'furlongs!'
  for (const source of [
    { name: 's', type: 'bme280', channels: { temperature: { unit } } },
    { name: 's', type: 'ads1115', inputs: [{ id: 'a', input: 'A0', unit }] },
    { name: 's', type: 'w1', sensors: [{ device: '28-0316a2795fff', id: 'a', unit }] },
    { name: 's', type: 'gpio', pins: [{ chip: 'gpiochip0', line: 1, name: 'a', mode: 'counter', unit }] },
    { name: 's', type: 'line', port: '/dev/ttyS0', pattern: '(?<a>\\d+)', channels: { a: { unit } } },
    { name: 's', type: 'nmea', port: '/dev/ttyS0', channels: { speed: { unit } } },
    { name: 's', type: 'can', interface: 'can0', dbc: '/x.dbc', channels: { a: { unit } } },
    { name: 's', type: 'bthome', address: 'a4:c1:38:8d:18:b2', channels: { temperature: { unit } } },
    { name: 's', type: 'modbus_rtu', port: '/dev/ttyS0', slave: 1, registers: [{ id: 'a', address: 1, unit }] },
  ])
    assert.match((await refused([source])).message, /"furlongs!" is not a known unit/, source.type)
  await taken([
    tank('one', { unit: 'Cel' }),
    tank('two', { unit: 'l/min' }, 'flow'),
    tank('three', { unit: '{pulses}' }, 'n'),
  ])
})

test('options unknown to a driver are refused in every type of source with the nearest name', async () => {
  const problem = (type: string) => checkLinks(configOf([]), configOf([{ name: 's', type, junkz: 5 }]), registry)
  for (const type of Object.keys(sourceTable))
    await assert.rejects(problem(type), { code: /UNKNOWN_KEY|CONFIG_INVALID/, message: /junkz/ }, type)
  for (const type of HOST_TYPES) await assert.rejects(problem(type), { code: 'UNKNOWN_KEY', message: /junkz/ }, type)
  const near = configOf([{ name: 's', type: 'cpu', intervl_ms: 500 }])
  await assert.rejects(checkLinks(configOf([]), near, registry), { message: /intervl_ms: .* mean interval_ms\?/ })
})

test('an option that no source has is refused with the names that every source has, and its code is UNKNOWN_KEY whatever else is wrong', async () => {
  const problem = (entry: object) =>
    checkLinks(configOf([]), configOf([{ name: 's', type: 'cpu', ...entry }]), registry)
  const code = 'UNKNOWN_KEY'
  await assert.rejects(problem({ nmae: 'x' }), { code, message: /nmae: no such option; did you mean name\?/ })
  await assert.rejects(problem({ deadbnad: {} }), { code, message: /did you mean deadband\?/ })
  await assert.rejects(problem({ junkz: 1 }), { code, message: /there are name, type, deadband, match, interval_ms/ })
  const wrong = { ...tank('s'), host: undefined, hots: '192.0.2.1' }
  await assert.rejects(problem(wrong), { code, message: /host: is required.*hots: .*did you mean host\?/ })
  await assert.rejects(problem({ intervl_ms: 5, match: 3 }), { code, message: /match: must be a text/ })
  // it cannot be created: for the doctor that is more than a warning
  const found = (entry: object) => linkProblems(configOf([entry]), registry)
  assert.equal((await found(wrong))[0]!.warns, false)
  const [unknown] = await found({ name: 's', type: 'cpu', nmae: 'x' })
  assert.equal(unknown!.warns, true)
  const { path, text } = (await unknownLinkOptions(configOf([{ name: 's', type: 'cpu', nmae: 'x' }]), registry))[0]!
  assert.deepEqual([path.join('.'), text], ['gateway.sources.0.nmae', 'no such option; did you mean name?'])
})

test('repair-config --unknown removes keys that the drivers do not know, and keeps one .bak', async () => {
  const path = join(dir, 'strange.json')
  const sources = [{ name: 'c', type: 'cpu', every_s: 1, intervl_ms: 5 }, tank('one', { junk: 1, unit: 'Cel' })]
  const text = JSON.stringify({ device_id: 'GW', mine: 1, gateway: { sources, uplinks: [] } })
  writeFileSync(path, text)
  const config = ConfigStore.load({ path, env: {}, cwd: dir, keep: false })
  config.unknown = () => unknownLinkOptions(config.config, registry)
  const { value } = await repairConfig.run({ config, logger: silentLogger } as never, { unknown: true })
  assert.deepEqual(
    value!.repaired.map(({ key }) => key),
    ['mine', 'gateway.sources.0.every_s', 'gateway.sources.0.intervl_ms', 'gateway.sources.1.registers.0.junk'],
  )
  assert.equal(value!.backup, `${path}.bak`)
  assert.equal(readFileSync(`${path}.bak`, 'utf8'), text)
  assert.equal(existsSync(`${path}.bak2`), false)
  assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')).gateway.sources, [
    { name: 'c', type: 'cpu' },
    tank('one', { unit: 'Cel' }),
  ])
  assert.deepEqual(await config.unknown(), [])
})

test('an existing path that is no regular file is refused when it is configured, in every option', async () => {
  const fifo = join(dir, 'fifo')
  execFileSync('mkfifo', [fifo])
  symlinkSync(fifo, join(dir, 'link'))
  writeFileSync(join(dir, 'file'), 'x')
  writeFileSync(join(dir, 'large'), '')
  truncateSync(join(dir, 'large'), MOST_BYTES + 1)
  const path = join(dir, 'files.json')
  writeFileSync(
    path,
    JSON.stringify({ device_id: 'GW', gateway: { sources: [], uplinks: [{ name: 'up', medium: 'TCP' }] } }),
  )
  const config = ConfigStore.load({ path, env: {}, cwd: dir, keep: false, fragments: fragments() })
  config.approve = next => checkLinks(config.config, next, new Registry({ sources: sourceTable, media: mediaTable }))
  const set = (key: string, value: unknown) => config.approved(limits => config.setting(key, value, undefined, limits))
  const at: [string, (file: string) => [string, unknown]][] = [
    ['gateway.sources.0.dbc', dbc => ['gateway.sources.0', { name: 's', type: 'can', interface: 'can0', dbc }]],
    ['web_user.tls.cert', cert => ['web_user.tls', { cert, key: join(dir, 'file') }]],
    ['web_user.tls.key', key => ['web_user.tls', { cert: join(dir, 'none'), key }]],
    ...['ca', 'cert', 'key', 'client_ca'].map((name): [string, (file: string) => [string, unknown]] => [
      `gateway.uplinks.0.tls.${name}`,
      file => ['gateway.uplinks.0.tls', { [name]: file }],
    ]),
    ['RESOURCES.application_config.mqtt.tls.ca', ca => ['RESOURCES.application_config.mqtt.tls', { ca }]],
    [
      'RESOURCES.service_plugins.port_forwarder.rules_file',
      file => ['RESOURCES.service_plugins.port_forwarder.rules_file', file],
    ],
    ...[
      'security_settings.secure_session_store',
      ...['password_file', 'tls_ca', 'tls_cert', 'tls_key'].map(name => `storage.sql.driver.${name}`),
    ].map((key): [string, (file: string) => [string, unknown]] => [key, file => [key, file]]),
  ]
  for (const [key, edit] of at) {
    for (const file of [fifo, join(dir, 'link'), dir, '/dev/null'])
      await assert.rejects(set(...edit(file)), {
        code: 'CONFIG_INVALID',
        message: `${key}: E_NOT_REGULAR: ${file} is no regular file`,
      })
    await assert.rejects(set(...edit(join(dir, 'large'))), {
      message: `${key}: E_TOO_LARGE: ${join(dir, 'large')} is larger than ${bytesText(MOST_BYTES)}`,
    })
    await set(...edit(join(dir, 'none')))
    await set(...edit(join(dir, 'file')))
  }
  for (const key of ['plugins.dir', 'storage.sql.driver.path']) {
    for (const file of [fifo, join(dir, 'link'), join(dir, 'file'), '/dev/null'])
      await assert.rejects(set(key, file), { code: 'CONFIG_INVALID', message: `${key}: ENOTDIR: ${file} is no folder` })
    await set(key, join(dir, 'none'))
    await set(key, dir)
  }
  await set('storage.sql.driver.path', ':memory:')
})

test('the unit C causes one warning when it is written', async () => {
  const path = join(dir, 'coulomb.json')
  writeFileSync(path, JSON.stringify({ device_id: 'GW', gateway: { sources: [], uplinks: [] } }))
  const config = ConfigStore.load({ path, env: {}, cwd: dir, keep: false })
  adviseOn(config, registry)
  const lines: string[] = []
  const logger = { warn: (text: string) => lines.push(text) }
  const set = (value: object) =>
    configSet.run({ config, logger, via: 'local' } as never, {
      key: 'gateway.sources[0]',
      value: JSON.stringify(value),
    })
  await set(tank('one', { unit: 'C' }, 'water_temp'))
  assert.deepEqual(lines, ['source one, registers.0.unit: C is the coulomb; degrees Celsius are Cel'])
  await set({ ...tank('one', { unit: 'C' }, 'water_temp'), interval_ms: 500 })
  assert.equal(lines.length, 1)
  // the answer of PUT /api/config has the same warning
  const [, put] = CONFIG
  const web = { config: webConfig(config) }
  const body = { key: 'gateway.sources.1', value: tank('two', { unit: 'C' }, 'room_temp') }
  const answer = (await put!.run({ context: web, body } as never)) as { warnings?: string[] }
  assert.deepEqual(answer.warnings, ['source two, registers.0.unit: C is the coulomb; degrees Celsius are Cel'])
  assert.equal('warnings' in ((await put!.run({ context: web, body } as never)) as object), false)
  // and that of PUT /api/options, which the page sends
  const options = CONFIG.find(({ method, path }) => method === 'PUT' && path === '/api/options')!
  const updates = [{ key: 'gateway.sources.1', value: tank('three', { unit: 'C' }, 'room_temp') }]
  const saved = (await options.run({ context: web, body: { updates } } as never)) as { warnings?: string[] }
  assert.deepEqual(saved.warnings, ['source three, registers.0.unit: C is the coulomb; degrees Celsius are Cel'])
})

test('C for what looks like a thermometer causes a warning; elsewhere it is the coulomb', () => {
  assert.deepEqual(unitWarnings(tank('one', { unit: 'C' }, 'water_temp')), [
    'source one, registers.0.unit: C is the coulomb; degrees Celsius are Cel',
  ])
  assert.equal(unitWarnings({ name: 'x', type: 'bme280', channels: { temperature: { unit: 'C' } } } as never).length, 1)
  assert.deepEqual(unitWarnings(tank('battery', { unit: 'C' }, 'charge')), [])
  assert.deepEqual(unitWarnings(tank('one', { unit: 'Cel' }, 'water_temp')), [])
})

test('limits that only the driver knows are checked when the configuration is written, and the doctor reports all of them', async () => {
  assert.match(
    (await refused([{ ...tank('one'), timeout_ms: 5 }])).message,
    /\(one\): options of one: timeout_ms: .* 10\b/,
  )
  assert.match((await refused([{ name: 'b', type: 'ina219', max_current_a: 5 }])).message, /more than 0\.32 V/)
  const problems = await linkProblems(
    configOf([{ ...tank('one'), timeout_ms: 5 }, tank('two', { unit: 'C' }, 'temp'), tank('three', {}, 'temp')]),
    registry,
  )
  assert.deepEqual(
    problems.map(({ kind, text, warns = false }) => [kind, warns, text.replace(/ \d+.*/, '')]),
    [
      ['sources', false, 'one: options of one: timeout_ms: must be at least'],
      ['sources', true, 'three: the sensor id temp belongs to two already'],
      ['sources', true, 'source two, registers.0.unit: C is the coulomb; degrees Celsius are Cel'],
    ],
  )
})
