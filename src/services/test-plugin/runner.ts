// The test runner (specification, "Test runner service"). Every suite uses a temporary folder and the loopback interface, so
// that none touches the data of a gateway; inside a gateway, stress runs in its own threads.
//
// Errors: failed checks or packets are counted in the results. An error is thrown only for options out of range
// (BAD_REQUEST), a core that is not built in (NOT_FOUND), and a cancelled run (TIMEOUT).
import { availableParallelism } from 'node:os'
import type { ProgressOutput } from '../../lib/progress'
import type { PluginHost, Service } from '../contract'
import { type AuditReport, audit } from './audit'
import type { Inventory } from './audit/inventory'
import type { Outcome, RunOptions } from './checks'
import { type AllReport, type FullLoad, testCommands } from './commands'
import { type Comparison, compareCores } from './compare'
import { runComponent } from './component'
import { BUILT_IN_CORES, type CoreTable } from './cores'
import { type NodeClass, runIntegration } from './integration'
import * as program from './program'
import { runStress, type StressOutcome } from './stress'
import { type ChainMode, STRESS_DEFAULTS, type StressOptions } from './stress/options'
import { compareApart } from './stress/runners'
import type { StressSummary } from './stress/summary'
import type { Lib } from './vectors/common'

export interface TestParts {
  /** the file of the program; processes, threads and the SQL worker run it again */
  readonly script: string
  /** the library under test */
  readonly library: Pick<Lib, 'Engine' | 'Fusion'> & { readonly Node: NodeClass }
  /** the inventory for the audit */
  readonly inventory: () => Promise<Inventory>
  readonly cores?: CoreTable
  /** shows progress bars */
  readonly terminal?: ProgressOutput
}

/** default packets of full_load per CPU */
const LOAD_PER_CPU = 100_000
/** batch size: the cores only differ in batches */
const LOAD_BATCH = 256

export class TestRunner implements Service {
  readonly #parts: TestParts
  readonly #host: PluginHost | undefined
  readonly #cores: CoreTable
  readonly #running: string[] = []
  readonly #last = new Map<string, { ok: boolean; at: number; ms: number; fail: number }>()

  /** Without a host: defaults of the configuration, no gateway. */
  constructor(parts: TestParts, host?: PluginHost) {
    this.#parts = parts
    this.#host = host
    this.#cores = parts.cores ?? BUILT_IN_CORES
  }

  /** The built-in self-test; `verbosity` 0 counts, 1 names what failed, 2 names all. */
  runComponent(verbosity = 1): Promise<Outcome> {
    return this.component({ verbosity })
  }

  component(options: RunOptions = {}): Promise<Outcome> {
    const { library } = this.#parts
    return this.#noted('component', failsOf, () => runComponent({ ...program, ...library }, options))
  }

  /** A node sends to a second process of this program, on the loopback interface. */
  runIntegration(): Promise<Outcome> {
    return this.integration()
  }

  integration(options: RunOptions = {}): Promise<Outcome> {
    const { script, library } = this.#parts
    return this.#noted('integration', failsOf, () => runIntegration(library.Node, script, options))
  }

  /** Sends packets through a core; see StressOptions. */
  runStress(
    total = STRESS_DEFAULTS.total,
    workers = STRESS_DEFAULTS.workers,
    sources = STRESS_DEFAULTS.sources,
    progress = true,
    core_backend: string | null = null,
    require_rust = false,
    header_probe_rate = 0.0,
    batch_size = 1,
    processes = 1,
    threads_per_process: number | null = null,
    chain_mode: ChainMode = 'core',
  ): Promise<StressOutcome> {
    return this.stress({
      total,
      workers,
      sources,
      progress,
      core_backend,
      require_rust,
      header_probe_rate,
      batch_size,
      processes,
      threads_per_process,
      chain_mode,
    })
  }

  /** Like runStress(), with named options; the plugin's settings are the defaults. */
  stress(options: Partial<StressOptions> = {}, signal?: AbortSignal): Promise<StressOutcome> {
    const { script, terminal } = this.#parts
    const gateway = this.#host?.gateway !== undefined
    const configured = this.#host?.config.get<string>('engine_settings.core_backend')
    return this.#noted(
      'stress',
      ([, fail]) => fail,
      () =>
        runStress(
          { ...this.#settings(), ...options },
          {
            script,
            cores: this.#cores,
            precision: this.#precision,
            ownThread: gateway,
            ...(configured !== undefined && { configured }),
            ...(!gateway && terminal && { terminal }),
            ...(signal && { signal }),
          },
        ),
    )
  }

