// A chip on an SPI bus by the kernel's spidev. Transfers are full duplex and in order; see native-thread.ts for
// deadlines. No driver needs transferAll: the specification wants messages of several segments (SPI_IOC_MESSAGE(n)).
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

/** One part of a message, while the chip stays selected. Without tx zeros are sent; tx and rx have equal lengths. */
export interface SpiSegment {
  tx?: Uint8Array
  rx?: Uint8Array
  /** default: the bus's */
  speedHz?: number
  bitsPerWord?: number
  /** after the segment, in µs */
  delayUs?: number
  /** deselects the chip after this segment; after the last one: keeps it selected */
  csChange?: boolean
}

const WORDS = 4
const [SENDS, RECEIVES, RELEASES] = [1, 2, 4]

export class SpiBus {
  readonly #bus: NativeThread
  readonly #one = new Uint32Array(WORDS)

  private constructor(bus: NativeThread) {
    this.#bus = bus
  }

  /** Throws NOT_FOUND (no such device: the overlay), NO_ACCESS (the group spi), TIMEOUT, BUS_STUCK, E_NO_ADDON. */
  static async open(path: string, settings: SpiSettings = {}): Promise<SpiBus> {
    const { mode = 0, speedHz = 1_000_000, bitsPerWord = 8, deadlineMs = DEFAULT_DEADLINE_MS } = settings
    const bus = new NativeThread(path, settings)
    try {
      await bus.finish(bus.addon.spiOpen(bus.handle, path, mode, speedHz, bitsPerWord), 'open', deadlineMs)
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
    const refusal = this.#bus.refusal()
    if (refusal) return Promise.reject(refusal)
    if (rx && rx.length !== tx.length) return Promise.reject(unequal())
    this.#one[0] = tx.length
    this.#one[1] = rx ? SENDS! | RECEIVES! : SENDS!
    const job = this.#bus.addon.spiTransfer(this.#bus.handle, this.#one, tx, tx.length)
    return this.#bus.finish(job, 'transfer', deadlineMs, rx)
  }

  /** Several segments in one message (SPI_IOC_MESSAGE(n)), at most 31. Resolves with the bytes transferred. */
  async transferAll(segments: readonly SpiSegment[], deadlineMs: number): Promise<number> {
    const refusal = this.#bus.refusal()
    if (refusal) throw refusal
    const words = new Uint32Array(segments.length * WORDS)
    let total = 0
    segments.forEach(({ tx, rx, speedHz = 0, delayUs = 0, bitsPerWord = 0, csChange }, k) => {
      if (tx && rx && tx.length !== rx.length) throw unequal()
      for (const [name, value, most] of [
        ['speedHz', speedHz, 0xffff_ffff],
        ['delayUs', delayUs, 0xffff],
        ['bitsPerWord', bitsPerWord, 0xff],
      ] as const)
        if (!Number.isInteger(value) || value < 0 || value > most)
          throw new OsError('INTERNAL', `${name} is a whole number from 0 to ${most}, not ${value}`)
      const length = (tx ?? rx)?.length ?? 0
      const flags = (tx ? SENDS! : 0) | (rx ? RECEIVES! : 0) | (csChange ? RELEASES! : 0)
      words.set([length, flags, speedHz, delayUs | (bitsPerWord << 16)], k * WORDS)
      total += length
    })
    const bytes = new Uint8Array(total)
    let at = 0
    for (const { tx, rx } of segments) {
      if (tx) bytes.set(tx, at)
      at += (tx ?? rx)?.length ?? 0
    }
    const job = this.#bus.addon.spiTransfer(this.#bus.handle, words, bytes, total)
    const result = await this.#bus.finish(job, 'transfer', deadlineMs, bytes)
    at = 0
    for (const { tx, rx } of segments) {
      const length = (tx ?? rx)?.length ?? 0
      rx?.set(bytes.subarray(at, at + length))
      at += length
    }
    return result
  }

  /** Rejects pending calls; safe to call twice, and while stuck. */
  close(): void {
    this.#bus.close()
  }
}

const unequal = (): OsError => new OsError('INTERNAL', 'tx and rx must have equal lengths')
