// One output: set by CLI and API, and a reading like any other. After a chip was pulled it comes back with the value it was
// last set to; `initial` counts only for the start of the gateway. What fails: the line cannot be had, the chip is gone.
import type { GpioLines } from '../../src/native/gpio'
import { type GpioWorld, requestPin } from './lines'
import type { OutputOptions } from './options'

export class Output {
  readonly #options: OutputOptions
  readonly #world: GpioWorld
  #lines: GpioLines | undefined
  #wanted: 0 | 1

  constructor(
    readonly name: string,
    options: OutputOptions,
    world: GpioWorld,
  ) {
    this.#options = options
    this.#world = world
    this.#wanted = options.initial
  }

  /** Throws as requestPin does. */
  open(): void {
    const { active_low, drive } = this.#options
    this.#lines = requestPin(this.#world, this.name, this.#options, {
      direction: 'output',
      consumer: `os-node ${this.name}`,
      active_low,
      drive,
      initial: [this.#wanted],
    })
  }

  /** The level as the chip has it, as a logical value; null while closed. Throws when the chip is gone. */
  value(): 0 | 1 | null {
    return this.#lines ? ((this.#lines.values() & 1) as 0 | 1) : null
  }

  /** Throws when the chip is gone. */
  set(value: 0 | 1): void {
    this.#lines?.set(0, value)
    this.#wanted = value
  }

  /** `stopping`: for good, so that on_stop counts. Never throws. */
  close(stopping: boolean): void {
    const { on_stop } = this.#options
    try {
      if (stopping && on_stop !== 'keep') this.#lines?.set(0, on_stop)
    } catch {
      // the chip is gone, and its levels with it
    }
    this.#lines?.close()
    this.#lines = undefined
  }
}
