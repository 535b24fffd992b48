// The commands of the test runner: component, stress, all, compare, full_load, integration, audit. Exit code 1 if anything
// failed.
import type { CliHandler, CommandIo, CommandOutcome, OptionSpec, OptionValues } from '../contract'
import type { AuditReport } from './audit'
import { KINDS } from './audit/inventory'
import type { Outcome, RunOptions } from './checks'
import type { Comparison } from './compare'
import { bars } from './plot'
import { counted } from './program'
import type { StressOutcome } from './stress'
import { STRESS_OPTIONS, type StressOptions } from './stress/options'
import type { StressSummary } from './stress/summary'

export interface AllReport {
  readonly ok: boolean
  readonly component: { ok: number; fail: number; result: Outcome[2] }
  readonly integration: { ok: number; fail: number; result: Outcome[2] }
  readonly stress: { summary: StressSummary; fail: number }
}

export interface FullLoad {
  readonly ok: boolean
  readonly cpus: number
  readonly fail: number
  /** one per core */
  readonly runs: readonly StressSummary[]
}

/** The suites behind the commands; TestRunner of runner.ts. */
interface Suites {
  component(options: RunOptions): Promise<Outcome>
  integration(options: RunOptions): Promise<Outcome>
  stress(options: Partial<StressOptions>, signal?: AbortSignal): Promise<StressOutcome>
  all(stress: Partial<StressOptions>, options: RunOptions): Promise<AllReport>
  compare(): Promise<Comparison>
  fullLoad(options: Partial<StressOptions>, signal?: AbortSignal): Promise<FullLoad>
  audit(): Promise<AuditReport>
}

const VERBOSITY: Record<string, OptionSpec> = {
  verbosity: { type: 'integer', value: 'N', min: 0, max: 2, default: 1, help: '0 counts, 1 what failed, 2 everything' },
}

const VERBOSE = (options: OptionValues): number => Number(options.verbosity ?? 1)

/** Options of the command line → options of a stress run, without defaults. */
function stressOf(options: OptionValues): Partial<StressOptions> {
  const out: Record<string, unknown> = {}
  for (const name of Object.keys(STRESS_OPTIONS)) {
    if (options[name] === undefined) continue
    if (name === 'no-progress') out.progress = options[name] !== true
    else out[name.replaceAll('-', '_')] = options[name]
  }
  return out as Partial<StressOptions>
}

const reported = (ok: boolean, value: object, text: string): CommandOutcome => ({
  value: { ok, ...value },
  text,
  exitCode: ok ? 0 : 1,
})

export const testCommands = (runner: Suites): Record<string, CliHandler> => ({
  component: {
    summary: 'run the built-in self-test: vectors, CRC, units, log, SQL',
    options: VERBOSITY,
    reads: true,
    run: async (options, { signal }) =>
      ofChecks('component', await runner.component({ verbosity: VERBOSE(options), signal })),
  },
  integration: {
    summary: 'send over UDP to a second process, which logs and answers queries',
    options: VERBOSITY,
    run: async (options, { signal }) =>
      ofChecks('integration', await runner.integration({ verbosity: VERBOSE(options), signal })),
  },
  stress: {
    summary: 'many packets through a core, in lanes, threads and processes',
    options: STRESS_OPTIONS,
    run: async (options, { signal }) => {
      const [summary, fail] = await runner.stress(stressOf(options), signal)
      return reported(fail === 0 && !summary.cancelled, { suite: 'stress', fail, summary }, textOfStress(summary))
    },
  },
  all: {
    summary: 'component, integration and stress',
    options: { ...VERBOSITY, ...STRESS_OPTIONS },
    run: (options, io) => all(runner, options, io),
  },
  compare: {
    summary: 'measure the built-in cores and compare their bytes',
    run: async () => {
      const result = await runner.compare()
      return reported(result.ok, { suite: 'compare', ...result }, textOfComparison(result))
    },
  },
  full_load: {
    summary: 'stress all CPUs, in batches, on every built-in core',
    options: STRESS_OPTIONS,
    run: async (options, { signal }) => {
      const { ok, ...load } = await runner.fullLoad(stressOf(options), signal)
      const rates = bars(
        load.runs.map(run => [run.core, run.throughput_pps]),
        '/s',
      )
      const text = [`${load.cpus} CPUs`, ...load.runs.map(textOfStress), 'packets/s', ...rates].join('\n')
      return reported(ok, { suite: 'full_load', ...load }, text)
    },
  },
  audit: {
    summary: 'list every route, command, key and plugin, and whether a test names it',
    options: VERBOSITY,
    reads: true,
    run: async options => {
      const { ok, items, ...report } = await runner.audit()
      const all = { suite: 'audit', ...report, items }
      return reported(ok, all, textOfAudit({ ok, items, ...report }, VERBOSE(options)))
    },
  },
})

