// One chip on an I2C bus as a source's probe. Several chips share a bus: the adapter's thread runs their transfers in
// turn. Errors:
// - No answer (NO_REPLY): down at the opening; later the channels are ERROR, and the next read sets the chip up again,
//   since it may have lost power.
// - A stuck transfer: TIMEOUT, then BUS_STUCK; the link is down until the kernel releases the bus. It never hangs
//   (R20).
// - Two sources for one chip: CONFIG_INVALID.
import { readlinkSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { asOsError, OsError } from '../../src/lib/errors'
import { sleep, systemTimers, type Timers } from '../../src/lib/timers'
import type { OpenableEvents } from '../../src/links/contracts'
import { I2cBus } from '../../src/native/i2c'
import type { Sample } from '../kit/channel'
import type { Probe } from '../kit/polled-source'

/** The bus operations of a chip driver. */
export interface ChipIo {
  /** `count` bytes starting at a register, in a new buffer */
  read(register: number, count: number): Promise<Uint8Array>
  write(...bytes: number[]): Promise<void>
  /** bytes read without a register address, in a new buffer */
  receive(count: number): Promise<Uint8Array>
  sleep(ms: number): Promise<void>
}

export interface I2cChip {
  /** Identifies the chip and sets it up. Throws NOT_FOUND if it is another chip. */
  setUp(io: ChipIo): Promise<void>
  /** A sample for each channel. */
  sample(io: ChipIo): Promise<readonly Sample[]>
}

/** The part of I2cBus that is used here; tests pass simulated chips. */
export type Bus = Pick<I2cBus, 'transfer' | 'close'>

interface ChipOptions {
  name: string
  path: string
  address: number
  /** indexes of the chip's channels that are wanted */
  places: readonly number[]
  openBus?: (path: string) => Promise<Bus>
  timers?: Timers
  deadlineMs?: number
  sysRoot?: string
}

/**
 * Throws PORT_BUSY if a kernel driver uses the address. The kernel refuses only SMBus calls to such an address; plain
 * transfers succeed and disturb the driver, so sysfs is checked for every adapter.
 */
export function refuseHeld(path: string, address: number, sysRoot = '/sys'): void {
  let device: string
  let driver: string
  try {
    const [, bus] = /^i2c-(\d+)$/.exec(basename(realpathSync(path))) ?? []
    device = `${bus}-${address.toString(16).padStart(4, '0')}`
    driver = basename(readlinkSync(`${sysRoot}/bus/i2c/devices/${device}/driver`))
  } catch {
    return // no such bus, or no driver at that address
  }
  const at = `${path} 0x${address.toString(16).padStart(2, '0')}`
  throw new OsError('PORT_BUSY', `${at}: the driver ${driver} of the kernel uses this address`, {
    details: { driver },
    hint: `read the chip through it (source type hwmon or iio; os-node source list), or remove its overlay from config.txt, or echo ${device} > /sys/bus/i2c/drivers/${driver}/unbind as root`,
  })
}

/** chips in use → their sources */
const claimed = new Map<string, string>()

export class ChipProbe implements Probe {
  readonly #chip: I2cChip
  readonly #options: ChipOptions
  readonly #key: string
  #io: ChipIo | undefined
  #bus: Bus | undefined
  #ready = false
  /** counts closings: a link can be closed and reopened while an opening is still in progress */
  #closings = 0

  constructor(chip: I2cChip, options: ChipOptions) {
    this.#chip = chip
    this.#options = options
    this.#key = `${options.path} 0x${options.address.toString(16)}`
  }

  async open(_events: OpenableEvents): Promise<void> {
    const { name, path, address, sysRoot, openBus = I2cBus.open } = this.#options
    refuseHeld(path, address, sysRoot)
    const owner = claimed.get(this.#key)
    if (owner !== undefined && owner !== name)
      throw new OsError('CONFIG_INVALID', `${this.#key} is read by ${owner} already`)
    claimed.set(this.#key, name)
    const closings = this.#closings
    try {
      const bus = await openBus(path)
      if (closings !== this.#closings) {
        bus.close()
        throw new OsError('LINK_DOWN', `${this.#key} was closed while opening`)
      }
      this.#bus = bus
      this.#io = this.#ioOf(bus)
      await this.#chip.setUp(this.#io)
      if (closings === this.#closings) this.#ready = true
    } catch (error) {
      // do not close a later opening
      if (closings === this.#closings) await this.close()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#closings++
    this.#ready = false
    this.#io = undefined
    this.#bus?.close()
    this.#bus = undefined
    if (claimed.get(this.#key) === this.#options.name) claimed.delete(this.#key)
  }

  async sample(): Promise<readonly Sample[]> {
    const io = this.#io
    const { places } = this.#options
    if (!io) throw new OsError('LINK_DOWN', `${this.#key} is closed`)
    try {
      if (!this.#ready) await this.#chip.setUp(io)
      this.#ready = true
      const all = await this.#chip.sample(io)
      return places.map(place => all[place]!)
    } catch (thrown) {
      this.#ready = false
      const error = asOsError(thrown)
      // the fault is the chip's, not the bus's: other chips continue, and this one may recover
      if (error.code === 'NO_REPLY' || error.code === 'NOT_FOUND' || error.code === 'BAD_REPLY')
        return places.map(() => ({ value: null, raw: '', error: error.message }))
      throw error
    }
  }

  #ioOf(bus: Bus): ChipIo {
    const { address, timers = systemTimers, deadlineMs = 1000 } = this.#options
    const receive = async (write: Uint8Array | null, count: number): Promise<Uint8Array> => {
      const bytes = new Uint8Array(count)
      const got = await bus.transfer(address, write, bytes, deadlineMs)
      if (got !== count) throw new OsError('BAD_REPLY', `${this.#key}: ${got} bytes instead of ${count}`)
      return bytes
    }
    return {
      read: (register, count) => receive(Uint8Array.of(register), count),
      receive: count => receive(null, count),
      write: async (...bytes) => {
        await bus.transfer(address, Uint8Array.from(bytes), null, deadlineMs)
      },
      sleep: ms => sleep(timers, Math.ceil(ms)),
    }
  }
}

export const hex = (bytes: Iterable<number>): string =>
  [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join(' ')

/** The error for a chip other than the expected one. */
export const wrongChip = (wanted: string, found: string): OsError =>
  new OsError('NOT_FOUND', `no ${wanted}: ${found}`, { hint: 'check type and address of the source' })
