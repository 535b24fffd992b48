// One chip on an I2C bus as a source's probe. Several chips share a bus: the adapter's thread takes their transfers in turn.
// What fails: nothing answers (NO_REPLY: down at the opening, later the channels are ERROR and the chip is set up anew at the
// next read, since it may have lost power), a stuck transfer (TIMEOUT, then BUS_STUCK: the link is down until the kernel
// gives the bus back; never a hang, R20), two sources for one chip (CONFIG_INVALID).
import { readlinkSync, realpathSync } from 'node:fs'
import { basename } from 'node:path'
import { asOsError, OsError } from '../../src/lib/errors'
import { sleep, systemTimers, type Timers } from '../../src/lib/timers'
import type { OpenableEvents } from '../../src/links/contracts'
import { I2cBus } from '../../src/native/i2c'
import type { Sample } from '../kit/channel'
import type { Probe } from '../kit/polled-source'

/** What a chip's driver speaks to. */
export interface ChipIo {
  /** `count` bytes from a register on, in memory of their own */
  read(register: number, count: number): Promise<Uint8Array>
  write(...bytes: number[]): Promise<void>
  /** bytes that follow from no register, in memory of their own */
  receive(count: number): Promise<Uint8Array>
  sleep(ms: number): Promise<void>
}

export interface I2cChip {
  /** Checks that it is this chip and sets it up. Throws NOT_FOUND when it is another. */
  setUp(io: ChipIo): Promise<void>
  /** A sample for each of its channels. */
  sample(io: ChipIo): Promise<readonly Sample[]>
}

/** The part of I2cBus that is used here; tests put their own chips behind it. */
export type Bus = Pick<I2cBus, 'transfer' | 'close'>

interface ChipOptions {
  name: string
  path: string
  address: number
  /** which of the chip's channels are wanted, in their order */
  places: readonly number[]
  openBus?: (path: string) => Promise<Bus>
  timers?: Timers
  deadlineMs?: number
  sysRoot?: string
}

/**
 * Throws PORT_BUSY where a driver of the kernel holds the address. The kernel itself refuses only SMBus calls to such an
 * address; whole transfers go through and disturb the driver, so sysfs is looked at on every adapter.
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
    hint: `read the chip through it (source type hwmon or iio; os-node source list), or let go of it: take its overlay out of config.txt, or echo ${device} > /sys/bus/i2c/drivers/${driver}/unbind as root`,
  })
}

/** chips that are in use, and by whom */
const claimed = new Map<string, string>()

export class ChipProbe implements Probe {
  readonly #chip: I2cChip
  readonly #options: ChipOptions
  readonly #key: string
  #io: ChipIo | undefined
  #bus: Bus | undefined
  #ready = false
  /** counts closings: a link may be closed, and opened again, while an opening is still under way */
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
      // not what was opened since
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
      // the chip, not the bus: others on it go on, and it may come back
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

/** The error of a chip that is another than it should be. */
export const wrongChip = (wanted: string, found: string): OsError =>
  new OsError('NOT_FOUND', `no ${wanted}: ${found}`, { hint: 'check type and address of the source' })
