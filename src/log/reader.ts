// Reads the log from a seq on, record by record, and keeps its position: a current uplink reads each record from RAM, one
// that lags reads blocks of 64 KiB from the segments. Dropped segments are skipped (they are in the ledger), damage is
// reported once and skipped. A reader keeps no file open and needs no closing.
import { orElse } from '../lib/errors'
import type { Files } from '../lib/files'
import { checkRecord, decodeRecord, recordSeq } from './decode'
import { AT_FLAGS, AT_KIND, FLAG_ALARM, KINDS, MARK, MAX_RECORD, RECORD_OVERHEAD, recordLength } from './format'
import type { LogRecord, RecordKind } from './record'
import { decodeHeader, findRecord } from './segment'
import type { Segment, Segments } from './segments'
import type { Tail, TailChunk } from './tail'

const BLOCK = 64 * 1024
const NO_BYTES = Buffer.alloc(0)

export interface ReaderSource {
  readonly files: Files
  readonly segments: Segments
  readonly tail: Tail
  readonly committedSeq: number
  /** Repairs a damaged segment; the reader then seeks again or skips what could not be repaired. */
  damaged(segment: Segment): unknown
}

export interface ReaderOptions {
  /** stop at the newest committed record (default true) */
  committedOnly?: boolean
  /** only these kinds; other records are skipped without decoding */
  kinds?: readonly RecordKind[]
  /** only facts that were an alarm when they were logged */
  alarms?: boolean
  /** stop after this seq */
  upTo?: number
  /** maximum number of skipped records per call; next() then also returns null, and `position` shows the progress */
  most?: number
}

export class Reader {
  /** lower bound for the seq of the next record */
  #want: number
  readonly #source: ReaderSource
  readonly #committedOnly: boolean
  /** bit per kind */
  readonly #kinds: number
  /** flags a record must have */
  readonly #flags: number
  readonly #most: number
  readonly #upTo: number
  #passed = 0
  #chunk: TailChunk | undefined
  #segment: Segment | undefined
  #generation = 0
  /** position in the chunk or in the segment's file */
  #at = 0
  #block: Buffer = NO_BYTES
  #blockAt = 0
  #stepping = false
  /** the current record: its buffer and position */
  #hit: Buffer = NO_BYTES
  #hitAt = 0

  constructor(source: ReaderSource, fromSeq: number, options: ReaderOptions = {}) {
    const {
      committedOnly = true,
      alarms = false,
      most = Number.POSITIVE_INFINITY,
      upTo = Number.POSITIVE_INFINITY,
    } = options
    const kinds = alarms ? (['fact'] as const) : (options.kinds ?? KINDS)
    this.#flags = alarms ? FLAG_ALARM : 0
    this.#most = most
    this.#upTo = upTo
    this.#source = source
    this.#want = fromSeq
    this.#committedOnly = committedOnly
    this.#kinds = kinds.reduce((mask, kind) => mask | (1 << KINDS.indexOf(kind)), 0)
  }

  /** The seq at which reading continues. */
  get position(): number {
    return this.#want
  }

  /** The next record, or null if there is none yet; call again later. */
  next(): LogRecord | null {
    return this.#find() ? decodeRecord(this.#hit, this.#hitAt) : null
  }

