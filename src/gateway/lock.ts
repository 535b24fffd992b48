// One process owns a data directory (decision 0011). The lock file identifies the owner by pid, start time of that pid and boot id, so
// that a pid reused after a crash or reboot is not mistaken for the owner. A lock whose owner has ended is taken over; if two
// processes try this simultaneously, only one succeeds.
// Errors: a running owner is LOCKED with its pid. If the file cannot be written, a gateway uses a socket as its lock
// (lock-socket.ts) until it can; every command needs the file, and fails with DATA_DIR or DISK_FULL.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { asOsError, errno, OsError, orElse } from '../lib/errors'
import { makeDir, readRegular } from '../lib/files'
import { diskFault } from '../lib/writable'
import { bootId } from './guard/crashes'
import { askOwner, listenAsOwner } from './lock-socket'

export type LockRole = 'run' | 'serve' | 'command'

export interface LockInfo {
  readonly pid: number
  /** start time of the pid in clock ticks since boot; null if the system does not provide it */
  readonly start: string | null
  readonly boot: string | null
  /** the pid namespace: in another container the same pid is another process */
  readonly space: string | null
  readonly role: LockRole
  /** the control socket; null until it listens */
  readonly socket: string | null
  /** UNIX milliseconds */
  readonly since: number
  readonly nonce: string
}

export interface DataLock {
  readonly info: LockInfo
  /** true while this process owns the directory */
  held(): boolean
  /** why the lock is a socket instead of a file */
  readonly fault: string | undefined
  /** converts a socket lock to a file; throws if that is not possible */
  toFile(): Promise<void>
  /** stores the path of the control socket */
  setSocket(path: string): void
  /** releases the directory; safe to call twice */
  release(): void
}

export const lockPath = (dataDir: string): string => join(dataDir, 'os-node.lock')

/** null: missing on this system, or just removed; both mean "unknown" */
const readOr = <T>(make: () => T): T | null => orElse(null, make)

/** Start time and state of a pid from /proc; null if the process does not exist. */
function procStat(pid: number): { start: string; state: string } | null {
  return readOr(() => {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    // the name in brackets may contain blanks and brackets: count fields from the last bracket
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0] ?? '', start: fields[19] ?? '' }
  })
}

const pidSpace = (): string | null => readOr(() => fs.readlinkSync('/proc/self/ns/pid'))

function pidLives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errno(error) === 'EPERM'
  }
}

const answers = (path: string): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(path)
    const done = (alive: boolean): void => {
      socket.destroy()
      resolve(alive)
    }
    socket.setTimeout(1000, () => done(false))
    socket.once('connect', () => done(true))
    socket.once('error', () => done(false))
  })

/** Whether the owner named in a lock still runs. */
async function ownerLives(info: LockInfo): Promise<boolean> {
  const boot = bootId()
  if (boot && info.boot && boot !== info.boot) return false
  const space = pidSpace()
  if (space && info.space && space !== info.space) return info.socket !== null && answers(info.socket)
  if (!pidLives(info.pid)) return false
  const stat = procStat(info.pid)
  if (!stat) return true
  return stat.state !== 'Z' && (info.start === null || stat.start === info.start)
}

/** The lock file, whether or not its owner runs; undefined if it is missing or not a lock file. */
export function readLockFile(dataDir: string): LockInfo | undefined {
  const text = lockText(lockPath(dataDir))
  return text === null ? undefined : parseLock(text)
}

/** null if it is not a readable regular file */
const lockText = (path: string): string | null => readOr(() => readRegular(path).toString())

/**
 * Renames whatever else has the name of the lock file (a folder, a FIFO, a dangling link). Throws DATA_DIR for a file
 * that must not be read.
 */
function moveOther(path: string): void {
  const stats = readOr(() => fs.lstatSync(path))
  if (!stats) return
  if (!stats.isFile()) fs.renameSync(path, `${path}.damaged-${randomUUID()}`)
  else if (!mayRead(path))
    throw new OsError('DATA_DIR', `${path} cannot be read: a gateway of another user may be running`, {
      hint: `stop that gateway, or remove the file if none runs: rm ${path}`,
    })
}

