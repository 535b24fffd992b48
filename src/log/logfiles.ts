// A log folder for who only asks: read-only, so it may be open beside the gateway that writes it. It sees what lies in the files
// at each refresh(), a little behind the gateway, whose newest records are in RAM.
//
// What fails: a folder that is not there yet is an empty log; one that changes faster than it can be read is STORAGE, and the
// next refresh tries again. Damage is stepped over and left alone: mending is the owner's.
import { asOsError, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { Reader, type ReaderOptions, type ReaderSource } from './reader'
import { recover } from './recovery'
import { segmentsIn } from './segment'
import { type Segment, Segments } from './segments'
import { Tail } from './tail'

/** What a reader of facts needs of a log, its own or another's. */
export interface LogSource {
  readonly committedSeq: number
  /** seq of the oldest and of the newest record that is there; of an empty log the seq of its first, and one less */
  readonly firstSeq: number
  readonly lastSeq: number
  /** bytes of the files that hold anything behind a seq */
  bytesAfter(seq: number): number
  /** holds records from the seq on that `lowest` returns; absent: the log is another's */
  pin?(lowest: () => number | undefined): void
  /** the position of a reader, see FlashLog; what writes is absent where the log is another's */
  cursor(name: string): number | undefined
  appendCursor?(name: string, seq: number): number
  counter?(name: string): number | undefined
  appendCounter?(name: string, value: number): number
  /** how many facts lie behind a seq, at most */
  factsAfter(seq: number): number
  /** the seq to start at for (at least) the newest `facts` facts */
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

  /** Looks what was written since; cheap when nothing was. True when there is more. Throws STORAGE. */
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

  /** Called after a refresh() that found more. Returns how to stop. */
  onCommit(listener: (committedSeq: number) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #look(): boolean {
    if (!this.#files.exists(this.#dir)) return false
    const seen = segmentsIn(this.#dir, this.#files)
      .map(({ name, size }) => `${name} ${size}`)
      .join('\n')
    if (seen === this.#seen) return false
    const known = new Map(this.#segments.list.map(segment => [segment.name, segment]))
    const { segments, state } = recover(this.#files, this.#dir, null)
    this.#cursors = state.cursors
    const now: Segment[] = segments.map(found => {
      const old = known.get(found.name)
      // readers are in the old object; a file that became shorter was written again
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
