// The native addon of one process, as far as serial ports use it (src/native/addon.ts), and what node:fs knows of the ports: so that
// src/native and drivers/serial themselves run. Every result comes through a thread of its bus, some time after the call.
import { constants } from 'node:os'
import type { Dice, Owner } from './engine'
import type { Host } from './net'
import type { Lines, PortFile } from './serial'

/** above those of files */
const FIRST_FD = 100_000

interface Bus {
  /** results by job */
  readonly results: Map<number, { result: number; file?: PortFile }>
  readonly done: number[]
  wake: (() => void) | null
  busy: number
  next: number
  closed: boolean
  /** the port that its thread has open */
  file?: PortFile
}

export interface AddonParts {
  readonly lines: Lines
  readonly host: Host
  readonly owner: Owner
  readonly dice: Dice
  /** a call in which the process may die */
  readonly seam: () => void
}

const errno = (code: keyof typeof constants.errno): number => -constants.errno[code]

/** without a stack: a port has no bytes most of the time */
function fail(code: string, path: string): Error {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const error = Object.assign(new Error(`${code}: ${path}`), { code })
  Error.stackTraceLimit = stackTraceLimit
  return error
}

export class SimAddon {
  readonly #parts: AddonParts
  readonly #files = new Map<number, PortFile>()
  #fd = FIRST_FD

  constructor(parts: AddonParts) {
    this.#parts = parts
  }

  /** The exports of the addon. */
  exports(): Record<string, unknown> {
    const { lines, host, owner, dice, seam } = this.#parts
    const { engine } = lines
    const job = (bus: Bus, run: () => { result: number; file?: PortFile }, ms = dice.scale(0.1, 5)): number => {
      const number = bus.next++ % 64
      bus.busy++
      engine.after(
        ms,
        () => {
          bus.busy--
          const done = run()
          if (bus.closed) return void done.file?.port.close(done.file)
          bus.results.set(number, done)
          bus.done.push(number)
          bus.wake?.()
        },
        owner,
      )
      return number
    }
    return {
      busStart: (): Bus => ({ results: new Map(), done: [], wake: null, busy: 0, next: 0, closed: false }),
      busEvents: (bus: Bus) => bus,
      busDone: (bus: Bus) => bus.done.shift() ?? errno('EAGAIN'),
      busFile: (bus: Bus, number: number) => bus.results.get(number)?.file ?? errno('EBADF'),
      busResult: (bus: Bus, number: number) => {
        const done = bus.results.get(number)
        bus.results.delete(number)
        return done?.result ?? errno('EINVAL')
      },
      // the thread takes each call at once
      busCancel: () => errno('EBUSY'),
      busClose: (bus: Bus) => {
        bus.closed = true
        bus.file?.port.close(bus.file)
        return bus.busy > 0 ? 0 : 1
      },
      watch: (to: Bus | PortFile, _events: number, wake: () => void) => {
        to.wake = wake
        if ('port' in to) to.port.tell(to)
        return 0
      },
      unref: () => 0,
      descriptorNumber: (file: PortFile) => {
        this.#files.set(++this.#fd, file)
        return this.#fd
      },
      close: (of: Bus | PortFile) => {
        of.wake = null
        for (const [fd, file] of this.#files) if (file === of) this.#files.delete(fd)
        return 0
      },
      ttyTake: (bus: Bus, path: string, baudrate: number) => {
        seam()
        const port = lines.port(host, path)
        const hung = port && dice.chance(0.5) ? Math.max(0, port.opensAt - engine.now) : 0
        return job(
          bus,
          () => {
            const file = port?.open(owner, baudrate) ?? 'ENOENT'
            if (typeof file === 'string') return { result: errno(file) }
            bus.file = file
            return { result: baudrate, file }
          },
          hung + dice.scale(1, 50),
        )
      },
      ttyClose: (bus: Bus) =>
        job(bus, () => {
          bus.file?.port.close(bus.file)
          return { result: 0 }
        }),
      // attributes of USB adapters
      fileRead: (bus: Bus) => job(bus, () => ({ result: errno('ENOENT') })),
      limitMalloc: () => 0,
      trimMalloc: () => 0,
    }
  }

  /** Over node:fs of the disk. */
  files(fs: Record<string, unknown>): Record<string, unknown> {
    const { lines, host, seam } = this.#parts
    const others = fs as Record<string, (...parts: unknown[]) => unknown>
    const node = (path: string) => {
      const port = lines.port(host, path)
      if (!port?.plugged) throw fail('ENOENT', path)
      return port
    }
    const opened = (fd: number): PortFile => {
      const file = this.#files.get(fd)
      if (!file) throw fail('EBADF', String(fd))
      if (file.port.file !== file) throw fail('EIO', file.port.path)
      return file
    }
    return {
      ...fs,
      existsSync: (path: string) => /\.node$/.test(path) || others['existsSync']!(path),
      realpathSync: (path: string) => {
        if (path.startsWith('/sys/')) throw fail('ENOENT', path)
        return path.startsWith('/dev/') ? node(path).path : others['realpathSync']!(path)
      },
      statSync: (path: string, ...rest: unknown[]) => {
        if (!String(path).startsWith('/dev/')) return others['statSync']!(path, ...rest)
        return { dev: 5, ino: node(path).inode, rdev: 1, mode: 0o20660, gid: 20, ctimeMs: 0 }
      },
      readSync: (fd: number, into: Uint8Array, offset: number, length: number, position: number | null) => {
        if (fd <= FIRST_FD) return others['readSync']!(fd, into, offset, length, position)
        const file = opened(fd)
        if (file.received.length === 0) throw fail('EAGAIN', file.port.path)
        const part = file.received.subarray(0, length)
        into.set(part, offset)
        file.received = file.received.subarray(part.length)
        return part.length
      },
      writeSync: (fd: number, data: Uint8Array, offset = 0, ...rest: unknown[]) => {
        if (fd <= FIRST_FD) return others['writeSync']!(fd, data, offset, ...rest)
        seam()
        const file = opened(fd)
        const taken = file.port.write(file, data.subarray(offset))
        if (taken === 0 && offset < data.length) throw fail('EAGAIN', file.port.path)
        return taken
      },
    }
  }
}
