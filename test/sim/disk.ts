// The disk of one machine, and node:fs over it, so that the gateway's own file layer runs unchanged. It knows what a power cut
// leaves: unsynced bytes are lost in part, in any order, and torn at sectors; names that were not synced with their folder may be
// the old ones. The faults set what fails, is slow or lies; every call that changes something counts as a place where the process
// can be killed.
import * as realFs from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Dice } from './engine'
import { apply, type Bytes, Inode } from './inode'

const SECTOR = 512

/** A file operation of a process: the machine checks it before it happens. */
export interface DiskEvents {
  /**
   * a call that changes something; throws if the process dies in it. Returns the share of the call that still happens
   * then.
   */
  seam(what: string, path: string, bytes: number): void
  /** runs a callback of the process later */
  later(ms: number, run: () => void): void
}

export interface DiskFault {
  /** ENOSPC: nothing grows; EROFS: nothing changes; EIO: calls fail at random */
  code: 'ENOSPC' | 'EROFS' | 'EIO'
  /** share of the calls that fail */
  share: number
  /** calls of that name */
  only?: string
}

export class Crash extends Error {}

/** without a stack: programs look for missing files all the time */
function fail(code: string, path: string): Error {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const error = Object.assign(new Error(`${code}: ${path}`), { code, path })
  Error.stackTraceLimit = stackTraceLimit
  return error
}

/** A name that is not synced with its folder: of a new file, moved from `also`, or gone (null). */
interface NameChange {
  readonly path: string
  readonly inode: Inode | null
  readonly also?: string
}

interface Open {
  readonly path: string
  readonly inode: Inode
  at: number
  readonly append: boolean
}

export class Disk {
  names = new Map<string, Inode>()
  #durable = new Map<string, Inode>()
  #renames: NameChange[] = []
  readonly #dirs = new Set<string>(['/'])
  fault: DiskFault | null = null
  /** fdatasync and fsync report success and do nothing */
  lies = false
  /** ms a sync takes */
  latency: () => number = () => 1
  /** a file was created */
  onCreate: (path: string) => void = () => undefined

  constructor(readonly dice: Dice) {}