  /**
   * Copies as many of the next records as fit, in their stored form, to `into` from `at` on; returns their end. `recordSize`
   * and `decodeRecord` decode them, also in another thread.
   */
  fill(into: Buffer, at = 0): number {
    while (this.#find()) {
      const length = recordLength(this.#hit, this.#hitAt)
      if (at + length > into.length) {
        this.#want = recordSeq(this.#hit, this.#hitAt)
        this.#at -= length
        break
      }
      this.#hit.copy(into, at, this.#hitAt, this.#hitAt + length)
      at += length
    }
    return at
  }

  /** Moves to the next matching record; false if there is none yet. */
  #find(): boolean {
    const source = this.#source
    this.#passed = 0
    for (;;) {
      if (this.#passed >= this.#most) return false
      if (this.#ended(this.#want)) return false
      const chunk = this.#chunk
      if (chunk && chunk.generation === this.#generation) {
        if (this.#at < chunk.used) {
          const at = this.#at
          const seq = recordSeq(chunk.bytes, at)
          if (this.#ended(seq)) return false
          this.#at += recordLength(chunk.bytes, at)
          if (seq < this.#want) continue
          this.#want = seq + 1
          if (this.#takes(chunk.bytes, at)) return true
          continue
        }
        if (!chunk.next) return false
        this.#enter(chunk.next)
        continue
      }
      this.#chunk = undefined
      const ram = source.tail.firstSeq
      if (ram > 0 && this.#want >= ram) {
        this.#seekChunk()
        continue
      }
      const found = this.#fromDisk(ram)
      if (found !== undefined) return found
    }
  }

  #ended(seq: number): boolean {
    return seq > this.#upTo || (this.#committedOnly && seq > this.#source.committedSeq)
  }

  #takes(b: Buffer, at: number): boolean {
    this.#hit = b
    this.#hitAt = at
    this.#passed++
    return (this.#kinds & (1 << b[at + AT_KIND]!)) !== 0 && (b[at + AT_FLAGS]! & this.#flags) === this.#flags
  }

  #enter(chunk: TailChunk): void {
    this.#chunk = chunk
    this.#generation = chunk.generation
    this.#at = 0
    this.#segment = undefined
    this.#block = NO_BYTES
  }

  #seekChunk(): void {
    let chunk = this.#source.tail.head!
    while (chunk.lastSeq < this.#want && chunk.next) chunk = chunk.next
    this.#enter(chunk)
  }

  /** true: a record was found, undefined: try again, false: end of the log */
  #fromDisk(ram: number): boolean | undefined {
    const segment = this.#segment
    if (!segment || segment.generation !== this.#generation || segment.last < this.#want) return this.#seekSegment(ram)
    const inBlock = this.#at - this.#blockAt
    let length = checkRecord(this.#block, inBlock)
    if (length === 0) {
      if (!this.#loadBlock(segment)) return this.#broken(segment)
      length = checkRecord(this.#block, 0)
      if (length === 0) return this.#broken(segment)
    }
    const at = this.#at - this.#blockAt
    const seq = recordSeq(this.#block, at)
    if (this.#ended(seq)) return false
    this.#at += length
    if (seq < this.#want) return undefined
    this.#want = seq + 1
    return this.#takes(this.#block, at) || undefined
  }

  #seekSegment(ram: number): false | undefined {
    const list = this.#source.segments.list
    const segment = list.find(s => s.last >= this.#want)
    this.#segment = segment
    this.#stepping = false
    if (!segment) {
      if (ram === 0) return false
      this.#want = Math.max(this.#want, ram)
      return undefined
    }
    this.#generation = segment.generation
    this.#want = Math.max(this.#want, segment.base)
    if (segment.headerLength === 0) {
      const head = this.#read(segment, 0, Math.min(segment.size, BLOCK))
      segment.headerLength = (head && decodeHeader(head)?.length) ?? 0
    }
    this.#at = segment.headerLength
    this.#block = NO_BYTES
    return undefined
  }

  /** Loads the block at the reader's position, with at least one complete record if possible. */
  #loadBlock(segment: Segment): boolean {
    const left = segment.size - this.#at
    if (left < RECORD_OVERHEAD) return false
    const block = this.#read(segment, this.#at, Math.min(left, BLOCK))
    if (!block || block.length < RECORD_OVERHEAD) return false
    this.#block = block
    this.#blockAt = this.#at
    const length = block[0] === MARK ? recordLength(block, 0) : 0
    if (length > block.length && length <= MAX_RECORD) {
      this.#block = this.#read(segment, this.#at, Math.min(left, length)) ?? block
    }
    return true
  }

  /** Invalid bytes where the segment should have a record: has it repaired, or skips them. */
  #broken(segment: Segment): undefined {
    if (!this.#stepping) {
      this.#source.damaged(segment)
      this.#stepping = segment.generation === this.#generation
      return undefined
    }
    const tail = this.#read(segment, this.#at, segment.size - this.#at)
    const found = tail ? findRecord(tail, 1, this.#want, segment.last + 1) : -1
    if (tail && found >= 0) {
      this.#block = tail
      this.#blockAt = this.#at
      this.#at += found
    } else this.#want = segment.last + 1
    return undefined
  }

  #read(segment: Segment, offset: number, length: number): Buffer | undefined {
    // removed or unreadable: the caller treats it as damage, which reports it
    return orElse(undefined, () => this.#source.files.readAt(segment.path, offset, length))
  }
}
