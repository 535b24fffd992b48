// A serial port by the package serialport, for machines where the addon could not be built (src/native/tty.ts is what the others
// have). Its calls run in libuv's pool: a driver that hangs holds one thread of it. It is given up after a while all the same,
// not asked again before it is back, and what it then has opened is closed. Reading and writing are ours here too: what the
// package's own loop does when a port hangs up (it reads without end) does not happen. Its tcdrain is never called.
//
// Its Poller must never be collected: its destructor takes whatever descriptor then has the same number out of epoll. So
// there is one per descriptor number, kept and used again.
//
// What fails: a machine the package has no file for: NO_DRIVER with the reason; TIMEOUT, BUS_STUCK; else the package's error,
// whose message holds the system's.

import { asOsError, OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import { native } from '../../src/native'
import type { NativeThread } from '../../src/native/native-thread'
import type { OpenTty, TtySettings } from '../../src/native/tty'

type Done<T = void> = (error: Error | null, value: T) => void

interface NativePoller {
  poll(events: number): void
  stop(): void
}

interface Binding {
  open(path: string, options: Record<string, unknown>, done: Done<number>): void
  close(fd: number, done: Done): void
  flush(fd: number, done: Done): void
  set(fd: number, lines: Record<string, boolean>, done: Done): void
  getBaudRate(fd: number, done: Done<{ baudRate: number }>): void
  Poller: new (fd: number, notify: (error: Error | null) => void) => NativePoller
}

/** readable, hung up */
const EVENTS = 1 | 4
const OPEN_MS = 5000
const CLOSE_MS = 1000

let loaded: Binding | undefined

async function load(): Promise<Binding> {
  if (loaded) return loaded
  if (process.platform !== 'linux') throw new OsError('NO_DRIVER', `no serial ports on ${process.platform}`)
  try {
    loaded = (await import('@serialport/bindings-cpp/dist/serialport-bindings.js')).binding as Binding
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

const pollers = new Map<number, { readonly poller: NativePoller; notify: () => void }>()
/** ports with a call that was given up and has not come back */
const stuck = new Set<string>()

/** `work` if it is done in time; else TIMEOUT, and the port is stuck until it is done, with `late` what became of it. */
async function inTime<T>(path: string, work: Promise<T>, ms: number, late: (done: T) => unknown): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      stuck.add(path)
      const over = (): boolean => stuck.delete(path)
      void work.then(late).then(over, over)
      reject(new OsError('TIMEOUT', `${path}: no end of the call in ${ms} ms`))
    }, ms)
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}

/** Closings run one after the other: a driver that waits holds one thread of the pool and no more. */
const closings = new SerialQueue()

export class PackagePort implements OpenTty {
  /** the package sets IGNPAR without INPCK: a damaged byte comes as any other */
  readonly marked = false
  private constructor(
    private readonly path: string,
    readonly fd: number,
    readonly baudrate: number,
    private readonly binding: Binding,
  ) {}

  static async open(path: string, settings: TtySettings, deadlineMs = OPEN_MS): Promise<PackagePort> {
    if (stuck.has(path)) throw new OsError('BUS_STUCK', `${path}: a call into the kernel has not come back`)
    return inTime(path, PackagePort.#open(await load(), path, settings), deadlineMs, port => port.close())
  }

  static async #open(binding: Binding, path: string, settings: TtySettings): Promise<PackagePort> {
    const { flow, dtr, rts } = settings
    const fd = await call<number>(done =>
      binding.open(
        path,
        {
          baudRate: settings.baudrate,
          dataBits: settings.data_bits,
          parity: settings.parity,
          stopBits: settings.stop_bits,
          rtscts: flow === 'rts_cts',
          xon: flow === 'xon_xoff',
          xoff: flow === 'xon_xoff',
          xany: false,
          hupcl: true,
          lock: true,
          vmin: 1,
          vtime: 0,
        },
        done,
      ),
    )
    try {
      const lines = {
        brk: false,
        cts: false,
        dts: false,
        dsr: false,
        lowLatency: false,
        dtr: dtr ?? true,
        rts: rts ?? true,
      }
      if (dtr !== undefined || rts !== undefined) await call<void>(done => binding.set(fd, lines, done))
      const { baudRate } = await call<{ baudRate: number }>(done => binding.getBaudRate(fd, done))
      return new PackagePort(path, fd, baudRate, binding)
    } catch (error) {
      await new PackagePort(path, fd, 0, binding).close()
      throw error
    }
  }

  /** Throws E_NO_ADDON: what needs a bus cannot be had here. */
  get bus(): NativeThread {
    native()
    throw new OsError('E_NO_ADDON', 'the port was opened without the native addon')
  }

  watch(notify: () => void): void {
    let watched = pollers.get(this.fd)
    if (!watched) {
      const made = { poller: new this.binding.Poller(this.fd, () => made.notify()), notify }
      pollers.set(this.fd, made)
      watched = made
    }
    const { poller } = watched
    // it reports once; a read reports a port that hung up, as everywhere
    const again = (): void => {
      notify()
      if (watched.notify === again) poller.poll(EVENTS)
    }
    watched.notify = again
    poller.poll(EVENTS)
  }

  unwatch(): void {
    const watched = pollers.get(this.fd)
    if (!watched) return
    watched.notify = () => undefined
    watched.poller.stop()
  }

  /** Throws away what was not sent and closes. Never rejects; stuck as TtyPort.close(). */
  async close(): Promise<void> {
    this.unwatch()
    // a port that is gone has nothing to throw away, and what closing says does not matter: the descriptor is gone
    const quietly = (start: (done: Done) => void): Promise<void> => call(start).catch(() => undefined)
    const closed = quietly(done => this.binding.flush(this.fd, done)).then(() => {
      return closings.run(() => quietly(done => this.binding.close(this.fd, done)))
    })
    await inTime(this.path, closed, CLOSE_MS, () => undefined).catch(() => undefined)
  }
}
