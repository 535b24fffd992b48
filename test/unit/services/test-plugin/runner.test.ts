// Long: more precisions
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { parseCommand, VERBS } from '../../../../src/commands'
import { Engine, Fusion, inventory, Node } from '../../../../src/index'
import { type TestParts, TestRunner } from '../../../../src/services/test-plugin'
import { compareCores } from '../../../../src/services/test-plugin/compare'
import { BUILT_IN_CORES, type CoreTable } from '../../../../src/services/test-plugin/cores'
import { cli } from '../../../lib/gateway'
import { LONG } from '../../../lib/random'

const script = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'dist/os-node.js')
const parts: TestParts = { script, library: { Engine, Fusion, Node }, inventory }
const dir = mkdtempSync(join(tmpdir(), 'os-node-plugin-test-'))
after(() => rmSync(dir, { recursive: true, force: true }))

const run = (...args: string[]) => {
  const { code, stdout, stderr } = cli([...args, '--json', '--data-dir', dir], { cwd: dir })
  return { code, stderr, answer: stdout.trim() === '' ? null : JSON.parse(stdout) }
}
const io = { signal: new AbortController().signal, print: () => undefined }
const pure = BUILT_IN_CORES.pycore!

test('integration: a node sends to a second process, which logs and answers queries', async () => {
  const [ok, fail, { suites }] = await new TestRunner(parts).runIntegration()
  assert.deepEqual(suites[0]!.failures, [])
  assert.deepEqual([ok, fail], [9, 0])
})

test('integration: when the program cannot start each step fails, and nothing is thrown', async () => {
  const runner = new TestRunner({ ...parts, script: join(dir, 'no-such-file.js') })
  const [ok, fail, { suites }] = await runner.runIntegration()
  assert.equal(ok, 0)
  assert.equal(fail, 9)
  assert.match(suites[0]!.failures[0]!.error, /os-node serve ended.*Cannot find module/s)
})

test('runStress takes its parameters in the order of the specification', async () => {
  const runner = new TestRunner(parts)
  const [summary, fail] = await runner.runStress(60, 3, 2, false, 'pycore', false, 1, 4, 1, null, 'e2e_inproc')
  assert.deepEqual([summary.ok, fail], [60, 0])
  const { total, workers, sources, core, batch_size, processes, threads_per_process, chain_mode, header_probe } =
    summary
  assert.deepEqual(
    [total, workers, sources, core, batch_size, processes, threads_per_process, chain_mode, header_probe.attempted],
    [60, 3, 2, 'pycore', 4, 1, null, 'e2e_inproc', 60],
  )
  assert.equal((await runner.runStress(10, 1, 1, false, null, true))[1], 10)
  const { running, last } = runner.status() as {
    running: string[]
    last: Record<string, { ok: boolean; fail: number }>
  }
  assert.deepEqual([running, last.stress?.ok, last.stress?.fail], [[], false, 10])
})

test('runAll takes its parameters in the order of the specification', async () => {
  const given: unknown[] = []
  const runner = new TestRunner(parts)
  runner.all = async (...args) => {
    given.push(args)
    return {} as never
  }
  await runner.runAll()
  await runner.runAll(1, 2, 3, 0, false, 'pycore', true, 0.5, 4, 5, 6, 'e2e_inproc')
  const rest = { core_backend: null, require_rust: false, header_probe_rate: 0, batch_size: 1, processes: 1 }
  assert.deepEqual(given, [
    [
      { total: 200, workers: 8, sources: 6, progress: true, ...rest, threads_per_process: null, chain_mode: 'core' },
      { verbosity: 1 },
    ],
    [
      {
        total: 1,
        workers: 2,
        sources: 3,
        progress: false,
        core_backend: 'pycore',
        require_rust: true,
        header_probe_rate: 0.5,
        batch_size: 4,
        processes: 5,
        threads_per_process: 6,
        chain_mode: 'e2e_inproc',
      },
      { verbosity: 0 },
    ],
  ])
})

