// One output: set by CLI and API, and read like any other channel. When an unplugged chip returns, the output gets its
// last value again; a reload of the configuration passes the line on unchanged (held-lines.ts); `on_start` applies only
// to the start of the gateway. Errors: the line cannot be opened, the chip is unplugged.
import { OsError } from '../../src/lib/errors'
import type { GpioLines } from '../../src/native/gpio'
import type { OutputOptions } from './gpio-options'
import { formOf, park, unpark } from './held-lines'
import { type GpioWorld, requestPin } from './lines'
import type { PinState } from './pin-state'

export class GpioOutput {
  readonly #options: OutputOptions
  readonly #world: GpioWorld
  #lines: GpioLines | undefined
  /** the last value set or read */
  #level: 0 | 1 | null = null
  readonly #state: PinState
  /** counts openings and closings, to discard lines that arrive after a close */
  #run = 0

  constructor(
    readonly name: string,
    options: OutputOptions,
    world: GpioWorld,
    state: PinState,
  ) {
    this.#options = options
    this.#world = world
    this.#state = state
  }

  /** Rejects like requestPin. */
  async open(): Promise<void> {
    const run = ++this.#run
    const { lines, wanted } = await this.#held()
    if (run !== this.#run) {
      await lines.close()
      throw new OsError('LINK_DOWN', `${this.name} was closed while opening`)
    }
    this.#lines = lines
    this.#state.closedNs = Number.POSITIVE_INFINITY
    this.#level = wanted
  }

  /** The line with its current level: taken over if it is held already, otherwise requested. */
  async #held(): Promise<{ lines: GpioLines; wanted: 0 | 1 }> {
    const { active_low, drive, on_start, initial } = this.#options
    const wanted = this.#state.wanted ?? on_start ?? initial
    const parked = unpark(this.#world, this.#options, formOf(this.#options))
    if (parked) {
      const { lines, stays } = parked
      if (stays) return { lines, wanted: ((await lines.values()) & 1) as 0 | 1 }
      await lines.set(0, wanted)
      return { lines, wanted }
    }
    const lines = await requestPin(this.#world, this.name, this.#options, {
      direction: 'output',
      consumer: `os-node ${this.name}`,
      active_low,
      drive,
      initial: [wanted],
    })
    return { lines, wanted }
  }

  /** Keeps the line open for its next user and closes this output. The returned function releases the line if no one took it. */
  park(): () => Promise<void> {
    const lines = this.#lines
    const { on_stop } = this.#options
    this.#lines = undefined
    if (!lines) return async () => undefined
    const form = formOf(this.#options)
    return park(this.#world, this.#options, {
      lines,
      form,
      stays: true,
      ...(on_stop !== 'keep' && { onStop: on_stop }),
    })
  }

  /** The logical value last set or read; null while closed. */
  get level(): 0 | 1 | null {
    return this.#level
  }

  /** The level as the chip reports it. Rejects when the chip is unplugged, hangs or is closed. */
  async value(): Promise<0 | 1> {
    const lines = this.#opened()
    const level = ((await lines.values()) & 1) as 0 | 1
    if (this.#lines === lines) this.#level = level
    return level
  }

  /** Rejects like value(); the value is not remembered then. */
  async set(value: 0 | 1): Promise<void> {
    const lines = this.#opened()
    await lines.set(0, value)
    this.#state.wanted = value
    if (this.#lines === lines) this.#level = value
  }

  #opened(): GpioLines {
    if (!this.#lines) throw new OsError('LINK_DOWN', `${this.name} is not open`)
    return this.#lines
  }

  /** `stopping`: the gateway stops, so on_stop applies. Never rejects. */
  async close(stopping: boolean): Promise<void> {
    const { on_stop } = this.#options
    const lines = this.#lines
    this.#run++
    this.#lines = undefined
    this.#level = null
    this.#state.closedNs = this.#world.nowNs()
    try {
      if (stopping && on_stop !== 'keep') await lines?.set(0, on_stop)
    } catch {
      // the chip is unplugged, and its levels are lost
    }
    await lines?.close()
  }
}
