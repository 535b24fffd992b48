// The log interface for uplinks and receivers, in memory: everything is committed immediately.
import type { FlashLog } from '../../src/log'
import type { Fact, LinkMetadata } from '../../src/pipeline/fact'

interface MemRecord {
  seq: number
  boot: number
  fact: Fact
  medium: string
  quality: string
  alarm?: true
}

export class MemLog {
  readonly records: MemRecord[] = []
  readonly cursors = new Map<string, number>()
  readonly counters = new Map<string, number>()
  degraded = false
  /** records read so far */
  reads = 0
  isAlarm: (fact: Fact) => boolean = () => false

  get lastSeq(): number {
    return this.records.length
  }
  get committedSeq(): number {
    return this.records.length
  }
  get facts(): Fact[] {
    return this.records.map(record => record.fact)
  }

  /** of appended records */
  boot = 1
  quality = 'synced'

  appendFact = (fact: Fact, link: LinkMetadata): number => {
    const seq = this.records.length + 1
    const alarm = this.isAlarm(fact) && ({ alarm: true } as const)
    this.records.push({ seq, boot: this.boot, fact, medium: link.medium, quality: this.quality, ...alarm })
    return seq
  }
  committed = (): Promise<void> => Promise.resolve()
  flush = (): Promise<void> => Promise.resolve()
  cursorNames = (): string[] => [...this.cursors.keys()]
  cursor = (name: string): number | undefined => this.cursors.get(name)
  appendCursor = (name: string, seq: number): number => {
    if (seq === 0) this.cursors.delete(name)
    else this.cursors.set(name, seq)
    return this.lastSeq
  }
  counter = (name: string): number | undefined => this.counters.get(name)
  appendCounter = (name: string, value: number): number => {
    this.counters.set(name, value)
    return this.lastSeq
  }
  startOfLast = (facts: number): number => Math.max(1, this.records.length - facts + 1)
  factsAfter = (seq: number): number => Math.max(0, this.records.length - seq)
  reader = (from: number, { alarms = false } = {}): { next(): MemRecord | null; readonly position: number } => {
    let at = from
    const { records } = this
    const log = this
    return {
      next: () => {
        while (alarms && at <= records.length && !records[at - 1]!.alarm) at++
        const record = records[at - 1] ?? null
        if (record) at++
        log.reads++
        return record
      },
      get position() {
        return at
      },
    }
  }

  /** with the type of the real log */
  get asLog(): FlashLog {
    return this as unknown as FlashLog
  }
}
