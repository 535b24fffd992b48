// Radios on chips in memory that hear each other, with a clock that the test moves.
import assert from 'node:assert/strict'
import { createLora } from '../../../../drivers/lora'
import { silentLogger } from '../../../../src/lib/logger'
import type { Medium, PacketOrigin } from '../../../../src/links/contracts'
import { ManualClock, ManualTimers } from '../../../lib/manual'
import { prng } from '../../../lib/random'
import { FakeAir, FakeChip } from './fake'

export const bytes = (n: number, from = 1): Uint8Array => Uint8Array.from({ length: n }, (_, k) => (k * 7 + from) & 255)
export const hex = (packet: Uint8Array): string => Buffer.from(packet).toString('hex')

let stations = 0

export class World {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly air = new FakeAir(this.timers)

  station(options: Record<string, unknown> = {}, dataDir?: string): Station {
    const chip = new FakeChip(this.air)
    const pins = { dio0_pin: 'GPIO25', reset_pin: 'GPIO22' }
    // its own SPI device: an opened device is shared
    const all = { spi: `/dev/fake${++stations}`, ...pins, region: 'none', frequency_hz: 868_100_000, ...options }
    const parts = { clock: this.clock, logger: silentLogger, ...(dataDir !== undefined && { dataDir }) }
    const more = { hardware: chip, timers: this.timers, random: prng(stations), budgets: new Map() }
    return new Station(chip, createLora('radio', all, parts, more), this)
  }

  async run(ms: number, step = 2): Promise<void> {
    for (let t = 0; t < ms; t += step) await this.timers.advance(Math.min(step, ms - t))
  }
}

class Station {
  readonly heard: { packet: string; origin: PacketOrigin }[] = []
  readonly reasons: string[] = []
  lost: string | undefined

  constructor(
    readonly chip: FakeChip,
    readonly medium: Medium,
    readonly world: World,
  ) {
    medium.onPacket((packet, origin) => this.heard.push({ packet: hex(packet), origin }))
  }

  async open(): Promise<this> {
    const events = { lost: (why: string) => void (this.lost = why), degraded: (why: string) => this.reasons.push(why) }
    await this.within(this.medium.open(events))
    return this
  }

  /** The clock runs until the promise settles. */
  async within<T>(promise: Promise<T>, ms = 5000): Promise<T> {
    let settled = false
    promise.then(
      () => (settled = true),
      () => (settled = true),
    )
    for (let t = 0; !settled && t < ms; t += 2) await this.world.run(2)
    assert.ok(settled, `not within ${ms} ms`)
    return promise
  }

  send(packet: Uint8Array): Promise<boolean> {
    return this.within(this.medium.send(packet))
  }

  get detail(): Readonly<Record<string, number>> {
    return this.medium.counters.detail!
  }
}

export const pair = async (
  options: Record<string, unknown> = {},
  more: Record<string, unknown> = {},
): Promise<[Station, Station, World]> => {
  const world = new World()
  return [await world.station(options).open(), await world.station({ ...options, ...more }).open(), world]
}

export const end = async (...all: Station[]): Promise<void> => {
  for (const { medium, chip, world } of all) {
    const closed = medium.close()
    await world.run(100)
    await closed
    assert.deepEqual([chip.openSpis, chip.pins], [0, 0], 'bus and lines are released')
  }
}
