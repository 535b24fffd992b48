// How the configuration is found and loaded: the search order, errors with their line, the last good copy, secrets, reload.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { defaultText } from '../../../src/config/default-text'
import { copyPaths } from '../../../src/config/read'
import { OsError } from '../../../src/lib/errors'
import { realFiles } from '../../../src/lib/files'
import { fails, place, root } from './config-store-world'

test('the Config.json of the project contains every default in the house order', () => {
  const text = readFileSync(join(process.env.OS_NODE_TEST_ROOT ?? '.', 'Config.json'), 'utf8')
  assert.equal(text, defaultText())
  const store = place(text).load()
  assert.deepEqual(store.warnings, [])
  assert.equal(store.problem, undefined)
})

test('without a file the defaults apply, and the first set writes the complete file', () => {
  const { file, load, cwd } = place()
  const store = load()
  assert.equal(store.get('assigned_id'), 4294967295)
  assert.equal(store.get('RESOURCES.service_plugins.web_user.port'), 8765)
  assert.equal(store.get('gateway.log.commit_interval_ms'), 1000)
  assert.equal(store.dataDir, join(cwd, 'data'))
  assert.ok(!existsSync(file))
  store.set('assigned_id', 7)
  assert.equal(readFileSync(file, 'utf8'), defaultText().replace('4294967295', '7'))
})

test('an explicitly named path must exist; OS_NODE_CONFIG and --data-dir are followed', () => {
  const { cwd, load } = place()
  fails(() => load({ path: 'no.json' }), 'CONFIG_SYNTAX', /no\.json: no such file/)
  fails(() => load({ env: { OS_NODE_CONFIG: '/nowhere/c.json' } }), 'CONFIG_SYNTAX', /nowhere/)
  writeFileSync(join(cwd, 'other.json'), '{"device_id": "D"}')
  const store = load({ env: { OS_NODE_CONFIG: 'other.json' }, dataDir: 'store' })
  assert.equal(store.get('device_id'), 'D')
  assert.equal(store.dataDir, join(cwd, 'store'))
})

test('the search order is --config, OS_NODE_CONFIG, ./data/Config.json, ./Config.json; data is stored in ./data either way', () => {
  const { cwd, load } = place('{"device_id": "here"}')
  mkdirSync(join(cwd, 'data'))
  assert.equal(load().get('device_id'), 'here')
  writeFileSync(join(cwd, 'data/Config.json'), '{"device_id": "data"}')
  for (const name of ['env', 'named']) writeFileSync(join(cwd, `${name}.json`), `{"device_id": "${name}"}`)
  const env = { OS_NODE_CONFIG: 'env.json' }
  assert.equal(load({ env, path: 'named.json' }).get('device_id'), 'named')
  assert.equal(load({ env }).get('device_id'), 'env')
  for (const options of [{}, { path: 'data/Config.json' }, { path: join(cwd, 'data/Config.json'), cwd: root }]) {
    const store = load(options)
    assert.equal(store.get('device_id'), 'data')
    assert.equal(store.dataDir, join(cwd, 'data'))
    assert.equal(store.baseDir, cwd, 'relative paths count from where they did before the copy')
  }
  // a folder that already stores its data one level deeper keeps doing so
  mkdirSync(join(cwd, 'data/data'))
  assert.equal(load({ path: 'data/Config.json' }).dataDir, join(cwd, 'data/data'))
})

test('in the project folder the first command that writes copies the tracked Config.json to data/', () => {
  const edited = '{"device_id": "gw-1", "assigned_id": 7 /* mine */}\n'
  const { cwd, file, load, lines } = place(edited)
  const own = join(cwd, 'data/Config.json')
  writeFileSync(join(cwd, 'package.json'), '{"name": "other"}')
  assert.equal(load({ keep: false }).path, file, 'the Config.json of another project is the configuration itself')
  writeFileSync(join(cwd, 'package.json'), '{"name": "os-node"}')
  mkdirSync(join(cwd, '.git'))
  const looks = load({ keep: false })
  assert.equal(looks.get('device_id'), 'gw-1')
  assert.equal(looks.dataDir, join(cwd, 'data'))
  assert.ok(!existsSync(own), 'a command that only looks makes no file')
  for (const options of [{ path: 'data/Config.json', dataDir: 'data' }, {}, { env: { OS_NODE_CONFIG: own } }]) {
    rmSync(join(cwd, 'data'), { recursive: true, force: true })
    const store = load(options)
    assert.equal(store.path, own)
    assert.equal(readFileSync(own, 'utf8'), edited, 'edits and identity are included')
    store.set('device_id', 'gw-2')
    assert.equal(readFileSync(file, 'utf8'), edited, 'the tracked file stays as it is')
    assert.equal(load(options).get('device_id'), 'gw-2')
  }
  assert.match(lines.join(''), /git checkout -- Config\.json/)
  // another missing file is still an error
  fails(() => load({ path: 'other/Config.json' }), 'CONFIG_SYNTAX', /no such file/)
})