test('a signal ends an integration run and its second process', async () => {
  const stop = new AbortController()
  setTimeout(() => stop.abort(), 300)
  await assert.rejects(new TestRunner(parts).integration({ signal: stop.signal }), { code: 'TIMEOUT' })
})

test('full_load: every built-in core runs, with all CPUs', async () => {
  const load = await new TestRunner(parts).fullLoad({ total: 100, threads_per_process: null })
  assert.deepEqual(
    load.runs.map(({ core, ok, workers, batch_size }) => [core, ok, workers, batch_size]),
    [
      ['pycore', 100, load.cpus, 256],
      ['rscore', 100, load.cpus, 256],
    ],
  )
  assert.equal(load.ok, true)
})

test('compare: both cores run in a separate thread, so that a gateway continues; a thread that dies is an error', async () => {
  const before = performance.eventLoopUtilization()
  const shown: string[] = []
  const terminal = { isTTY: true, columns: 80, write: (text: string) => void shown.push(text) }
  const { ok, equal, cores } = await new TestRunner({ ...parts, terminal }).compare()
  assert.ok(performance.eventLoopUtilization(before).utilization < 0.5, 'the loop was free')
  assert.deepEqual([ok, equal], [true, true])
  assert.deepEqual(
    cores.map(({ name, batch_pps }) => [name, batch_pps > 0]),
    [
      ['pycore', true],
      ['rscore', true],
    ],
  )
  assert.match(shown.join(''), / 1\/10 /)
  for (const { name, latency_us } of cores)
    for (const [what, { p50, p95, p99, max }] of Object.entries(latency_us))
      assert.ok(0 < p50 && p50 <= p95 && p95 <= p99 && p99 <= max, `${name} ${what}: ${p50} ${p95} ${p99} ${max}`)
  const dead = join(dir, 'dead.js')
  writeFileSync(dead, 'process.exit(3)')
  await assert.rejects(new TestRunner({ ...parts, script: dead }).compare(), { code: 'INTERNAL', message: /code 3/ })
})

test('compare: one core is not compared, two are compared byte by byte', async () => {
  const alone = await new TestRunner({ ...parts, cores: { pycore: pure } }).compare()
  assert.equal(alone.ok, true)
  assert.equal(alone.equal, null)
  assert.match(alone.note, /one core is built in \(pycore; rscore: it is not built in\)/)
  assert.ok(alone.cores[0]!.diff_pps > 0 && alone.cores[0]!.decode_pps > 0)

  const same = await compareCores(BUILT_IN_CORES)
  assert.deepEqual([same.ok, same.equal, same.packets_compared, same.differences], [true, true, 1024, []])

  for (const precision of LONG ? [0, 1, 5, 10] : [0, 10])
    assert.equal((await compareCores({ pycore: pure }, precision)).wrong, 0)

  const other: CoreTable[string] = settings => {
    const core = pure(settings)
    const { take } = core
    return Object.assign(core, {
      take: () => {
        const packets = take.call(core)
        packets[5]![6]! ^= 1
        return packets
      },
    })
  }
  const differing = await compareCores({ pycore: pure, rscore: other })
  assert.deepEqual([differing.ok, differing.equal], [false, false])
  assert.deepEqual(
    differing.differences.map(({ core, packet }) => [core, packet]),
    [['rscore', 5]],
  )
})

test('compare: the cores alternate in each measurement, so that V8 has compiled both equally', async () => {
  const turns: string[] = []
  const told = (name: string): CoreTable[string] => {
    return settings => {
      const core = pure(settings)
      const { transmitFast } = core
      return Object.assign(core, {
        transmitFast: (...call: Parameters<typeof transmitFast>) => {
          if (turns.at(-1) !== name) turns.push(name)
          return transmitFast.apply(core, call)
        },
      })
    }
  }
  await compareCores({ pycore: told('pycore'), rscore: told('rscore') })
  // three kinds, each with the first calls, three windows and the latencies
  assert.ok(turns.length >= 30, `${turns.length} turns`)
})

