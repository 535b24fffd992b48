// How long a device keeps an unused id: the policy of `security_settings.id_lease`, and a lease that shrinks while many new
// devices arrive. Pure over the time passed in (UNIX seconds). Missing or wrong policy values become defaults, values out of
// range become the limit; cannot fail.

export interface LeasePolicy {
  readonly base_lease_seconds: number
  readonly min_lease_seconds: number
  readonly rate_window_seconds: number
  readonly high_rate_threshold_per_hour: number
  readonly ultra_rate_threshold_per_hour: number
  readonly ultra_rate_sustain_seconds: number
  readonly high_rate_min_factor: number
  readonly adaptive_enabled: boolean
  readonly ultra_force_release: boolean
  readonly metrics_emit_interval_seconds: number
}

/** As in the configuration, including `offline_hold_days` and `metrics_flush_seconds`. */
export type LeasePolicyInput = Readonly<Record<string, unknown>>

export interface LeaseMetrics {
  base_lease_seconds: number
  effective_lease_seconds: number
  new_device_rate_per_hour: number
  ultra_rate_active: boolean
  force_zero_lease_active: boolean
  last_reclaim_count: number
  last_reclaim_at: number
  total_reclaimed: number
  updated_at: number
}

const DEFAULT_HOLD_DAYS = 30

const number = (value: unknown, fallback: number, least: number): number => {
  const parsed = typeof value === 'number' || (typeof value === 'string' && value.trim()) ? Number(value) : Number.NaN
  return Math.max(least, Number.isFinite(parsed) ? parsed : fallback)
}

export function leasePolicy(input: LeasePolicyInput | null = null): LeasePolicy {
  const policy = input ?? {}
  const days = number(policy['offline_hold_days'], 0, 0) || DEFAULT_HOLD_DAYS
  const least = Math.trunc(number(policy['min_lease_seconds'], 0, 0))
  const base = Math.trunc(number(policy['base_lease_seconds'], 0, 0) || days * 86_400)
  const emit = policy['metrics_emit_interval_seconds'] ?? policy['metrics_flush_seconds']
  return {
    base_lease_seconds: Math.max(base, least),
    min_lease_seconds: least,
    rate_window_seconds: Math.trunc(number(policy['rate_window_seconds'], 3600, 300)),
    high_rate_threshold_per_hour: number(policy['high_rate_threshold_per_hour'], 60, 1),
    ultra_rate_threshold_per_hour: number(policy['ultra_rate_threshold_per_hour'], 180, 1),
    ultra_rate_sustain_seconds: Math.trunc(number(policy['ultra_rate_sustain_seconds'], 600, 60)),
    high_rate_min_factor: Math.min(1, number(policy['high_rate_min_factor'], 0.2, 0)),
    adaptive_enabled: policy['adaptive_enabled'] !== false,
    ultra_force_release: policy['ultra_force_release'] !== false,
    metrics_emit_interval_seconds: Math.trunc(number(emit, 5, 1)),
  }
}

/** Tracks the rate of new devices and the metrics. */
export class LeaseMeter {
  readonly policy: LeasePolicy
  readonly metrics: LeaseMetrics
  /** number of times the sink threw */
  sinkFailures = 0
  readonly #sink: ((metrics: LeaseMetrics) => void) | null
  /** new devices per second of arrival, oldest first */
  #arrivals: { at: number; count: number }[] = []
  #count = 0
  #ultraSince = 0

  constructor(policy: LeasePolicy, now: number, sink: ((metrics: LeaseMetrics) => void) | null = null) {
    this.policy = policy
    this.#sink = sink
    this.metrics = {
      base_lease_seconds: policy.base_lease_seconds,
      effective_lease_seconds: policy.base_lease_seconds,
      new_device_rate_per_hour: 0,
      ultra_rate_active: false,
      force_zero_lease_active: false,
      last_reclaim_count: 0,
      last_reclaim_at: 0,
      total_reclaimed: 0,
      updated_at: now,
    }
  }

  arrived(now: number): void {
    const last = this.#arrivals.at(-1)
    if (last?.at === now) last.count++
    else this.#arrivals.push({ at: now, count: 1 })
    this.#count++
  }

  reclaimed(count: number, now: number): void {
    if (count === 0) return
    this.metrics.last_reclaim_count = count
    this.metrics.last_reclaim_at = now
    this.metrics.total_reclaimed += count
  }

  /** Updates the metrics; returns the lease in seconds for a device that goes offline now. */
  effective(now: number): number {
    const { policy, metrics } = this
    while (this.#arrivals.length > 0 && this.#arrivals[0]!.at <= now - policy.rate_window_seconds)
      this.#count -= this.#arrivals.shift()!.count
    const rate = (this.#count * 3600) / policy.rate_window_seconds
    const ultra = policy.adaptive_enabled && rate >= policy.ultra_rate_threshold_per_hour
    this.#ultraSince = ultra ? this.#ultraSince || now : 0
    const zero = ultra && now - this.#ultraSince >= policy.ultra_rate_sustain_seconds
    let lease = policy.base_lease_seconds
    if (zero) lease = 0
    else if (policy.adaptive_enabled && rate > policy.high_rate_threshold_per_hour) {
      const factor = Math.max(policy.high_rate_min_factor, policy.high_rate_threshold_per_hour / rate)
      lease = Math.max(policy.min_lease_seconds, Math.trunc(policy.base_lease_seconds * factor))
    }
    metrics.effective_lease_seconds = lease
    metrics.new_device_rate_per_hour = Math.round(rate * 1e4) / 1e4
    metrics.ultra_rate_active = ultra
    metrics.force_zero_lease_active = zero
    return lease
  }

  /** Emits the metrics, at most every metrics_emit_interval_seconds. */
  report(now: number): void {
    if (now - this.metrics.updated_at < this.policy.metrics_emit_interval_seconds) return
    this.metrics.updated_at = now
    try {
      this.#sink?.({ ...this.metrics })
    } catch {
      // a failing listener must not cost a device its id
      this.sinkFailures++
    }
  }
}
