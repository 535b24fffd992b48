// The source type `gpio`: a group of inputs and outputs, read at an interval, and immediately when an input of mode
// edge changes. Errors: a pin that cannot be opened (the group does not open, the error names the pin); an unplugged
// chip (the group is lost and reopens as soon as a chip appears; outputs return to their last value).
import { existsSync, watch } from 'node:fs'
import { join } from 'node:path'
import { OsError } from '../../src/lib/errors'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { Counts, OpenableEvents, Outputs } from '../../src/links/contracts'
import { type Sample, ValueChannel } from '../kit/channel'
import { PolledSource, type Probe } from '../kit/polled-source'
import type { GpioOptions } from './gpio-options'
import { GpioInput } from './input'
import { defaultName, type GpioWorld, kernelGpio } from './lines'
import { GpioOutput } from './output'
import { pinStateOf } from './pin-state'

/** UCUM unit per mode, unless `unit` overrides it */
const UNITS = { level: '{1}', edge: '{1}', counter: '{pulses}', frequency: 'Hz' } as const

class GpioProbe implements Probe {
  readonly detail = { edges: 0, missed_edges: 0 }
  readonly #inputs: readonly GpioInput[]
  readonly #outputs: readonly GpioOutput[]
  readonly #minGapMs: number
  readonly #timers: Timers
  #events: OpenableEvents | undefined
  /** the chip was unplugged: outputs are not set to their stop value */
  #lost = false
  #cancelGap: (() => void) | undefined
  /** a change arrived during the pause */
  #again = false

  constructor(inputs: readonly GpioInput[], outputs: readonly GpioOutput[], minGapMs: number, timers: Timers) {
    this.#inputs = inputs
    this.#outputs = outputs
    this.#minGapMs = minGapMs
    this.#timers = timers
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#events = events
    this.#lost = false
    const hear = { changed: () => this.due(), lost: (reason: string) => this.#goes(reason) }
    for (const input of this.#inputs) await input.open(hear)
    for (const output of this.#outputs) await output.open()
  }

  async close(): Promise<void> {
    this.#events = undefined
    this.#cancelGap?.()
    this.#cancelGap = undefined
    this.#count()
    // in parallel: a chip that hangs is waited for only once
    await Promise.all([
      ...this.#inputs.map(input => input.close()),
      ...this.#outputs.map(output => output.close(!this.#lost)),
    ])
  }

  async sample(): Promise<readonly Sample[]> {
    try {
      const samples: Sample[] = []
      for (const input of this.#inputs) {
        const value = await input.value()
        samples.push({ value, raw: input.raw(value) })
      }
      for (const output of this.#outputs) {
        const value = await output.value()
        samples.push({ value, raw: `output ${value}` })
      }
      this.#count()
      return samples
    } catch (error) {
      this.#lost = true
      throw error
    }
  }

  #count(): void {
    this.detail.edges = this.#inputs.reduce((sum, { count }) => sum + count, 0)
    this.detail.missed_edges = this.#inputs.reduce((sum, { missed }) => sum + missed, 0)
  }

  #goes(reason: string): void {
    this.#lost = true
    this.#events?.lost(reason)
  }

  /** Requests a reading now, or at the end of the pause after the last one. */
  due(): void {
    if (this.#cancelGap) {
      this.#again = true
      return
    }
    this.#again = false
    this.#cancelGap = this.#timers.after(this.#minGapMs, () => {
      this.#cancelGap = undefined
      if (this.#again) this.due()
    })
    this.#events?.due?.()
  }
}

interface GpioParts {
  world?: GpioWorld
  timers?: Timers
  /** folder of the device files */
  dev?: string
}

export class GpioSource extends PolledSource {
  readonly outputs: Outputs
  readonly #dev: string
  readonly #held: readonly GpioOutput[]
  readonly #inputs: readonly GpioInput[]

  /** Throws CONFIG_INVALID when two pins have the same name. */
  constructor(
    name: string,
    { interval_ms, min_gap_ms, pins, outputs }: GpioOptions,
    { world = kernelGpio, timers = systemTimers, dev = '/dev' }: GpioParts = {},
  ) {
    const named = pins.map(pin => ({ ...pin, name: pin.name ?? defaultName(pin) }))
    const outs = outputs.map(pin => ({ ...pin, name: pin.name ?? defaultName(pin) }))
    const channels = [
      ...named.map(pin => new ValueChannel({ ...pin, id: pin.name, unit: pin.unit ?? UNITS[pin.mode] })),
      ...outs.map(({ name: id, status }) => new ValueChannel({ id, unit: UNITS.level, status })),
    ]
    const held = outs.map(pin => new GpioOutput(pin.name, pin, world, pinStateOf(world, name, pin.name, 'output', pin)))
    const inputs = named.map(
      pin => new GpioInput(pin.name, pin, world, pinStateOf(world, name, pin.name, pin.mode, pin)),
    )
    const probe = new GpioProbe(inputs, held, min_gap_ms, timers)
    super(name, { type: 'gpio', intervalMs: interval_ms, channels }, probe)
    this.outputs = outputsOf(held, () => probe.due())
    this.#dev = dev
    this.#held = held
    this.#inputs = inputs
  }

  resume({ logged, kept, keep }: Counts): void {
    for (const [k, input] of this.#inputs.entries()) {
      const channel = this.sensors[k]!
      if (!input.counts) continue
      const value = logged(channel.id, channel.unit)
      const count = value === undefined ? Number.NaN : Math.round(channel.rawOf(value))
      // saved per scale: after a change of scale the logged value continues without a jump
      const name = `${channel.id} ${channel.conversion}`
      const last = Math.max(Number.isSafeInteger(count) ? count : 0, kept(name) ?? 0)
      input.resume(last, now => keep(name, now))
    }
  }

  handOn(): () => Promise<void> {
    const left = this.#held.map(output => output.park())
    return async () => {
      for (const letGo of left) await letGo()
    }
  }

  override onReturn(back: () => void): () => void {
    try {
      const watcher = watch(this.#dev, (_, file) => {
        if (file?.startsWith('gpiochip') && existsSync(join(this.#dev, file))) back()
      })
      watcher.on('error', () => watcher.close())
      return () => watcher.close()
    } catch {
      return () => undefined // this machine has no file watches left: only the pause decides
    }
  }
}

function outputsOf(held: readonly GpioOutput[], changed: () => void): Outputs {
  return {
    list: () => held.map(({ name, level }) => ({ name, value: level })),
    set: async (name, value) => {
      const output = held.find(one => one.name === name)
      if (!output)
        throw new OsError('NOT_FOUND', `no output is named ${name}`, {
          hint: held.length > 0 ? `outputs: ${held.map(one => one.name).join(', ')}` : 'this source has no outputs',
        })
      await output.set(value)
      changed()
    },
  }
}
