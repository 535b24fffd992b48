// The values of one sensor over a time range, in buckets of equal width: count, min, mean and max of each. Windows are merged
// one by one, so that RAM only contains the buckets and the rows of one group. A sealed window inside one bucket is answered
// from its summary, without opening it.
import type { Values } from './numbers'
import { type HistoryBucket, type HistoryList, MAX_BUCKETS } from './shapes'

/** beyond every packet time: 48 bits of ms end at 2.8e11 s; products with the number of buckets stay exact */
const FAR = 1e12

/** Rows of one window in a bucket; a bucket may have several parts. */
export interface BucketRows {
  readonly bucket: number
  readonly values: Values
  readonly units: readonly (string | null)[]
}

/** Rows of one window; WindowRows of window.ts, or its series. */
interface HistoryRows {
  history(of: HistorySensor, buckets: Buckets): readonly BucketRows[]
}

/** One window with values of the sensor. */
export interface HistoryPiece {
  /** timestamps of its first and last value in the range, or bounds of them */
  readonly lo: number
  readonly hi: number
  /** of all its rows, if they are in the summary */
  readonly values?: Values | undefined
  readonly units?: readonly (string | null)[] | undefined
  /** loads the rows */
  readonly rows: () => HistoryRows
}

interface HistorySensor {
  readonly device: string
  readonly sensor: string
}

/** `since` and `until` default to the first and the last value. */
export function historyOf(
  of: HistorySensor,
  pieces: readonly HistoryPiece[],
  since = Math.min(...pieces.map(({ lo }) => lo)),
  until = Math.max(...pieces.map(({ hi }) => hi)),
  most = MAX_BUCKETS,
): HistoryList {
  // without bounds and without values there is no range
  if (!Number.isFinite(since) || !Number.isFinite(until))
    return { ok: true, buckets: [], since: 0, until: 0, units: [] }
  const buckets = new Buckets(since, until, most)
  const units = new Set<string>()
  for (const piece of pieces) {
    const { lo, hi, values } = piece
    const whole = lo >= buckets.since && hi <= buckets.until && buckets.at(lo) === buckets.at(hi)
    if (whole && values) {
      buckets.add(buckets.at(lo), values)
      for (const unit of piece.units ?? []) if (unit) units.add(unit)
    } else {
      for (const { bucket, values: part, units: names } of piece.rows().history(of, buckets)) {
        buckets.add(bucket, part)
        for (const unit of names) if (unit) units.add(unit)
      }
    }
  }
  return { ok: true, buckets: buckets.list, since: buckets.since, until: buckets.until, units: [...units].sort() }
}

/** `count` parts of [since, until]; part k begins at the first integer second of k/count of the range. */
export class Buckets {
  readonly since: number
  readonly until: number
  /** length of the range in seconds */
  readonly span: number
  readonly count: number
  readonly list: HistoryBucket[]

  constructor(since: number, until: number, most: number) {
    this.since = Math.max(-FAR, Math.min(FAR, since))
    this.until = Math.max(-FAR, Math.min(FAR, until))
    this.span = Math.max(0, this.until - this.since + 1)
    this.count = Math.min(this.span, most)
    this.list = Array.from({ length: this.count }, (_, k) => ({
      t: this.since + Math.ceil((k * this.span) / this.count),
      count: 0,
      min: null,
      mean: null,
      max: null,
    }))
  }

  at(t: number): number {
    return Math.floor(((t - this.since) * this.count) / this.span)
  }

  add(k: number, [count, min, max, mean]: Values): void {
    const bucket = this.list[k]
    if (!bucket || count === 0) return
    bucket.count += count
    bucket.min = Math.min(bucket.min ?? min!, min!)
    bucket.max = Math.max(bucket.max ?? max!, max!)
    const before = bucket.mean ?? mean!
    // limit rounding errors: the mean of equal values must be that value
    bucket.mean = Math.min(bucket.max, Math.max(bucket.min, before + (mean! - before) * (count / bucket.count)))
  }
}
