// The folder of the sealed windows, in the worker thread: lists windows, adds new ones, removes old ones.
//
// Errors: an unusable file is reported, counted and renamed (the newest two such files are kept for inspection); the log
// fills the gap if it still has the records. A folder that cannot be read or written is reported as a problem; the view then
// only has its open window.
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { asOsError } from '../lib/errors'
import type { Files } from '../lib/files'
import {
  BadWindow,
  encodeWindow,
  readBlock,
  readDatabase,
  readSealed,
  type SealedFile,
  type Summary,
  windowName,
  windowRange,
} from './windowfile'

/** a sealed window: its summary is in RAM, its rows are in the file */
export interface Sealed extends SealedFile {
  readonly name: string
  readonly size: number
}

/** The sealed windows. */
export interface WindowSettings {
  readonly dir: string
  /** the windows belong to another process: nothing is written, removed or renamed */
  readonly readOnly: boolean
  /** size limit of all windows together; 0 or absent: none; windows whose records are still in the log are kept */
  readonly keepBytes?: number
  /** age limit, ms */
  readonly keepMs?: number
}

interface FolderOptions extends WindowSettings {
  readonly files: Files
}

const QUARANTINED = /\.(damaged|foreign)$/
const KEPT_QUARANTINED = 2

export class WindowFolder {
  /** oldest first, without overlapping ranges */
  readonly sealed: Sealed[] = []
  /** names of unusable files */
  readonly damaged: string[] = []
  /** why the folder cannot be used */
  problem: string | undefined
  readonly #o: FolderOptions

  constructor(options: FolderOptions) {
    this.#o = options
    const { files, dir, readOnly } = options
    try {
      if (!readOnly && !files.exists(dir)) files.mkdir(dir)
      if (!files.exists(dir)) return
      const names = files.list(dir).sort()
      // remains of an interrupted seal
      if (!readOnly) for (const name of names) if (/\.window\..*tmp$/.test(name)) files.remove(join(dir, name))
      for (const name of names) if (windowRange(name)) this.#adopt(name)
    } catch (error) {
      this.problem = asOsError(error).message
    }
  }

  get bytes(): number {
    return this.sealed.reduce((sum, { size }) => sum + size, 0)
  }

  /** The newest record that a sealed window covers. */
  get lastSeq(): number {
    return this.sealed.at(-1)?.summary.to ?? 0
  }

  /** Writes or rewrites a window. Throws the system's error; the old file then stays. */
  write(summary: Summary, bloom: Uint8Array, database: Uint8Array, series?: Uint8Array): Sealed {
    const name = windowName(summary.from, summary.to)
    const bytes = encodeWindow(summary, bloom, database, series)
    const { dir, files } = this.#o
    atomicWrite(join(dir, name), bytes, files)
    const made: Sealed = { name, size: bytes.length, summary, bloom }
    const at = this.sealed.findIndex(window => window.name === name)
    if (at >= 0) this.sealed[at] = made
    else {
      this.sealed.push(made)
      this.sealed.sort((a, b) => a.summary.from - b.summary.from)
    }
    return made
  }

  /** The rows of a window. Throws BadWindow. */
  read({ name, size }: Sealed): Uint8Array {
    return this.#read(name, readAt => readDatabase(name, size, readAt))
  }

  /** The values of the sensor with index `place` in the summary, within its block. Throws BadWindow. */
  readBlock({ name, size, summary }: Sealed, place: number): ReturnType<typeof readBlock> {
    return this.#read(name, readAt => readBlock(name, size, summary, place, readAt))
  }

  /** Removes a window from use and renames its file. */
  drop(name: string, why: 'damaged' | 'foreign'): void {
    const at = this.sealed.findIndex(window => window.name === name)
    if (at >= 0) this.sealed.splice(at, 1)
    this.damaged.push(name)
    const { dir, files, readOnly } = this.#o
    if (readOnly) return
    try {
      if (files.exists(join(dir, name))) files.rename(join(dir, name), join(dir, `${name}.${why}`))
      const moved = files.list(dir).filter(other => QUARANTINED.test(other))
      for (const old of moved.sort().slice(0, -KEPT_QUARANTINED)) files.remove(join(dir, old))
    } catch (error) {
      this.problem = asOsError(error).message
    }
  }

  /**
   * Removes the oldest windows beyond the limits, except for records the log still has (from `logFirst` on). Returns the
   * removed windows.
   */
  retain(logFirst: number, now: number): Sealed[] {
    const { dir, files, readOnly, keepBytes = 0, keepMs = 0 } = this.#o
    const gone: Sealed[] = []
    if (readOnly) return gone
    let bytes = this.bytes
    for (;;) {
      const oldest = this.sealed[0]
      if (!oldest || oldest.summary.to >= logFirst) return gone
      const old = keepMs > 0 && oldest.summary.witness.wall_ms < now - keepMs
      if (!old && (keepBytes <= 0 || bytes <= keepBytes)) return gone
      try {
        files.remove(join(dir, oldest.name))
      } catch (error) {
        this.problem = asOsError(error).message
        return gone
      }
      this.sealed.shift()
      bytes -= oldest.size
      gone.push(oldest)
    }
  }

  #read<T>(name: string, part: (readAt: (offset: number, length: number) => Buffer) => T): T {
    const { dir, files } = this.#o
    try {
      return part((offset, length) => files.readAt(join(dir, name), offset, length))
    } catch (error) {
      throw error instanceof BadWindow ? error : new BadWindow(name, error)
    }
  }

  #adopt(name: string): void {
    const { dir, files, readOnly } = this.#o
    const path = join(dir, name)
    // two windows with overlapping ranges: use the first one, the log fills the missing range
    if (windowRange(name)!.from <= this.lastSeq) {
      if (!readOnly) files.remove(path)
      return
    }
    try {
      const size = files.size(path)
      const file = readSealed(name, size, (offset, length) => files.readAt(path, offset, length))
      this.sealed.push({ name, size, ...file })
    } catch {
      this.drop(name, 'damaged') // reported and counted there
    }
  }
}
