// A disk that loses power: writes since the last flush are in a volatile cache, and a power cut keeps a random part of them. Complete writes
// are dropped, and blocks of 4 KiB are torn: some of their sectors of 512 bytes are new, the others old. Flushed writes, and those with FUA,
// stay. A flush of a guest becomes one of the host's file only when the test ends: the host keeps its power.
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'

export const SECTOR = 512
const BLOCK = 4096
/** The size of a cache: beyond this the oldest writes go to the medium, as in a real one. */
const CACHE_BYTES = 64 * 2 ** 20

interface Write {
  /** a later write replaces it for the same sector */
  readonly number: number
  readonly at: number
  readonly bytes: Buffer
}

/** Copies bytes[from, to) to that place of the disk. */
type Copy = (bytes: Buffer, from: number, to: number, place: number) => void

/** What a cut did with the unflushed writes; numbers of blocks. */
export interface Cut {
  kept: number
  dropped: number
  torn: number
}

export class VolatileDisk {
  readonly size: number
  /** Called with each write before it is answered: a test cuts the power there. */
  onWrite: ((at: number, length: number) => void) | undefined
  flushes = 0
  written = 0
  #fd: number
  #pending: Write[] = []
  #pendingBytes = 0
  #number = 0
  /** sector → its newest write that is not on the medium */
  readonly #newest = new Map<number, Write>()
  /** sector → number of the write that bypassed the cache; older ones in the cache do not count */
  readonly #forced = new Map<number, number>()

  readonly #toMedium: Copy = (bytes, from, to, place) => void writeSync(this.#fd, bytes, from, to - from, place)

  constructor(path: string) {
    this.#fd = openSync(path, 'r+')
    this.size = fstatSync(this.#fd).size
  }

  read(at: number, length: number): Buffer {
    const bytes = Buffer.alloc(length)
    readSync(this.#fd, bytes, 0, length, at)
    if (this.#newest.size > 0)
      for (let done = 0; done < length; done += SECTOR) {
        const write = this.#newest.get((at + done) / SECTOR)
        write?.bytes.copy(bytes, done, at + done - write.at, at + done - write.at + SECTOR)
      }
    return bytes
  }

  /** `at` and the length are multiples of 512. `fua`: it is on the medium when this returns, older writes need not be. */
  write(at: number, bytes: Buffer, fua = false): void {
    if (at % SECTOR || bytes.length % SECTOR || at + bytes.length > this.size)
      throw new Error(`a write of ${bytes.length} bytes at ${at}`)
    this.written += bytes.length
    const write: Write = { number: ++this.#number, at, bytes }
    for (let done = 0; done < bytes.length; done += SECTOR) {
      const sector = (at + done) / SECTOR
      if (fua) {
        this.#forced.set(sector, write.number)
        this.#newest.delete(sector)
      } else this.#newest.set(sector, write)
    }
    if (fua) writeSync(this.#fd, bytes, 0, bytes.length, at)
    else {
      this.#pending.push(write)
      this.#pendingBytes += bytes.length
      while (this.#pendingBytes > CACHE_BYTES) this.#evict()
    }
    this.onWrite?.(at, bytes.length)
  }

  flush(): void {
    this.flushes++
    for (const write of this.#pending) this.#put(write, 0, write.bytes.length)
    this.#empty()
  }

  /**
   * Cuts the power: a part of the unflushed writes survives, by `random` (numbers from 0 to below 1). The disk is as after the next start.
   */
  cut(random: () => number): Cut {
    const cut = this.#survive(random, (write, from, to) => this.#put(write, from, to))
    this.#empty()
    return cut
  }

  /** What `length` bytes at `at` would be if the power was cut now. The disk does not change. */
  afterCut(random: () => number, at: number, length: number): Buffer {
    const result = Buffer.alloc(length)
    readSync(this.#fd, result, 0, length, at)
    this.#survive(random, (write, from, to) =>
      this.#put(write, from, to, (bytes, start, end, place) => {
        const before = Math.max(0, at - place)
        if (before < end - start && place < at + length) bytes.copy(result, place + before - at, start + before, end)
      }),
    )
    return result
  }

  /** Calls `keep` for each part of an unflushed write that survives a cut. */
  #survive(random: () => number, keep: (write: Write, from: number, to: number) => void): Cut {
    const cut: Cut = { kept: 0, dropped: 0, torn: 0 }
    // some caches lose nearly all, others nearly nothing
    const [lost, torn] = [[0.1, 0.5, 0.9, 1][Math.floor(4 * random())]!, 0.3 * random()]
    for (const write of this.#pending) {
      const whole = random() < lost
      for (let from = 0; from < write.bytes.length; ) {
        const to = Math.min(write.bytes.length, from + BLOCK - ((write.at + from) % BLOCK))
        const isTorn = to - from > SECTOR && random() < torn
        if (isTorn) {
          cut.torn++
          for (let sector = from; sector < to; sector += SECTOR)
            if (random() < 0.5) keep(write, sector, sector + SECTOR)
        } else if (whole) cut.dropped++
        else {
          cut.kept++
          keep(write, from, to)
        }
        from = to
      }
    }
    return cut
  }

  close(): void {
    this.flush()
    closeSync(this.#fd)
  }

  #evict(): void {
    const oldest = this.#pending.shift()!
    this.#pendingBytes -= oldest.bytes.length
    this.#put(oldest, 0, oldest.bytes.length)
    for (let done = 0; done < oldest.bytes.length; done += SECTOR) {
      const sector = (oldest.at + done) / SECTOR
      if (this.#newest.get(sector) === oldest) this.#newest.delete(sector)
    }
  }

  #empty(): void {
    this.#pending = []
    this.#pendingBytes = 0
    this.#newest.clear()
    this.#forced.clear()
  }

  /** Copies a part of a write, except sectors that a later one with FUA wrote. */
  #put({ number, at, bytes }: Write, from: number, to: number, copy: Copy = this.#toMedium): void {
    if (this.#forced.size === 0) return void copy(bytes, from, to, at + from)
    for (let sector = from; sector < to; sector += SECTOR)
      if ((this.#forced.get((at + sector) / SECTOR) ?? 0) < number) copy(bytes, sector, sector + SECTOR, at + sector)
  }
}
