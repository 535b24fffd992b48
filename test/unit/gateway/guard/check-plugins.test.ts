// Settings of a missing plugin are refused when they are written (docs/plugins.md).
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ConfigStore } from '../../../../src/config'
import { checkLinks } from '../../../../src/gateway/guard/check-links'
import { fragments } from '../../../../src/index'
import { Registry } from '../../../../src/links/registry'

const dir = mkdtempSync(join(tmpdir(), 'os-node-stray-'))
after(() => rmSync(dir, { recursive: true, force: true }))

function store(tree: object): { config: ConfigStore; set: (key: string, value: unknown) => Promise<unknown> } {
  const path = join(dir, 'Config.json')
  writeFileSync(path, JSON.stringify({ device_id: 'GW', gateway: { sources: [] }, ...tree }))
  const config = ConfigStore.load({ path, env: {}, cwd: dir, keep: false, fragments: fragments() })
  config.approve = next => checkLinks(config.config, next, new Registry({ sources: {}, media: {} }))
  return { config, set: (key, value) => config.approved(limits => config.setting(key, value, undefined, limits)) }
}

const section = (name: string): string => `RESOURCES.service_plugins.${name}`

test('settings of a plugin that is neither built in nor in the folder are refused; existing ones may change', async () => {
  const { config, set } = store({ RESOURCES: { service_plugins: { mine: { a: 1 } } } })
  await assert.rejects(set(`${section('web_usr')}.port`, 1), {
    code: 'UNKNOWN_KEY',
    message: `${section('web_usr')} is not a known key; did you mean ${section('web_user')}?`,
    details: { key: section('web_usr'), did_you_mean: section('web_user') },
  })
  await assert.rejects(set(`${section('garden')}.litres`, 1), {
    code: 'UNKNOWN_KEY',
    details: { key: section('garden') },
  })
  const whole = config.approved(limits =>
    config.updating({ RESOURCES: { service_plugins: { garden: { litres: 1 } } } }, limits),
  )
  await assert.rejects(whole, { code: 'UNKNOWN_KEY' })
  await set(`${section('web_user')}.port`, 9000)
  await set(`${section('tui')}.auto_start`, true)
  await set(`${section('mine')}.a`, 2)
  assert.equal(config.get(`${section('mine')}.a`), 2)
})

test('a third-party plugin is found by its file, in the folder that the configuration names', async () => {
  const { set } = store({})
  await assert.rejects(set(`${section('rain_gauge')}.mm`, 1), { code: 'UNKNOWN_KEY' })
  mkdirSync(join(dir, 'data/plugins'), { recursive: true })
  writeFileSync(join(dir, 'data/plugins/rain-gauge.mjs'), '')
  await set(`${section('rain_gauge')}.mm`, 1)
  const other = store({ plugins: { dir: join(dir, 'others') } })
  await assert.rejects(other.set(`${section('pump')}.on`, true), {
    hint: `a third-party plugin is known once its file is in ${join(dir, 'others')}`,
  })
  mkdirSync(join(dir, 'others/pump'), { recursive: true })
  await other.set(`${section('pump')}.on`, true)
})
