// What set and update write: the edited text, edits of other programs, conversion of types, and refused values and disks.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { realFiles } from '../../../src/lib/files'
import { fails, place } from './config-store-world'

test('set keeps comments, formatting and unknown keys', () => {
  const text =
    '{\n    // who we are\n    "device_id": "A", /* short */\n    "mine": {"x": [1,2]},\n    "engine_settings": { "precision": 4 }\n}\n'
  const { file, load, lines } = place(text)
  const store = load()
  assert.match(lines.join(''), /Config\.json:4: mine is not a known key/)
  const change = store.set('engine_settings.precision', '6', 'int')
  assert.deepEqual(change, { key: 'engine_settings.precision', old: 4, new: 6, restart: true })
  store.set('gateway.time.hold_unsynced_s', 10)
  const now = readFileSync(file, 'utf8')
  assert.ok(now.startsWith(text.slice(0, text.indexOf('"engine_settings"')).trimEnd()))
  assert.match(now, /"precision": 6/)
  assert.equal(store.get('mine.x.1'), 2)
  assert.equal(load().get('gateway.time.hold_unsynced_s'), 10)
})

test('an edit that another program made in the meantime is preserved', () => {
  const { file, load } = place('{"device_id": "A", "assigned_id": 1}')
  const store = load()
  writeFileSync(file, '{"device_id": "B", "assigned_id": 1}')
  store.set('assigned_id', 2)
  assert.equal(store.get('device_id'), 'B')
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { device_id: 'B', assigned_id: 2 })
})

test('an edit between read and save makes set start over', () => {
  const { file, load } = place('{"device_id": "A"}')
  let reads = 0
  const files = {
    ...realFiles,
    read: (path: string) => {
      const bytes = realFiles.read(path)
      if (path === file && ++reads === 2) writeFileSync(file, '{"device_id": "B"}')
      return bytes
    },
  }
  const store = load({ files, keep: false })
  store.set('assigned_id', 3)
  assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), { device_id: 'B', assigned_id: 3 })
})

test('set refuses invalid values and changes nothing', () => {
  const { file, load } = place('{"device_id": "A"}')
  const store = load()
  fails(() => store.set('engine_settings.precision', 11), 'CONFIG_INVALID', /0–10/)
  fails(() => store.set('engine_settings.precision', 'four', 'int'), 'CONFIG_INVALID', /whole number/)
  fails(() => store.set('engine_settings.precision', 4, 'decimal'), 'USAGE', /types: int float bool str json/)
  fails(() => store.set('device_id.x', 1), 'CONFIG_KEY', /inside a value/)
  for (const key of ['', '.', 'a..b', '__proto__.x', 'a.constructor.b', 'x.prototype', ' a', 'a b', 'a\n']) {
    fails(() => store.set(key, 1), 'CONFIG_KEY', /not a configuration key/)
  }
  fails(() => store.set(undefined as never, 1), 'BAD_ARGUMENT', /key is a text/)
  fails(() => store.get(7 as never), 'BAD_ARGUMENT', /key is a text/)
  fails(() => store.set('web_user.ui', JSON.parse('{"__proto__": {"polluted": 1}}')), 'CONFIG_KEY', /__proto__/)
  fails(() => store.set('web_user.ui', '{"a": {"constructor": 1}}', 'json'), 'CONFIG_KEY', /constructor/)
  fails(() => store.update(JSON.parse('{"gateway": {"__proto__": {"polluted": 1}}}')), 'CONFIG_KEY', /__proto__/)
  assert.equal(({} as Record<string, unknown>).polluted, undefined)
  assert.equal(readFileSync(file, 'utf8'), '{"device_id": "A"}')
})

test('a refused value has no line number, because it is in no line of the file; other errors name their line', () => {
  const { file, load } = place('{\n  "engine_settings": {\n    "precision": 4\n  }\n}\n')
  const store = load()
  const text = readFileSync(file, 'utf8')
  const error = fails(
    () => store.set('engine_settings.precision', 99),
    'CONFIG_INVALID',
    /^engine_settings\.precision must/,
  )
  assert.deepEqual([error.details.key, error.details.line], ['engine_settings.precision', undefined])
  fails(
    () => store.update({ gateway: { uplinks: [{ name: 'a' }] } }),
    'CONFIG_INVALID',
    /^gateway\.uplinks\.0: medium is missing/,
  )
  writeFileSync(file, text.replace('4', '44'))
  fails(() => store.set('device_id', 'x'), 'CONFIG_INVALID', /Config\.json:3: engine_settings\.precision/)
})

test('the running gateway sees and approves a write before it is saved', async () => {
  const { file, load } = place('{"device_id": "a"}')
  const store = load()
  const seen: unknown[] = []
  store.onChange(changes => seen.push(changes.map(({ key }) => key)))
  store.approve = async next => {
    seen.push([next.device_id, next.gateway.log_level, store.get('device_id'), readFileSync(file, 'utf8')])
    if (next.device_id === 'bad') throw new OsError('CONFIG_INVALID', 'not that one')
  }
  const rejected = store.approved(limits => store.updating({ device_id: 'bad' }, limits))
  await assert.rejects(rejected, { message: 'not that one' })
  assert.equal(readFileSync(file, 'utf8'), '{"device_id": "a"}')
  const change = await store.approved(limits => store.setting('device_id', 'b', 'str', limits))
  assert.deepEqual([change.old, change.new, store.get('device_id')], ['a', 'b', 'b'])
  assert.deepEqual(seen, [
    ['bad', 'info', 'a', '{"device_id": "a"}'],
    ['b', 'info', 'a', '{"device_id": "a"}'],
    ['device_id'],
  ])
  const outside = store.approved(limits => store.setting('device_id', 'c', 'str', limits), { prefixes: ['gateway'] })
  await assert.rejects(outside, { code: 'FORBIDDEN' })
})

