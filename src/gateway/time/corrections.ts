// Corrects earlier times by the clock records (decision 0044): a fact stamped before a time source confirmed the time is off by the sum
// of the later steps, up to the step that made the time correct. The SQL view corrects its rows by the same rule; this module
// is for readers of the log itself, such as the uplinks. Bounded: only the newest steps are kept in memory. After a start,
// steps of the older log are read when a fact that old is needed, for example for an uplink with a long backlog.
import type { LogRecord } from '../../log'

export interface ClockStep {
  readonly boot: number
  readonly seq: number
  readonly movedMs: number
  readonly synced: boolean
}

const MOST = 1024

export class TimeCorrections {
  #steps: ClockStep[] = []
  /** steps before this seq are not loaded yet */
  #knownFrom = 0
  #read: (from: number, to: number) => ClockStep[] = () => []

  /** Notes begin at `seq`; `read(from, to)` returns the clock records with from <= seq < to, in order. */
  beginAt(seq: number, read: (from: number, to: number) => ClockStep[]): void {
    this.#knownFrom = seq
    this.#read = read
  }

  /** Notes a clock record, in the order of the log. */
  note(boot: number, seq: number, movedMs: number, synced: boolean): void {
    this.#steps.push({ boot, seq, movedMs, synced })
    if (this.#steps.length > MOST) this.#steps.shift()
  }

  /** The error of that record's time, ms. */
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

  /** The fact of a record with its time corrected. */
  readonly correct = (record: LogRecord): void => {
    const { fact } = record
    const off = this.of(record)
    if (fact && off !== 0) fact.tRaw = Math.round(fact.tRaw + off)
  }
}
