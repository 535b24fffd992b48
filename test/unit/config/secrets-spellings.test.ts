// Every spelling of test/lib/spellings.ts in every output that shows the configuration, and what happens to a masked value
// that is written back (X19, S11, S22).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { auditText } from '../../../src/commands/argv'
import { ConfigStore } from '../../../src/config'
import { getAt } from '../../../src/config/keys'
import { htmlOf, tableOf, textOf, treeText } from '../../../src/display/formats'
import { plain } from '../../../src/display/plain'
import { fragments } from '../../../src/index'
import { OsError } from '../../../src/lib/errors'
import { createLogger } from '../../../src/lib/logger'
import { MASK, masked, maskText } from '../../../src/lib/secrets'
import { HARMLESS, leaked, SPELLINGS, secretOf, spelled } from '../../lib/spellings'

const made: string[] = []
after(() => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true })
})

const KEY = 'RESOURCES.service_plugins.relay'

function load(relay: unknown): ConfigStore {
  const cwd = mkdtempSync(join(tmpdir(), 'os-node-spellings-'))
  made.push(cwd)
  writeFileSync(join(cwd, 'Config.json'), JSON.stringify({ RESOURCES: { service_plugins: { relay } } }))
  return ConfigStore.load({ cwd, env: {}, fragments: fragments() })
}

/** The dotted keys of all values in a value. */
const keysOf = (value: unknown, key: string): string[] => [
  key,
  ...Object.entries(Object(typeof value === 'object' ? value : {})).flatMap(([name, item]) =>
    keysOf(item, `${key}.${name}`),
  ),
]

const needs = (key: string) => (thrown: unknown) =>
  thrown instanceof OsError && thrown.code === 'SECRET_NEEDED' && String(thrown.details.key).startsWith(key)

test('each spelling of a secret is masked in every output of the configuration', () => {
  const relay = spelled()
  assert.ok(Object.keys(relay).length >= 40)
  assert.equal(leaked(JSON.stringify(relay)).length, Object.keys(SPELLINGS).length, 'all are there')
  const store = load(relay)
  const shown = plain(store.config)
  const lines: string[] = []
  const logger = createLogger({ write: line => lines.push(line) })
  for (const text of [...Object.values(relay), relay]) logger.info(JSON.stringify(text))
  const keys = keysOf(relay, KEY).filter(key => store.has(key))
  assert.ok(keys.length > 80, `${keys.length}`)
  const faces = {
    whole: store.masked(),
    keys: keys.map(key => [key, store.masked(key)]),
    warnings: store.warnings,
    plain: shown,
    formats: [htmlOf(shown), textOf(shown), treeText(shown), tableOf(shown)],
    plugins: masked(relay),
    audit: keys.map(key => auditText(['config-set', key, textAt(store.get(key))])),
    options: keys.map(key => auditText(['config-set', '--key', key, `--value=${textAt(store.get(key))}`])),
    log: lines,
  }
  for (const [name, face] of Object.entries(faces)) assert.deepEqual(leaked(JSON.stringify(face)), [], name)
  // a value is masked only once
  assert.deepEqual(masked(store.masked()), store.masked())
})

const textAt = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

test('values that only look like secrets stay readable', () => {
  const store = load(HARMLESS)
  assert.deepEqual(store.masked(KEY), HARMLESS)
  assert.deepEqual(masked(HARMLESS), HARMLESS)
  for (const [name, value] of Object.entries(HARMLESS)) {
    assert.deepEqual(store.masked(`${KEY}.${name}`), value, name)
    assert.equal(maskText(`${name}: ${textAt(value)}`), `${name}: ${textAt(value)}`)
  }
})

test('each spelling that is written back masked keeps the stored secret', () => {
  const relay = spelled()
  const store = load(relay)
  assert.deepEqual(store.update(store.masked() as Record<string, unknown>, { strict: true }), [])
  for (const name of Object.keys(relay)) {
    const value = store.masked(`${KEY}.${name}`)
    store.set(`${KEY}.${name}`, value, typeof value === 'string' ? 'str' : 'json')
  }
  assert.deepEqual(store.get(KEY), relay)
})

const LIST = `${KEY}.list`