  list(dir: string): string[] {
    const from = dir === '/' ? '/' : `${dir}/`
    const found: string[] = []
    const inside = (name: string): void => {
      if (name.startsWith(from) && name.length > from.length && !name.includes('/', from.length))
        found.push(name.slice(from.length))
    }
    for (const name of this.names.keys()) inside(name)
    for (const name of this.#dirs) inside(name)
    return found.sort()
  }
  isDir(path: string): boolean {
    return this.#dirs.has(path)
  }
  mkdir(path: string): void {
    this.#dirs.add(path)
  }
  read(path: string): Buffer | undefined {
    const inode = this.names.get(path)
    return inode && Buffer.from(inode.data.view)
  }
  /** without the hole at its end */
  size(path: string): number {
    return this.names.get(path)?.data.used ?? 0
  }
  /** As a user with a card reader would: on the medium immediately. Zeros at the end are a hole. */
  put(path: string, content: string | Uint8Array): void {
    for (let dir = dirname(path); dir !== '/'; dir = dirname(dir)) this.#dirs.add(dir)
    const inode = new Inode()
    const bytes = Buffer.from(content as Uint8Array)
    inode.change({ at: 0, bytes: bytes.subarray(0, bytes.findLastIndex(byte => byte !== 0) + 1) })
    inode.change({ size: bytes.length })
    inode.synced(2)
    this.names.set(path, inode)
    this.#durable.set(path, inode)
  }

  /** Every file as a process sees it now. */
  copy(): ReadonlyMap<string, Buffer> {
    return new Map([...this.names].map(([path, { data }]) => [path, Buffer.from(data.view)]))
  }

  /** Replaces the medium with these files; call it without power. */
  restore(files: ReadonlyMap<string, string | Uint8Array>): void {
    this.names.clear()
    this.#durable.clear()
    this.#renames = []
    for (const [path, bytes] of files) this.put(path, bytes)
  }

  /** Some bits of a file change on the medium. */
  rot(path: string, dice: Dice): void {
    const inode = this.names.get(path)
    if (!inode || inode.pending.length > 0 || inode.data.size === 0) return
    const at = dice.below(inode.data.size)
    const bytes = Buffer.from(inode.data.view.subarray(at, at + 1 + dice.below(40)))
    for (let k = 0; k < bytes.length; k++) bytes[k]! ^= 1 << dice.below(8)
    inode.change({ at, bytes })
    inode.synced(1)
  }

  rename(path: string, inode: Inode | null, also?: string): void {
    if (also !== undefined) this.names.delete(also)
    if (inode) this.names.set(path, inode)
    else this.names.delete(path)
    this.#renames.push({ path, inode, ...(also !== undefined && { also }) })
  }
  syncDir(dir: string): void {
    if (this.lies) return
    const rest: NameChange[] = []
    for (const entry of this.#renames)
      if (dirname(entry.path) === dir) this.#named(entry)
      else rest.push(entry)
    this.#renames = rest
  }
  #named({ path, inode, also }: NameChange): void {
    if (also !== undefined) this.#durable.delete(also)
    if (inode) this.#durable.set(path, inode)
    else this.#durable.delete(path)
  }

  /** The power is cut: unsynced data survives in part. */
  cut(): void {
    const { dice } = this
    // some disks lose nearly all, others nearly nothing; some write in order
    const kept = dice.pick([0, 0.3, 0.7, 0.95, 1])
    const inOrder = dice.chance(0.5)
    const torn = dice.chance(0.5) ? 0.3 : 0
    let over = false
    for (const entry of this.#renames) {
      if (inOrder && over) break
      if (dice.chance(kept)) this.#named(entry)
      else over = true
    }
    this.#renames = []
    this.names = new Map(this.#durable)
    for (const inode of new Set(this.names.values())) {
      const changes = [...inode.doomed, ...inode.pending]
      inode.doomed = []
      inode.pending = []
      for (const change of changes) {
        const whole = dice.chance(kept)
        if (whole) apply(inode.durable, change)
        else if ('bytes' in change && torn > 0 && dice.chance(torn))
          this.#tear(inode.durable, change.at, change.bytes, inOrder)
        if (!whole && inOrder) break
      }
      inode.data.truncate(0)
      inode.data.write(0, inode.durable.view)
      inode.data.used = inode.durable.used
    }
  }
  #tear(to: Bytes, at: number, bytes: Buffer, inOrder: boolean): void {
    const sectors = Math.ceil(bytes.length / SECTOR) + 1
    const first = inOrder ? this.dice.below(bytes.length) : bytes.length
    for (let k = 0; k < sectors; k++) {
      // a sector of the medium, not of the write
      const from = Math.max(0, k * SECTOR - (at % SECTOR))
      const end = Math.min(bytes.length, (k + 1) * SECTOR - (at % SECTOR), first)
      if (from < end && (inOrder || this.dice.chance(0.5))) to.write(at + from, bytes.subarray(from, end))
    }
  }

  /** node:fs for one process. */
  module(events: DiskEvents): Record<string, unknown> {
    const open = new Map<number, Open>()
    let nextFd = 20
    const at = (path: unknown): string => resolve('/', String(path))
    const inodeOf = (path: string): Inode => {
      const inode = this.names.get(path)
      if (!inode) throw fail(this.isDir(path) ? 'EISDIR' : 'ENOENT', path)
      return inode
    }
    const file = (fd: number): Open => {
      const found = open.get(fd)
      if (!found) throw fail('EBADF', String(fd))
      return found
    }
    /** every change passes through here */
    const pass = (what: string, path: string, bytes = 0): void => {
      events.seam(what, path, bytes)
      const { fault } = this
      if (!fault || !this.dice.chance(fault.share)) return
      if (fault.code === 'ENOSPC' && (what === 'remove' || what === 'truncate' || what === 'sync')) return
      if (fault.code === 'EROFS' && what === 'sync') return
      throw fail(fault.code, path)
    }
    const stats = (path: string, size: number, isDir: boolean) => ({
      size,
      mode: isDir ? 0o40750 : 0o100640,
      uid: 0,
      gid: 0,
      mtimeMs: 0,
      isFile: () => !isDir,
      isDirectory: () => isDir,
      isSymbolicLink: () => false,
      path,
    })
    const stat = (path: unknown) => {
      const name = at(path)
      if (this.isDir(name)) return stats(name, 4096, true)
      return stats(name, inodeOf(name).data.size, false)
    }
    const sync = (fd: number): void => {
      const { inode, path } = file(fd)
      if (inode) {
        try {
          pass('sync', path)
        } catch (error) {
          if (!(error instanceof Crash)) inode.failed(inode.pending.length)
          throw error
        }
        if (!this.lies) inode.synced(inode.pending.length)
      }
    }
    const { O_APPEND, O_CREAT, O_TRUNC, O_DIRECTORY } = realFs.constants
    const module: Record<string, unknown> = {
      constants: realFs.constants,
      existsSync: (path: unknown) => this.names.has(at(path)) || this.isDir(at(path)),
      statSync: stat,
      lstatSync: stat,
      fstatSync: (fd: number) => {
        const { path, inode } = file(fd)
        return inode ? stats(path, inode.data.size, false) : stats(path, 4096, true)
      },
      readdirSync: (path: unknown, options?: { withFileTypes?: boolean }) => {
        const dir = at(path)
        if (!this.isDir(dir)) throw fail('ENOENT', dir)
        const names = this.list(dir)
        if (!options?.withFileTypes) return names
        return names.map(name => ({
          name,
          isDirectory: () => this.isDir(resolve(dir, name)),
          isFile: () => !this.isDir(resolve(dir, name)),
        }))
      },
      mkdirSync: (path: unknown) => {
        pass('mkdir', at(path))
        this.mkdir(at(path))
      },
      chmodSync: () => undefined,
      realpathSync: at,
      openSync: (path: unknown, flags: number | string = 0) => {
        const name = at(path)
        const bits = flags === 'r' ? 0 : Number(flags)
        const fd = nextFd++
        if (this.isDir(name)) {
          open.set(fd, { path: name, inode: undefined as never, at: 0, append: false })
          return fd
        }
        if (bits & O_DIRECTORY) throw fail('ENOTDIR', name)
        let inode = this.names.get(name)
        if (!inode) {
          if (!(bits & O_CREAT)) throw fail('ENOENT', name)
          if (!this.isDir(dirname(name))) throw fail('ENOENT', name)
          pass('create', name)
          inode = new Inode()
          this.rename(name, inode)
          this.onCreate(name)
        } else if (bits & O_TRUNC && inode.data.size > 0) {
          pass('truncate', name)
          inode.change({ size: 0 })
        }
        open.set(fd, { path: name, inode, at: 0, append: (bits & O_APPEND) !== 0 })
        return fd
      },
      closeSync: (fd: number) => {
        file(fd)
        open.delete(fd)
      },
      writeSync: (fd: number, data: Uint8Array | string, offset = 0, length?: number) => {
        const opened = file(fd)
        const bytes = typeof data === 'string' ? Buffer.from(data) : data
        const part = Buffer.from(bytes.subarray(offset, offset + (length ?? bytes.length - offset)))
        const from = opened.append ? opened.inode.data.size : opened.at
        const put = (count: number): void => {
          if (count === 0) return
          opened.inode.change({ at: from, bytes: part.subarray(0, count) })
          opened.at = from + count
        }
        try {
          pass('write', opened.path, part.length)
        } catch (error) {
          // a part of it was written: a killed process, or a disk that was full half way
          put(this.dice.below(part.length))
          throw error
        }
        put(part.length)
        return part.length
      },
      readSync: (fd: number, buffer: Uint8Array, offset: number, length: number, position: number | null) => {
        const opened = file(fd)
        const from = position ?? opened.at
        const part = opened.inode.data.view.subarray(from, from + length)
        buffer.set(part, offset)
        if (position === null) opened.at += part.length
        return part.length
      },
      readFileSync: (path: unknown, options?: string | { encoding?: string }) => {
        const inode = typeof path === 'number' ? file(path).inode : inodeOf(at(path))
        const bytes = Buffer.from(inode.data.view)
        const encoding = typeof options === 'string' ? options : options?.encoding
        return encoding ? bytes.toString(encoding as BufferEncoding) : bytes
      },
      fsyncSync: (fd: number) => {
        const opened = file(fd)
        if (opened.inode) return sync(fd)
        pass('syncDir', opened.path)
        this.syncDir(opened.path)
      },
      fdatasyncSync: sync,
      fdatasync: (fd: number, done: (error: Error | null) => void) => {
        const { inode, path } = file(fd)
        const count = inode.pending.length
        events.seam('fdatasync', path, 0)
        events.later(this.latency(), () => {
          try {
            pass('sync', path)
          } catch (error) {
            // a process that dies here does not stop the kernel's work; a power cut does
            if (error instanceof Crash) throw error
            inode.failed(Math.min(count, inode.pending.length))
            done(error as Error)
            return
          }
          if (!this.lies) inode.synced(Math.min(count, inode.pending.length))
          done(null)
        })
      },
      truncateSync: (path: unknown, size = 0) => {
        const name = at(path)
        const inode = inodeOf(name)
        pass('truncate', name)
        inode.change({ size })
      },
      ftruncateSync: (fd: number, size = 0) => {
        const { inode, path } = file(fd)
        pass(size > inode.data.size ? 'extend' : 'truncate', path)
        inode.change({ size })
      },
      renameSync: (from: unknown, to: unknown) => {
        const inode = inodeOf(at(from))
        pass('rename', at(to))
        this.rename(at(to), inode, at(from))
      },
      rmSync: (path: unknown, options?: { force?: boolean }) => {
        const name = at(path)
        if (!this.names.has(name)) {
          if (options?.force) return
          throw fail('ENOENT', name)
        }
        pass('remove', name)
        this.rename(name, null)
      },
    }
    module['unlinkSync'] = module['rmSync']
    return module
  }
}