function ofChecks(suite: string, [passed, failed, { suites }]: Outcome): CommandOutcome {
  return reported(failed === 0, { suite, passed, failed, suites }, textOfSuites([passed, failed, { suites }]))
}

async function all(runner: Suites, options: OptionValues, { signal }: CommandIo): Promise<CommandOutcome> {
  const { ok, ...report } = await runner.all(stressOf(options), { verbosity: VERBOSE(options), signal })
  const { component, integration, stress } = report
  const text = [
    ...[component, integration].map(part => textOfSuites([part.ok, part.fail, part.result])),
    textOfStress(stress.summary),
  ].join('\n')
  return reported(ok, { suite: 'all', ...report }, text)
}

const textOfSuites = ([, , { suites }]: Outcome): string =>
  suites
    .flatMap(({ name, ok, fail, ms, failures, passed = [] }) => [
      `${name}: ${ok} passed, ${fail} failed (${(ms / 1000).toFixed(1)} s)`,
      ...failures.map(failure => `  FAILED ${failure.name}: ${failure.error}`),
      ...passed.map(check => `  passed ${check}`),
    ])
    .join('\n')

function textOfStress(s: StressSummary): string {
  if (s.error !== undefined) return `stress: ${s.error}`
  const { header_probe: probe } = s
  return [
    `stress on ${s.core}, ${s.chain_mode}: ${s.ok} of ${s.total} passed, ${s.fail} failed${s.cancelled ? ', stopped' : ''}`,
    `  ${s.throughput_pps} packets/s in ${s.duration_s.toFixed(2)} s; ${s.bytes_per_packet} bytes each; working simultaneously: ${s.overlap}`,
    `  latency ms: mean ${s.avg_latency_ms.toFixed(4)}, p50 ${s.p50_latency_ms.toFixed(4)}, ` +
      `p95 ${s.p95_latency_ms.toFixed(4)}, p99 ${s.p99_latency_ms.toFixed(4)}, max ${s.max_latency_ms.toFixed(4)}`,
    ...bars(s.latency_steps.map(({ up_to_ms, packets }) => [`${up_to_ms.toPrecision(3)} ms`, packets])),
    ...(probe.enabled ? [`  headers checked: ${probe.attempted}, wrong: ${probe.failed}`] : []),
    ...(s.note === undefined ? [] : [`  ${s.note}`]),
    ...Object.entries(s.errors).map(([why, times]) => `  FAILED ${times} × ${why}`),
  ].join('\n')
}

const textOfComparison = ({ cores, note, wrong, differences }: Comparison): string =>
  [
    ...cores.map(
      ({ name, full_pps, diff_pps, heart_pps, batch_pps, decode_pps }) =>
        `${name}: FULL ${full_pps}/s, DIFF ${diff_pps}/s, HEART ${heart_pps}/s, in batches ${batch_pps}/s, decoded ${decode_pps}/s`,
    ),
    ...cores.flatMap(({ name, latency_us }) =>
      Object.entries(latency_us).map(
        ([what, { p50, p95, p99, max }]) => `  ${name}, ${what}: µs p50 ${p50}, p95 ${p95}, p99 ${p99}, max ${max}`,
      ),
    ),
    ...bars(
      cores.flatMap(({ name, diff_pps, batch_pps }): [string, number][] => [
        [`${name}, one by one`, diff_pps],
        [`${name}, in batches`, batch_pps],
      ]),
      '/s',
    ),
    note,
    ...(wrong > 0 ? [`FAILED ${counted(wrong, 'packet')} decoded to other values`] : []),
    ...differences.map(({ core, packet, hex, reference }) => `packet ${packet}: ${core} ${hex}, not ${reference}`),
  ].join('\n')

function textOfAudit({ counts, note, items }: AuditReport, verbosity: number): string {
  const shown = items.filter(({ status }) => verbosity > 1 || (verbosity > 0 && status === 'gap'))
  return [
    ...KINDS.map(kind => `${kind}: ${counts[kind].tested} tested, ${counted(counts[kind].gaps, 'gap')}`),
    note,
    ...shown.map(({ kind, name, status, tests, file }) =>
      status === 'gap' ? `  GAP ${kind} ${name}` : `  ${kind} ${name}: ${counted(tests, 'test file')}, ${file}`,
    ),
  ].join('\n')
}
