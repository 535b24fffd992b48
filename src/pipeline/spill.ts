// Templates that do not fit into memory: packed sources in segments. The newest segments are in memory, older ones in
// files, each written completely, once, without a sync, because they are only for this run. A clean stop syncs them and
// leaves a mark, which the next start consumes; without the mark the files are removed and every template counts as
// missing. So nothing is written per packet, and the flash is used only for sources that do not fit into memory even
// when packed.
//
// Errors: a record with a wrong CRC, or a file that cannot be read or written, loses the templates in it (`lost`, a
// NEED_FULL each), never gives a wrong value, because their owner still knows the newest time of each source. Files are
// bounded: when there are too many, the one with the least useful data is read; its useful data is rewritten, or
// dropped if the files are full of useful data.
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import type { Files } from '../lib/files'
import { crc32c } from '../wire/crc'

const SEGMENT = 256 * 1024
/** length u32, AID u32, newest TS f64, CRC-32C u32 of everything except the length */
const HEADER = 20
const MARK = 'clean-stop.json'
const SUFFIX = '.spill'
const MOST_STEPS = 4

interface Segment {
  readonly id: number
  /** null: in its file */
  bytes: Buffer | null
  /** bytes written to it, and how many of them are still used */
  used: number
  live: number
}

interface SpilledEntry {
  readonly segment: Segment
  readonly at: number
  readonly length: number
  /** newest TS of all its templates */
  readonly newest: number
  /** from the run before */
  readonly earlier: boolean
}

interface SpillOptions {
  dir: string
  files: Files
  /** bytes of segments in memory */
  memoryBytes: number
  /** bytes of files */
  diskBytes: number
  /** called for a source that is dropped, with its newest time */
  lost: (aid: number, newest: number) => void
}

export class Spill {
  readonly counters = { spilled: 0, restored: 0, lost: 0, bytes_written: 0, errors: 0 }
  lastError: unknown = null
  readonly #o: SpillOptions
  readonly #places = new Map<number, SpilledEntry>()
  /** oldest first */
  #segments: Segment[] = []
  #nextId = 1

  constructor(options: SpillOptions) {
    this.#o = options
    this.#start()
  }

  /** number of sources in the spill */
  get size(): number {
    return this.#places.size
  }

