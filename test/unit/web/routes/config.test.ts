// Configuration over HTTP: sections and single values (X19, X20), options one by one, the page's settings, and the prefixes that
// may be written (S8).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { VERBS } from '../../../../src/commands'
import type { AnyVerb } from '../../../../src/commands/verb'
import { WRITABLE_PREFIXES } from '../../../../src/config/fragments/web'
import { OsError } from '../../../../src/lib/errors'
import { type World, world } from '../world'

const SECRET = 'correct-horse'

const withSecret = {
  gateway: { uplinks: [{ name: 'up', medium: 'MQTT', host: 'broker', username: 'u', password: SECRET }] },
  device_id: 'shed',
}

test('X20: nested sections are merged and saved, and the changes are reported', async t => {
  const { send, config } = await world(t)
  const { status, json } = await send('PUT', '/api/config', {
    engine_settings: { precision: 6, network_retry: { max_retries: 7 } },
  })
  assert.equal(status, 200)
  const changed = json.changed as { key: string; old: unknown; new: unknown }[]
  assert.deepEqual(
    changed.map(({ key, old, new: now }) => [key, old, now]),
    [
      ['engine_settings.precision', 4, 6],
      ['engine_settings.network_retry.max_retries', config.rows().find(r => r.key.endsWith('max_retries'))?.default, 7],
    ],
  )
  assert.equal(config.get('engine_settings.precision'), 6)
  assert.equal((await send('GET', '/api/config?key=engine_settings.precision')).json.value, 6)
})

test('X20: one value is written as {key, value, value_type}', async t => {
  const { send } = await world(t)
  const { json } = await send('PUT', '/api/config', { key: 'engine_settings.precision', value: '7', value_type: 'int' })
  assert.deepEqual([json.ok, json.key, json.old, json.new], [true, 'engine_settings.precision', 4, 7])
  const text = await send('PUT', '/api/config', { key: 'engine_settings.precision', value: '5' })
  assert.equal(text.json.new, 5)
})

test('X20: one refused key refuses all, and the keys are named', async t => {
  const { send, config } = await world(t)
  const { status, json } = await send('PUT', '/api/config', {
    engine_settings: { precision: 6 },
    web_user: { read_only: true },
    device_id: 'x',
  })
  assert.deepEqual(
    [status, json],
    [
      403,
      {
        ok: false,
        error: 'write blocked by writable_config_prefixes',
        code: 'FORBIDDEN',
        keys: ['web_user.read_only', 'device_id'],
      },
    ],
  )
  assert.equal(config.get('engine_settings.precision'), 4)
})

test('values out of range are refused with key and range, and nothing is changed', async t => {
  const { send, config } = await world(t)
  for (const body of [
    { engine_settings: { precision: 11 } },
    { key: 'engine_settings.precision', value: 11 },
    { key: 'engine_settings.precision', value: 'abc', value_type: 'int' },
    { engine_settings: { precision: null } },
    { engine_settings: 5 },
  ]) {
    const { status, json } = await send('PUT', '/api/config', body)
    assert.deepEqual([status, json.ok, json.code], [400, false, 'CONFIG_INVALID'], JSON.stringify(body))
    assert.match(String(json.error), /engine_settings/)
  }
  const range = await send('PUT', '/api/config', { engine_settings: { precision: 11 } })
  assert.match(String(range.json.error), /0–10/)
  assert.equal((await send('PUT', '/api/config', {})).status, 400)
  assert.equal((await send('PUT', '/api/config', { key: 'a', value: 1, value_type: 5 })).status, 400)
  assert.equal(config.get('engine_settings.precision'), 4)
})

