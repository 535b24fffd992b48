// The flash log: the database of a gateway (decision 0008). Facts, cursors and clock changes are records in one append-only set of
// files; a record gets its seq immediately and is on flash after the next group commit.
//
// Errors: a disk that refuses writes makes the log degraded, never silent or stopped. Damage found at the start or while
// reading is cut out, kept in a separate folder and listed in the loss ledger. Only one process may open a log (decision 0011).
import { checkNames, namesOf } from '../lib/checked'
import { OsError } from '../lib/errors'
import type { Fact, LinkMetadata } from '../pipeline/fact'
import { BackgroundCheck } from './background-check'
import { DayCounter } from './daycounter'
import { RecordEncoder } from './encode'
import { joinRange } from './ledger'
import { type FlashLogOptions, type LogSettings, type LogStatus, settle } from './log-options'
import { Reader, type ReaderOptions, type ReaderSource } from './reader'
import type { ClockChange, LogRecord, LossRange, RecordTimeQuality } from './record'
import { lookInto, type Recovered } from './recovery'
import { DamageRepair } from './repair'
import { Retention } from './retention'
import { encodeHeader } from './segment'
import { type Segment, Segments } from './segments'
import type { LogState } from './state'
import { Tail } from './tail'
import { Writer } from './writer'

const OPTIONS = namesOf<FlashLogOptions>()(
  'dir files clock timers logger maxBytes maxAgeS commitIntervalMs ackCommitMs commitBytes whenFull segmentBytes',
  'bufferBytes isAlarm version skipSeqs checkBytesS',
)

export class FlashLog {
  /** number of this opening of the log, from 1 */
  readonly boot: number
  /** the previous opening ended with close() */
  readonly cleanStop: boolean
  /** time quality of the log's own records */
  quality: RecordTimeQuality = 'unsynced'
  readonly #o: LogSettings
  readonly #segments: Segments
  readonly #tail: Tail
  readonly #state: LogState
  readonly #retention: Retention
  readonly #writer: Writer
  readonly #encoder: RecordEncoder
  readonly #repair: DamageRepair
  readonly #check: BackgroundCheck
  readonly #source: ReaderSource
  readonly #today: DayCounter
  #nextSeq: number
  #refused = 0
  #unreported: LossRange[] = []
  /** RAM is full, and that was logged */
  #overflows = false
  #closed = false
  readonly #chain: string | undefined

  private constructor(o: LogSettings, found: Recovered) {
    this.#o = o
    this.boot = found.boot + 1
    this.cleanStop = found.cleanStop
    this.#nextSeq = found.nextSeq
    this.#state = found.state
    this.#encoder = new RecordEncoder(this.boot)
    this.#tail = new Tail(o.chunkBytes, o.recentBytes)
    this.#segments = new Segments(o.files, o.dir)
    for (const segment of found.segments)
      if (!found.empty.includes(segment)) this.#segments.adopt(segment, segment === found.unsynced)
    this.#chain = found.chain
    this.#segments.unread = found.unread !== undefined
    this.#today = new DayCounter(o.clock, () => this.#segments.writtenBytes, found.segments)
    this.#retention = new Retention(o, this.#segments, this.#state)
    this.#retention.onDropped = segment => this.#dropped(segment)
    const { segments, tail, retention } = { segments: this.#segments, tail: this.#tail, retention: this.#retention }
    this.#writer = new Writer(o, { tail, segments, retention, makeHeader: base => this.#header(base) }, found)
    for (const [name, seq] of this.#state.cursors) this.#state.kept.set(name, seq)
    this.#writer.onDone = () => {
      this.#state.committed(this.committedSeq)
      this.#report()
    }
    this.#repair = new DamageRepair({ ...o, segments, retention, ledger: this.#state.ledger, boot: this.boot })
    this.#check = new BackgroundCheck({ ...o, bytesS: o.checkBytesS, segments, damaged: one => this.#damaged(one) })
    const log = this
    this.#source = {
      files: o.files,
      segments,
      tail,
      get committedSeq() {
        return log.committedSeq
      },
      damaged: segment => this.#damaged(segment),
    }
  }

