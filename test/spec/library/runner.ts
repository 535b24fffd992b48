// Specification, "Test runner service".

import assert from 'node:assert/strict'
import { TestRunner } from '../../../src/services/test-plugin'
import type { Row, Table } from '../rows'
import * as is from '../shape'
import { parameters, sameParameters } from '../signature'
import { library, newNode } from '../world'

const STRESS = [
  'total = 200',
  'workers = 8',
  'sources = 6',
  'progress = true',
  'core_backend = null',
  'require_rust = false',
  'header_probe_rate = 0',
  'batch_size = 1',
  'processes = 1',
  'threads_per_process = null',
  "chain_mode = 'core'",
]
const STANDARD: Record<string, string> = {
  'STRESS_DEFAULTS.total': '200',
  'STRESS_DEFAULTS.workers': '8',
  'STRESS_DEFAULTS.sources': '6',
}
const meant = (parameter: string): string => parameter.replace(/STRESS_DEFAULTS\.\w+/, name => STANDARD[name] ?? name)

type Runner = InstanceType<typeof TestRunner>
const runner = async (): Promise<Runner> =>
  (await library.ensureAndMountPlugin(newNode(), 'test_plugin', true)) as never as Runner

const outcome = is.tuple(is.integer, is.exactly(0), is.record({ suites: is.listOf(is.dict) }))
const summary = is.record({
  ok: is.integer,
  fail: is.exactly(0),
  total: is.integer,
  core: is.oneOf('pycore', 'rscore'),
})

const RUNNER: readonly Row[] = [
  {
    name: 'run_component',
    observe: async () => {
      sameParameters(parameters(TestRunner.prototype.runComponent), ['verbosity = 1'], 'runComponent')
      outcome(await (await runner()).runComponent())
    },
  },
  {
    name: 'run_integration',
    observe: async () => {
      sameParameters(parameters(TestRunner.prototype.runIntegration), [], 'runIntegration')
      outcome(await (await runner()).runIntegration())
    },
  },
  {
    name: 'run_stress',
    observe: async () => {
      sameParameters(parameters(TestRunner.prototype.runStress).map(meant), STRESS, 'runStress')
      const tests = await runner()
      is.tuple(summary, is.exactly(0))(await tests.runStress())
      is.tuple(
        is.record({ total: is.exactly(50), workers: is.exactly(2), sources: is.exactly(3) }),
        is.exactly(0),
      )(await tests.runStress(50, 2, 3, false, 'pycore', false, 1.0, 5, 1, null, 'e2e_inproc'))
    },
  },
  {
    name: 'run_stress: require_rust fails unless rscore is active',
    observe: async () => {
      const [, fail] = await (await runner()).runStress(10, 1, 1, false, null, true)
      // with the native core available this row requests the pure one, which is another
      assert.ok(fail > 0)
    },
  },
  {
    name: 'run_all',
    observe: async () => {
      const wanted = [
        'stress_total = 200',
        'stress_workers = 8',
        'stress_sources = 6',
        'verbosity = 1',
        ...STRESS.slice(3),
      ]
      sameParameters(parameters(TestRunner.prototype.runAll).map(meant), wanted, 'runAll')
      is.record({ ok: is.exactly(true), component: is.dict, integration: is.dict, stress: is.dict })(
        await (await runner()).runAll(20, 2, 2, 0, false),
      )
    },
  },
  {
    name: 'CLI handlers: component, stress, all, compare, full_load, integration, audit',
    observe: async () => {
      const tests = await runner()
      const names = ['component', 'stress', 'all', 'compare', 'full_load', 'integration', 'audit']
      for (const name of names) assert.ok(name in tests.getCliCommands(), name)
      is.record({ ok: is.exactly(true), cores: is.listOf(is.dict) })(await tests.compare())
      is.record({ ok: is.exactly(true), runs: is.listOf(summary) })(
        await tests.fullLoad({ total: 20, workers: 1, threads_per_process: null }),
      )
      is.record({ items: is.listOf(is.dict) })(await tests.audit())
    },
  },
]

export const runnerTables: readonly Table[] = [{ title: 'Test runner service', rows: RUNNER }]
