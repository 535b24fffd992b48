// What a radio is wired to: an SPI device and up to two lines. Here the driver meets the kernel; tests hand in a chip
// made of registers instead. What fails: no device, no right, a line that somebody else has (the codes of src/native).
import type { Clock } from '../../src/lib/clock'
import { GpioLines } from '../../src/native/gpio'
import { SpiBus } from '../../src/native/spi'
import { type PinSpec, resolvePin } from '../board'

/** One chip select. */
export interface Spi {
  /** Sends `tx` and fills `rx` (as long; null: not asked for) within the deadline; rejects TIMEOUT, BUS_STUCK, LINK_DOWN … */
  transfer(tx: Uint8Array, rx: Uint8Array | null, deadlineMs: number): Promise<unknown>
  close(): void
}

export interface OutputPin {
  set(value: 0 | 1): void
  /** gives the line back: an input again */
  close(): void
}

export interface InputPin {
  close(): void
}

export interface Hardware {
  openSpi(path: string, speedHz: number): Promise<Spi>
  openOutput(pin: PinSpec, initial: 0 | 1): OutputPin
  /** `onRise` runs for each rising edge, `lost` once when the chip of the line is gone. */
  openInput(pin: PinSpec, onRise: () => void, lost: (error: Error) => void): InputPin
}

export const realHardware = (clock: Clock): Hardware => ({
  openSpi: (path, speedHz) => SpiBus.open(path, { speedHz, clock }),
  openOutput(pin, initial) {
    const { chip, line } = resolvePin(pin)
    const lines = GpioLines.request(chip, {
      lines: [line],
      direction: 'output',
      initial: [initial],
      consumer: 'os-node lora',
    })
    return { set: value => lines.set(0, value), close: () => lines.close() }
  },
  openInput(pin, onRise, lost) {
    const { chip, line } = resolvePin(pin)
    const lines = GpioLines.request(chip, {
      lines: [line],
      direction: 'input',
      edges: 'rising',
      consumer: 'os-node lora',
    })
    lines.onEdges(() => onRise(), lost)
    return { close: () => lines.close() }
  },
})
