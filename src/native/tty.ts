// A serial port opened, set and closed by the addon on a thread of its own, so that a driver that waits for its hardware holds
// up nothing: not this process, not libuv's pool, which belongs to the log (D11). Bytes are read and written by the holder of the
// port, without ever blocking, on a descriptor of its own.
//
// What fails: the errors of bus.ts (TIMEOUT: the driver did not answer in time; BUS_STUCK: it still does not) and of the kernel
// (see errors.ts; EBUSY: another program has the port). Nothing is left behind: what a late open brings is closed.
import { OsError } from '../lib/errors'
import type { BusAddon, Descriptor } from './addon'
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

/** drivers of USB adapters wait so long for an answer */
const OPEN_MS = 5000
const CLOSE_MS = 1000
const PARITIES = ['none', 'even', 'odd']
const FLOWS = ['none', 'rts_cts', 'xon_xoff']
/** bits of the modem lines */
const [DTR, RTS] = [2, 4]

/** An open port: damaged bytes are marked among those that are read, as drivers/serial/parity-marks.ts reads them. */
export class TtyPort {
  readonly #addon: BusAddon
  readonly #file: Descriptor

  private constructor(
    /** for calls that tell the driver more (RS485) */
    readonly bus: NativeThread,
    file: Descriptor,
    /** non-blocking; invalid once unwatched */
    readonly fd: number,
    /** bits per second as the driver has it */
    readonly baudrate: number,
  ) {
    this.#addon = bus.addon
    this.#file = file
  }

  /**
   * Opens, locks and sets a port; `deadlineMs` is for opening, and for the modem lines. Rejects with E_NO_ADDON, TIMEOUT, BUS_STUCK,
   * the error of the kernel, and CONFIG_INVALID where the port has no modem lines to set.
   */
  static async open(path: string, settings: TtySettings, deadlineMs = OPEN_MS): Promise<TtyPort> {
    const bus = new NativeThread(path)
    const { addon, handle } = bus
    let file: Descriptor | undefined
    const take = (opened: Descriptor): void => {
      file = opened
    }
    try {
      const { baudrate, data_bits, stop_bits } = settings
      const [parity, flow] = [PARITIES.indexOf(settings.parity), FLOWS.indexOf(settings.flow)]
      const job = addon.ttyTake(handle, path, baudrate, data_bits, parity, stop_bits, flow)
      const real = await bus.finish(job, 'open', deadlineMs, null, null, take)
      const lines = linesOf(settings)
      if (lines.on | lines.off)
        await bus.finish(addon.ttyLines(handle, lines.on, lines.off), 'TIOCMSET', deadlineMs, null, noLines)
      return new TtyPort(bus, file!, addon.descriptorNumber(file!), real)
    } catch (error) {
      if (file) addon.close(file)
      // who asks again must not meet what this one still holds
      await giveBack(bus)
      throw error
    }
  }

  /** Calls `onReadable` whenever there is something to read, and when the port has hung up: reading tells which. */
  watch(onReadable: () => void): void {
    const result = this.#addon.watch(this.#file, READABLE, onReadable)
    if (result < 0) throw nativeError(result, 'poll', this.bus.path)
  }

  /** Ends reading and writing at once; safe to call twice. */
  unwatch(): void {
    this.#addon.close(this.#file)
  }

  /**
   * Throws away what was not sent and closes. Never rejects: a port whose closing takes more than a second counts as stuck and
   * is refused (BUS_STUCK) until its driver is back.
   */
  async close(): Promise<void> {
    this.unwatch()
    await giveBack(this.bus)
  }
}

/** Closes what the thread has open, unless it is stuck, and ends it. */
async function giveBack(bus: NativeThread): Promise<void> {
  if (!bus.refusal()) await bus.finish(bus.addon.ttyClose(bus.handle), 'close', CLOSE_MS).catch(() => undefined)
  bus.close()
}

function linesOf({ dtr, rts }: TtySettings): { on: number; off: number } {
  const bits = (level: boolean): number => (dtr === level ? DTR : 0) | (rts === level ? RTS : 0)
  return { on: bits(true), off: bits(false) }
}

/** A driver without modem lines has several answers for it. */
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
