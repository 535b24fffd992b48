// The hardware of a radio: an SPI device and up to two lines. All kernel access of this driver is here; tests pass a
// simulated chip. Errors: no device or no right (with what to do), a line in use by another process (the codes of
// src/native).
import type { Clock } from '../../src/lib/clock'
import { asOsError, OsError } from '../../src/lib/errors'
import { GpioLines } from '../../src/native/gpio'
import { SpiBus } from '../../src/native/spi'
import { type PinSpec, resolvePin } from '../board'

/** One chip select. */
export interface Spi {
  /** Sends `tx` and fills `rx` (same length; null: discard) within the deadline; rejects TIMEOUT, BUS_STUCK, LINK_DOWN … */
  transfer(tx: Uint8Array, rx: Uint8Array | null, deadlineMs: number): Promise<unknown>
  close(): void
}

export interface OutputPin {
  set(value: 0 | 1): unknown
  /** releases the line: it becomes an input again */
  close(): unknown
}

export interface InputPin {
  close(): unknown
}

export interface RadioHardware {
  openSpi(path: string, speedHz: number): Promise<Spi>
  openOutput(pin: PinSpec, initial: 0 | 1): OutputPin | Promise<OutputPin>
  /** `onRise` runs at each rising edge, `lost` once when the line's chip is unplugged. */
  openInput(pin: PinSpec, onRise: () => void, lost: (error: Error) => void): InputPin | Promise<InputPin>
}

/** Explains the usual first errors: the bus is not enabled, or the user has no right. */
export function explained(error: OsError, path: string): OsError {
  const { code, details, cause } = error
  if (code === 'NOT_FOUND')
    return new OsError(code, `${path} is not there: SPI is not enabled, or has another number`, {
      ...{ details, cause },
      hint: 'dtparam=spi=on in /boot/firmware/config.txt, then restart; ls /dev/spidev*',
    })
  if (code === 'NO_ACCESS')
    return new OsError(code, `${path} may not be opened by this user`, {
      ...{ details, cause },
      hint: 'sudo usermod -aG spi USER, then log in again or restart the service',
    })
  return error
}

export const realHardware = (clock: Clock): RadioHardware => ({
  openSpi: (path, speedHz) =>
    SpiBus.open(path, { speedHz, clock }).catch(error => {
      throw explained(asOsError(error), path)
    }),
  async openOutput(pin, initial) {
    const { chip, line } = resolvePin(pin)
    const lines = await GpioLines.request(chip, {
      lines: [line],
      direction: 'output',
      initial: [initial],
      consumer: 'os-node lora',
    })
    return { set: value => lines.set(0, value), close: () => lines.close() }
  },
  async openInput(pin, onRise, lost) {
    const { chip, line } = resolvePin(pin)
    const lines = await GpioLines.request(chip, {
      lines: [line],
      direction: 'input',
      edges: 'rising',
      consumer: 'os-node lora',
    })
    lines.onEdges(() => onRise(), lost)
    return { close: () => lines.close() }
  },
})
