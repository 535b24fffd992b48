// What counts as a secret, by name and in texts, and what happens to a masked one that is written back (X19, S22).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { auditText } from '../../../src/commands/argv'
import { ConfigStore } from '../../../src/config'
import { rows } from '../../../src/config/describe'
import { assemble } from '../../../src/config/schema'
import { plain } from '../../../src/display/plain'
import { fragments } from '../../../src/index'
import { OsError } from '../../../src/lib/errors'
import { isSecretName, MASK, masked, maskText } from '../../../src/lib/secrets'

import { PLANTED, planted } from '../../lib/planted'

const made: string[] = []
after(() => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true })
})

function load(tree: object): ConfigStore {
  const cwd = mkdtempSync(join(tmpdir(), 'os-node-secrets-'))
  made.push(cwd)
  writeFileSync(join(cwd, 'Config.json'), JSON.stringify(tree))
  return ConfigStore.load({ cwd, env: {}, fragments: fragments() })
}

const code = (wanted: string, key: string) => (thrown: unknown) =>
  thrown instanceof OsError && thrown.code === wanted && thrown.details.key === key

test('a name that cannot be a secret is not matched against slow patterns', t => {
  let longest = 0
  const pattern = RegExp.prototype.test
  t.mock.method(RegExp.prototype, 'test', function (this: RegExp, text: string) {
    longest = Math.max(longest, this.source.length)
    return pattern.call(this, text)
  })
  // each name is cached after its first check: these are names that no other test uses
  for (const name of ['key_frames', 'sessions', 'pins_held', 'token_bucket', 'authors', 'passed_by', 'pinned'])
    assert.equal(isSecretName(name), false, name)
  assert.ok(longest > 0 && longest < 1500, `${longest} characters`)
  assert.ok(isSecretName('key_token_2'))
  assert.ok(longest > 1500)
})

test('names of secrets are recognized in any spelling; all other names stay readable', () => {
  const secrets =
    'password passwd pwd passphrases apiToken wifiPassword clientSecret X-Api-Key x_api_key APIKey accesstoken bindKey ' +
    'network_key AppKey nwkKey Authorization cookie psk preSharedKey jwt credentials webhook webhook_url password_hash authTokens'
  for (const name of secrets.split(' ')) assert.ok(isSecretName(name), name)
  const open =
    'key name host port pin pins keys key_file password_file cert monkey token_file passes tls interval_ms public_key ' +
    'diff_base compass topic client_id keyframes bypass'
  for (const name of open.split(' ')) assert.ok(!isSecretName(name), name)
  // these keys of the configuration are secrets, and no others
  const keys = rows(assemble(fragments()))
    .filter(row => row.secret || row.key.split(/[.[\]]+/).some(isSecretName))
    .map(row => row.key)
  assert.deepEqual(keys, [
    'gateway.uplinks[].password',
    'gateway.receivers[].password',
    'RESOURCES.application_config.mqtt.password',
    'storage.sql.driver.password',
  ])
})

test('secrets in texts are masked: user info, parameters and webhook paths of URLs, headers, private keys', () => {
  const cases: [string, string][] = [
    ['mqtt://me:hush@broker:1883/x', `mqtt://${MASK}@broker:1883/x`],
    ['https://hush@host/', `https://${MASK}@host/`],
    ['mqtt://me:p/hush@broker', `mqtt://${MASK}@broker`],
    ['https://host/api?id=7&token=hush#x', `https://host/api?id=7&token=${MASK}#x`],
    ['https://host/?apiKey=hush', `https://host/?apiKey=${MASK}`],
    ['https://host/cb#access_token=hush', `https://host/cb#access_token=${MASK}`],
    ['https://hooks.chat.example/services/T0/B0/hush', `https://hooks.chat.example/${MASK}/${MASK}/${MASK}/${MASK}`],
    ['https://chat.example/api/webhooks/12/hush', `https://chat.example/api/webhooks/${MASK}/${MASK}`],
    ['https://api.example/bot4711:AAhush0123456789abcdef/send', `https://api.example/${MASK}/send`],
    ['X-Api-Key: hush-hush', `X-Api-Key: ${MASK}`],
    ['Authorization: Bearer hush-hush', `Authorization: Bearer ${MASK}`],
    ['host=db password=hush user=me', `host=db password=${MASK} user=me`],
    ['-----BEGIN PRIVATE KEY-----\nhush\n', MASK],
  ]
  for (const [text, shown] of cases) {
    assert.equal(maskText(text), shown)
    assert.equal(maskText(shown), shown, 'masking again changes nothing')
  }
  for (const text of [
    'options of up: password: must be a text',
    'udp://[::1]:8080',
    'http://10.0.0.1:8765/api/data?limit=5',
    'a=b',
  ])
    assert.equal(maskText(text), text)
})