test('a masked secret is kept only if the address next to it is unchanged, whatever the spelling', () => {
  for (const [what, make] of Object.entries(SPELLINGS)) {
    const entry = { name: 'a', host: 'broker', inner: { it: make(secretOf(0)) } }
    const store = load({ list: [entry] })
    const shown = store.masked(LIST) as (typeof entry)[]
    const changed = (change: object): unknown => [{ ...shown[0], ...change }]
    store.set(LIST, changed({ every: 7 }))
    assert.deepEqual(store.get(LIST), [{ ...entry, every: 7 }], what)
    for (const change of [{ host: 'evil' }, { brokerPort: 9 }, { medium: 'TCP' }, { Host_Name: 'x' }, { name: 'b' }])
      assert.throws(
        () => store.set(LIST, changed(change)),
        needs(`${LIST}.0.inner.it`),
        `${what} ${JSON.stringify(change)}`,
      )
  }
})

/** Changes of a list with a masked secret, and the list that is stored after; null: refused. */
const LISTS: readonly [string, unknown, unknown, unknown][] = [
  [
    'another order',
    [
      { name: 'password', value: 'one' },
      { name: 'token', value: 'two' },
    ],
    [
      { name: 'token', value: MASK },
      { name: 'password', value: MASK },
    ],
    [
      { name: 'token', value: 'two' },
      { name: 'password', value: 'one' },
    ],
  ],
  [
    'key instead of name, one before it gone',
    [
      { key: 'Cookie', value: 'one' },
      { key: 'Authorization', value: 'two' },
    ],
    [{ key: 'Authorization', value: MASK }],
    [{ key: 'Authorization', value: 'two' }],
  ],
  [
    'a header list, one before it gone',
    [
      ['Cookie', 'one'],
      ['Authorization', 'two'],
    ],
    [
      ['Accept', 'x'],
      ['Authorization', MASK],
    ],
    [
      ['Accept', 'x'],
      ['Authorization', 'two'],
    ],
  ],
  [
    'two of one name',
    [
      ['Cookie', 'one'],
      ['Cookie', 'two'],
    ],
    [
      ['Accept', 'x'],
      ['Cookie', MASK],
      ['Cookie', MASK],
    ],
    [
      ['Accept', 'x'],
      ['Cookie', 'one'],
      ['Cookie', 'two'],
    ],
  ],
  [
    'one of two of one name',
    [
      ['Cookie', 'one'],
      ['Cookie', 'two'],
    ],
    [['Cookie', MASK]],
    null,
  ],
  [
    'names and values in another turn',
    ['token', 'one', 'cookie', 'two'],
    ['cookie', MASK, 'token', MASK],
    ['cookie', 'two', 'token', 'one'],
  ],
  ['another name', [{ name: 'password', value: 'one' }], [{ name: 'token', value: MASK }], null],
  ['a name that is none of a secret', { name: 'password', value: 'one' }, { name: 'user', value: MASK }, null],
  ['a pair that was not there', [['Accept', 'one']], [['Authorization', MASK]], null],
  [
    'the place stands in a pair as well',
    [
      { name: 'host', value: 'broker' },
      { name: 'password', value: 'one' },
    ],
    [
      { name: 'host', value: 'evil' },
      { name: 'password', value: MASK },
    ],
    null,
  ],
  [
    'the place stands in a header',
    [
      ['Host', 'broker'],
      ['Authorization', 'one'],
    ],
    [
      ['Host', 'evil'],
      ['Authorization', MASK],
    ],
    null,
  ],
  ['the place is an argument', ['--host', 'broker', '--password', 'one'], ['--host', 'evil', '--password', MASK], null],
  ['the host itself', { host: 'me:one@broker' }, { host: `${MASK}@evil` }, null],
  [
    'another user of the same host',
    { host: 'me:one@broker', password: 'x' },
    { host: 'you:two@broker', password: MASK },
    { host: 'you:two@broker', password: 'x' },
  ],
]

test('the masked secret of a name/value pair is kept by the name of its pair', () => {
  for (const [what, stored, sent, kept] of LISTS) {
    const store = load({ it: stored })
    if (kept === null) assert.throws(() => store.set(`${KEY}.it`, sent), needs(`${KEY}.it`), what)
    else store.set(`${KEY}.it`, sent)
    assert.deepEqual(getAt(store.get(KEY), ['it']), kept ?? stored, what)
  }
})

test('masking a long text takes time proportional to its length', () => {
  for (const part of ['a:', 'a@', 'a:b@', '=', 'bot1:', 'x=y;', '"a":"b', 'token: ', 'a:b@sha1:', '-', 'key '])
    for (const text of [part.repeat(100_000), `"${part.repeat(100_000)}`]) {
      const start = process.cpuUsage()
      maskText(text)
      const { user } = process.cpuUsage(start)
      // quadratic time would be minutes
      assert.ok(user < 5e6, `${part} ${user} µs of processor time`)
    }
})