function parseLock(text: string): LockInfo | undefined {
  const info = readOr(() => JSON.parse(text) as Partial<LockInfo>)
  return info && Number.isInteger(info.pid) && typeof info.nonce === 'string' ? (info as LockInfo) : undefined
}

/** The running owner of a data directory, or undefined. */
export async function findOwner(dataDir: string): Promise<LockInfo | undefined> {
  const info = readLockFile(dataDir)
  return info && (await ownerLives(info)) ? info : await socketOwner(dataDir)
}

/** The owner of the socket lock; if it does not answer, its pid is unknown. */
async function socketOwner(dataDir: string): Promise<LockInfo | undefined> {
  const text = await askOwner(dataDir)
  if (text === undefined) return undefined
  const unknown = { pid: 0, start: null, boot: null, space: null, socket: null, since: 0, nonce: '' }
  const silent: LockInfo = { ...unknown, role: 'run' }
  return parseLock(text) ?? silent
}

const inUse = (dataDir: string, { pid, role }: LockInfo): OsError =>
  new OsError('LOCKED', `${dataDir} is in use by process ${pid} (os-node ${role})`, { details: { pid, role } })

/**
 * Takes the lock of the data directory, creating the directory if needed. Throws LOCKED; DATA_DIR or DISK_FULL where the lock
 * is required as a file (for a command) or must not be read.
 */
export async function acquireLock(dataDir: string, role: LockRole, now = Date.now()): Promise<DataLock> {
  const info: LockInfo = {
    pid: process.pid,
    start: procStat(process.pid)?.start ?? null,
    boot: bootId(),
    space: pidSpace(),
    role,
    socket: null,
    since: now,
    nonce: randomUUID(),
  }
  const path = lockPath(dataDir)
  for (let round = 0; round < 20; round++) {
    try {
      if (create(dataDir, path, info)) return await sole(hold(path, info), () => socketOwner(dataDir), dataDir)
      const text = lockText(path)
      if (text === null) {
        moveOther(path)
        continue
      }
      const owner = parseLock(text)
      if (owner && (await ownerLives(owner))) throw inUse(dataDir, owner)
      takeAway(path, text)
    } catch (error) {
      const fault = diskFault(error)
      if (role === 'command' || !fault || !mayRead(path)) throw error
      const lock = await holdSocket(dataDir, path, info, fault, error)
      // a process that created the file meanwhile then checked the socket; this one now checks the file
      return await sole(lock, async () => findLiving(dataDir, info), dataDir)
    }
  }
  throw new OsError('LOCKED', `${dataDir} is being taken by several processes at once`)
}

/** Creates the lock file with its content atomically; false if it exists. */
function create(dataDir: string, path: string, info: LockInfo): boolean {
  const temporary = `${path}.${info.nonce}`
  try {
    makeDir(dataDir)
    fs.writeFileSync(temporary, JSON.stringify(info), { mode: 0o640 })
    try {
      fs.linkSync(temporary, path)
    } catch (error) {
      if (errno(error) === 'EEXIST') return false
      // a file system without hard links (FAT, some network shares)
      fs.writeFileSync(path, JSON.stringify(info), { mode: 0o640, flag: 'wx' })
    }
    return true
  } catch (cause) {
    const code = errno(cause)
    if (code === 'EEXIST' && readOr(() => fs.statSync(dataDir).isDirectory())) return false
    if (code === 'ENOSPC' || code === 'EDQUOT') throw new OsError('DISK_FULL', `${dataDir}: no space left`, { cause })
    throw new OsError('DATA_DIR', `${dataDir} cannot be written (${code ?? 'unknown reason'})`, {
      cause,
      details: { data_dir: dataDir, reason: code },
    })
  } finally {
    readOr(() => fs.rmSync(temporary, { force: true }))
  }
}

