// Writes an update into the inactive slot: chunks in the running slot are copied, missing ones are fetched. The start of the
// boot partition is written last, so that an incompletely written slot cannot be started; writing it again continues where it
// stopped.
// Errors: E_UPDATE (see file.ts; a trial is not over; the card returns other bytes than were written), E_UPDATE_SOURCE.
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { OsError } from '../lib/errors'
import { chunksOf } from './chunks'
import { isNewer, type Update, type UpdatePart, type WantedChunk } from './file'
import { dropCache } from './flash'
import type { SlotName, Slots } from './slots'
import type { UpdateSource } from './update-source'

/** bytes of the boot partition that are written last */
const LAST = 2 ** 20

export interface InstallProgress {
  readonly step: 'compare' | 'write' | 'verify'
  /** progress of this step, 0–1 */
  readonly done: number
  readonly fetched_bytes: number
}

export interface Installed {
  readonly version: string
  /** UNIX seconds */
  readonly built_at: number
  readonly from: string
  readonly slot: SlotName
  readonly bytes: number
  readonly fetched_bytes: number
  readonly copied_bytes: number
}

const refuse = (message: string, hint?: string): OsError => new OsError('E_UPDATE', message, hint ? { hint } : {})

/** Whether the update may be installed on this system. Throws E_UPDATE. */
export function checkUpdate({ list }: Update, slots: Slots): void {
  const refusal = slots.refusal()
  if (refusal) throw refuse(...refusal)
  const { active, trying } = slots.choice()
  if (active !== slots.running.name || trying)
    throw refuse('a new version is on trial', 'wait until it is confirmed or rolled back: os-node slots')
  if (list.board !== slots.board) throw refuse(`the update is for ${list.board}, this board is ${slots.board}`)
  if (!isNewer(list, slots))
    throw refuse(
      `the update has version ${list.version}, this board runs ${slots.version}`,
      'only a newer version can be installed',
    )
}

interface WritePosition {
  readonly fd: number
  readonly at: number
}

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** Writes one part; `local`: chunks of the running slot. */
class PartWriter {
  /** end of the last chunk fetched, in the update file */
  fetchedTo = 0
  copied = 0
  /** the start of the boot partition, written last */
  readonly #first: Buffer
  readonly #fd: number
  readonly #part: UpdatePart

  constructor(fd: number, part: UpdatePart) {
    this.#fd = fd
    this.#part = part
    this.#first = Buffer.alloc(part.name === 'boot' ? Math.min(LAST, part.size) : 0)
  }

