// Merges the results of all shares into the summary of a stress run.
import { Histogram, type LatencyStep } from './histogram'
import type { StressOptions } from './options'
import type { ShareResult } from './share'

type Settings = Pick<
  StressOptions,
  'total' | 'workers' | 'sources' | 'batch_size' | 'processes' | 'threads_per_process' | 'chain_mode'
>

export interface StressSummary extends Settings {
  ok: number
  fail: number
  core: string
  /** from the first start to the last end of all parallel parts */
  duration_s: number
  throughput_pps: number
  /** average number of simultaneously active threads and processes */
  overlap: number
  bytes: number
  bytes_per_packet: number
  packets: { full: number; diff: number; heart: number }
  avg_latency_ms: number
  min_latency_ms: number
  p50_latency_ms: number
  p95_latency_ms: number
  p99_latency_ms: number
  p99_9_latency_ms: number
  p99_99_latency_ms: number
  max_latency_ms: number
  latency_steps: readonly LatencyStep[]
  header_probe: { enabled: boolean; rate: number; attempted: number; ok: number; failed: number }
  /** errors and their counts */
  errors: Record<string, number>
  /** stopped early */
  cancelled?: true
  /** another core than the configured one was used, and why */
  note?: string
  /** why nothing was sent */
  error?: string
}

const round = (value: number, digits = 4): number => Math.round(value * 10 ** digits) / 10 ** digits

export function summaryOf(options: StressOptions, core: string, results: readonly ShareResult[]): StressSummary {
  const latency = new Histogram()
  for (const result of results) latency.merge(result.latency)
  const sum = (read: (result: ShareResult) => number): number => results.reduce((all, one) => all + read(one), 0)
  const errors: Record<string, number> = {}
  for (const result of results)
    for (const [why, times] of Object.entries(result.errors)) errors[why] = (errors[why] ?? 0) + times
  const ms = Math.max(0, ...results.map(r => r.endedAt)) - Math.min(...results.map(r => r.startedAt))
  const seconds = results.length > 0 ? Math.max(ms, 1e-3) / 1000 : 0
  const ok = sum(r => r.ok)
  const packets = { full: sum(r => r.full), diff: sum(r => r.diff), heart: sum(r => r.heart) }
  const made = packets.full + packets.diff + packets.heart
  const attempted = sum(r => r.probed)
  const failed = sum(r => r.probesFailed)
  const at = (share: number): number => round(latency.percentile(share), 6)
  return {
    ok,
    fail: sum(r => r.fail),
    total: options.total,
    core,
    chain_mode: options.chain_mode,
    workers: options.workers,
    sources: options.sources,
    batch_size: options.batch_size,
    processes: options.processes,
    threads_per_process: options.threads_per_process,
    duration_s: round(seconds, 6),
    throughput_pps: seconds > 0 ? Math.round(ok / seconds) : 0,
    overlap: seconds > 0 ? round(sum(r => r.endedAt - r.startedAt) / (1000 * seconds), 2) : 0,
    bytes: sum(r => r.bytes),
    bytes_per_packet: made > 0 ? round(sum(r => r.bytes) / made, 2) : 0,
    packets,
    avg_latency_ms: round(latency.mean, 6),
    min_latency_ms: round(latency.min, 6),
    p50_latency_ms: at(0.5),
    p95_latency_ms: at(0.95),
    p99_latency_ms: at(0.99),
    p99_9_latency_ms: at(0.999),
    p99_99_latency_ms: at(0.9999),
    max_latency_ms: round(latency.max, 6),
    latency_steps: latency.steps(),
    header_probe: {
      enabled: options.header_probe_rate > 0,
      rate: options.header_probe_rate,
      attempted,
      ok: attempted - failed,
      failed,
    },
    errors,
  }
}
