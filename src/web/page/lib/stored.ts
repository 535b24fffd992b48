// The stored values of one sensor over a time range: buckets of all of them, and the line, band and statistics that the
// page derives. Pure.
import type { HistoryList } from '../../../storage/shapes'
import type { Series } from './history'

export type StoredHistory = Pick<HistoryList, 'buckets' | 'since' | 'until' | 'units'>

/** A plot's values: UNIX seconds, ascending; a gap is a time with null. */
export interface PlotLine {
  readonly t: number[]
  readonly mean: (number | null)[]
  readonly min: (number | null)[]
  readonly max: (number | null)[]
}

/** Buckets plus the values since then (`seen`, UNIX ms), from `from` on. */
export function lineOf({ buckets, until }: StoredHistory, seen: Series, from: number): PlotLine {
  const width = buckets.length > 1 ? buckets[1]!.t - buckets[0]!.t : 1
  const points = buckets
    .filter(({ count }) => count > 0)
    .map(bucket => ({ ...bucket, t: width > 1 ? Math.min(until, bucket.t + width / 2) : bucket.t }))
  const limit = longest(points, width)
  const all = [...points, ...later(seen, Math.max(from, until + 1)).map(([t, v]) => ({ t, min: v, mean: v, max: v }))]
  const line: PlotLine = { t: [], mean: [], min: [], max: [] }
  const add = (t: number, mean: number | null, min: number | null, max: number | null): void => {
    line.t.push(t)
    line.mean.push(mean)
    line.min.push(min)
    line.max.push(max)
  }
  for (const [k, { t, mean, min, max }] of all.entries()) {
    const before = all[k - 1]?.t ?? t
    if (t - before > limit) add((t + before) / 2, null, null, null)
    add(t, mean, min, max)
  }
  return line
}

/** Most seconds between two points without a gap: one bucket if each has many values, else a few times the usual distance. */
function longest(points: readonly { t: number; count: number }[], width: number): number {
  if (points.length < 2) return Number.POSITIVE_INFINITY
  const values = points.reduce((sum, { count }) => sum + count, 0)
  if (values >= 3 * points.length) return 1.5 * width
  const steps = points.slice(1).map(({ t }, k) => t - points[k]!.t)
  return 2.5 * steps.sort((a, b) => a - b)[steps.length >> 1]!
}

const later = ({ t, v }: Series, from: number): [number, number][] =>
  t.flatMap((ms, k) => (ms / 1000 >= from ? [[ms / 1000, v[k]!]] : []))

export interface Statistics {
  readonly count: number
  readonly min: number
  readonly mean: number
  readonly max: number
}

/** Over every stored value of the range and the values since then; undefined if there is none. */
export function statisticsOf({ buckets, until }: StoredHistory, seen: Series, from: number): Statistics | undefined {
  let [count, sum, min, max] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const add = (n: number, low: number, mean: number, high: number): void => {
    count += n
    sum += mean * n
    min = Math.min(min, low)
    max = Math.max(max, high)
  }
  for (const bucket of buckets) if (bucket.count > 0) add(bucket.count, bucket.min!, bucket.mean!, bucket.max!)
  for (const [, v] of later(seen, Math.max(from, until + 1))) add(1, v, v, v)
  return count === 0 ? undefined : { count, min, mean: Math.min(max, Math.max(min, sum / count)), max }
}