test('when the project folder is read-only, the tracked file is used and a warning says so', () => {
  const { cwd, file, load, lines } = place('{"device_id": "gw-1"}')
  writeFileSync(join(cwd, 'package.json'), '{"name": "os-node"}')
  const files = { ...realFiles, mkdir: () => assert.fail(Object.assign(new Error('EROFS'), { code: 'EROFS' })) }
  assert.equal(load({ files, dataDir: root }).path, file)
  assert.match(lines.join(''), /WARN .*data\/Config\.json could not be written \(EROFS\)/)
})

test('a syntax error names file, line and column', () => {
  const { file, load } = place('{\n  "device_id": "x",\n  "engine_settings": { "precision": 4,, }\n}\n')
  const error = fails(load, 'CONFIG_SYNTAX', /Config\.json:3:\d+: /)
  assert.equal(error.details.line, 3)
  assert.equal(error.details.file, file)
  fails(place('{"a": 1, "a": 2}').load, 'CONFIG_SYNTAX', /"a" is there twice/)
  fails(place('[1]').load, 'CONFIG_SYNTAX', /one object/)
  fails(place('{"__proto__": {"x": 1}}').load, 'CONFIG_SYNTAX', /__proto__/)
  fails(place('{"assigned_id": 1e999}').load, 'CONFIG_SYNTAX', /too large/)
})

test('an invalid value is reported with key, line, the value and what is allowed', () => {
  const text = '{\n  "engine_settings": {\n    "precision": 11\n  }\n}'
  const error = fails(
    place(text).load,
    'CONFIG_INVALID',
    /Config\.json:3: engine_settings\.precision must be a whole number 0–10, not 11/,
  )
  assert.equal(error.details.key, 'engine_settings.precision')
  assert.equal(error.details.line, 3)
  for (const [wrong, said] of [
    [
      '{"gateway": {"uplinks": [{"name": "a", "medium": "UDP", "port": 70000}]}}',
      /gateway\.uplinks\.0\.port must be a whole number 0–65535/,
    ],
    ['{"gateway": {"uplinks": [{"medium": "UDP"}]}}', /gateway\.uplinks\.0: name is missing/],
    [
      '{"gateway": {"uplinks": [{"name": "a", "medium": "UDP"}], "receivers": [{"name": "a", "medium": "UDP"}]}}',
      /receivers\.0\.name must be a name that no other/,
    ],
    ['{"RESOURCES": {"transport_status": {"udp": "yes"}}}', /transport_status\.udp must be true or false/],
    ['{"web_user": {"tls": "on"}}', /web_user\.tls must be "off" or "self_signed" or an object with cert, key/],
    ['{"storage": {"sql": {"dialect": "oracle"}}}', /"sqlite" or "mysql" or "postgresql"/],
    ['{"storage": 5}', /storage must be an object, not 5/],
    ['{"assigned_id": -1}', /assigned_id must be a whole number 0–4294967295/],
  ] as const) {
    fails(place(wrong).load, 'CONFIG_INVALID', said)
  }
})

test('an invalid secret is not printed in the error about it', () => {
  const error = fails(
    place('{"storage": {"sql": {"driver": {"password": 12345}}}}').load,
    'CONFIG_INVALID',
    /password must be a text/,
  )
  assert.doesNotMatch(error.message, /12345/)
})