/**
 * Removes the lock of an ended owner. The rename lets only one process have the file; if it turns out to be another process's
 * new lock (created after our check), it is put back.
 */
function takeAway(path: string, judged: string): void {
  const moved = `${path}.${randomUUID()}`
  try {
    if (fs.readFileSync(path, 'utf8') !== judged) return
    fs.renameSync(path, moved)
    if (fs.readFileSync(moved, 'utf8') !== judged) fs.linkSync(moved, path)
  } catch (error) {
    const code = errno(error)
    // removed, or replaced by another process: the caller checks again
    if (code !== 'ENOENT' && code !== 'EEXIST') {
      throw new OsError('DATA_DIR', `${path} cannot be taken over (${code ?? 'unknown reason'})`, { cause: error })
    }
  } finally {
    readOr(() => fs.rmSync(moved, { force: true }))
  }
}

/** Releases `lock` and throws LOCKED if another process owns the directory with the other kind of lock. */
async function sole(lock: DataLock, other: () => Promise<LockInfo | undefined>, dataDir: string): Promise<DataLock> {
  const owner = await other()
  if (!owner) return lock
  lock.release()
  throw inUse(dataDir, owner)
}

/** If the lock must not be read, it is unknown whether a gateway runs. */
function mayRead(path: string): boolean {
  try {
    readRegular(path)
    return true
  } catch (error) {
    return errno(error) !== 'EACCES' && errno(error) !== 'EPERM'
  }
}

/** The running owner according to the file, this process excluded. */
async function findLiving(dataDir: string, { nonce }: LockInfo): Promise<LockInfo | undefined> {
  const info = readLockFile(dataDir)
  return info && info.nonce !== nonce && (await ownerLives(info)) ? info : undefined
}

async function holdSocket(
  dataDir: string,
  path: string,
  first: LockInfo,
  fault: string,
  error: unknown,
): Promise<DataLock> {
  let info = first
  let file: DataLock | undefined
  const listening = listenAsOwner(dataDir, () => JSON.stringify(info))
  const socket = await listening.catch(() => {
    throw error // no abstract sockets on this system: the file is the only lock
  })
  if (!socket) throw inUse(dataDir, (await socketOwner(dataDir)) ?? first)
  return {
    get info() {
      return info
    },
    get fault() {
      return file ? undefined : fault
    },
    held: () => file?.held() ?? socket.listening,
    toFile: async () => {
      if (file) return
      const other = await findLiving(dataDir, first)
      if (other) throw inUse(dataDir, other)
      const left = lockText(path)
      if (left !== null) takeAway(path, left)
      if (!create(dataDir, path, info)) throw new OsError('LOCKED', `${path} is being taken by another process`)
      file = hold(path, info)
    },
    setSocket: at => {
      info = { ...info, socket: at }
      file?.setSocket(at)
    },
    release: () => {
      file?.release()
      socket.close()
    },
  }
}

function hold(path: string, first: LockInfo): DataLock {
  let info = first
  const held = (): boolean => {
    try {
      return parseLock(fs.readFileSync(path, 'utf8'))?.nonce === first.nonce
    } catch (error) {
      return diskFault(error) !== undefined // not readable now: no other process takes the lock of a running process
    }
  }
  return {
    get info() {
      return info
    },
    held,
    fault: undefined,
    toFile: () => Promise.resolve(),
    setSocket: socket => {
      if (!held()) throw new OsError('LOCKED', `${path} was taken over by another process`)
      info = { ...info, socket }
      const temporary = `${path}.${first.nonce}`
      try {
        fs.writeFileSync(temporary, JSON.stringify(info), { mode: 0o640 })
        fs.renameSync(temporary, path)
      } catch (error) {
        readOr(() => fs.rmSync(temporary, { force: true }))
        throw asOsError(error, 'DATA_DIR')
      }
    },
    release: () => {
      // if the disk cannot be written, the file stays; the next start sees that its owner has ended
      if (held()) readOr(() => fs.rmSync(path, { force: true }))
    },
  }
}
