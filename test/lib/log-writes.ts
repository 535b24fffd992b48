// An ext4 disk inside the rig that records every write (dm-log-writes), and the replay of its log: the content of the medium
// at each flush. A flush, or a write with FUA, is a point: later entries may be lost in a power cut, earlier ones are not.
// Needs: rigtools dmsetup
import { closeSync, mkdirSync, openSync, readSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { tool } from './rig'

const MIB = 2 ** 20
const DISK_BYTES = 24 * MIB
/** maximum size of the log, a sparse file */
const LOG_BYTES = 512 * MIB
/** WRITE_LOG_MAGIC of drivers/md/dm-log-writes.c */
const MAGIC = 0x6a736677736872n
const [FLUSH, FUA, DISCARD, MARK] = [1, 2, 4, 8]

/** One entry of the log: a write, a flush, both, or a mark with its text. */
interface Entry {
  readonly flags: number
  /** byte offset on the disk */
  readonly at: number
  readonly length: number
  readonly data: Buffer
}

/** A state that a power cut may leave. */
export interface Point {
  /** index of the last entry before the power cut */
  readonly entry: number
  /** newest earlier mark, -1: none */
  readonly mark: number
  /** 'flush': everything flushed; 'part': also a part of the later writes */
  readonly kind: 'flush' | 'part'
  readonly disk: Buffer
}

/** A disk, formatted and mounted at `mount`, whose writes are recorded. */
export class NotedDisk {
  readonly mount: string
  readonly #name: string
  readonly #loops: string[]
  readonly #log: string
  #marks = 0

  constructor(name: string, mount: string) {
    this.mount = mount
    this.#name = name
    this.#log = `/run/${name}.log`
    this.#loops = [loopOf(`/run/${name}.disk`, DISK_BYTES), loopOf(this.#log, LOG_BYTES)]
    const table = `0 ${DISK_BYTES / 512} log-writes ${this.#loops.join(' ')}`
    tool('dmsetup', 'create', '--noudevsync', '--noudevrules', name, '--table', table)
    tool('dmsetup', 'mknodes')
    const device = `/dev/mapper/${name}`
    tool('mkfs.ext4', '-q', '-b', '4096', '-J', 'size=4', '-E', 'nodiscard,lazy_itable_init=0', device)
    mkdirSync(mount, { recursive: true })
    tool('mount', device, mount)
  }

  /** Marks that everything up to here was reported to others; returns the number of the mark: 0, 1, 2 … */
  mark(): number {
    tool('dmsetup', 'message', this.#name, '0', 'mark', String(this.#marks))
    return this.#marks++
  }

  /** Stops recording. */
  close(): void {
    tool('umount', this.mount)
    tool('dmsetup', 'remove', '--noudevsync', '--noudevrules', this.#name)
    for (const loop of this.#loops) tool('losetup', '-d', loop)
  }

  /** Every point after the first mark, in order; with `random`, each is followed by one of kind 'part'. */
  *points(random: () => number): Iterable<Point> {
    const disk = Buffer.alloc(DISK_BYTES)
    let mark = -1
    /** writes since the newest flush */
    let cached: Entry[] = []
    let point = -1
    let n = 0
    for (const entry of this.#entries()) {
      n++
      if (entry.flags & MARK) {
        // the kernel adds one at the end
        const text = entry.data.toString('latin1')
        if (/^\d+$/.test(text)) mark = Number(text)
        continue
      }
      // marks precede everything that the next flush includes: they belong to that point
      if (point >= 0 && mark >= 0) yield { entry: point, mark, kind: 'flush', disk }
      point = -1
      cached.push(entry)
      if (!(entry.flags & (FLUSH | FUA))) continue
      const part = cached.slice(0, -1).filter(() => random() < 0.5)
      if (mark >= 0 && part.length > 0) {
        const before = part.map(({ at, length }) => ({ at, data: Buffer.from(disk.subarray(at, at + length)) }))
        for (const one of part) put(disk, one)
        yield { entry: n, mark, kind: 'part', disk }
        for (const { at, data } of before.reverse()) data.copy(disk, at)
      }
      for (const one of cached) put(disk, one)
      cached = []
      point = n
    }
    yield { entry: n, mark, kind: 'flush', disk }
  }

  *#entries(): Iterable<Entry> {
    const fd = openSync(this.#log, 'r')
    const read = (at: number, length: number): Buffer => {
      const bytes = Buffer.alloc(length)
      readSync(fd, bytes, 0, length, at)
      return bytes
    }
    try {
      const head = read(0, 32)
      if (head.readBigUInt64LE(0) !== MAGIC) throw new Error(`${this.#log} is no log of dm-log-writes`)
      const count = Number(head.readBigUInt64LE(16))
      const sector = head.readUInt32LE(24)
      let at = sector
      for (let n = 0; n < count; n++) {
        const block = read(at, sector)
        const [place, sectors, flags, text] = [0, 8, 16, 24].map(k => Number(block.readBigUInt64LE(k))) as [
          number,
          number,
          number,
          number,
        ]
        at += sector
        const length = sectors * sector
        if (flags & MARK) yield { flags, at: 0, length: 0, data: block.subarray(32, 32 + text) }
        else if (flags & DISCARD) yield { flags, at: place * sector, length, data: Buffer.alloc(length) }
        else {
          yield { flags, at: place * sector, length, data: read(at, length) }
          at += length
        }
      }
    } finally {
      closeSync(fd)
    }
  }
}

const put = (disk: Buffer, { at, data }: Entry): unknown => data.copy(disk, at)

function loopOf(path: string, bytes: number): string {
  writeFileSync(path, '')
  truncateSync(path, bytes)
  return tool('losetup', '-f', '--show', path).trim()
}

/** A disk that is repeatedly filled with a state, mounted and inspected. */
export class ReplayedDisk {
  readonly #path: string
  readonly #loop: string

  constructor(name: string) {
    this.#path = `/run/${name}.replayed`
    this.#loop = loopOf(this.#path, DISK_BYTES)
  }

  /** The result of `look` on the mounted state, as a start after that power cut sees it. */
  async at<T>(disk: Buffer, mount: string, look: () => T | Promise<T>): Promise<T> {
    const fd = openSync(this.#path, 'r+')
    writeSync(fd, disk)
    closeSync(fd)
    tool('mount', this.#loop, mount)
    try {
      return await look()
    } finally {
      tool('umount', mount)
    }
  }
}
