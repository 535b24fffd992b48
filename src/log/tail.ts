// Records in RAM: the pending ones and the newest committed ones, so that an uplink that keeps up never reads the disk.
// Chunks of equal size form a linked list and are reused; a reader keeps the chunk's generation and seeks again if it
// changed.

import { recordSeq } from './decode'
import { AT_KIND, KIND_FACT, recordLength } from './format'

export class TailChunk {
  /** incremented when the chunk is reused */
  generation = 0
  used = 0
  /** bytes written to the file system, and bytes known to be on flash */
  written = 0
  synced = 0
  firstSeq = 0
  lastSeq = 0
  next: TailChunk | undefined
  /** part of a running commit */
  busy = false
  readonly bytes: Buffer
  constructor(size: number) {
    this.bytes = Buffer.allocUnsafeSlow(size)
  }
}

export class Tail {
  head: TailChunk | undefined
  current: TailChunk | undefined
  /** bytes not yet on flash */
  pending = 0
  #held = 0
  readonly #pool: TailChunk[] = []
  readonly #size: number
  readonly #recent: number

  constructor(chunkBytes: number, recentBytes: number) {
    this.#size = chunkBytes
    this.#recent = recentBytes
  }

  /** first seq still in RAM, or 0 if there is none */
  get firstSeq(): number {
    let chunk = this.head
    while (chunk && chunk.used === 0) chunk = chunk.next
    return chunk?.firstSeq ?? 0
  }

  /** Facts after `seq` that are in no file yet. */
  factsAfter(seq: number): number {
    let count = 0
    for (let chunk = this.head; chunk; chunk = chunk.next) {
      for (let at = chunk.written; at < chunk.used; at += recordLength(chunk.bytes, at)) {
        if (chunk.bytes[at + AT_KIND] === KIND_FACT && recordSeq(chunk.bytes, at) > seq) count++
      }
    }
    return count
  }

  /** A chunk with room at its end; `larger` requests a new one of at least that size. */
  room(larger = 0): TailChunk {
    const now = this.current
    if (now && larger === 0) return now
    if (now && now.used === 0 && now.bytes.length >= larger) return now
    const size = Math.max(this.#size, larger)
    const chunk = (size === this.#size && this.#pool.pop()) || new TailChunk(size)
    this.#held += chunk.bytes.length
    if (now) now.next = chunk
    else this.head = chunk
    this.current = chunk
    return chunk
  }

  added(chunk: TailChunk, seq: number, length: number): void {
    if (chunk.used === 0) chunk.firstSeq = seq
    chunk.lastSeq = seq
    chunk.used += length
    this.pending += length
  }

  /** Frees committed chunks beyond the recent ones. */
  trim(): void {
    let head = this.head
    while (head && head !== this.current && head.synced === head.used && this.#held > this.#recent) {
      const next = head.next
      this.#recycle(head)
      head = next
    }
    this.head = head
  }

  /**
   * Drops the oldest pending chunk that is not partly written. Returns the lost seqs and number of facts, or undefined if
   * every pending chunk is in use.
   */
  dropOldest(): { from: number; to: number; facts: number } | undefined {
    const first = this.head
    let before: TailChunk | undefined
    let chunk = first
    while (chunk && (chunk.synced === chunk.used || chunk.written > chunk.synced || chunk.busy)) {
      before = chunk
      chunk = chunk.next
    }
    if (!chunk || chunk === this.current) return undefined
    let facts = 0
    const from = recordSeq(chunk.bytes, chunk.synced)
    for (let at = chunk.synced; at < chunk.used; at += recordLength(chunk.bytes, at)) {
      if (chunk.bytes[at + AT_KIND] === KIND_FACT) facts++
    }
    const lost = { from, to: chunk.lastSeq, facts }
    this.pending -= chunk.used - chunk.synced
    if (before && (before.busy || before.synced < before.used)) before.next = chunk.next
    else {
      // earlier chunks are on flash: free them too, so that readers use the files instead of skipping over the gap
      this.head = chunk.next
      for (let old = before && first; old && old !== chunk; ) {
        const after: TailChunk | undefined = old.next
        this.#recycle(old)
        old = after
      }
    }
    this.#recycle(chunk)
    return lost
  }

  #recycle(chunk: TailChunk): void {
    this.#held -= chunk.bytes.length
    chunk.generation++
    chunk.used = chunk.written = chunk.synced = chunk.firstSeq = chunk.lastSeq = 0
    chunk.next = undefined
    if (chunk.bytes.length === this.#size && this.#pool.length < 4) this.#pool.push(chunk)
  }
}