test('R6: every prefix of a new file loads the old or the new configuration, never the defaults', () => {
  const old = '{ "device_id": "OLD", "assigned_id": 5 }\n'
  const next = '{ "device_id": "NEW", "assigned_id": 6,\n  "engine_settings": { "precision": 2 } }\n'
  const { file, load } = place(old)
  assert.equal(load().get('device_id'), 'OLD')
  for (let length = 0; length <= next.length; length++) {
    writeFileSync(file, next.slice(0, length))
    const store = load({ keep: false })
    const whole = length >= next.trimEnd().length
    assert.equal(store.get('device_id'), whole ? 'NEW' : 'OLD', `prefix of ${length}`)
    assert.equal(store.get('assigned_id'), whole ? 6 : 5)
    assert.equal(store.problem === undefined, whole)
  }
  rmSync(file)
  assert.equal(load().get('device_id'), 'OLD', 'a file that vanished')
})

test('every good load is kept as a copy; a broken file is logged as an error and refuses set', () => {
  const { cwd, file, load, lines } = place('{"device_id": "A"}')
  load()
  assert.equal(readFileSync(copyPaths(join(cwd, 'data'))[0], 'utf8'), '{"device_id": "A"}')
  writeFileSync(file, '{"device_id": ')
  const store = load()
  assert.equal(store.problem?.code, 'CONFIG_SYNTAX')
  assert.match(lines.join(''), /ERROR.*Config\.json:1:\d+.*the configuration in use is .*last-good/)
  fails(() => store.set('device_id', 'B'), 'CONFIG_SYNTAX', /Config\.json:1/)
  assert.equal(readFileSync(file, 'utf8'), '{"device_id": ')
  writeFileSync(file, '{"device_id": "C", "assigned_id": -4}')
  const wrong = load()
  assert.equal(wrong.get('device_id'), 'A')
  wrong.set('assigned_id', 4)
  assert.equal(wrong.problem, undefined, 'a set that mends the file is taken')
  assert.equal(wrong.get('device_id'), 'C')
})

test('a last good copy that the disk refused during the load is written later', () => {
  const { load, lines } = place('{"device_id": "gw-1"}')
  let full = true
  const mkdir = (path: string): void => {
    assert.ok(!full, Object.assign(new Error('full'), { code: 'ENOSPC' }))
    realFiles.mkdir(path)
  }
  const store = load({ files: { ...realFiles, mkdir } })
  assert.match(lines.join(''), /WARN .*config\.last-good\.json could not be written \(ENOSPC\)/)
  const later: (() => void)[] = []
  store.lastGood!.by(write => void later.push(write))
  full = false
  for (const write of later) write()
  assert.match(readFileSync(join(store.dataDir, 'config.last-good.json'), 'utf8'), /gw-1/)
})

test('without a last good copy a broken file is an error, not the defaults', () => {
  fails(place('{"device_id":').load, 'CONFIG_SYNTAX', /Config\.json:1/)
})

test('a power cut that leaves Config.json and its newest copy empty: the copy before it is used, and without one the defaults, and an error names both', () => {
  for (const rest of ['', '\n', '\0'.repeat(40)]) {
    const { cwd, file, load, lines } = place('{"device_id": "A"}')
    const [newest, earlier] = copyPaths(join(cwd, 'data'))
    load().set('device_id', 'B')
    load()
    for (const path of [file, newest]) writeFileSync(path, rest)
    const store = load()
    assert.equal(store.get('device_id'), 'A')
    assert.match(store.problem?.message ?? '', /Config\.json:1:1: the file is empty/)
    assert.match(
      lines.join(''),
      /ERROR.*Config\.json:1:1: the file is empty; the configuration in use is .*config\.earlier\.json until/,
    )
    writeFileSync(earlier, rest)
    const bare = load({ env: { OS_NODE_CONFIG: file } })
    assert.equal(bare.problem?.code, 'CONFIG_SYNTAX')
    assert.match(lines.join(''), /ERROR.*the file is empty; the configuration in use is the built-in defaults until/)
    fails(() => bare.set('device_id', 'C'), 'CONFIG_SYNTAX', /empty/)
    assert.equal(readFileSync(file, 'utf8'), rest, 'the file stays')
    assert.ok(bare.repair().backup)
    assert.equal(load().problem, undefined)
  }
})

test('keep: false does not write to the data directory', () => {
  const { cwd, load } = place('{}')
  load({ keep: false })
  assert.ok(!existsSync(join(cwd, 'data')))
})