test('S8: names that reach into prototypes are refused everywhere, as keys and inside values', async t => {
  const { send, config } = await world(t)
  const NAMES = ['__proto__', 'constructor', 'prototype']
  for (const name of NAMES) {
    for (const body of [
      `{"engine_settings": {"${name}": {"polluted": 1}}}`,
      `{"${name}": {"polluted": 1}}`,
      `{"key": "engine_settings.${name}.polluted", "value": 1}`,
      `{"key": "gateway.x", "value": {"${name}": {"polluted": 1}}}`,
      `{"key": "gateway.x", "value": "{\\"${name}\\": {\\"polluted\\": 1}}", "value_type": "json"}`,
      `{"gateway": {"uplinks": [{"name": "a", "medium": "UDP", "${name}": {"polluted": 1}}]}}`,
    ]) {
      const { status, json } = await send('PUT', '/api/config', body)
      assert.ok(status === 404 || status === 403 || status === 400, `${body}: ${status}`)
      assert.equal(json.ok, false)
    }
    const options = await send('PUT', '/api/options', `{"updates": [{"key": "gateway.${name}.x", "value": 1}]}`)
    assert.deepEqual([options.status, options.json.ok], [200, false])
  }
  assert.equal(({} as Record<string, unknown>).polluted, undefined)
  assert.ok(!JSON.stringify(config.config).includes('polluted'))
})

test('S8: prefixes are compared after canonicalisation: neighbours, blanks, case, dots and older spellings do not pass', async t => {
  const { send, config } = await world(t, {
    config: { web_user: { writable_config_prefixes: ['engine_settings', 'RESOURCES', 'gateway.log'] } },
  })
  const blocked = async (key: string, value: unknown = 1): Promise<void> => {
    const { status, json } = await send('PUT', '/api/config', { key, value })
    assert.ok([403, 404].includes(status), `${key}: ${status} ${json.error}`)
  }
  for (const key of [
    'engine_settingsX.precision',
    'engine_settings ',
    ' engine_settings.precision',
    'engine_settings..precision',
    'engine_settings.precision.',
    '.engine_settings.precision',
    'Engine_Settings.precision',
    'engine_settings\u0000.x',
    'engine_settings/precision',
    'gateway.logs.x',
    'gateway.log_level',
    'gateway',
    'web_user.read_only',
    'OpenSynaptic_Setting.default_medium',
  ])
    await blocked(key)
  // the switches in the reference's location are read as web_user
  await blocked('RESOURCES.service_plugins.web_user.read_only', true)
  await blocked('RESOURCES.service_plugins.web_user.auth_enabled', false)
  await blocked('RESOURCES.service_plugins.web_user', { writable_config_prefixes: ['web_user'] })
  await blocked('RESOURCES', { service_plugins: { web_user: { auth_enabled: false } } })
  const nested = await send('PUT', '/api/config', {
    RESOURCES: { service_plugins: { web_user: { auth_enabled: false } } },
  })
  assert.deepEqual([nested.status, nested.json.keys], [403, ['RESOURCES.service_plugins.web_user.auth_enabled']])
  assert.equal(config.get('web_user.auth_enabled'), true)
  assert.equal((await send('PUT', '/api/config', { key: 'gateway.log.max_age_s', value: 86_400 })).status, 200)
})

test('a command line over HTTP may write no more than HTTP itself', async t => {
  const { send, config } = await world(t)
  const set = async (key: string, value: string): Promise<Record<string, unknown>> =>
    (await send('POST', '/api/oscli/execute', { command: `config-set --key ${key} --value ${value}` })).json
  const blocked = await set('web_user.read_only', 'true')
  assert.deepEqual([blocked.status, blocked.exit_code], ['completed', 2])
  assert.match(String(blocked.stderr), /writable_config_prefixes/)
  assert.equal(config.get('web_user.read_only'), false)
  assert.equal((await set('engine_settings.precision', '8')).exit_code, 0)
  assert.equal(config.get('engine_settings.precision'), 8)
})

async function masked({ send, config }: World): Promise<void> {
  for (const path of ['/api/config', '/api/config?key=gateway.uplinks', '/api/config?key=gateway.uplinks.0.password'])
    assert.match((await send('GET', path)).text, /\*{8}/, path)
  for (const path of ['/api/config', '/api/dashboard', '/api/options', '/api/options/schema', '/api/log', '/metrics'])
    assert.ok(!(await send('GET', path)).text.includes(SECRET), path)
  assert.equal(config.get('gateway.uplinks.0.password'), SECRET)
}

