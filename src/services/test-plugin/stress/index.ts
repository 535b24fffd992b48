// The stress run: sends a number of packets through a core, in lanes spread over threads and processes, counted and timed.
//
// Errors: a packet that cannot be encoded, with a wrong header or values, or that is lost counts as failed, with its reason.
// A core that is not built in, or a thread or process that dies, ends the run with an error. If rscore is required but
// missing, nothing is sent and everything counts as failed.

import type { ProgressOutput } from '../../../lib/progress'
import { BUILT_IN_CORES, type CoreTable, coreMaker, namesOf, whyMissing } from '../cores'
import { progressBar } from '../program'
import { type StressOptions, settle } from './options'
import { runJob, runProcess, together } from './runners'
import type { Share } from './share'
import { type StressSummary, summaryOf } from './summary'

interface StressParts {
  /** the file of the program; processes and threads run it again */
  readonly script: string
  readonly cores?: CoreTable
  /** the configured core */
  readonly configured?: string
  /** decimals on the wire */
  readonly precision?: number
  /** shows the progress bar */
  readonly terminal?: ProgressOutput | undefined
  /** true: never run in the thread that serves others */
  readonly ownThread?: boolean
  readonly signal?: AbortSignal
}

export type StressOutcome = readonly [summary: StressSummary, fail: number]

/** Runs until all packets are processed or the signal is aborted. Throws BAD_REQUEST, NOT_FOUND, INTERNAL. */
export async function runStress(wanted: Partial<StressOptions>, parts: StressParts): Promise<StressOutcome> {
  const requested = settle(wanted)
  const { cores = BUILT_IN_CORES, signal } = parts
  const { core, note } = activeCore(cores, requested.core_backend, parts.configured)
  // a gateway keeps working meanwhile
  const own = parts.ownThread && requested.processes === 1 && requested.threads_per_process === null
  const options = own ? { ...requested, threads_per_process: 1 } : requested
  if (requested.require_rust && core !== 'rscore') {
    const why = Object.hasOwn(cores, 'rscore') ? '' : ` (${whyMissing('rscore')})`
    const error = `rscore is required and ${core} is active${why}; built in: ${namesOf(cores)}`
    return [{ ...summaryOf(options, core, []), fail: requested.total, error }, requested.total]
  }
  const bar = progressBar(requested.progress ? parts.terminal : undefined, requested.total)
  const jobs = jobsOf(options, core, parts.precision ?? 4)
  const common = { script: parts.script, ...(cores !== BUILT_IN_CORES && { cores }) }
  const run = together(
    jobs.map(
      job => onProgress =>
        options.processes > 1 ? runProcess(job, { ...common, onProgress }) : runJob(job, { ...common, onProgress }),
    ),
    done => bar.show(done),
  )
  const stop = (): void => run.stop()
  signal?.addEventListener('abort', stop, { once: true })
  try {
    if (signal?.aborted) stop()
    await run.ready
    run.go()
    const summary = summaryOf(options, core, await run.results)
    return [{ ...summary, ...(note && { note }), ...(signal?.aborted && { cancelled: true }) }, summary.fail]
  } catch (error) {
    // after a cancel the end of a process is expected; its counts are lost
    if (!signal?.aborted) throw error
    return [{ ...summaryOf(options, core, []), cancelled: true }, 0]
  } finally {
    signal?.removeEventListener('abort', stop)
    run.stop()
    bar.end()
  }
}

/** The core of a run. A requested name must be built in; the configured one falls back to the pure core, with a note. */
function activeCore(
  cores: CoreTable,
  requested: string | null,
  configured = 'pycore',
): { core: string; note?: string } {
  if (requested !== null) {
    coreMaker(cores, requested)
    return { core: requested }
  }
  if (Object.hasOwn(cores, configured)) return { core: configured }
  const note = `the configured core ${configured} is not available (${whyMissing(configured)}); pycore made the packets`
  return { core: 'pycore', note }
}

/** One job per process: lanes and packets are distributed evenly. */
function jobsOf(options: StressOptions, core: string, precision: number): { shares: Share[]; threads: boolean }[] {
  const { total, workers, processes, threads_per_process, sources, batch_size, header_probe_rate, chain_mode } = options
  const threads = threads_per_process ?? 1
  // at least one lane per worker
  const count = Math.min(total, Math.max(workers, processes * threads))
  const lanes = Array.from({ length: count }, (_, lane) => ({
    lane,
    packets: Math.floor(total / count) + (lane < total % count ? 1 : 0),
  }))
  const shares = Array.from(
    { length: processes * threads },
    (_, k): Share => ({
      core,
      precision,
      lanes: lanes.filter(({ lane }) => lane % (processes * threads) === k),
      sources,
      batchSize: batch_size,
      probeRate: header_probe_rate,
      chain: chain_mode,
    }),
  ).filter(share => share.lanes.length > 0)
  return Array.from({ length: processes }, (_, k) => ({
    shares: shares.filter((_, n) => n % processes === k),
    threads: threads_per_process !== null,
  })).filter(job => job.shares.length > 0)
}
