// A chip on an SPI bus by the kernel's spidev. Transfers are full duplex and in order; see native-thread.ts for
// deadlines.
import { OsError } from '../lib/errors'
import { type BusOptions, DEFAULT_DEADLINE_MS, NativeThread } from './native-thread'

interface SpiSettings extends BusOptions {
  /** clock polarity and phase (0 … 3), and the SPI_… flags of linux/spi/spi.h; default 0 */
  mode?: number
  /** default 1 MHz */
  speedHz?: number
  /** default 8 */
  bitsPerWord?: number
  /** for opening; default 1 s */
  deadlineMs?: number
}

export class SpiBus {
  readonly #bus: NativeThread

  private constructor(bus: NativeThread) {
    this.#bus = bus
  }

  /** Throws NOT_FOUND (no such device: the overlay), NO_ACCESS (the group spi), TIMEOUT, BUS_STUCK, E_NO_ADDON. */
  static async open(path: string, settings: SpiSettings = {}): Promise<SpiBus> {
    const { mode = 0, speedHz = 1_000_000, bitsPerWord = 8, deadlineMs = DEFAULT_DEADLINE_MS } = settings
    const bus = new NativeThread(path, settings)
    try {
      await bus.call((addon, handle) => addon.spiOpen(handle, path, mode, speedHz, bitsPerWord), 'open', deadlineMs)
      return new SpiBus(bus)
    } catch (error) {
      bus.close()
      throw error
    }
  }

  /** a transfer has missed its deadline and is still in the kernel */
  get stuck(): boolean {
    return this.#bus.stuck
  }

  /**
   * One transfer: sends `tx` and fills `rx` (same length) with the bytes received meanwhile (null: discard). `rx`
   * belongs to the call until it is settled. Resolves with the bytes transferred.
   */
  transfer(tx: Uint8Array, rx: Uint8Array | null, deadlineMs: number): Promise<number> {
    if (rx && rx.length !== tx.length)
      return Promise.reject(new OsError('INTERNAL', 'tx and rx must have equal lengths'))
    return this.#bus.call((addon, bus) => addon.spiTransfer(bus, tx, rx ? 1 : 0), 'transfer', deadlineMs, rx)
  }

  /** Rejects pending calls; safe to call twice, and while stuck. */
  close(): void {
    this.#bus.close()
  }
}
