// Every spelling of test/lib/spellings.ts, in every answer that a viewer can fetch (S11), and one that is written back masked
// (S22).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DisplayProvider, DisplayRegistry } from '../../../../src/display'
import { OsError } from '../../../../src/lib/errors'
import { HARMLESS, leaked, SPELLINGS, spelled } from '../../../lib/spellings'
import { world } from '../world'

const KEY = 'RESOURCES.service_plugins.relay'
const relay = spelled()
const config = {
  RESOURCES: { service_plugins: { relay } },
  web_user: { writable_config_prefixes: ['RESOURCES.service_plugins.relay'] },
}

/** A plugin whose section shows its settings. */
class Relay extends DisplayProvider {
  override readonly category = 'demo'
  constructor() {
    super('relay', 'settings', 'Relay')
  }
  extractData(): object {
    return { settings: relay, pairs: new Map(Object.entries(relay)) }
  }
}

test('no secret in any spelling is in an answer that a viewer or an operator may fetch', async t => {
  const display = new DisplayRegistry()
  display.register(new Relay())
  const why = new OsError('LINK_DOWN', 'settings refused', { details: { settings: relay } })
  const { send, session, logger } = await world(t, {
    config,
    context: {
      display,
      transport: () => {
        throw why
      },
    },
  })
  for (const value of Object.values(relay)) logger.warn(JSON.stringify(value))
  const viewer = await session('viewer')
  const keys = Object.entries(relay).flatMap(([name, value]) => [
    `${KEY}.${name}`,
    ...Object.keys(Object(typeof value === 'object' ? value : {})).map(inner => `${KEY}.${name}.${inner}`),
  ])
  const paths = [
    '/api/config',
    ...keys.map(key => `/api/config?key=${encodeURIComponent(key)}`),
    '/api/options',
    '/api/options/schema',
    '/api/dashboard',
    '/api/transport',
    '/api/log',
    ...['json', 'html', 'text', 'table', 'tree'].map(format => `/api/display/render/relay:settings?format=${format}`),
  ]
  const hidden: string[] = []
  for (const path of paths) {
    const { status, text } = await send('GET', path, undefined, viewer)
    assert.ok(status !== 404 && status !== 403, `${path}: ${status}`)
    assert.deepEqual(leaked(text), [], path)
    if (text.includes('********')) hidden.push(path)
  }
  assert.ok(hidden.length > Object.keys(SPELLINGS).length, `${hidden.length} answers had something to hide`)
  for (const command of ['config-show', 'config-show --json', `config-get ${KEY}`, `config-get ${KEY} --json`]) {
    const { json, text } = await send('POST', '/api/oscli/execute', { command }, await session('operator'))
    assert.equal(json.exit_code, 0, text)
    assert.ok(text.includes('********'))
    assert.deepEqual(leaked(text), [], command)
  }
})

test('a secret that an admin writes is neither in the answer nor in the audit', async t => {
  const { send, config: store, logger } = await world(t, { config })
  for (const [name, value] of Object.entries(relay)) {
    const { status, text } = await send('PUT', '/api/config', { key: `${KEY}.new_${name}`, value: { it: value } })
    assert.equal(status, 200, text)
    assert.deepEqual(leaked(text), [], name)
    const command = `config-set ${KEY}.by_${name} ${JSON.stringify(JSON.stringify([value]))}`
    const done = await send('POST', '/api/oscli/execute', { command })
    assert.equal(done.json.exit_code, 0, done.text)
    assert.deepEqual(leaked(done.text), [], name)
  }
  const log = logger.recent()
  assert.match(JSON.stringify(log), /config-set/)
  assert.deepEqual(leaked(JSON.stringify(log)), [])
  assert.deepEqual(store.get(`${KEY}.new_s0`), { it: relay.s0 })
})

test('everything written back masked changes nothing; harmless settings are shown unmasked', async t => {
  const both = { ...config, RESOURCES: { service_plugins: { relay, plain: HARMLESS } } }
  const { send, config: store } = await world(t, { config: both })
  const shown = (await send('GET', `/api/config?key=${KEY}`)).json.value
  const back = await send('PUT', '/api/config', { RESOURCES: { service_plugins: { relay: shown } } })
  assert.deepEqual([back.status, back.json.changed], [200, []])
  assert.deepEqual(store.get(KEY), relay)
  assert.deepEqual((await send('GET', '/api/config?key=RESOURCES.service_plugins.plain')).json.value, HARMLESS)
})

test('a new token is shown to the admin who created it, as text and as JSON', async t => {
  const w = await world(t)
  for (const command of ['token --new', 'token --new --json']) {
    const { json, text } = await w.send('POST', '/api/oscli/execute', { command })
    assert.equal(json.exit_code, 0, text)
    assert.doesNotMatch(text, /\*{8}/)
    assert.match(String(json.stdout), /token=[\w-]{8,}/)
  }
})
