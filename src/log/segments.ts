// The segment files of one log: create, write, sync, drop. One file is active, the others are sealed and only read or
// removed. The active file is longer than its records, so that a sync need not put its size into the file system's journal;
// it is truncated when it is sealed. Sizes here are those of the records: the zeros after them are a hole, which takes no
// space. Any failure closes the active file and truncates it to what is known to be on flash; the caller still has the
// remaining records in RAM: after a failed fdatasync the page cache is no longer reliable.
import { join } from 'node:path'
import { writeAgain } from '../lib/atomic'
import { OsError, orElse } from '../lib/errors'
import type { Files } from '../lib/files'
import { removeWitness, writeWitness } from './chain-file'
import { RESERVE } from './format'
import { joinRange } from './ledger'
import type { LossRange } from './record'
import { segmentName, segmentsIn } from './segment'

export interface Segment {
  readonly base: number
  readonly name: string
  path: string
  /** without zeros at its end */
  size: number
  headerLength: number
  /** newest seq in it; base − 1 while it is empty */
  last: number
  facts: number
  lastFact: number
  /** wall_ms of its creation */
  created: number
  /** incremented when the file is rewritten: readers seek again */
  generation: number
}

/** A file of this name whose content is not yet known. */
export function newSegment(dir: string, base: number, size: number): Segment {
  const name = segmentName(base)
  const path = join(dir, name)
  return {
    base,
    name,
    path,
    size,
    headerLength: 0,
    last: base - 1,
    facts: 0,
    lastFact: 0,
    created: 0,
    generation: 0,
  }
}

/** in the witness, so that it fits a block */
const RUNS = 64
const BLOCK = 4096
/** the active file grows in steps of this */
const STEP = 64 * 1024
/** space of a file on the medium */
export const onMedium = (size: number): number => Math.ceil(size / BLOCK) * BLOCK

export class Segments {
  readonly list: Segment[] = []
  /** sum of onMedium() over all segments and the witness */
  taken = BLOCK
  bytes = 0
  /** bytes written to the file system since the start */
  writtenBytes = 0
  syncs = 0
  /** end of the newest range of seqs reserved on the medium */
  reservedEnd = Number.POSITIVE_INFINITY
  /** the content of the folder is not known yet */
  unread = false
  #fd = -1
  #active: Segment | undefined
  /** length of the active file, with the zeros at its end */
  #length = 0
  #synced = { size: 0, last: 0, facts: 0, lastFact: 0 }
  /** a removal is not on flash yet */
  #removed = false
  /** an adopted file that the last process may have written without a sync */
  #doubtful: Segment | undefined

  constructor(
    readonly files: Files,
    readonly dir: string,
  ) {}

  get active(): Segment | undefined {
    return this.#active
  }

  /**
   * Adds a segment found at the start; oldest first. `doubtful`: it may be in the page cache only, so the next sync writes it
   * again.
   */
  adopt(segment: Segment, doubtful: boolean): void {
    this.list.push(segment)
    if (doubtful) this.#doubtful = segment
    this.#count(0, segment.size)
  }

  /** Creates the next segment with this header; its reservation is on flash when the promise settles. */
  async roll(base: number, created: number, header: Buffer): Promise<void> {
    this.seal()
    if (!this.files.exists(this.dir)) this.files.mkdir(this.dir)
    this.#sure()
    const segment = { ...newSegment(this.dir, base, header.length), headerLength: header.length, created }
    const { path } = segment
    const fd = this.files.open(path, 'w')
    this.#length = 0
    try {
      this.#write(fd, 0, header, 0, header.length)
      this.syncs++
      await this.files.sync(fd)
      this.files.syncDir(this.dir)
      this.#removed = false
    } catch (error) {
      this.files.close(fd)
      this.files.remove(path)
      throw error
    }
    this.#fd = fd
    this.reservedEnd = base + RESERVE
    this.#active = segment
    this.list.push(segment)
    this.#count(0, segment.size)
    this.#markSynced(segment)
    await this.#witness(header.readUInt32LE(12))
  }

  /** Stores the newest segment and its last record, at a clean stop. */
  async stopped(boot: number): Promise<void> {
    const active = this.#active
    if (!active) return
    try {
      await this.sync(true)
    } catch {
      return // the next start is as after a kill
    }
    await this.#witness(boot, active.last)
  }

  /** Appends record bytes to the active file; the caller keeps them until sync() has settled. */
  append(bytes: Uint8Array, start: number, end: number, last: number, facts: number, lastFact: number): void {
    const active = this.#active!
    this.#write(this.#fd, active.size, bytes, start, end - start)
    this.#count(active.size, active.size + end - start)
    active.size += end - start
    active.last = last
    active.facts += facts
    if (lastFact > 0) active.lastFact = lastFact
  }

