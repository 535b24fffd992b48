// File operations that must survive a power cut, behind one interface: the log, the registries and the configuration
// use only these, so that a test can list every write, rename and sync and cut the power there (R1). Errors are the
// system's own (ENOSPC, EIO, EROFS, EACCES …); callers turn them into states.
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

export interface Files {
  mkdir(path: string): void
  list(path: string): string[]
  exists(path: string): boolean
  /** of a regular file */
  size(path: string): number
  read(path: string): Buffer
  /** part of a file; shorter at its end */
  readAt(path: string, offset: number, length: number): Buffer
  open(path: string, flags: 'a' | 'w' | 'r+'): number
  /** writes the complete range or throws */
  write(fd: number, data: Uint8Array, offset?: number, length?: number): void
  /** fdatasync; the promise resolves when the bytes are on the medium */
  sync(fd: number): Promise<void>
  syncNow(fd: number): void
  close(fd: number): void
  truncate(path: string, length: number): void
  /** truncates an open file, or makes it longer: zeros that take no space where the file system has holes */
  resize(fd: number, length: number): void
  rename(from: string, to: string): void
  remove(path: string): void
  /** fsync of a directory, so that a rename or a new file survives */
  syncDir(path: string): void
}

const DIR_MODE = 0o750
/** a gateway has no larger files: segments of the log are smaller */
export const MOST_BYTES = 512 * 1024 * 1024

const fdatasync = promisify(fs.fdatasync)

/**
 * Makes a folder and its parents. Node 20's recursive mkdir never returns if a file system answers ENOENT for a new
 * folder in an existing one (/proc, an autofs mount); here that is an error like any other.
 */
