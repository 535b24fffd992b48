import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import * as library from '../../../../../src/index'
import { runChecks } from '../../../../../src/services/test-plugin/checks'
import { runComponent } from '../../../../../src/services/test-plugin/component'
import { builtInCases, vectorChecks } from '../../../../../src/services/test-plugin/component/vectors'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

test('all suites of the self-test pass on this build', async () => {
  const [ok, fail, { suites }] = await runComponent(library)
  assert.deepEqual(
    suites.flatMap(({ failures }) => failures),
    [],
  )
  assert.equal(fail, 0)
  assert.deepEqual(
    suites.map(({ name }) => name),
    ['vectors', 'crc', 'units', 'log', 'sql'],
  )
  assert.ok(ok > 450, `${ok} checks`)
})

test('the vectors inside the program equal those of the test data', () => {
  const cases = builtInCases()
  const files = readdirSync(join(root, 'test/vectors')).filter(name => name !== 'net.json')
  assert.deepEqual(Object.keys(cases), files.map(name => name.replace('.json', '')).sort())
  const differing = Object.keys(JSON.parse(readFileSync(join(root, 'test/interop/divergences.json'), 'utf8')))
  for (const [group, list] of Object.entries(cases)) {
    const given = JSON.parse(readFileSync(join(root, `test/vectors/${group}.json`), 'utf8')).cases
    const same = given.filter(({ name }: { name: string }) => !differing.includes(name))
    assert.ok(JSON.stringify(list) === JSON.stringify(same), `${group} differs`)
  }
})

test('a wrong answer fails its check by name, and the others continue', async () => {
  const wrong = { ...library, crc8: () => 1 }
  const { primitives } = builtInCases()
  const report = await runChecks('vectors', vectorChecks(wrong, { primitives: primitives! }))
  assert.ok(report.fail > 0 && report.ok > report.fail)
  assert.match(report.failures[0]!.name, /^primitives\/.*crc8/)
  assert.match(report.failures[0]!.error, /want .*, got \{"value":1\}/)
})

test('verbosity: 0 prints counts, 1 the failed checks, 2 all checks', async () => {
  const checks = [
    ['good', () => undefined],
    ['bad', () => Promise.reject(new Error('no'))],
  ] as const
  const reports = await Promise.all([0, 1, 2].map(verbosity => runChecks('s', checks, { verbosity })))
  assert.deepEqual(
    reports.map(({ failures, passed }) => [failures.length, passed]),
    [
      [0, undefined],
      [1, undefined],
      [1, ['good']],
    ],
  )
  assert.deepEqual(reports[1]!.failures, [{ name: 'bad', error: 'no' }])
})

test('a signal ends a suite', async () => {
  await assert.rejects(runChecks('s', [['a', () => undefined]], { signal: AbortSignal.abort() }), { code: 'TIMEOUT' })
})
