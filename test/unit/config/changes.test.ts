// Many changes in one call: as few writes as possible, and for each change the result that set() alone would give.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../src/config'
import { OsError } from '../../../src/lib/errors'
import { type Files, realFiles } from '../../../src/lib/files'

const root = mkdtempSync(join(tmpdir(), 'os-node-changes-'))
after(() => rmSync(root, { recursive: true, force: true }))
let count = 0

const UPLINKS = { gateway: { uplinks: ['a', 'b'].map(name => ({ name, medium: 'UDP', host: 'h', port: 1 })) } }

/** A store that counts its attempts and its writes of Config.json; `broken`: the disk is full. */
function counting(refuses: (config: { device_id: string }) => boolean = () => false) {
  const cwd = join(root, String(count++))
  realFiles.mkdir(cwd)
  writeFileSync(join(cwd, 'Config.json'), JSON.stringify(UPLINKS))
  const seen = { attempts: 0, writes: 0, broken: false }
  const files: Files = Object.create(realFiles, {
    rename: {
      value: (from: string, to: string) => {
        if (seen.broken) throw Object.assign(new Error('full'), { code: 'ENOSPC' })
        if (to.endsWith('/Config.json')) seen.writes++
        realFiles.rename(from, to)
      },
    },
  })
  const store = ConfigStore.load({ env: {}, cwd, files, keep: false })
  store.approve = async config => {
    seen.attempts++
    if (refuses(config)) throw new OsError('CONFIG_INVALID', 'no driver takes it')
  }
  const all = (updates: { key: string; value: unknown; value_type?: string }[], prefixes?: string[]) =>
    store.approved(limits => store.settings(updates, limits), prefixes && { prefixes })
  return { store, seen, all }
}

const numbered = (n: number) =>
  Array.from({ length: n }, (_, k) => ({ key: 'engine_settings.full_every', value: k + 1 }))
const said = (outcomes: readonly unknown[]) =>
  outcomes.map(outcome => (outcome instanceof OsError ? `${outcome.code} ${outcome.message}` : 'done'))

test('a thousand valid changes are one write; of a key that occurs twice the last change counts', async () => {
  const { store, seen, all } = counting()
  const outcomes = await all([...numbered(999), { key: 'gateway.uplinks[1].port', value: '7' }])
  assert.deepEqual(new Set(said(outcomes)), new Set(['done']))
  assert.deepEqual([seen.attempts, seen.writes], [1, 1])
  assert.equal(store.get('engine_settings.full_every'), 999)
  assert.deepEqual(outcomes.at(-1), { key: 'gateway.uplinks.1.port', old: 1, new: 7, restart: false })
  assert.deepEqual(await all([]), [])
})

test('a change that is invalid alone is refused without an attempt, with the message of set()', async () => {
  const { store, seen, all } = counting()
  const bad = [
    { key: 'engine_settings.full_every', value: -5 },
    { key: 'engine_settings.full_evry', value: 1 },
    { key: 'engine_settings.full_every', value: 'x', value_type: 'int' },
    { key: 'device_id', value: 'd' },
  ]
  const outcomes = said(await all(bad, ['engine_settings', 'gateway']))
  assert.deepEqual([seen.attempts, seen.writes], [0, 0])
  for (const [k, { key, value, value_type }] of bad.entries()) {
    let alone = ''
    try {
      store.set(key, value, value_type, { prefixes: ['engine_settings', 'gateway'] })
    } catch (error) {
      alone = said([error])[0]!
    }
    assert.equal(outcomes[k], alone)
  }
})

test('a change that conflicts with any other configuration is found by bisection, and the others are made in their order', async () => {
  const { store, seen, all } = counting()
  const updates = [...numbered(150), { key: 'gateway.uplinks.0.name', value: 'b' }, ...numbered(100)]
  const outcomes = said(await all(updates))
  assert.match(outcomes[150]!, /^CONFIG_INVALID .*: gateway\.uplinks\.1\.name must be a name that no other .* has/)
  assert.equal(outcomes.filter(one => one === 'done').length, 250)
  assert.equal(store.get('engine_settings.full_every'), 100)
  assert.ok(seen.writes > 1 && seen.writes <= 9, `${seen.writes} writes`)
})

test('when the running gateway refuses every configuration, the changes after 50 attempts are not tried', async () => {
  const { store, seen, all } = counting(({ device_id }) => device_id !== '')
  const outcomes = said(await all(Array.from({ length: 200 }, (_, k) => ({ key: 'device_id', value: `d${k}` }))))
  assert.equal(seen.attempts, 50)
  assert.equal(seen.writes, 0)
  assert.equal(outcomes[0], 'CONFIG_INVALID no driver takes it')
  assert.match(outcomes[199]!, /^CONFIG_INVALID not tried, since 50 changes before it were refused; send it again$/)
  assert.equal(store.get('device_id'), '')
})

test('an error that no change causes is tried only once', async () => {
  const { store, seen, all } = counting()
  seen.broken = true
  const outcomes = said(await all(numbered(100)))
  assert.equal(seen.attempts, 1)
  assert.equal(outcomes.length, 100)
  for (const outcome of outcomes) assert.match(outcome, /^CONFIG_WRITE .*ENOSPC.*nothing was changed$/)
  assert.equal(store.get('engine_settings.full_every'), 100)
})