export function makeDir(path: string): void {
  const missing: string[] = []
  for (let at = resolve(path); !fs.existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.push(at)
  if (missing.length === 0 && !fs.statSync(path).isDirectory()) fs.mkdirSync(path) // throws EEXIST
  for (const dir of missing.reverse()) {
    try {
      fs.mkdirSync(dir, DIR_MODE)
      // whatever the umask: a gateway's data is for its user and group
      fs.chmodSync(dir, DIR_MODE)
    } catch (error) {
      // another process was faster
      if (!fs.existsSync(dir)) throw error
    }
  }
}

/** most folders to check */
const MOST_FOLDERS = 20_000

/**
 * Folders of an older version may be accessible to everybody: removes the rights beyond 0750 from `dir` and from all
 * folders in it that belong to this user. Links are not followed. A `dir` that people work in (their home, the current
 * one, the root) is unchanged. Returns the number of changed folders; failures are skipped.
 */
export function tightenDirs(dir: string): number {
  const own = process.geteuid?.() ?? 0
  const root = resolve(dir)
  if (['/', resolve(homedir()), process.cwd()].includes(root)) return 0
  const left = [root]
  let changed = 0
  for (let seen = 0; left.length > 0 && seen < MOST_FOLDERS; seen++) {
    const at = left.pop()!
    try {
      const { uid, mode } = fs.lstatSync(at)
      if (uid !== own) continue
      if ((mode & 0o777 & ~DIR_MODE) !== 0) {
        fs.chmodSync(at, mode & DIR_MODE)
        changed++
      }
      for (const entry of fs.readdirSync(at, { withFileTypes: true }))
        if (entry.isDirectory()) left.push(join(at, entry.name))
    } catch {
      // the folder was removed, or the disk is read-only: it stays unchanged
    }
  }
  return changed
}

const fail = (path: string, code: string, text: string): Error =>
  Object.assign(new Error(`${code}: ${path} ${text}`), { code })

/** Throws EISDIR and E_NOT_REGULAR. */
function refuseOther(path: string, stats: fs.Stats): void {
  if (stats.isDirectory()) throw fail(path, 'EISDIR', 'is a folder')
  if (!stats.isFile()) throw fail(path, 'E_NOT_REGULAR', 'is no regular file')
}

/** Opens a regular file without blocking. Throws the system's errors, EISDIR and E_NOT_REGULAR. */
function openRegular(path: string, flags: number): number {
  const fd = fs.openSync(path, flags | fs.constants.O_NONBLOCK | fs.constants.O_NOCTTY, 0o640)
  try {
    refuseOther(path, fs.fstatSync(fd))
    return fd
  } catch (error) {
    fs.closeSync(fd)
    throw error
  }
}

/**
 * The bytes of a regular file. A FIFO or a device is refused without blocking, and so are more than `most` bytes: a
 * path in the configuration must not block the event loop. Throws the system's errors, and E_NOT_REGULAR or
 * E_TOO_LARGE.
 */
export function readRegular(path: string, most = MOST_BYTES): Buffer {
  // checked before opening, which can have effects: a FIFO's writer continues, a watchdog starts
  refuseOther(path, fs.statSync(path))
  const fd = openRegular(path, O_RDONLY)
  try {
    if (fs.fstatSync(fd).size > most) throw fail(path, 'E_TOO_LARGE', `is larger than ${most} bytes`)
    return fs.readFileSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** A regular file that is read to its end even if another file takes its name meanwhile. */
export interface HeldFile {
  /** when it was opened, at most as requested */
  readonly size: number
  /** its content, in pieces of at most `most` bytes */
  pieces(most: number): Iterable<Buffer>
  /** false once its name is removed or belongs to another file */
  named(): boolean
  close(): void
}

/** `most`: only the first so many bytes. Throws the system's errors, EISDIR and E_NOT_REGULAR. */
export function holdFile(path: string, most = Number.POSITIVE_INFINITY): HeldFile {
  const fd = openRegular(path, O_RDONLY)
  const { size: whole, ino } = fs.fstatSync(fd)
  const size = Math.min(whole, most)
  return {
    size,
    *pieces(most) {
      for (let at = 0; at < size; ) {
        const piece = Buffer.allocUnsafe(Math.min(most, size - at))
        const got = fs.readSync(fd, piece, 0, piece.length, at)
        if (got === 0) return
        at += got
        yield piece.subarray(0, got)
      }
    },
    named: () => fs.statSync(path, { throwIfNoEntry: false })?.ino === ino,
    close: () => fs.closeSync(fd),
  }
}

/** Removes a file, or a folder with its content; does nothing if it does not exist. */
export const removeTree = (path: string): void => fs.rmSync(path, { recursive: true, force: true })

const { O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = fs.constants
const FLAGS = { a: O_APPEND | O_CREAT | O_WRONLY, w: O_CREAT | O_TRUNC | O_WRONLY, 'r+': O_RDWR }

export const realFiles: Files = {
  mkdir: path => makeDir(path),
  list: path => fs.readdirSync(path),
  exists: path => fs.existsSync(path),
  size: path => {
    const stats = fs.statSync(path)
    refuseOther(path, stats)
    return stats.size
  },
  read: path => readRegular(path),
  readAt: (path, offset, length) => {
    const fd = openRegular(path, O_RDONLY)
    try {
      const buffer = Buffer.allocUnsafe(length)
      let got = 0
      while (got < length) {
        const n = fs.readSync(fd, buffer, got, length - got, offset + got)
        if (n === 0) break
        got += n
      }
      return buffer.subarray(0, got)
    } finally {
      fs.closeSync(fd)
    }
  },
  open: (path, flags) => openRegular(path, FLAGS[flags]),
  write: (fd, data, offset = 0, length = data.length - offset) => {
    let done = 0
    while (done < length) done += fs.writeSync(fd, data, offset + done, length - done)
  },
  sync: fd => fdatasync(fd),
  syncNow: fd => fs.fdatasyncSync(fd),
  close: fd => fs.closeSync(fd),
  truncate: (path, length) => fs.truncateSync(path, length),
  resize: (fd, length) => fs.ftruncateSync(fd, length),
  rename: (from, to) => fs.renameSync(from, to),
  remove: path => fs.rmSync(path, { force: true }),
  syncDir: path => {
    const fd = fs.openSync(path, 'r')
    try {
      fs.fsyncSync(fd)
    } finally {
      fs.closeSync(fd)
    }
  },
}

/** A path without symlinks; its last name may be that of no file. */
export function realPath(path: string): string {
  try {
    return fs.realpathSync(path)
  } catch {
    return dirname(path) === path ? path : join(realPath(dirname(path)), basename(path))
  }
}

/** The mount points of this process; empty without /proc. */
export function mountPoints(): string[] {
  let text = ''
  try {
    text = fs.readFileSync('/proc/self/mountinfo', 'utf8')
  } catch {
    // not Linux
  }
  const unescaped = (name: string): string =>
    name.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
  return text.split('\n').map(line => unescaped(line.split(' ')[4] ?? ''))
}

/** The number of the file system of a path; undefined if there is nothing. */
export const deviceOf = (path: string): number | undefined => fs.statSync(path, { throwIfNoEntry: false })?.dev

/** A partition or disk of Linux. */
export interface Partition {
  readonly name: string
  /** bytes read and written since the start of the machine, as the kernel prints them (Documentation/block/stat) */
  stat(): string
}

/** The partition that contains a folder. Throws if there is none: a RAM disk, an overlay. */
export function partitionOf(dir: string, sys = '/sys'): Partition {
  const { dev } = fs.statSync(dir)
  const path = `${sys}/dev/block/${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)}`
  return { name: basename(fs.realpathSync(path)), stat: () => fs.readFileSync(join(path, 'stat'), 'utf8') }
}
