// Counts the facts that are lost to the view: the log dropped them before they were stored, or the file of their window is
// damaged and the log has no copy. A fact counts once, when it can no longer be stored. One that a worker read before the log
// dropped it may still be stored by that worker; if not, it counts when the next worker begins.
//
// It compares the windows of each worker with those before, so packets of removed windows stay counted when a worker dies.
import { type LogSource, recordSeq, recordSize } from '../log'
import type { ViewCounts } from './view'

/** any record fits */
const BLOCK = 256 * 1024
/** bound of #read: more facts than an open window has */
const MOST_READ = 100_000

interface Range {
  readonly from: number
  readonly to: number
}

/** Stored records. Only a window whose summary was read has counts. */
export interface StoredRange extends Range {
  readonly name?: string
  readonly packets?: number
  readonly duplicates?: number | undefined
}

/** Those of the ascending `seqs` that are in none of `ranges`. */
function outside(seqs: readonly number[], ranges: readonly Range[]): number[] {
  const near = ranges.filter(({ from, to }) => to >= seqs[0]! && from <= seqs.at(-1)!)
  return seqs.filter(seq => !near.some(({ from, to }) => from <= seq && seq <= to))
}

export class Missed {
  /** facts that neither the view nor the log has */
  facts = 0
  /** facts in removed windows */
  removed = 0
  duplicates = 0
  readonly #log: LogSource
  #stored: readonly StoredRange[]
  #unread: () => readonly Range[]
  /** facts that a worker read and the log dropped: in no file yet */
  #read: number[] = []

  /** `stored`: known before the first worker, up to seq `upTo`. */
  constructor(log: LogSource, stored: readonly StoredRange[], upTo: number) {
    this.#log = log
    this.#stored = stored
    this.#unread = () => [{ from: upTo + 1, to: Number.POSITIVE_INFINITY }]
  }

  /** A worker is ready. `unread`: the ranges that it was not sent yet. */
  began(stored: readonly StoredRange[], counts: ViewCounts, unread: () => readonly Range[]): void {
    this.changed(stored, counts)
    this.facts += this.#read.splice(0).length
    this.#unread = unread
  }

  /** A worker stored or removed records. */
  changed(stored: readonly StoredRange[], { sealed }: ViewCounts): void {
    const names = new Set(stored.map(({ name }) => name))
    for (const { name, from, to, packets, duplicates = 0 } of this.#stored) {
      if (packets === undefined || names.has(name)) continue
      if (to < this.#log.firstSeq && !sealed?.damaged_files.includes(name!)) {
        this.removed += packets
        this.duplicates += duplicates
        // the next worker reads what the log has
      } else this.facts += packets + duplicates - this.#seqs(from, to).length
    }
    this.#stored = stored
    this.#read = outside(this.#read, stored)
  }

  /** The log is about to drop a segment. */
  dropping({ base: from, last: to, facts }: { base: number; last: number; facts: number }): void {
    const unread = this.#unread()
    if (unread.some(range => range.from <= from && range.to >= to)) {
      this.facts += facts
      return
    }
    // read only what may be in no file
    let next = from
    for (const range of this.#stored) if (range.from <= next && range.to >= next) next = range.to + 1
    const fresh = outside(this.#seqs(next, to), this.#stored)
    const read = outside(fresh, unread)
    this.#read.push(...read)
    this.facts += fresh.length - read.length + this.#read.splice(0, this.#read.length - MOST_READ).length
  }

  /** Sequence numbers of the facts in the log; in RAM there may be older ones. */
  #seqs(from: number, upTo: number): number[] {
    const seqs: number[] = []
    const reader = this.#log.reader(Math.max(from, this.#log.firstSeq), { kinds: ['fact'], upTo, committedOnly: false })
    const bytes = Buffer.alloc(BLOCK)
    for (let end = reader.fill(bytes); end > 0; end = reader.fill(bytes))
      for (let at = 0; at < end; at += recordSize(bytes, at)) seqs.push(recordSeq(bytes, at))
    return seqs
  }
}
