// What the ID allocator is made of and what it tells of itself (specification "ID allocator").

import { namesOf } from '../../lib/checked'
import type { IdStore } from './id-store'
import type { LeaseMetrics, LeasePolicy, LeasePolicyInput } from './lease'

export interface IdAllocatorOptions {
  /** folder of persistFile; null: the working directory */
  baseDir?: string | null
  startId?: number
  /** below startId: no range of its own, it hands out what grant() gave it */
  endId?: number
  persistFile?: string
  /** freed ids in the list of those handed out first, at least 256: the lowest; the others follow when the range is used up */
  maxReleased?: number
  leasePolicy?: LeasePolicyInput | null
  /** memory of the ids in use at most, about 400 bytes each; new devices are refused beyond it */
  maxBytes?: number
  /** called with the metrics at most every metrics_emit_interval_seconds */
  metricsSink?: ((metrics: LeaseMetrics) => void) | null
}

export interface IdAllocatorDeps {
  /** in place of the file */
  store?: IdStore
  /** UNIX seconds */
  now?: () => number
  /** Milliseconds that never jump. With it, a jump of `now` moves the leases along instead of ending or prolonging them. */
  mono?: () => number
}

export const OPTIONS = namesOf<IdAllocatorOptions>()(
  'baseDir startId endId persistFile maxReleased leasePolicy maxBytes metricsSink',
)
export const DEPS = namesOf<IdAllocatorDeps>()('store now mono')

export interface AllocatorStats {
  total_allocated: number
  /** ids that are free again */
  total_released: number
  next_candidate: number
  /** memory of the ids in use */
  bytes: number
  /** new devices that were refused since the start because of maxBytes */
  refused: number
  range: [number, number]
  lease_policy: LeasePolicy
  lease_metrics: LeaseMetrics
}
