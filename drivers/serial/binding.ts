// The native part of the package serialport, as far as it is used: opening with all settings, modem lines, and readiness.
// Reading and writing are plain system calls on its non-blocking descriptor: they cost no thread of libuv's pool, which
// belongs to fdatasync (D11), and what the package's own loop does when a port hangs up (it reads without end) does not
// happen. The package's tcdrain is never called.
//
// Its Poller must never be collected: its destructor takes whatever descriptor then has the same number out of epoll. So
// there is one per descriptor number, kept and used again.
//
// What fails: a machine the package has no file for: NO_DRIVER with the reason.
import { asOsError, OsError } from '../../src/lib/errors'
import { nativeOrNull } from '../../src/native'
import { closeAside } from '../../src/native/closing'

export interface NativeOpenOptions {
  baudRate: number
  dataBits: number
  parity: string
  stopBits: number
  rtscts: boolean
  xon: boolean
  xoff: boolean
  xany: boolean
  hupcl: boolean
  lock: boolean
  vmin: number
  vtime: number
}

type Done<T = void> = (error: Error | null, value: T) => void

interface NativePoller {
  poll(events: number): void
  stop(): void
}

interface Native {
  open(path: string, options: NativeOpenOptions, done: Done<number>): void
  close(fd: number, done: Done): void
  flush(fd: number, done: Done): void
  set(fd: number, lines: Record<string, boolean>, done: Done): void
  getBaudRate(fd: number, done: Done<{ baudRate: number }>): void
  Poller: new (fd: number, told: (error: Error | null, events: number) => void) => NativePoller
}

export const READABLE = 1
export const DISCONNECT = 4

let loaded: Native | undefined

async function native(): Promise<Native> {
  if (loaded) return loaded
  if (process.platform !== 'linux') throw new OsError('NO_DRIVER', `no serial ports on ${process.platform}`)
  try {
    loaded = (await import('@serialport/bindings-cpp/dist/serialport-bindings.js')).binding as Native
  } catch (cause) {
    throw new OsError('NO_DRIVER', `no build of serialport for ${process.platform}-${process.arch}`, {
      cause,
      hint: asOsError(cause).message,
    })
  }
  return loaded
}

const call = <T>(start: (done: Done<T>) => void): Promise<T> =>
  new Promise((resolve, reject) => start((error, value) => (error ? reject(error) : resolve(value))))

/** Opens, locks and sets a port. Rejects with the package's error, whose message holds the system's. */
export async function openNative(path: string, options: NativeOpenOptions): Promise<number> {
  const binding = await native()
  return call<number>(done => binding.open(path, options, done))
}

/** Bits per second as the driver of the port has it. */
export async function baudRateOf(fd: number): Promise<number> {
  return (await call<{ baudRate: number }>(done => loaded!.getBaudRate(fd, done))).baudRate
}

export async function setLines(fd: number, lines: { dtr: boolean; rts: boolean }): Promise<void> {
  const rest = { brk: false, cts: false, dts: false, dsr: false, lowLatency: false }
  await call<void>(done => loaded!.set(fd, { ...rest, ...lines }, done))
}

/** Closings without the addon run one after the other: a driver that waits holds one thread of the pool and no more. */
let closings: Promise<void> = Promise.resolve()

/**
 * Throws away what was not sent and closes. Drivers of USB adapters cannot throw it away and wait for a peer that takes
 * nothing, so the addon closes on a thread of its own where it is there. Resolves when that is over; never rejects.
 */
export async function closeNative(fd: number): Promise<void> {
  await call<void>(done => loaded!.flush(fd, done)).catch(() => undefined) // a port that is gone has nothing to throw away
  if (nativeOrNull()) {
    try {
      return await closeAside(fd)
    } catch {
      // no thread to be had: by the pool, as without the addon
    }
  }
  // what closing says does not matter: the descriptor is gone in any case
  closings = closings.then(() => call<void>(done => loaded!.close(fd, done)).catch(() => undefined))
  return closings
}

interface Watched {
  readonly poller: NativePoller
  told: (error: Error | null) => void
}

const pollers = new Map<number, Watched>()

/** Readiness of a descriptor: `told` once per call of the function returned, with an error when the port is gone. */
export function watchReadable(fd: number, told: (error: Error | null) => void): { again(): void; stop(): void } {
  let watched = pollers.get(fd)
  if (!watched) {
    const made: Watched = { poller: new loaded!.Poller(fd, error => made.told(error)), told }
    pollers.set(fd, made)
    watched = made
  }
  const { poller } = watched
  watched.told = told
  return {
    again: () => poller.poll(READABLE | DISCONNECT),
    stop: () => {
      watched.told = () => undefined
      poller.stop()
    },
  }
}
