// Wear of the medium of the data directory: the bytes the kernel wrote to its partition (all processes, file system journal
// included) compared with the configured endurance. No report if the kernel has no counter (a RAM disk, an overlay, not
// Linux).
import { uptime } from 'node:os'
import type { Clock } from '../../lib/clock'
import { orElse } from '../../lib/errors'
import { type Partition, partitionOf } from '../../lib/files'
import { DayCounter } from '../../log'

/** Part of the status. */
export interface FlashReport {
  /** the partition, as the kernel names it */
  device: string
  /** bytes written to the partition since midnight UTC; since the start of the gateway if the machine started before today */
  bytes_written_today: number
  /** gateway.flash.endurance_tb, in bytes */
  endurance_bytes: number
  /** percent of the endurance used per year, at the mean rate since the machine started; null in its first hour */
  wear_percent_year: number | null
}

const SECTOR = 512
const LEAST_UPTIME_S = 3600
const YEAR_S = 31_557_600

/** The machine; tests replace it. */
export interface FlashMachine {
  readonly sys?: string
  readonly uptimeS?: () => number
}

export class FlashWear {
  readonly #partition: Partition
  readonly #today: DayCounter
  readonly #uptimeS: () => number

  private constructor(partition: Partition, clock: Clock, uptimeS: () => number) {
    this.#partition = partition
    this.#uptimeS = uptimeS
    const startedToday = (clock.wall() % 86_400_000) / 1000 >= uptimeS()
    const before = startedToday ? 0 : this.#written()
    this.#today = new DayCounter(clock, () => this.#written() - before, [])
  }

  /** undefined: the kernel does not count writes to this directory. */
  static of(dir: string, clock: Clock, { sys, uptimeS = uptime }: FlashMachine = {}): FlashWear | undefined {
    return orElse(undefined, () => new FlashWear(partitionOf(dir, sys), clock, uptimeS))
  }

  report(enduranceTb: number): FlashReport | undefined {
    return orElse(undefined, () => {
      const [endurance, upS] = [enduranceTb * 1e12, this.#uptimeS()]
      const wear = ((this.#written() / upS) * YEAR_S * 100) / endurance
      return {
        device: this.#partition.name,
        bytes_written_today: this.#today.bytes,
        endurance_bytes: endurance,
        wear_percent_year: upS < LEAST_UPTIME_S ? null : Math.round(wear * 100) / 100,
      }
    })
  }

  /** Throws if the medium was removed. */
  #written(): number {
    return Number(this.#partition.stat().trim().split(/\s+/)[6]) * SECTOR
  }
}
