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
import { native } from '../../src/native'
import type { Bus } from '../../src/native/bus'
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
  Poller: new (fd: number, told: (error: Error | null) => void) => NativePoller
}

/** readable, hung up */
const EVENTS = 1 | 4
const OPEN_MS = 5000

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

const pollers = new Map<number, { readonly poller: NativePoller; told: () => void }>()
/** ports whose opening was given up and has not come back */
const givenUp = new Set<string>()
/** Closings run one after the other: a driver that waits holds one thread of the pool and no more. */
let closings: Promise<void> = Promise.resolve()

export class PackagePort implements OpenTty {
  private constructor(
    readonly fd: number,
    readonly baudrate: number,
    private readonly binding: Binding,
  ) {}

  static async open(path: string, settings: TtySettings, deadlineMs = OPEN_MS): Promise<PackagePort> {
    if (givenUp.has(path)) throw new OsError('BUS_STUCK', `${path}: a call into the kernel has not come back`)
    const opening = PackagePort.#open(await load(), path, settings)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        givenUp.add(path)
        const over = (): boolean => givenUp.delete(path)
        void opening.then(port => port.close()).then(over, over)
        reject(new OsError('TIMEOUT', `${path}: no end of open in ${deadlineMs} ms`))
      }, deadlineMs)
    })
    return Promise.race([opening, late]).finally(() => clearTimeout(timer))
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
      return new PackagePort(fd, baudRate, binding)
    } catch (error) {
      await new PackagePort(fd, 0, binding).close()
      throw error
    }
  }

  /** Throws E_NO_ADDON: what needs a bus cannot be had here. */
  get bus(): Bus {
    native()
    throw new OsError('E_NO_ADDON', 'the port was opened without the native addon')
  }

  watch(told: () => void): void {
    let watched = pollers.get(this.fd)
    if (!watched) {
      const made = { poller: new this.binding.Poller(this.fd, () => made.told()), told }
      pollers.set(this.fd, made)
      watched = made
    }
    const { poller } = watched
    // it tells once; a port that hung up is told by reading, as everywhere
    const again = (): void => {
      told()
      if (watched.told === again) poller.poll(EVENTS)
    }
    watched.told = again
    poller.poll(EVENTS)
  }

  unwatch(): void {
    const watched = pollers.get(this.fd)
    if (!watched) return
    watched.told = () => undefined
    watched.poller.stop()
  }

  /** Throws away what was not sent and closes; resolves when that is over, never rejects. */
  async close(): Promise<void> {
    this.unwatch()
    // a port that is gone has nothing to throw away, and what closing says does not matter: the descriptor is gone
    await call<void>(done => this.binding.flush(this.fd, done)).catch(() => undefined)
    closings = closings.then(() => call<void>(done => this.binding.close(this.fd, done)).catch(() => undefined))
    return closings
  }
}
