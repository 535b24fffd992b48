// Options and reports of the ID allocator (specification "ID allocator").

import { namesOf } from '../../lib/checked'
import type { IdStore } from './id-store'
import type { LeaseMetrics, LeasePolicy, LeasePolicyInput } from './lease'

export interface IdAllocatorOptions {
  /** folder of persistFile; null: the working directory */
  baseDir?: string | null
  startId?: number
  /** below startId: no own range, only ids from grant() */
  endId?: number
  persistFile?: string
  /**
   * maximum length of the list of freed ids, at least 256: the lowest are kept and assigned first; the others follow when the
   * range is used up
   */
  maxReleased?: number
  leasePolicy?: LeasePolicyInput | null
  /** memory limit of the ids in use, about 400 bytes each; new devices are refused above it */
  maxBytes?: number
  /** called with the metrics at most every metrics_emit_interval_seconds */
  metricsSink?: ((metrics: LeaseMetrics) => void) | null
}

export interface IdAllocatorDeps {
  /** replaces the file */
  store?: IdStore
  /** UNIX seconds */
  now?: () => number
  /** Milliseconds that never jump. With it, a jump of `now` shifts the leases instead of changing their length. */
  mono?: () => number
}

export const OPTIONS = namesOf<IdAllocatorOptions>()(
  'baseDir startId endId persistFile maxReleased leasePolicy maxBytes metricsSink',
)
export const DEPS = namesOf<IdAllocatorDeps>()('store now mono')

export interface AllocatorStats {
  total_allocated: number
  /** freed ids */
  total_released: number
  next_candidate: number
  /** memory of the ids in use */
  bytes: number
  /** new devices refused since the start because of maxBytes */
  refused: number
  range: [number, number]
  lease_policy: LeasePolicy
  lease_metrics: LeaseMetrics
}