  /** Self-test, integration and stress, one after another. */
  runAll(
    stress_total = STRESS_DEFAULTS.total,
    stress_workers = STRESS_DEFAULTS.workers,
    stress_sources = STRESS_DEFAULTS.sources,
    verbosity = 1,
    progress = true,
    core_backend: string | null = null,
    require_rust = false,
    header_probe_rate = 0.0,
    batch_size = 1,
    processes = 1,
    threads_per_process: number | null = null,
    chain_mode: ChainMode = 'core',
  ): Promise<AllReport> {
    return this.all(
      {
        total: stress_total,
        workers: stress_workers,
        sources: stress_sources,
        progress,
        core_backend,
        require_rust,
        header_probe_rate,
        batch_size,
        processes,
        threads_per_process,
        chain_mode,
      },
      { verbosity },
    )
  }

  async all(stress: Partial<StressOptions> = {}, options: RunOptions = {}): Promise<AllReport> {
    const component = partOf(await this.component(options))
    const integration = partOf(await this.integration(options))
    const [summary, fail] = await this.stress(stress, options.signal)
    const ok = component.fail + integration.fail + fail === 0 && summary.cancelled === undefined
    return { ok, component, integration, stress: { summary, fail } }
  }

  /** Rates and bytes of the built-in cores, measured in a separate thread. */
  compare(): Promise<Comparison> {
    return this.#noted(
      'compare',
      ({ ok }) => (ok ? 0 : 1),
      () => {
        const { cores, script, terminal } = this.#parts
        const bar = program.progressBar(this.#host?.gateway ? undefined : terminal, 1)
        const report = (done: number, of: number): void => bar.show(done, of)
        // a thread only knows the built-in cores
        const comparing = cores
          ? compareCores(cores, this.#precision, report)
          : compareApart(script, this.#precision, report)
        return comparing.finally(() => bar.end())
      },
    )
  }

  /** Stress in batches with all CPUs, on every built-in core. */
  async fullLoad(options: Partial<StressOptions> = {}, signal?: AbortSignal): Promise<FullLoad> {
    const cpus = availableParallelism()
    const runs: StressSummary[] = []
    for (const core_backend of Object.keys(this.#cores)) {
      const all = { total: LOAD_PER_CPU * cpus, workers: cpus, threads_per_process: cpus, batch_size: LOAD_BATCH }
      const load = { ...all, ...options, core_backend }
      runs.push((await this.stress(load, signal))[0])
      if (signal?.aborted) break
    }
    const fail = runs.reduce((sum, run) => sum + run.fail, 0)
    return { ok: fail === 0 && !signal?.aborted, cpus, fail, runs }
  }

  /** Every route, command, key and plugin, and whether a test names it. */
  async audit(): Promise<AuditReport> {
    return this.#noted(
      'audit',
      ({ gaps }) => gaps.length,
      async () => audit(await this.#parts.inventory()),
    )
  }

  /** The running suite, and how each suite ended last: `at` in UNIX seconds. */
  status(): Record<string, unknown> {
    return {
      running: [...this.#running],
      last: Object.fromEntries(this.#last),
      cores: Object.keys(this.#cores),
      cpus: availableParallelism(),
    }
  }

  getCliCommands(): ReturnType<typeof testCommands> {
    return testCommands(this)
  }

  displayProviders(): readonly unknown[] {
    return [
      {
        plugin_name: 'test_plugin',
        section_id: 'results',
        display_name: 'Tests',
        priority: 20,
        refresh_interval_s: 5,
        data: () => this.status(),
      },
    ]
  }

  get #precision(): number {
    return this.#host?.config.get<number>('engine_settings.precision') ?? 4
  }

  /** The configured options of stress runs. */
  #settings(): Partial<StressOptions> {
    const settings = this.#host?.settings() ?? {}
    return Object.fromEntries(
      (['total', 'workers', 'sources'] as const)
        .map(name => [name, settings[`stress_${name}`]] as const)
        .filter(([, value]) => value !== undefined),
    )
  }

  async #noted<T>(name: string, fails: (result: T) => number, run: () => Promise<T>): Promise<T> {
    const start = performance.now()
    let fail = 1
    this.#running.push(name)
    try {
      const result = await run()
      fail = fails(result)
      return result
    } finally {
      this.#running.splice(this.#running.indexOf(name), 1)
      const ms = Math.round(performance.now() - start)
      const at = Math.floor((this.#host?.clock.wall() ?? Date.now()) / 1000)
      this.#last.set(name, { ok: fail === 0, at, ms, fail })
    }
  }
}

const failsOf = ([, fail]: Outcome): number => fail

const partOf = ([ok, fail, result]: Outcome): AllReport['component'] => ({ ok, fail, result })
