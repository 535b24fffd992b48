// Sources of the configuration as links of a gateway.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hostSources } from '../../../../drivers/host'
import { ConfigStore } from '../../../../src/config'
import { Gateway } from '../../../../src/gateway/gateway'
import { systemClock } from '../../../../src/lib/clock'
import { createLogger } from '../../../../src/lib/logger'
import { Registry } from '../../../../src/links/registry'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { until } from '../../../lib/gateway'

test('a part that this machine does not have is no fault, in a list that is written out too; one that match names is', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-sources-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const lines: string[] = []
  const logger = createLogger({ write: line => void lines.push(line) })
  const path = join(dir, 'Config.json')
  const sources = [
    { name: 'zones', type: 'thermal', sys_root: dir },
    { name: 'named', type: 'thermal', sys_root: dir, match: 'cpu*' },
  ]
  const config = { assigned_id: 5, storage: { sql: { enabled: false } }, gateway: { sources, uplinks: [] } }
  writeFileSync(path, JSON.stringify(config))
  const gw = await Gateway.open({
    ...{ config: ConfigStore.load({ path, env: {}, cwd: dir, logger }), logger, version: '0', builtAt: 0, script: '' },
    units: { ...wireUnits(), resolve },
    registry: new Registry({ media: {}, sources: { thermal: async () => hostSources.thermal } }),
    ...{ defaultSources: [], role: 'run', clock: systemClock },
  })
  t.after(() => gw.stop())
  await gw.start()
  const state = (name: string): unknown => gw.status().links[name]?.state
  await until('both were tried', () => state('zones') !== 'opening' && state('named') !== 'opening')
  assert.deepEqual([state('zones'), state('named')], ['absent', 'down'])
  assert.deepEqual(
    lines.filter(line => /WARN.*(zones|named): /.test(line)).map(line => line.includes('named: ')),
    [true],
  )
})
