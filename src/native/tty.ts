// A serial port opened, configured and closed by the addon on a separate thread, so that a driver that waits for its
// hardware blocks neither this process nor libuv's pool, which belongs to the log (decision 0024). The owner of the port reads
// and writes the bytes, without blocking, on a duplicate descriptor.
//
// Errors: those of native-thread.ts (TIMEOUT: the driver did not answer in time; BUS_STUCK: it still does not) and of
// the kernel (see errors.ts; EBUSY: another program has the port). No resource leaks: the result of a late open is
// closed.
import { OsError } from '../lib/errors'
import type { Descriptor } from './addon'
import { nativeError } from './errors'
import { NativeThread } from './native-thread'
import { READABLE } from './socket'

export interface TtySettings {
  /** bits per second, any number */
  readonly baudrate: number
  readonly data_bits: number
  readonly parity: 'none' | 'even' | 'odd'
  readonly stop_bits: number
  readonly flow: 'none' | 'rts_cts' | 'xon_xoff'
  /** levels of the modem lines; left out: as the driver sets them */
  readonly dtr?: boolean
  readonly rts?: boolean
}

/** time that drivers of USB adapters wait for an answer */
const OPEN_MS = 5000
const CLOSE_MS = 1000
const PARITIES = ['none', 'even', 'odd']
const FLOWS = ['none', 'rts_cts', 'xon_xoff']
/** bits of the modem lines */
const [DTR, RTS] = [2, 4]

/** An open port: reads contain marks of damaged bytes, which drivers/serial/parity-marks.ts decodes. */
export class TtyPort {
  readonly #file: Descriptor

  private constructor(
    /** for further calls to the driver (RS485) */
    readonly bus: NativeThread,
    file: Descriptor,
    /** non-blocking; invalid after unwatch() */
    readonly fd: number,
    /** actual bits per second of the driver */
    readonly baudrate: number,
  ) {
    this.#file = file
  }

  /**
   * Opens, locks and configures a port; `deadlineMs` is for opening, and for the modem lines. Rejects with E_NO_ADDON,
   * TIMEOUT, BUS_STUCK, the error of the kernel, and CONFIG_INVALID if the port has no modem lines.
   */
  static async open(path: string, settings: TtySettings, deadlineMs = OPEN_MS): Promise<TtyPort> {
    const bus = new NativeThread(path)
    let file: Descriptor | undefined
    const take = (opened: Descriptor): void => {
      file = opened
    }
    try {
      const { baudrate, data_bits, stop_bits } = settings
      const [parity, flow] = [PARITIES.indexOf(settings.parity), FLOWS.indexOf(settings.flow)]
      const real = await bus.call(
        (addon, handle) => addon.ttyTake(handle, path, baudrate, data_bits, parity, stop_bits, flow),
        'open',
        deadlineMs,
        null,
        null,
        take,
      )
      const { on, off } = linesOf(settings)
      if (on | off)
        await bus.call((addon, handle) => addon.ttyLines(handle, on, off), 'TIOCMSET', deadlineMs, null, noLines)
      return new TtyPort(bus, file!, bus.addon.descriptorNumber(file!), real)
    } catch (error) {
      if (file) bus.addon.close(file)
      // a retry must not find the port still locked by this one
      await giveBack(bus)
      throw error
    }
  }

  /** Calls `onReadable` when data is available, and when the port has hung up: a read shows which. */
  watch(onReadable: () => void): void {
    const result = this.bus.addon.watch(this.#file, READABLE, onReadable)
    if (result < 0) throw nativeError(result, 'poll', this.bus.path)
  }

  /** Ends reading and writing immediately; safe to call twice. */
  unwatch(): void {
    this.bus.addon.close(this.#file)
  }

  /**
   * Discards unsent bytes and closes. Never rejects: a port whose closing takes more than a second counts as stuck and
   * is refused (BUS_STUCK) until its driver returns.
   */
  async close(): Promise<void> {
    this.unwatch()
    await giveBack(this.bus)
  }
}

/** Closes the thread's file, unless it is stuck, and ends the thread. */
async function giveBack(bus: NativeThread): Promise<void> {
  await bus.call((addon, handle) => addon.ttyClose(handle), 'close', CLOSE_MS).catch(() => undefined)
  bus.close()
}

function linesOf({ dtr, rts }: TtySettings): { on: number; off: number } {
  const bits = (level: boolean): number => (dtr === level ? DTR : 0) | (rts === level ? RTS : 0)
  return { on: bits(true), off: bits(false) }
}

/** Drivers without modem lines return various errors. */
function noLines(error: OsError): OsError {
  const errno = error.details['errno']
  if (errno !== 'ENOTTY' && errno !== 'EINVAL' && errno !== 'ENOSYS') return error
  const { cause, details } = error
  return new OsError('CONFIG_INVALID', `${error.message}: this port has no DTR and RTS`, {
    cause,
    details,
    hint: 'leave out dtr and rts',
  })
}
