// Ranges of the log after the cursor that the upstream already has, stored in the log as counters, so that a restart does not
// send them again. Their number is limited: the shortest range is forgotten, and its records are sent again.
import type { FlashLog } from '../../log'
import { StoredRanges } from './stored-ranges'

export interface Range {
  readonly from: number
  readonly to: number
}

const MOST = 8

export class AheadRanges {
  readonly #stored: StoredRanges<keyof Range>
  #list: Range[]

  constructor(name: string, log: FlashLog, cursor: number) {
    this.#stored = new StoredRanges(log, `${name}:ahead`, ['from', 'to'], MOST)
    this.#list = this.#stored.read().filter(({ from, to }) => from > cursor && to >= from)
  }

  get list(): readonly Range[] {
    return this.#list
  }

  /** The range that contains seq. */
  of(seq: number): Range | undefined {
    return this.#list.find(({ from, to }) => seq >= from && seq <= to)
  }

  add(range: Range): void {
    if (range.to < range.from) return
    this.#list.push(range)
    // one more may be growing; a start finds that one among the others
    while (this.#list.length >= MOST) {
      const shortest = this.#list.reduce((a, b) => (b.to - b.from < a.to - a.from ? b : a))
      this.#list = this.#list.filter(other => other !== shortest)
    }
  }

  /** The cursor has moved to this record. */
  passed(cursor: number): void {
    if (this.#list.some(({ to }) => to <= cursor)) this.#list = this.#list.filter(({ to }) => to > cursor)
  }

  /** Writes changes up to record `committed`; `growing`: a range that is not added yet. True if anything was written. */
  save(growing: Range | null, committed: number): boolean {
    const all = growing ? [...this.#list, growing] : this.#list
    return this.#stored.write(
      all.map(({ from, to }) => ({ from, to: Math.min(to, committed) })).filter(({ from, to }) => to >= from),
    )
  }
}