  /**
   * Everything appended before the call is on flash when the promise settles; appending meanwhile is allowed. `isLast`: the
   * active file is complete, and its zeros are removed first.
   */
  async sync(isLast = false): Promise<void> {
    await this.#syncAdopted()
    const active = this.#active
    if (!active) return
    const trimmed = isLast && this.#trim(active.size)
    if (active.size === this.#synced.size && !trimmed) return
    const reached = { ...active }
    this.syncs++
    await this.files.sync(this.#fd)
    this.#markSynced(reached)
  }

  /** After a failure: closes the active file and truncates it to what is on flash. Never throws. */
  abandon(): void {
    const active = this.#active
    if (!active) return
    const { size, ...state } = this.#synced
    this.#trim(size)
    // what the disk refuses to truncate takes space until the next start
    if (this.#length === size) this.resized(active, size)
    Object.assign(active, state)
    active.generation++
    this.seal()
    if (size > active.headerLength) return
    try {
      this.remove(active)
      removeWitness(this.files, this.dir)
    } catch {
      // The disk refuses that too. The file stays until the next segment takes its name or the next start removes it; as a
      // segment of the list it would be taken for damaged as soon as the file has the next one's records.
      this.#drop(active)
    }
  }

  /** Truncates the active file to its records and closes it, without another sync. */
  seal(): void {
    if (this.#active) {
      this.#trim(this.#active.size)
      // a failed close on a broken disk has no effect: everything relevant was synced before
      orElse(undefined, () => this.files.close(this.#fd))
    }
    this.#fd = -1
    this.#active = undefined
  }

  /** Removes a segment's file, after earlier removals are on flash: a start takes missing oldest segments for dropped, a hole for damage. */
  remove(segment: Segment): void {
    if (this.#removed) this.files.syncDir(this.dir)
    this.files.remove(segment.path)
    this.#removed = true
    this.#drop(segment)
  }

  /** A sealed segment was rewritten with another length. */
  resized(segment: Segment, size: number): void {
    this.#count(segment.size, size)
    segment.size = size
    segment.generation++
  }

  /** bytes on the medium that `more` bytes at the end of the active file would add */
  cost(more: number): number {
    const size = this.#active?.size ?? 0
    return onMedium(size + more) - onMedium(size)
  }

  /** The number of facts after `seq`: exact for complete segments, an upper bound inside the one that contains `seq`. */
  factsAfter(seq: number): number {
    return this.list.reduce((sum, s) => (s.lastFact <= seq ? sum : sum + Math.min(s.facts, s.lastFact - seq)), 0)
  }

  /** Bytes of the segments that contain records after `seq`. */
  bytesAfter(seq: number): number {
    return this.list.reduce((sum, s) => (s.last > seq ? sum + s.size : sum), 0)
  }

  /** Where the newest `facts` facts begin, at a segment's first record; undefined: there are fewer. */
  startOfLast(facts: number): number | undefined {
    let count = 0
    for (let k = this.list.length - 1; k >= 0; k--) {
      count += this.list[k]!.facts
      if (count >= facts) return this.list[k]!.base
    }
    return undefined
  }

  /** If the folder could not be read at the start, nothing is written: its records might be overwritten. */
  #sure(): void {
    if (!this.unread) return
    if (segmentsIn(this.dir, this.files).length > 0)
      throw new OsError('STORAGE', `${this.dir} could not be read at the start and may contain older records`, {
        hint: 'restart the gateway: it continues after them',
      })
    this.unread = false
  }

  async #witness(boot: number, last?: number): Promise<void> {
    const first = this.list[0]!.base
    const held: LossRange[] = []
    for (const { base: from, last: to } of this.list.slice(0, -1))
      if (to >= from) joinRange(held, { reason: 'damaged', from, to, records: 0 })
    const runs = held.slice(-RUNS).map(({ from, to }) => [from, to] as const)
    const witness = { base: this.#active!.base, boot, first, runs, ...(last !== undefined && { last }) }
    this.writtenBytes += await writeWitness(this.files, this.dir, witness)
  }

  async #syncAdopted(): Promise<void> {
    const segment = this.#doubtful
    if (!segment) return
    if (this.list.includes(segment)) {
      this.syncs++
      this.writtenBytes += await writeAgain(segment.path, this.files, segment.size)
      this.files.syncDir(this.dir)
    }
    this.#doubtful = undefined
  }

  #drop(segment: Segment): void {
    const at = this.list.indexOf(segment)
    if (at < 0) return
    this.#count(segment.size, 0)
    this.list.splice(at, 1)
    segment.generation++
  }

  #count(before: number, after: number): void {
    this.taken += onMedium(after) - onMedium(before)
    this.bytes += after - before
  }

  /** Removes the zeros at the end of the active file, and records of a failed commit. False if it has neither. */
  #trim(size: number): boolean {
    if (this.#length === size) return false
    try {
      this.files.resize(this.#fd, size)
      this.#length = size
    } catch {
      // The disk refuses. Zeros at the end are no damage, and remaining records have seqs that the next segment repeats: the
      // scan leaves both out.
    }
    return true
  }

  /** Writes at the end of a file whose content ends at `size`. */
  #write(fd: number, size: number, bytes: Uint8Array, start: number, length: number): void {
    if (size + length > this.#length) {
      const next = Math.ceil((size + length) / STEP) * STEP
      this.files.resize(fd, next)
      this.#length = next
    }
    this.files.write(fd, bytes, start, length)
    this.writtenBytes += length
  }

  #markSynced({ size, last, facts, lastFact }: Segment): void {
    this.#synced = { size, last, facts, lastFact }
  }
}