test('a key next to a network name is a secret, and so is a password by its name in another language', () => {
  const tree = {
    wlan: { ssid: 'home', key: 'hush' },
    modem: { APN: 'internet', pin: 12 },
    door: { contraseña: 'hush' },
    open: { key: 'cert.pem', pin: 17, seed: 7, keys: ['a'] },
    nested: { ssid: 'me', key: { file: 'cert.pem' } },
  }
  assert.deepEqual(masked(tree), {
    wlan: { ssid: 'home', key: MASK },
    modem: { APN: 'internet', pin: MASK },
    door: { contraseña: MASK },
    open: tree.open,
    nested: tree.nested,
  })
})

test('25 planted secrets appear in no output of the configuration', () => {
  const store = load(planted())
  const faces = {
    masked: store.masked(),
    keys: Object.keys(store.config).map(key => store.masked(key)),
    warnings: store.warnings,
    sections: plain(store.config),
    plugins: masked(store.config),
    one: store.masked('RESOURCES.service_plugins.relay.passphrases.0'),
    inner: store.masked('RESOURCES.service_plugins.relay.wifiPassword'),
  }
  assert.ok(PLANTED.length >= 25)
  for (const [name, face] of Object.entries(faces)) {
    const text = JSON.stringify(face)
    assert.deepEqual(
      PLANTED.filter(secret => text.includes(secret)),
      [],
      name,
    )
  }
})

test('a masked secret is kept only for the same host, port and medium', () => {
  const store = load(planted())
  const key = 'gateway.uplinks.0.password'
  const old = store.get(key)
  const entry = store.masked('gateway.uplinks.0') as Record<string, unknown>
  store.set('gateway.uplinks.0', { ...entry, full_every: 7 })
  assert.deepEqual([store.get(key), store.get('gateway.uplinks.0.full_every')], [old, 7])
  for (const change of [{ host: 'evil' }, { port: 9 }, { medium: 'TCP' }]) {
    const next = { ...entry, ...change }
    assert.throws(() => store.set('gateway.uplinks.0', next), code('SECRET_NEEDED', key))
    assert.throws(() => store.update({ gateway: { uplinks: [next] } }), code('SECRET_NEEDED', key))
    store.set('gateway.uplinks.0', { ...next, medium: 'MQTT', password: 'anew' }, undefined, { strict: true })
    assert.equal(store.get(key), 'anew')
    store.set('gateway.uplinks.0', { ...entry, password: old })
  }
  // under another name nothing is kept
  assert.throws(() => store.set('gateway.uplinks.0', { ...entry, name: 'other' }), code('SECRET_NEEDED', key))
  // a URL contains its own address
  const url = 'RESOURCES.service_plugins.relay.url'
  assert.equal(store.set(url, store.masked(url)).new, store.masked(url))
  assert.throws(() => store.set(url, String(store.masked(url)).replace('broker', 'evil')), code('SECRET_NEEDED', url))
})

test('over HTTP a change of the address alone does not send the secret to the new address', () => {
  const store = load(planted())
  const strict = { prefixes: ['gateway'], strict: true }
  const refused = code('SECRET_NEEDED', 'gateway.uplinks.0.password')
  assert.throws(() => store.set('gateway.uplinks.0.host', 'evil', undefined, strict), refused)
  assert.throws(() => store.set('gateway.uplinks.0.port', 4711, undefined, strict), refused)
  store.set('gateway.uplinks.0.full_every', 9, undefined, strict)
  // the owner of the file may do this
  store.set('gateway.uplinks.0.host', 'new')
  const { password: _, ...open } = store.get<Record<string, unknown>>('gateway.uplinks.0')
  store.update({ gateway: { uplinks: [{ ...open, host: 'elsewhere' }] } }, strict)
  assert.equal(store.get('gateway.uplinks.0.password'), undefined)
})

test('the audit line of a command holds no secret', () => {
  const lines: [string[], string][] = [
    [['config-set', '--key', 'gateway.uplinks.0.password', '--value', 'hush'], 'hush'],
    [['config-set', '--key=a.apiToken', '--value=hush'], 'hush'],
    [['config-set', 'a.clientSecret', 'hush'], 'hush'],
    [['config-set', '--key', 'a.url', '--value', 'mqtt://me:hush@broker'], 'hush'],
    [['config-set', '--key', 'gateway.uplinks', '--value', '[{"name":"a","X-Api-Key":"hush"}]'], 'hush'],
    [['web-user', 'add', '--password', 'hush'], 'hush'],
  ]
  for (const [argv, secret] of lines) assert.ok(!auditText(argv).includes(secret), auditText(argv))
  assert.equal(auditText(['config-set', '--key', 'device_id', '--value', 'x']), 'config-set --key device_id --value x')
})
