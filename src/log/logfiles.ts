// A read-only view of a log folder, for use in parallel with the gateway that writes it. Each refresh() reads the current
// files, a little behind the gateway, whose newest records are in RAM.
//
// Errors: a missing folder is an empty log. A folder that changes faster than it can be read is STORAGE, and the next refresh
// tries again. Damage is skipped; only the owner repairs it.
import { asOsError, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { Reader, type ReaderOptions, type ReaderSource } from './reader'
import { recover } from './recovery'
import { segmentsIn } from './segment'
import { type Segment, Segments } from './segments'
import { Tail } from './tail'

/** The part of a log that a reader of facts needs, for the own log and that of another process. */
export interface LogSource {
  readonly committedSeq: number
  /** seq of the oldest and of the newest existing record; for an empty log the seq of its first record, and one less */
  readonly firstSeq: number
  readonly lastSeq: number
  /** bytes of the files that contain records after a seq */
  bytesAfter(seq: number): number
  /** see FlashLog; absent: the log belongs to another process */
  pin?(lowest: () => number | undefined, dropping?: (segment: Segment) => void): void
  /** the position of a reader, see FlashLog; methods that write are absent if the log belongs to another process */
  cursor(name: string): number | undefined
  appendCursor?(name: string, seq: number): number
  counter?(name: string): number | undefined
  appendCounter?(name: string, value: number): number
  /** upper bound for the number of facts after a seq */
  factsAfter(seq: number): number
  /** the seq at which (at least) the newest `facts` facts start */
  startOfLast(facts: number): number
  reader(fromSeq: number, options?: ReaderOptions): Reader
  onCommit(listener: (committedSeq: number) => void): () => void
}

/** a segment may be dropped while the folder is read */
const TRIES = 3

export class LogFiles implements LogSource {
  readonly #dir: string
  readonly #files: Files
  readonly #segments: Segments
  readonly #source: ReaderSource
  readonly #listeners = new Set<(committedSeq: number) => void>()
  #committed = 0
  #seen = ''
  #cursors: ReadonlyMap<string, number> = new Map()

  constructor(dir: string, files: Files = realFiles) {
    this.#dir = dir
    this.#files = files
    this.#segments = new Segments(this.#files, dir)
    const log = this
    this.#source = {
      files: this.#files,
      segments: this.#segments,
      tail: new Tail(0, 0),
      get committedSeq() {
        return log.#committed
      },
      damaged: () => undefined,
    }
  }

  get committedSeq(): number {
    return this.#committed
  }

  /** Checks for new records; cheap if there are none. True if there are more. Throws STORAGE. */
  refresh(): boolean {
    for (let left = TRIES; ; left--) {
      try {
        return this.#look()
      } catch (error) {
        if (left <= 1)
          throw new OsError('STORAGE', `${this.#dir} cannot be read: ${asOsError(error).message}`, { cause: error })
      }
    }
  }

  reader(fromSeq: number, options?: ReaderOptions): Reader {
    return new Reader(this.#source, fromSeq, options)
  }

  get firstSeq(): number {
    return this.#segments.list[0]?.base ?? 1
  }

  cursor(name: string): number | undefined {
    return this.#cursors.get(name)
  }

  get lastSeq(): number {
    return this.#committed
  }

  factsAfter(seq: number): number {
    return this.#segments.factsAfter(seq)
  }

  bytesAfter(seq: number): number {
    return this.#segments.bytesAfter(seq)
  }

  startOfLast(facts: number): number {
    return this.#segments.startOfLast(facts) ?? this.firstSeq
  }

  /** Called after a refresh() that found more records. Returns a function that unsubscribes. */
  onCommit(listener: (committedSeq: number) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Whether something follows the last known record: a file that is written has its later size already. */
  #hasMore(): boolean {
    const newest = this.#segments.list.at(-1)
    return !!newest && this.#files.readAt(newest.path, newest.size, 1)[0]! > 0
  }

  #look(): boolean {
    if (!this.#files.exists(this.#dir)) return false
    const seen = segmentsIn(this.#dir, this.#files)
      .map(({ name, size }) => `${name} ${size}`)
      .join('\n')
    if (seen === this.#seen && !this.#hasMore()) return false
    const known = new Map(this.#segments.list.map(segment => [segment.name, segment]))
    const { segments, state } = recover(this.#files, this.#dir, null)
    this.#cursors = state.cursors
    const now: Segment[] = segments.map(found => {
      const old = known.get(found.name)
      // readers use the old object; a file that became shorter was rewritten
      return old ? Object.assign(old, found, { generation: old.generation + (found.size < old.size ? 1 : 0) }) : found
    })
    this.#segments.list.splice(0, this.#segments.list.length, ...now)
    this.#seen = seen
    const before = this.#committed
    this.#committed = now.reduce((newest, segment) => Math.max(newest, segment.last), 0)
    if (this.#committed === before) return false
    for (const listener of this.#listeners) listener(this.#committed)
    return true
  }
}
