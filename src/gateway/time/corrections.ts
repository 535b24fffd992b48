// What the clock records say of the times taken before them (D18): a fact stamped while no time source confirmed the time is off by
// the sum of the steps after it, up to the one by which the time became right. The SQL view corrects its rows by the same
// rule; this is for who reads the log itself, such as the uplinks. Bounded: the newest steps are known. After a start those of
// the older log are read when a fact that old is needed, as an uplink with a long backlog does.
import type { LogRecord } from '../../log'

export interface Step {
  readonly boot: number
  readonly seq: number
  readonly movedMs: number
  readonly synced: boolean
}

const MOST = 1024

export class TimeCorrections {
  #steps: Step[] = []
  /** steps before this seq are not known yet */
  #knownFrom = 0
  #read: (from: number, to: number) => Step[] = () => []

  /** What was noted begins at `seq`; `read(from, to)` tells the clock records with from <= seq < to, in their order. */
  beginAt(seq: number, read: (from: number, to: number) => Step[]): void {
    this.#knownFrom = seq
    this.#read = read
  }

  /** A clock record, in the order of the log. */
  note(boot: number, seq: number, movedMs: number, synced: boolean): void {
    this.#steps.push({ boot, seq, movedMs, synced })
    if (this.#steps.length > MOST) this.#steps.shift()
  }

  /** By how much the time of that record is off, ms. */
  of({ boot, seq, quality }: Pick<LogRecord, 'boot' | 'seq' | 'quality'>): number {
    if (quality !== 'unsynced') return 0
    if (seq < this.#knownFrom) {
      this.#steps = [...this.#read(seq, this.#knownFrom).slice(0, MOST), ...this.#steps]
      this.#knownFrom = seq
    }
    let sum = 0
    for (const step of this.#steps) {
      if (step.boot !== boot || step.seq < seq) continue
      sum += step.movedMs
      if (step.synced) break
    }
    return sum
  }

  /** The fact of a record with its time put right. */
  readonly correct = (record: LogRecord): void => {
    const { fact } = record
    const off = this.of(record)
    if (fact && off !== 0) fact.tRaw = Math.round(fact.tRaw + off)
  }
}
