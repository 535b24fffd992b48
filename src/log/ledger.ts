// The loss ledger: which seqs are no longer in the log, and why. Totals count for ever; the ranges are kept for the newest 64
// losses of each reason. It is stored in loss records and in every segment header, so it outlives the segments. Adding the
// same seqs twice counts once, so that recovery can be repeated after a crash during recovery.
import { REASONS } from './format'
import type { LossRange, LossReason, LossTotals } from './record'

const KEPT = 64
const SHOWN = 8

export const noLosses = (): LossTotals => ({ damaged: 0, torn: 0, dropped: 0, overflow: 0 })

/** Adds a range to a list; extends the last range if it is contiguous. */
export function joinRange(list: LossRange[], range: LossRange): void {
  const last = list.at(-1)
  if (last && last.to + 1 === range.from)
    list[list.length - 1] = { ...last, to: range.to, records: last.records + range.records }
  else list.push(range)
}

export class Ledger {
  readonly totals: LossTotals = noLosses()
  #ranges: LossRange[] = []

  get ranges(): readonly LossRange[] {
    return this.#ranges
  }

  /** The newest ranges of that reason. */
  newest(reason: LossReason): LossRange[] {
    return this.#ranges.filter(range => range.reason === reason).slice(-SHOWN)
  }

  /**
   * Adds the loss of `[from, to]` and returns the parts that were not known before. `records`: number of lost records, if it
   * is not the size of the range (a dropped segment counts its facts).
   */
  add(reason: LossReason, from: number, to: number, records = to - from + 1): LossRange[] {
    const fresh: LossRange[] = []
    let at = from
    for (const known of this.#ranges.filter(r => r.reason === reason && r.to >= from && r.from <= to)) {
      if (known.from > at) fresh.push({ reason, from: at, to: known.from - 1, records: known.from - at })
      at = Math.max(at, known.to + 1)
    }
    if (at <= to) fresh.push({ reason, from: at, to, records: at === from ? records : to - at + 1 })
    for (const range of fresh) {
      this.totals[reason] += range.records
      this.#insert(range)
    }
    return fresh
  }

  /** Merges a loss record or a header: ranges are joined, totals never shrink. */
  merge(totals: LossTotals, ranges: readonly LossRange[]): void {
    for (const reason of REASONS) this.totals[reason] = Math.max(this.totals[reason], totals[reason])
    for (const range of ranges) {
      const known = this.#ranges.some(r => r.reason === range.reason && r.from <= range.from && r.to >= range.to)
      if (!known) this.#insert(range)
    }
  }

  covers(seq: number, reasons: readonly LossReason[] = REASONS): boolean {
    return this.#ranges.some(r => r.from <= seq && r.to >= seq && reasons.includes(r.reason))
  }

  #insert(range: LossRange): void {
    const same = this.#ranges.filter(r => r.reason === range.reason)
    const touching = same.filter(r => r.to >= range.from - 1 && r.from <= range.to + 1)
    let merged = range
    for (const other of touching) {
      merged = {
        reason: range.reason,
        from: Math.min(merged.from, other.from),
        to: Math.max(merged.to, other.to),
        records: merged.records + other.records,
      }
    }
    const ranges = same.filter(r => !touching.includes(r))
    ranges.push(merged)
    ranges.sort((a, b) => a.from - b.from)
    if (ranges.length > KEPT) ranges.splice(0, ranges.length - KEPT)
    this.#ranges = [...this.#ranges.filter(r => r.reason !== range.reason), ...ranges]
  }
}