test('the handlers of the specification return their result and exit code', async () => {
  const commands = new TestRunner(parts).getCliCommands()
  assert.deepEqual(Object.keys(commands).sort(), [
    'all',
    'audit',
    'compare',
    'component',
    'full_load',
    'integration',
    'stress',
  ])
  const stress = await commands.stress!.run({ total: 30, 'header-probe-rate': 1, 'no-progress': true }, io)
  assert.equal(stress.exitCode, 0)
  assert.match(stress.text!, /stress on pycore, core: 30 of 30 passed, 0 failed/)
  assert.match(stress.text!, /headers checked: 30, wrong: 0/)
  assert.match(stress.text!, /^ +[\d.e-]+ ms \|#+ *\| \d+$/m)
  const load = await commands.full_load!.run({ total: 30, 'threads-per-process': 1 }, io)
  assert.match(load.text!, /^ +rscore \|#+ *\| \d+\/s$/m)
  const native = await commands.stress!.run({ total: 30, 'core-backend': 'rscore', 'require-rust': true }, io)
  assert.match(native.text!, /stress on rscore, core: 30 of 30 passed, 0 failed/)
  const refused = await commands.stress!.run({ total: 30, 'require-rust': true }, io)
  assert.equal(refused.exitCode, 1)
  assert.match(refused.text!, /rscore is required/)
  const { value, exitCode } = await commands.audit!.run({}, io)
  const report = value as { ok: boolean; gaps: string[]; items: unknown[] }
  assert.equal(report.ok, report.gaps.length === 0)
  assert.equal(exitCode, report.ok ? 0 : 1)
})

test('plugin-test passes on the options of the suite and ignores its others', async () => {
  const given: string[][] = []
  const context = {
    signal: io.signal,
    print: () => undefined,
    plugins: async () => ({
      command: async (plugin: string, argv: string[]) => {
        given.push([plugin, ...argv])
        return { value: { ok: true }, text: 'done' }
      },
    }),
  } as never
  const ask = (...argv: string[]) => {
    const { verb, options } = parseCommand(VERBS, ['plugin-test', ...argv])
    return verb.run(context, options)
  }
  assert.deepEqual(await ask(), { value: { ok: true }, text: 'done' })
  await ask('--suite', 'stress', '--total', '40', '--no-progress', '--verbosity', '2')
  await ask('component', '--verbosity', '2', '--total', '40')
  await ask('--suite', 'full_load', '--chain-mode', 'e2e_inproc')
  assert.deepEqual(given, [
    ['test_plugin', 'all'],
    ['test_plugin', 'stress', '--total', '40', '--no-progress'],
    ['test_plugin', 'component', '--verbosity', '2'],
    ['test_plugin', 'full_load', '--chain-mode', 'e2e_inproc'],
  ])
  for (const bad of [
    ['--suite', 'everything'],
    ['--total', '0'],
    ['--chain-mode', 'far'],
    ['--header-probe-rate', '2'],
  ])
    assert.throws(() => parseCommand(VERBS, ['plugin-test', ...bad]), { code: 'USAGE' })
})

test('plugin-test in a separate process: all suites run, and the exit code is 1 when one fails', () => {
  const all = run('plugin-test', '--total', '20', '--processes', '2')
  assert.equal(all.code, 0, JSON.stringify(all.answer ?? all.stderr).slice(0, 500))
  assert.deepEqual(Object.keys(all.answer).sort(), ['component', 'integration', 'ok', 'stress', 'suite', 'via'])
  assert.equal(all.answer.stress.summary.processes, 2)
  assert.deepEqual([all.answer.component.fail, all.answer.integration.fail], [0, 0])
  const refused = run('plugin-test', 'stress', '--require-rust')
  assert.equal(refused.code, 1)
  assert.match(refused.answer.summary.error, /rscore is required/)
})
