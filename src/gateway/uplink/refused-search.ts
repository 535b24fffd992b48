// Searches the log for records whose frame the upstream refused, where SentFrames no longer has the frame: the process was
// restarted since, or a broker kept it longer than that. One pass through the newest records, in short steps, searches for all
// frames that were refused before it began, by AID and time.
//
// Errors: a frame whose record is older than that, or that was never sent, is not found; then nothing happens. Passes take at
// most half of the time, and after one that found nothing the next waits ten seconds.
import type { FlashLog, Reader } from '../../log'
import type { RefusedFrame } from '../../protocol/nack'
import type { FactRecord } from './lane'

/** facts of one pass */
const FACTS = 262_144
/** records per step */
const STEP = 256
const STEP_MS = 5
/** from the begin of a pass that finds nothing to the next */
const INTERVAL_MS = 10_000
/** frames of one pass, about 100 bytes each */
const MOST = 65_536

interface RefusedParts {
  log: FlashLog
  /** the AID and the time with which the record is sent */
  sentAs: (record: FactRecord) => { aid: number; tRaw: number }
}

interface Ending {
  readonly promise: Promise<void>
  end(): void
}

function ending(): Ending {
  let end = (): void => undefined
  const promise = new Promise<void>(resolve => (end = resolve))
  return { promise, end: () => end() }
}

const keyOf = (aid: number, time: number): string => `${aid}:${time}`

export class RefusedSearch {
  readonly #parts: RefusedParts
  /** of the next pass */
  #wanted = new Set<string>()
  /** of this pass */
  #missing = new Set<string>()
  #reader: Reader | null = null
  #end = 0
  /** the last fact read in this pass */
  #previous: number | undefined
  #notBefore = Number.NEGATIVE_INFINITY
  #found = false
  /** resolved at the end of the next pass; of this one */
  #next: Ending | null = null
  #ending: Ending | null = null
  #begunAt = 0
  #stepAt = Number.NEGATIVE_INFINITY

  constructor(parts: RefusedParts) {
    this.#parts = parts
  }

  /** When the next step is due, in mono ms; Infinity: nothing is searched for. */
  get nextAt(): number {
    if (this.#reader) return this.#stepAt
    return this.#wanted.size > 0 ? this.#notBefore : Number.POSITIVE_INFINITY
  }

  /** Resolves after the pass that searches for it; at once if the last one found nothing, or if too many are searched for. */
  want({ aid, ts }: RefusedFrame, now: number): Promise<void> {
    if (this.#wanted.size >= MOST) return Promise.resolve()
    this.#wanted.add(keyOf(aid, ts))
    if (!this.#reader && this.#notBefore > now) return Promise.resolve()
    this.#next ??= ending()
    return this.#next.promise
  }

  /** Takes the step that is due now; calls `found` for each record, with the fact before it. */
  step(now: number, found: (seq: number, previous?: number) => void): void {
    if (this.nextAt > now) return
    const reader = this.#reader ?? this.#begin(now)
    this.#stepAt = now + STEP_MS
    const { sentAs } = this.#parts
    for (let k = 0; k < STEP; k++) {
      const record = reader.next()
      if (!record || record.seq > this.#end) {
        this.#reader = null
        if (this.#found) this.#notBefore = now + (now - this.#begunAt)
        this.#ending?.end()
        return
      }
      const { aid, tRaw } = sentAs(record as FactRecord)
      // several devices of one AID may have the same time
      if (this.#missing.has(keyOf(aid, tRaw))) {
        this.#found = true
        found(record.seq, this.#previous)
      }
      this.#previous = record.seq
    }
  }

  #begin(now: number): Reader {
    const { log } = this.#parts
    ;[this.#wanted, this.#missing] = [this.#missing, this.#wanted]
    this.#wanted.clear()
    this.#ending = this.#next
    this.#next = null
    this.#begunAt = now
    this.#previous = undefined
    this.#end = log.lastSeq
    this.#found = false
    this.#notBefore = now + INTERVAL_MS
    this.#reader = log.reader(log.startOfLast(FACTS), { kinds: ['fact'], committedOnly: false })
    return this.#reader
  }
}