test('S11: output of commands, errors and states of links contain no secret of a driver or of another machine', async t => {
  const planted = 'POST https://me:hush1@host/x?token=hush2 and https://hooks.example.com/services/T1/hush3 failed'
  const fails: AnyVerb = {
    ...VERBS.find(({ name }) => name === 'status')!,
    prepare: undefined,
    run: async ({ print }) => {
      print({ why: planted }, planted)
      throw new OsError('LINK_DOWN', planted, { details: { reason: planted } })
    },
  } as AnyVerb
  const w = await world(t, {
    jobs: { verbs: [fails] },
    context: {
      transport: () => {
        throw new OsError('LINK_DOWN', planted, { details: { reason: planted } })
      },
    },
  })
  for (const command of ['status', 'status --json']) {
    const { text } = await w.send('POST', '/api/oscli/execute', { command })
    assert.ok(text.includes('POST https://') && !text.includes('hush'), text)
  }
  assert.doesNotMatch((await w.send('GET', '/api/oscli/jobs')).text, /hush/)
  const { status, text } = await w.send('GET', '/api/transport')
  assert.ok(status >= 400 && text.includes('POST https://') && !text.includes('hush'), text)
})

test('S11: secrets are masked in configuration, options and commands; a masked value written back changes nothing', async t => {
  const w = await world(t, { config: withSecret })
  await masked(w)
  const uplinks = (await w.send('GET', '/api/config?key=gateway.uplinks')).json.value
  const same = await w.send('PUT', '/api/config', { gateway: { uplinks } })
  assert.deepEqual([same.status, same.json.changed], [200, []])
  const option = await w.send('PUT', '/api/options', {
    updates: [{ key: 'gateway.uplinks', value: JSON.stringify(uplinks), value_type: 'json' }],
  })
  assert.equal(option.json.ok, true)
  await masked(w)
  const shown = await w.send('POST', '/api/oscli/execute', { command: 'config-show' })
  assert.ok(!shown.text.includes(SECRET) && shown.text.includes('********'))
  for (const value_type of ['int', 'bool', 'json']) {
    const wrong = await w.send('PUT', '/api/config', {
      key: 'gateway.uplinks.0.password',
      value: 'hunter2',
      value_type,
    })
    assert.equal(wrong.status, 400)
    assert.ok(!wrong.text.includes('hunter2'), wrong.text)
  }
  const stars = await w.send('PUT', '/api/config', {
    gateway: { uplinks: [{ name: 'new', medium: 'MQTT', password: '********' }] },
  })
  assert.equal(stars.status, 400)
})

test('options: every key is listed with its value and type; the schema by category, with what a form needs', async t => {
  const { send, config } = await world(t)
  const { options } = (await send('GET', '/api/options')).json as {
    options: { key: string; value: unknown; value_type: string; writable: boolean }[]
  }
  const precision = options.find(({ key }) => key === 'engine_settings.precision')
  assert.deepEqual(precision, { key: 'engine_settings.precision', value: 4, value_type: 'int', writable: true })
  assert.deepEqual(
    options.map(({ key }) => key),
    config
      .rows()
      .map(({ key }) => key)
      .filter(key => !key.includes('[]'))
      .sort(),
  )
  assert.equal(options.find(({ key }) => key === 'web_user.read_only')?.writable, false)
  type Category = { id: string; title: string; count: number; fields: Record<string, unknown>[] }
  const schema = async (query = ''): Promise<{ categories: Category[]; writable_prefixes: string[] }> =>
    (await send('GET', `/api/options/schema${query}`)).json.schema as never
  const all = await schema()
  assert.deepEqual(all.writable_prefixes, [...WRITABLE_PREFIXES])
  const engine = all.categories.find(({ id }) => id === 'engine_settings')!
  assert.deepEqual([engine.title, engine.count], ['Engine settings', engine.fields.length])
  const field = engine.fields.find(({ key }) => key === 'engine_settings.precision')!
  assert.deepEqual(
    [field.label, field.type, field.value, field.writable, field.choices, field.min, field.max, field.secret],
    ['Precision', 'int', 4, true, null, 0, 10, false],
  )
  assert.equal(typeof field.restart, 'boolean')
  const core = engine.fields.find(({ key }) => key === 'engine_settings.core_backend')!
  assert.deepEqual(core.choices, ['pycore', 'rscore'])
  const sources = all.categories.flatMap(({ fields }) => fields).find(({ key }) => key === 'gateway.sources')!
  // a list is found by the texts of its elements
  assert.ok((sources.parts as { key: string }[]).some(({ key }) => key === 'interval_ms'))
  const flags = all.categories.find(({ id }) => id === 'RESOURCES.transport_status')!
  assert.deepEqual(flags.fields[0]!.choices, [true, false])
  const writable = (await schema('?only_writable=1')).categories.flatMap(({ fields }) => fields)
  assert.ok(writable.length > 20 && writable.every(({ writable }) => writable === true))
  assert.ok(writable.length < all.categories.flatMap(({ fields }) => fields).length)
  assert.equal((await send('GET', '/api/options/schema?only_writable=maybe')).status, 400)
})