  /** Makes the slot unbootable. */
  invalidate(): void {
    if (this.#part.name !== 'boot') return
    writeSync(this.#fd, Buffer.alloc(4096), 0, 4096, 0)
    fsyncSync(this.#fd)
  }

  async write(
    local: ReadonlyMap<string, WritePosition>,
    source: UpdateSource,
    report: (bytes: number) => void,
  ): Promise<void> {
    for (const chunk of this.#part.chunks) {
      report(chunk.at)
      if (this.#has(chunk)) continue
      const here = local.get(chunk.sha256)
      const copy = here && this.#read(here.fd, here.at, chunk.size)
      // a chunk of the running slot is verified again: its card may have changed since it was read
      if (copy && hashOf(copy) === chunk.sha256) {
        this.copied += chunk.size
        this.#put(chunk.at, copy)
        continue
      }
      const bytes = await source.read(chunk.from, chunk.size)
      if (hashOf(bytes) !== chunk.sha256)
        throw refuse(`the update is damaged at byte ${chunk.from}`, 'download the update again')
      this.fetchedTo = Math.max(this.fetchedTo, chunk.from + chunk.size)
      this.#put(chunk.at, bytes)
    }
    fsyncSync(this.#fd)
  }

  /** Compares the card's current content, with the final start, with the hash of the complete part, whose partition is `device`. */
  verify(device: string, report: (bytes: number) => void): void {
    dropCache(device)
    const whole = createHash('sha256').update(this.#first)
    const window = Buffer.allocUnsafe(4 * 2 ** 20)
    for (let at = this.#first.length; at < this.#part.size; ) {
      const got = readSync(this.#fd, window, 0, Math.min(window.length, this.#part.size - at), at)
      if (got === 0) break
      whole.update(window.subarray(0, got))
      at += got
      report(at)
    }
    if (whole.digest('hex') !== this.#part.sha256)
      throw refuse('the card returns other data than was written', 'use another card: this one loses data')
  }

  /** Makes the slot bootable: writes the start to the card. */
  finish(patch: (first: Buffer) => void): void {
    if (this.#first.length === 0) return
    patch(this.#first)
    writeSync(this.#fd, this.#first, 512, this.#first.length - 512, 512)
    fsyncSync(this.#fd)
    // the first sector identifies the file system
    writeSync(this.#fd, this.#first, 0, 512, 0)
    fsyncSync(this.#fd)
  }

  #read(fd: number, at: number, size: number): Buffer {
    const bytes = Buffer.allocUnsafe(size)
    return bytes.subarray(0, readSync(fd, bytes, 0, size, at))
  }

  #has({ at, size, sha256 }: WantedChunk): boolean {
    const bytes = this.#read(this.#fd, at, size)
    if (hashOf(bytes) !== sha256) return false
    this.#put(at, bytes)
    return true
  }

  #put(at: number, bytes: Buffer): void {
    if (at < this.#first.length) bytes.copy(this.#first, at)
    const skipped = Math.max(0, this.#first.length - at)
    if (skipped < bytes.length) writeSync(this.#fd, bytes, skipped, bytes.length - skipped, at + skipped)
  }
}

const sizeOf = (fd: number): number => {
  const { size } = fstatSync(fd)
  if (size > 0) return size
  // a block device: find its size by reading
  let [low, high] = [0, 2 ** 40]
  const byte = Buffer.alloc(1)
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (readSync(fd, byte, 0, 1, middle) === 1) low = middle + 1
    else high = middle
  }
  return low
}

/** Writes `update` into the other slot; `beginTrial` makes the next start try it. Rejects with E_UPDATE, E_UPDATE_SOURCE. */
export async function installUpdate(
  update: Update,
  source: UpdateSource,
  slots: Slots,
  report: (progress: InstallProgress) => void,
): Promise<Installed> {
  checkUpdate(update, slots)
  const open: number[] = []
  const opened = (path: string, how: 'r' | 'r+'): number => {
    const fd = openSync(path, how)
    open.push(fd)
    return fd
  }
  try {
    const whole = update.parts.reduce((sum, { size }) => sum + size, 0)
    const writers = update.parts.map(part => {
      const fd = opened(slots.other[part.name], 'r+')
      const room = sizeOf(fd)
      if (part.size > room)
        throw refuse(`${part.name} of the update has ${part.size} bytes, the slot has room for ${room}`)
      return { part, writer: new PartWriter(fd, part) }
    })
    const local = new Map<string, WritePosition>()
    let before = 0
    for (const { part } of writers) {
      const fd = opened(slots.running[part.name], 'r')
      for (const { sha256, at } of chunksOf(fd, 0, Math.min(part.size, sizeOf(fd)))) {
        local.set(sha256.toString('hex'), { fd, at })
        report({ step: 'compare', done: (before + at) / whole, fetched_bytes: 0 })
      }
      before += part.size
    }
    for (const { writer } of writers) writer.invalidate()
    before = 0
    for (const { part, writer } of writers) {
      await writer.write(local, source, at =>
        report({ step: 'write', done: (before + at) / whole, fetched_bytes: source.received() }),
      )
      before += part.size
    }
    // chunks that were not fetched may be the ones that a truncated file lacks
    const { size } = update
    if (writers.every(({ writer }) => writer.fetchedTo < size)) await source.read(size - 1, 1)
    before = 0
    for (const { part, writer } of writers) {
      writer.verify(slots.other[part.name], at =>
        report({ step: 'verify', done: (before + at) / whole, fetched_bytes: source.received() }),
      )
      before += part.size
    }
    const { partition_at } = update.list
    for (const { writer } of writers)
      writer.finish(first => {
        first[partition_at] = 0x30 + slots.other.rootPartition
      })
    return {
      version: update.list.version,
      built_at: update.list.built_at,
      from: slots.version,
      slot: slots.other.name,
      bytes: whole,
      fetched_bytes: source.received(),
      copied_bytes: writers.reduce((sum, { writer }) => sum + writer.copied, 0),
    }
  } finally {
    for (const fd of open) closeSync(fd)
  }
}
