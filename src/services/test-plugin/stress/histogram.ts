// Latencies of millions of packets in 5 KB: sixteen steps per power of two of nanoseconds, so that a percentile is accurate
// within 7 %; mean, minimum and maximum are exact. Histograms of other threads and processes are merged.

const STEPS = 16
const BUCKETS = 40 * STEPS

export interface HistogramParts {
  counts: number[]
  sum: number
  min: number
  max: number
}

export interface LatencyStep {
  readonly up_to_ms: number
  readonly packets: number
}

export class Histogram {
  readonly #counts = new Float64Array(BUCKETS)
  #count = 0
  #sum = 0
  #min = Number.POSITIVE_INFINITY
  #max = 0

  /** `times` packets that took `ms` each. */
  add(ms: number, times = 1): void {
    this.#counts[bucketOf(ms)]! += times
    this.#count += times
    this.#sum += ms * times
    if (ms < this.#min) this.#min = ms
    if (ms > this.#max) this.#max = ms
  }

  get count(): number {
    return this.#count
  }
  get mean(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count
  }
  get min(): number {
    return this.#count === 0 ? 0 : this.#min
  }
  get max(): number {
    return this.#max
  }

  /** The ms within which `share` (0–1) of the packets finished. */
  percentile(share: number): number {
    const wanted = share * this.#count
    let seen = 0
    for (let k = 0; k < BUCKETS; k++) {
      seen += this.#counts[k]!
      if (seen >= wanted && seen > 0) return Math.min(this.#max, upperEnd(k))
    }
    return this.#max
  }

  /** For a plot: packets per power of two of nanoseconds, from the first to the last that is not empty. */
  steps(): LatencyStep[] {
    const all: LatencyStep[] = []
    for (let k = 0; k < BUCKETS; k += STEPS) {
      const packets = this.#counts.subarray(k, k + STEPS).reduce((sum, n) => sum + n, 0)
      all.push({ up_to_ms: upperEnd(k + STEPS - 1), packets })
    }
    const first = all.findIndex(({ packets }) => packets > 0)
    const last = all.findLastIndex(({ packets }) => packets > 0)
    return first < 0 ? [] : all.slice(first, last + 1)
  }

  parts(): HistogramParts {
    return { counts: [...this.#counts], sum: this.#sum, min: this.min, max: this.#max }
  }

  merge({ counts, sum, min, max }: HistogramParts): void {
    const added = counts.reduce((all, n) => all + n, 0)
    if (added === 0) return
    for (const [k, n] of counts.entries()) this.#counts[k]! += n
    this.#count += added
    this.#sum += sum
    this.#min = Math.min(this.#min, min)
    this.#max = Math.max(this.#max, max)
  }
}

/** ms → bucket; values below a nanosecond count as one nanosecond */
function bucketOf(ms: number): number {
  const ns = Math.max(1, ms * 1e6)
  const power = Math.floor(Math.log2(ns))
  const step = Math.floor((ns / 2 ** power - 1) * STEPS)
  return Math.min(BUCKETS - 1, power * STEPS + step)
}

const upperEnd = (bucket: number): number =>
  (2 ** Math.floor(bucket / STEPS) * (1 + ((bucket % STEPS) + 1) / STEPS)) / 1e6