test('a value that is a text is converted to the type of the key, or to the requested type', () => {
  const store = place('{}').load()
  assert.equal(store.set('device_id', '12').new, '12')
  assert.equal(store.set('engine_settings.precision', '5').new, 5)
  assert.equal(store.set('web_user.read_only', 'yes').new, true)
  assert.deepEqual(store.set('receiver.allow', '["10.0.0.1"]').new, ['10.0.0.1'])
  assert.equal(store.set('RESOURCES.service_plugins.my.own', '5').new, 5)
  assert.equal(store.set('RESOURCES.service_plugins.my.own', '5', 'str').new, '5')
  assert.equal(store.set('RESOURCES.service_plugins.my.word', 'plain').new, 'plain')
})

test('a dotted key instead of nested sections is refused, because it would change nothing', () => {
  const { file, load } = place('{"engine_settings": {"precision": 4}}')
  const store = load()
  const before = readFileSync(file, 'utf8')
  for (const nested of [{ 'engine_settings.precision': 5 }, { engine_settings: { 'network_retry.enabled': false } }])
    for (const limits of [{}, { prefixes: ['engine_settings'] }])
      fails(() => store.update(nested, limits), 'CONFIG_INVALID', /must be nested sections, or key and value/)
  assert.equal(readFileSync(file, 'utf8'), before)
  fails(() => store.update({ 'my.own': 5 }), 'UNKNOWN_KEY', /my\.own is not a known key/)
})

test('update is all or nothing and merges objects', () => {
  const { file, load } = place('{"engine_settings": {"precision": 4, "full_every": 10}}')
  const store = load()
  const before = readFileSync(file, 'utf8')
  fails(
    () => store.update({ engine_settings: { precision: 6 }, storage: { sql: { dialect: 'x' } } }),
    'CONFIG_INVALID',
    /dialect/,
  )
  const refused = fails(
    () =>
      store.update(
        { engine_settings: { precision: 6 }, storage: { sql: { enabled: false } }, gatewayX: 1 },
        { prefixes: ['engine_settings', 'gateway'] },
      ),
    'FORBIDDEN',
    /write blocked by writable_config_prefixes/,
  )
  assert.deepEqual(refused.details.keys, ['storage.sql.enabled', 'gatewayX'])
  assert.equal(readFileSync(file, 'utf8'), before)
  const changes = store.update({ engine_settings: { precision: 6, full_every: 10 }, device_id: 'Z' })
  assert.deepEqual(
    changes.map(change => change.key),
    ['engine_settings.precision', 'device_id'],
  )
  assert.equal(store.get('engine_settings.full_every'), 10)
})

test('older spellings are read, the current ones take precedence, and set writes where the value is', () => {
  const { file, load } = place(
    JSON.stringify({
      OpenSynaptic_Setting: { default_medium: 'TCP' },
      RESOURCES: { service_plugins: { web_user: { read_only: true, auth_enabled: false } } },
      web_user: { auth_enabled: true },
    }),
  )
  const store = load()
  assert.equal(store.get('Node_Setting.default_medium'), 'TCP')
  assert.equal(store.get('web_user.read_only'), true)
  assert.equal(store.get('web_user.auth_enabled'), true)
  assert.equal(store.warnings.length, 2)
  store.set('Node_Setting.default_medium', 'UDP')
  store.set('web_user.read_only', false)
  assert.equal(store.get('Node_Setting.default_medium'), 'UDP')
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).OpenSynaptic_Setting.default_medium, 'UDP')
  assert.equal(load().get('web_user.read_only'), false)
})

test('a read-only folder is CONFIG_WRITE and changes nothing', () => {
  const { file, load } = place('{"device_id": "A"}')
  // injected, because root can write everywhere
  const closed = (): never => {
    throw Object.assign(new Error('closed'), { code: 'EACCES' })
  }
  const store = load({ files: { ...realFiles, open: closed } })
  fails(() => store.set('device_id', 'B'), 'CONFIG_WRITE', /EACCES.*nothing was changed/)
  assert.equal(store.get('device_id'), 'A')
  assert.equal(readFileSync(file, 'utf8'), '{"device_id": "A"}')
})

test('a full disk is CONFIG_WRITE and changes nothing', () => {
  const { file, load } = place('{"device_id": "A"}')
  const full = (): never => {
    throw Object.assign(new Error('full'), { code: 'ENOSPC' })
  }
  const store = load({ files: { ...realFiles, write: full } })
  fails(() => store.set('device_id', 'B'), 'CONFIG_WRITE', /ENOSPC.*nothing was changed/)
  assert.equal(store.get('device_id'), 'A')
  assert.equal(readFileSync(file, 'utf8'), '{"device_id": "A"}')
})