  /**
   * Opens or creates the log in `dir`, repairs the effects of a crash and starts a new boot. A disk that cannot be written or
   * read is a state: records are kept in RAM and written once that is possible. Throws DATA_DIR if `dir` cannot be a folder.
   */
  static async open(options: FlashLogOptions): Promise<FlashLog> {
    checkNames('FlashLog.open', options, OPTIONS)
    const o = settle(options)
    const found = lookInto(o)
    const log = new FlashLog(o, found)
    await log.#start(found)
    log.#check.start()
    return log
  }

  get committedSeq(): number {
    return this.#writer.committedSeq
  }

  /** seq of the newest record, committed or not */
  get lastSeq(): number {
    return this.#writer.lastSeq
  }

  /** seq of the oldest existing record */
  get firstSeq(): number {
    return this.#segments.list.find(s => s.last >= s.base)?.base ?? this.#tail.firstSeq
  }

  /** Losses by range and reason; see LossRange. */
  get losses(): readonly LossRange[] {
    return this.#state.ledger.ranges
  }

  /** Why new records are in RAM only; undefined while the disk accepts them. */
  get failure(): OsError | undefined {
    return this.#writer.failure
  }

  get degraded(): boolean {
    return this.failure !== undefined
  }

  /** Bytes in RAM not yet written: a fast producer pauses when this approaches bufferBytes. */
  get pendingBytes(): number {
    return this.#tail.pending
  }

  /**
   * Appends one fact and returns its seq. It is on flash after the next commit: see committed(). Throws PACKET_TOO_LARGE for
   * a fact beyond the record limits, DISK_FULL if when_full is "refuse" and the log is full.
   */
  appendFact(fact: Fact, link: LinkMetadata, quality: RecordTimeQuality = 'unknown'): number {
    if (!this.#retention.admits(4096, this.#tail.pending, this.#o.segmentBytes)) {
      this.#refused++
      throw new OsError('DISK_FULL', 'the log is full and gateway.log.when_full is "refuse"')
    }
    const alarm = this.#o.isAlarm(fact)
    return this.#append(() => this.#encoder.fact(fact, link, alarm), quality)
  }

  /**
   * Stores the position of reader `name`, on flash after the next commit; seq 0 removes the cursor. With when_full "refuse" a
   * segment is only dropped after every cursor has passed it.
   */
  appendCursor(name: string, seq: number): number {
    const own = this.#append(() => this.#encoder.cursor(name, seq))
    this.#state.moveCursor(name, seq, own)
    return own
  }

  /** The position of reader `name`, undefined if it never had one. */
  cursor(name: string): number | undefined {
    return this.#state.cursors.get(name)
  }

