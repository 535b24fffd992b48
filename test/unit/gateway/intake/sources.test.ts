// Sources of the configuration as links of a gateway.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { canSource } from '../../../../drivers/can/signals/signal-source'
import { hostSources } from '../../../../drivers/host'
import { ConfigStore } from '../../../../src/config'
import { Gateway } from '../../../../src/gateway/gateway'
import { systemClock } from '../../../../src/lib/clock'
import { createLogger } from '../../../../src/lib/logger'
import { Registry } from '../../../../src/links/registry'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { until } from '../../../lib/gateway'

/** A gateway started with these sources, and what it logged. */
async function gateway(
  t: TestContext,
  dir: string,
  sources: object[],
  more: ConstructorParameters<typeof Registry>[0]['sources'] = {},
) {
  const lines: string[] = []
  const logger = createLogger({ write: line => void lines.push(line) })
  const path = join(dir, 'Config.json')
  const config = { assigned_id: 5, storage: { sql: { enabled: false } }, gateway: { sources, uplinks: [] } }
  writeFileSync(path, JSON.stringify(config))
  const gw = await Gateway.open({
    ...{ config: ConfigStore.load({ path, env: {}, cwd: dir, logger }), logger, version: '0', builtAt: 0, script: '' },
    units: { ...wireUnits(), resolve },
    registry: new Registry({
      media: {},
      sources: { thermal: async () => hostSources.thermal, can: async () => canSource, ...more },
    }),
    ...{ defaultSources: [], role: 'run', clock: systemClock },
  })
  t.after(() => gw.stop())
  await gw.start()
  return { gw, lines }
}

test('two CAN sources with one DBC file: the order of the configuration decides which keeps an id, before a frame is received', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-sources-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const dbc = join(dir, 'engine.dbc')
  writeFileSync(dbc, 'BO_ 1 M: 8 X\n SG_ Speed : 0|8@1+ (1,0) [0|0] "" X\n SG_ Oil : 8|8@1+ (1,0) [0|0] "" X\n')
  const can = (name: string) => ({ name, type: 'can', interface: `none_${name}`, dbc })
  const { lines } = await gateway(t, dir, [can('east'), can('west')])
  const warned = lines.filter(line => line.includes('in use by'))
  assert.equal(warned.length, 1)
  assert.match(
    warned[0]!,
    /source west: 2 sensor ids in use by east: Speed is now west_Speed, Oil is now west_Oil; older readings/,
  )
})

test('a sensor that this machine lacks is no fault, even in an explicit list; a missing one named by match is', async t => {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-sources-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const { gw, lines } = await gateway(t, dir, [
    { name: 'zones', type: 'thermal', sys_root: dir },
    { name: 'named', type: 'thermal', sys_root: dir, match: 'cpu*' },
  ])
  const state = (name: string): unknown => gw.status().links[name]?.state
  await until('both were tried', () => state('zones') !== 'opening' && state('named') !== 'opening')
  assert.deepEqual([state('zones'), state('named')], ['absent', 'down'])
  assert.deepEqual(
    lines.filter(line => /WARN.*(zones|named): /.test(line)).map(line => line.includes('named: ')),
    [true],
  )
})

test('a sensor id in use is renamed to one that no source of the configuration uses', async t => {
  const ids: Record<string, string> = { a: 'level', b: 'level', c: 'b_level' }
  const counters = { rx: 0, tx: 0, errors: 0 }
  const create = (name: string) => ({
    ...{ name, type: 'fake', intervalMs: 60_000, counters, sensors: [{ id: ids[name]!, unit: '1' }] },
    open: async () => undefined,
    close: async () => undefined,
    read: async () => [[ids[name]!, 'OK', 1, '1'] as const],
  })
  const sources = Object.keys(ids).map(name => ({ name, type: 'fake' }))
  const dir = mkdtempSync(join(tmpdir(), 'os-node-sources-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const { gw, lines } = await gateway(t, dir, sources, { fake: async () => ({ type: 'fake', create }) })
  const logged = () => gw.latestReadings().flatMap(({ sensors }) => sensors.map(({ id }) => id))
  await until('all are read', () => logged().length === 3)
  assert.deepEqual(logged().sort(), ['b_level', 'b_level_2', 'level'])
  const said = lines.flatMap(line => /source (\w+): 1 sensor id in use.*?; /.exec(line)?.[0] ?? [])
  assert.deepEqual(said, ['source b: 1 sensor id in use by a: level is now b_level_2; '])
})