test('secrets are masked, and a masked value written back leaves the stored one', () => {
  const uplinks = [
    { name: 'a', medium: 'MQTT', password: 'pa' },
    { name: 'b', medium: 'MQTT', password: 'pb', url: 'mqtt://me:hush@broker' },
  ]
  const { file, load } = place(
    JSON.stringify({
      gateway: { uplinks },
      RESOURCES: { application_config: { own: { password: 'x1' } } },
      mine: { api_key: 'k' },
    }),
  )
  const store = load()
  const shown = JSON.stringify(store.masked())
  for (const secret of ['pa"', 'pb"', 'hush', 'x1', '"k"']) assert.ok(!shown.includes(secret), secret)
  assert.equal(store.masked('RESOURCES.application_config.own.password'), '********')
  store.set('RESOURCES.application_config.own.password', '********')
  assert.equal(store.get('RESOURCES.application_config.own.password'), 'x1')
  const list = store.masked('gateway.uplinks') as unknown[]
  store.update({ gateway: { uplinks: list.reverse() } })
  const stored = JSON.parse(readFileSync(file, 'utf8')).gateway.uplinks
  assert.deepEqual(
    stored.map((up: { password: string }) => up.password),
    ['pb', 'pa'],
  )
  assert.equal(stored[0].url, 'mqtt://me:hush@broker')
  assert.deepEqual(store.set('RESOURCES.application_config.own.password', 'x2'), {
    key: 'RESOURCES.application_config.own.password',
    old: '********',
    new: '********',
    restart: false,
  })
  fails(() => store.set('storage.sql.driver.password', '********'), 'SECRET_NEEDED', /none is stored/)
})

test('reload reports what changed, and keeps the running values when the file is broken', () => {
  const { file, load } = place('{"device_id": "A"}')
  const store = load()
  const told: string[] = []
  store.onChange(changes => told.push(...changes.map(change => change.key)))
  writeFileSync(file, '{"device_id": "B"}')
  assert.deepEqual(
    store.reload().map(change => change.key),
    ['device_id'],
  )
  writeFileSync(file, '{"device_id": 5}')
  assert.deepEqual(store.reload(), [])
  assert.equal(store.get('device_id'), 'B')
  assert.equal(store.problem?.code, 'CONFIG_INVALID')
  assert.deepEqual(told, ['device_id'])
})

test('each key has a row with its meaning, including the keys of plugins', async () => {
  const v = await import('valibot')
  const { int } = await import('../../../src/config/fields')
  const store = place('{"RESOURCES": {"service_plugins": {"relay": {"depth": 9}}}}').load({
    fragments: [
      {
        at: 'RESOURCES.service_plugins.relay',
        schema: v.optional(v.looseObject({ depth: int(3, 'how deep', { max: 9 }) }), {}),
      },
    ],
  })
  assert.equal(store.get('RESOURCES.service_plugins.relay.depth'), 9)
  fails(() => store.set('RESOURCES.service_plugins.relay.depth', 10), 'CONFIG_INVALID', /0–9/)
  const rows = store.rows()
  assert.deepEqual(
    rows.filter(row => row.help === '' && row.type !== 'object').map(row => row.key),
    [],
  )
  const precision = rows.find(row => row.key === 'engine_settings.precision')
  assert.equal(precision?.allowed, 'a whole number 0–10')
  assert.equal(precision?.default, 4)
  assert.equal(rows.find(row => row.key === 'storage.sql.driver.password')?.secret, true)
  assert.equal(store.suggest('engine_settings.precison'), 'engine_settings.precision')
})

test('a mutated file either fails to load or gives a valid configuration', () => {
  let seed = 12345
  const random = (n: number): number => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
    return (seed >>> 8) % n
  }
  const { file, load } = place()
  const text = defaultText()
  for (let k = 0; k < 300; k++) {
    const bytes = Buffer.from(text)
    for (let n = random(4) + 1; n > 0; n--) bytes[random(bytes.length)] = random(256)
    writeFileSync(file, bytes)
    try {
      const store = load({ keep: false, logger: undefined })
      const precision = store.get<number>('engine_settings.precision')
      assert.ok(Number.isInteger(precision) && precision >= 0 && precision <= 10)
    } catch (error) {
      assert.ok(error instanceof OsError && ['CONFIG_SYNTAX', 'CONFIG_INVALID'].includes(error.code), String(error))
    }
  }
})