test('PUT /api/options changes what can be changed and reports what failed', async t => {
  const { send, config } = await world(t)
  const { status, json } = await send('PUT', '/api/options', {
    updates: [
      { key: 'engine_settings.precision', value: '6', value_type: 'int' },
      { key: 'engine_settings.precision', value: 'abc', value_type: 'int' },
      { key: 'web_user.read_only', value: true },
      { key: 'no such key', value: 1 },
      { value: 1 },
      'x',
      { key: 'engine_settings.precision' },
    ],
  })
  assert.equal(status, 200)
  const failed = json.failed as { key?: string; item?: unknown; error: string; code: string }[]
  assert.deepEqual(json.changed, [
    {
      key: 'engine_settings.precision',
      new: 6,
      restart: config.rows().find(r => r.key === 'engine_settings.precision')?.restart,
    },
  ])
  assert.deepEqual(
    [json.ok, failed.map(({ key, code }) => [key, code])],
    [
      false,
      [
        ['engine_settings.precision', 'CONFIG_INVALID'],
        ['web_user.read_only', 'FORBIDDEN'],
        ['no such key', 'CONFIG_KEY'],
        [undefined, 'BAD_REQUEST'],
        [undefined, 'BAD_REQUEST'],
        [undefined, 'BAD_REQUEST'],
      ],
    ],
  )
  const none = await send('PUT', '/api/options', { updates: [] })
  assert.deepEqual(none.json, { ok: true, changed: [], failed: [] })
  for (const body of [{}, { updates: 'x' }, { updates: { key: 1 } }]) {
    const wrong = await send('PUT', '/api/options', body)
    assert.deepEqual([wrong.status, wrong.json.error], [400, 'updates must be a list'])
  }
})

test('the page has its own settings; when it is off, it says so and the API continues', async t => {
  const { send } = await world(t)
  const first = (await send('GET', '/api/ui/config')).json.ui as Record<string, unknown>
  assert.deepEqual(Object.keys(first), [
    'ui_enabled',
    'ui_theme',
    'ui_layout',
    'ui_refresh_seconds',
    'ui_compact',
    'expose_sections',
  ])
  const changed = await send('PUT', '/api/ui/config', { ui_theme: 'dark', ui_refresh_seconds: 2 })
  assert.deepEqual(changed.json, { ok: true, ui: { ...first, ui_theme: 'dark', ui_refresh_seconds: 2 } })
  const unknown = await send('PUT', '/api/ui/config', { ui_theme: 'light', ui_them: 1 })
  assert.deepEqual([unknown.status, unknown.json.code], [400, 'UNKNOWN_KEY'])
  assert.deepEqual((await send('GET', '/api/ui/config')).json, changed.json, 'nothing changed')
  const wrong = await send('PUT', '/api/ui/config', { ui_refresh_seconds: 0 })
  assert.deepEqual([wrong.status, wrong.json.code], [400, 'CONFIG_INVALID'])
  await send('PUT', '/api/ui/config', { ui_enabled: false })
  const page = await send('GET', '/', undefined, false)
  assert.deepEqual(
    [page.status, page.text, page.headers['content-type']],
    [403, '<h3>web_user UI is disabled by config: ui_enabled=false</h3>', 'text/html; charset=utf-8'],
  )
  assert.equal((await send('GET', '/api/ui/config')).status, 200)
})