  get memory(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0)
  }

  get disk(): number {
    return this.#segments.reduce((sum, { bytes, used }) => sum + (bytes ? 0 : used), 0)
  }

  has(aid: number): boolean {
    return this.#places.has(aid)
  }

  /** Whether it is from before the start, whose disk may be an older copy. */
  isEarlier(aid: number): boolean {
    return this.#places.get(aid)?.earlier === true
  }

  /** Adds a packed source; the bytes are copied. */
  put(aid: number, packed: Uint8Array, newest: number, earlier = false): void {
    this.#remove(aid)
    this.counters.spilled++
    const before = this.#nextId
    this.#append(aid, packed, newest, earlier)
    // each new segment pays for one old one, or for a few if much must be moved
    for (let step = 0; step < MOST_STEPS && this.#nextId !== before && this.#bound(); step++);
  }

  /** Returns a packed source and removes it here; null if it is not here or was lost (then `lost` was called). */
  take(aid: number): Buffer | null {
    const place = this.#places.get(aid)
    if (!place) return null
    const packed = this.#read(aid, place)
    this.#remove(aid)
    if (packed) this.counters.restored++
    else this.#lose(aid, place.newest)
    return packed
  }

  /** The same without removing it. */
  peek(aid: number): Buffer | null {
    const place = this.#places.get(aid)
    return place ? this.#read(aid, place) : null
  }

  /** Clean stop: writes everything to files, with a mark that lets the next run use them. */
  save(): void {
    const { dir, files } = this.#o
    try {
      for (const segment of this.#segments) this.#write(segment, true)
      const segments = this.#segments.map(({ id, used }) => ({ id, used }))
      files.mkdir(dir)
      files.syncDir(dir)
      atomicWrite(join(dir, MARK), JSON.stringify({ segments }), files)
    } catch (error) {
      // without the mark the next run starts empty, which costs only key frames
      this.#failed(error)
    }
  }

  #append(aid: number, packed: Uint8Array, newest: number, earlier: boolean): void {
    const length = HEADER + packed.length
    let segment = this.#segments.at(-1)
    if (!segment?.bytes || segment.used + length > segment.bytes.length) {
      if (segment?.live === 0) this.#drop(segment)
      segment = { id: this.#nextId++, bytes: Buffer.allocUnsafeSlow(Math.max(SEGMENT, length)), used: 0, live: 0 }
      this.#segments.push(segment)
    }
    const bytes = segment.bytes!
    const at = segment.used
    bytes.writeUInt32LE(length, at)
    bytes.writeUInt32LE(aid, at + 4)
    bytes.writeDoubleLE(newest, at + 8)
    bytes.set(packed, at + HEADER)
    bytes.writeUInt32LE(checksum(bytes, at, length), at + 16)
    segment.used += length
    segment.live += length
    this.#places.set(aid, { segment, at, length, newest, earlier })
  }

  #remove(aid: number): void {
    const place = this.#places.get(aid)
    if (!place) return
    this.#places.delete(aid)
    place.segment.live -= place.length
    if (place.segment.live === 0 && place.segment !== this.#segments.at(-1)) this.#drop(place.segment)
  }

  #drop(segment: Segment): void {
    this.#segments = this.#segments.filter(other => other !== segment)
    if (segment.bytes) return
    try {
      this.#o.files.remove(this.#path(segment.id))
    } catch (error) {
      this.#failed(error)
    }
  }

  /** The packed source; null if its record cannot be read or is damaged. */
  #read(aid: number, { segment, at, length }: SpilledEntry): Buffer | null {
    try {
      const record =
        segment.bytes?.subarray(at, at + length) ?? this.#o.files.readAt(this.#path(segment.id), at, length)
      return record.length === length && sound(record, aid) ? record.subarray(HEADER) : null
    } catch (error) {
      this.#failed(error)
      return null
    }
  }

  /** One step towards the limits of memory and files; false if both are met. */
  #bound(): boolean {
    const { memoryBytes, diskBytes } = this.#o
    const over = this.memory > memoryBytes
    if (over) {
      const inMemory = this.#segments.filter(({ bytes }, k) => bytes !== null && k < this.#segments.length - 1)
      const emptiest = leastUsed(inMemory)
      if (emptiest && 4 * emptiest.live < 3 * emptiest.used) this.#renew(emptiest)
      else if (inMemory[0]) this.#toFile(inMemory[0])
    }
    if (this.disk <= diskBytes) return over && this.memory > memoryBytes
    const inFiles = this.#segments.filter(({ bytes }) => bytes === null)
    const emptiest = leastUsed(inFiles)!
    if (2 * emptiest.live < emptiest.used) this.#renew(emptiest)
    else this.#forget(inFiles[0]!)
    return true
  }

  /** Rewrites the useful data of a segment, and drops the segment. */
  #renew(segment: Segment): void {
    const kept: { aid: number; packed: Buffer | null; place: SpilledEntry }[] = []
    for (const [aid, place] of this.#places)
      if (place.segment === segment) kept.push({ aid, packed: this.#read(aid, place), place })
    for (const { aid, packed, place } of kept) {
      const { newest, earlier } = place
      this.#places.delete(aid)
      if (packed) this.#append(aid, packed, newest, earlier)
      else this.#lose(aid, newest)
    }
    this.#drop(segment)
  }

  #forget(segment: Segment): void {
    for (const [aid, place] of this.#places) {
      if (place.segment !== segment) continue
      this.#places.delete(aid)
      this.#lose(aid, place.newest)
    }
    this.#drop(segment)
  }

  #lose(aid: number, newest: number): void {
    this.counters.lost++
    this.#o.lost(aid, newest)
  }

  #toFile(segment: Segment): void {
    try {
      this.#write(segment, false)
    } catch (error) {
      this.#failed(error)
      this.#forget(segment)
    }
  }

  #write(segment: Segment, sync: boolean): void {
    const { dir, files } = this.#o
    const { bytes } = segment
    if (!bytes) {
      if (!sync) return
      // written in this run or the one before, perhaps not synced yet
      const fd = files.open(this.#path(segment.id), 'r+')
      files.syncNow(fd)
      files.close(fd)
      return
    }
    files.mkdir(dir)
    const fd = files.open(this.#path(segment.id), 'w')
    try {
      files.write(fd, bytes, 0, segment.used)
      if (sync) files.syncNow(fd)
    } finally {
      files.close(fd)
    }
    segment.bytes = null
    this.counters.bytes_written += segment.used
  }

  #path(id: number): string {
    return join(this.#o.dir, `${String(id).padStart(10, '0')}${SUFFIX}`)
  }

  #failed(error: unknown): void {
    this.counters.errors++
    this.lastError = error
  }

  /** Adopts the files of the last clean stop, and removes all others. */
  #start(): void {
    const { dir, files } = this.#o
    try {
      if (!files.exists(dir)) return
      const marked = this.#mark()
      for (const name of files.list(dir).sort()) {
        const id = Number(name.slice(0, -SUFFIX.length))
        if (!name.endsWith(SUFFIX) || !Number.isSafeInteger(id)) continue
        this.#nextId = Math.max(this.#nextId, id + 1)
        const used = marked.get(id)
        if (used === undefined) files.remove(join(dir, name))
        else this.#adopt(id, used)
      }
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Segments of the clean stop by id, with their bytes; the mark is used once, and not at all if it cannot be removed. */
  #mark(): Map<number, number> {
    const { dir, files } = this.#o
    const path = join(dir, MARK)
    const marked = new Map<number, number>()
    if (!files.exists(path)) return marked
    const text = files.read(path).toString('utf8')
    files.remove(path)
    files.syncDir(dir)
    try {
      const { segments } = JSON.parse(text) as { segments: { id: number; used: number }[] }
      for (const { id, used } of segments) marked.set(id, used)
    } catch (error) {
      this.#failed(error)
    }
    return marked
  }

  /** Reads the positions of the records in a file; the records are checked when they are used. */
  #adopt(id: number, used: number): void {
    const { files } = this.#o
    const bytes = files.read(this.#path(id))
    const segment: Segment = { id, bytes: null, used: bytes.length, live: 0 }
    this.#segments.push(segment)
    if (bytes.length !== used) this.counters.errors++
    for (let at = 0; at + HEADER <= bytes.length; ) {
      const length = bytes.readUInt32LE(at)
      if (length < HEADER || at + length > bytes.length) break
      const aid = bytes.readUInt32LE(at + 4)
      this.#remove(aid)
      this.#places.set(aid, { segment, at, length, newest: bytes.readDoubleLE(at + 8), earlier: true })
      segment.live += length
      at += length
    }
    if (segment.live === 0) this.#drop(segment)
  }
}

const checksum = (b: Buffer, at: number, length: number): number =>
  (crc32c(b, at + 4, at + 16) ^ crc32c(b, at + HEADER, at + length)) >>> 0

const sound = (record: Buffer, aid: number): boolean =>
  record.readUInt32LE(4) === aid && record.readUInt32LE(16) === checksum(record, 0, record.length)

const leastUsed = (segments: readonly Segment[]): Segment | undefined =>
  segments.reduce<Segment | undefined>(
    (best, s) => (!best || s.live * best.used < best.live * s.used ? s : best),
    undefined,
  )