  /** Names of all cursors. */
  readonly cursorNames = (): string[] => [...this.#state.cursors.keys()]

  /** Stores a number (an integer from 0) that is not a log position, for example the next TID of an uplink. */
  appendCounter(name: string, value: number): number {
    const own = this.#append(() => this.#encoder.cursor(name, value, true))
    this.#state.counters.set(name, value)
    return own
  }

  /**
   * Stores a packet of another node that changed a template and gave no fact; `future`: its time is too far ahead (X36).
   * Throws PACKET_TOO_LARGE beyond the record limits.
   */
  appendPacket(packet: Uint8Array, future: boolean): number {
    return this.#append(() => this.#encoder.packet(packet, future))
  }

  /** The newest value of counter `name`, undefined if there is none. */
  counter(name: string): number | undefined {
    return this.#state.counters.get(name)
  }

  /** Records that the clock was set; earlier facts of this boot are off by `offsetMs` (decision 0044). */
  appendClock(change: ClockChange, quality: RecordTimeQuality = 'synced'): number {
    this.setQuality(quality)
    return this.#append(() => this.#encoder.clock(change), quality)
  }

  /** Sets `quality` for the records from now on; an unsynced clock suspends the age limit. */
  setQuality(quality: RecordTimeQuality): void {
    this.quality = quality
    this.#retention.timeTrusted = quality !== 'unsynced'
  }

  /** Settles when record `seq` is on flash, at most ack_commit_ms plus one sync later. Rejects if it was lost. */
  committed(seq: number): Promise<void> {
    if (this.#state.ledger.covers(seq, ['overflow'])) {
      return Promise.reject(new OsError('DISK_FULL', `record ${seq} was lost before it could be written`))
    }
    return this.#writer.committed(seq)
  }

  /** Calls back after each commit with the newest committed seq; returns a function that unsubscribes. */
  onCommit(listener: (committedSeq: number) => void): () => void {
    return this.#writer.onCommit(listener)
  }

  /**
   * One listener; records it appends when a commit begins are included in that commit. Call the result to plan a commit even
   * if nothing is pending.
   */
  readonly beforeCommit = (listener: () => void): (() => void) => this.#writer.before(() => this.#closed || listener())

  /** Commits pending records now, without the interval. Also resolves if the disk refuses; see status(). */
  flush(): Promise<void> {
    return this.#writer.flush()
  }

  /** Records from seq `lowest()` on are safe from the age limit. `dropping` is called before a limit removes a segment. */
  pin(lowest: () => number | undefined, dropping: (segment: Segment) => void = () => undefined): void {
    this.#retention.pinned = lowest
    this.#retention.onDropping = dropping
  }

  /** A reader that continues where it stopped; see Reader. */
  reader(fromSeq: number, options?: ReaderOptions): Reader {
    return new Reader(this.#source, fromSeq, options)
  }

  /** The records from `fromSeq` on, up to the newest existing one. */
  *read(fromSeq: number, { limit = Number.POSITIVE_INFINITY, ...options }: ReaderOptions & { limit?: number } = {}) {
    const reader = this.reader(fromSeq, options)
    const end = this.lastSeq
    for (let n = 0; n < limit; n++) {
      const record: LogRecord | null = reader.next()
      if (!record || record.seq > end) return
      yield record
    }
  }

  /** The number of facts after `seq`: exact for complete segments, an upper bound inside the one that contains `seq`. */
  factsAfter(seq: number): number {
    return this.#segments.factsAfter(seq) + this.#tail.factsAfter(seq)
  }

  /** Bytes of the files that contain records after `seq`. */
  readonly bytesAfter = (seq: number): number => this.#segments.bytesAfter(seq)

  /** The seq at which (at least) the newest `facts` facts start. */
  startOfLast(facts: number): number {
    return this.#segments.startOfLast(facts - this.#tail.factsAfter(0)) ?? this.firstSeq
  }

  status(): LogStatus {
    const { totals } = this.#state.ledger
    const failure = this.#writer.failure
    return {
      first_seq: this.firstSeq,
      last_seq: this.lastSeq,
      committed_seq: this.committedSeq,
      bytes: this.#segments.bytes + this.#retention.damagedBytes,
      max_bytes: this.#o.maxBytes,
      oldest: this.#segments.list[0]?.created ?? null,
      lost: totals.dropped + totals.overflow,
      dropped: totals.dropped,
      overflow: totals.overflow,
      refused: this.#refused,
      damaged: totals.damaged,
      torn: totals.torn,
      records: this.factsAfter(0),
      gaps: this.#state.ledger.newest('damaged'),
      ...(this.#chain && { chain: this.#chain }),
      ...(this.#check.status && { check: this.#check.status }),
      bytes_written_today: this.#today.bytes,
      syncs: this.#segments.syncs,
      pending: this.#tail.pending === 0 ? 0 : Math.max(1, this.lastSeq - this.committedSeq),
      state: failure ? 'degraded' : 'ok',
      ...(failure && { reason: failure.message }),
    }
  }

  /** Marks the clean stop, commits everything and closes. Rejects (STORAGE, DISK_FULL) if the disk refuses until the end. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#check.stop()
    this.#report()
    this.#append(() => this.#encoder.bootRecord({ stop: true, version: this.#o.version }))
    this.#closed = true
    await this.#writer.flush()
    const failure = this.#writer.failure
    this.#writer.stop()
    if (!failure) await this.#segments.stopped(this.boot)
    this.#segments.seal()
    if (failure) throw failure
  }

  async #start(found: Recovered): Promise<void> {
    const ledger = this.#state.ledger
    const fresh: LossRange[] = []
    for (const { from, to, facts } of found.vanished) fresh.push(...ledger.add('damaged', from, to, facts))
    for (const finding of found.findings) fresh.push(...this.#repair.enter(finding))
    this.#repair.warn(fresh, found.openEnd)
    if (found.chain) this.#o.logger.warn(found.chain)
    for (const { from, to, facts } of found.dropped) fresh.push(...ledger.add('dropped', from, to, facts))
    if (!found.unread) this.#repair.look()
    this.#append(() => this.#encoder.bootRecord({ stop: false, version: this.#o.version }))
    this.#appendLosses(fresh)
    await this.#writer.flush()
    if (this.#writer.failure) return
    // the ledger is on flash: now the damage can be removed
    for (const finding of found.findings) this.#repair.mend(finding)
    for (const segment of found.empty) this.#repair.discard(segment)
  }

  #append(encode: () => number, quality = this.quality): number {
    if (this.#closed) throw new OsError('STORAGE', 'the log is closed')
    const seq = this.#nextSeq
    const mono = this.#o.clock.mono()
    const wall = this.#o.clock.wall()
    let chunk = this.#tail.room()
    const write = (): number => {
      this.#encoder.at(chunk.bytes, chunk.used, seq, mono, wall, quality)
      return encode()
    }
    let length = write()
    for (let size = 1; length === 0; size *= 2) {
      if (size > this.#o.maxRecord)
        throw new OsError('PACKET_TOO_LARGE', `a record takes at most ${this.#o.maxRecord} bytes`)
      chunk = this.#tail.room(size)
      size = chunk.bytes.length
      length = write()
    }
    this.#nextSeq = seq + 1
    this.#tail.added(chunk, seq, length)
    this.#writer.appended(seq)
    if (this.#tail.pending > this.#o.bufferBytes) this.#overflow()
    return seq
  }

  /** RAM is full because the disk refuses or is too slow: drops the oldest pending records, so that live ones still fit. */
  #overflow(): void {
    const lost = this.#tail.dropOldest()
    if (!lost) return
    for (const range of this.#state.ledger.add('overflow', lost.from, lost.to, lost.facts))
      joinRange(this.#unreported, range)
    if (!this.#overflows) this.#o.logger.warn('the log drops records: RAM is full and the disk refuses writes')
    this.#overflows = true
    this.#writer.lost(lost.from, lost.to)
  }

  #report(): void {
    this.#overflows = false
    if (!this.#closed) this.#appendLosses(this.#unreported.splice(0))
  }

  #dropped(segment: Segment): void {
    const fresh = this.#state.ledger.add('dropped', segment.base, Math.max(segment.base, segment.last), segment.facts)
    if (!this.#closed) this.#appendLosses(fresh)
  }

  #appendLosses(ranges: readonly LossRange[]): void {
    const { totals } = this.#state.ledger
    for (let k = 0; k < ranges.length; k += 256) {
      const part = ranges.slice(k, k + 256)
      this.#append(() => this.#encoder.loss(totals, part))
    }
  }

  /** A reader or a check found invalid bytes; false if the segment cannot be read. */
  #damaged(segment: Segment): boolean {
    const finding = this.#repair.inspect(segment)
    if (!finding) return false
    const fresh = this.#repair.enter(finding)
    this.#repair.warn(fresh)
    if (!this.#closed) this.#appendLosses(fresh)
    // the active file is repaired at the next start; until then readers skip the damage
    if (segment !== this.#segments.active && !this.#writer.failure)
      void this.flush().then(() => this.#writer.failure ?? this.#repair.mend(finding))
    return true
  }

  #header(base: number): Buffer {
    const list = this.#segments.list
    return encodeHeader({
      boot: this.boot,
      base,
      previousLast: list.at(-1)?.last ?? 0,
      created: this.#o.clock.wall(),
      snapshot: this.#state.snapshot(list),
    })
  }
}
