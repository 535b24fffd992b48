// Values of each sensor since the page was opened: for the sparklines, and for the right end of the plots.
import type { Readings } from './types'

const KEPT = 600

export interface Series {
  /** UNIX ms, rising */
  readonly t: number[]
  readonly v: number[]
}

const seriesKey = (device: string, sensor: string): string => JSON.stringify([device, sensor])

export class History {
  readonly #series = new Map<string, Series>()

  add({ device_id, t_raw, sensors }: Readings): void {
    for (const { id, value } of sensors) {
      if (value === null) continue
      const key = seriesKey(device_id, id)
      let series = this.#series.get(key)
      if (!series) {
        series = { t: [], v: [] }
        this.#series.set(key, series)
      }
      // the same reading arrives as an event and in the next round
      if (t_raw <= (series.t.at(-1) ?? 0)) continue
      series.t.push(t_raw)
      series.v.push(value)
      if (series.t.length > KEPT) {
        series.t.shift()
        series.v.shift()
      }
    }
  }

  of(device: string, sensor: string): Series {
    return this.#series.get(seriesKey(device, sensor)) ?? { t: [], v: [] }
  }

  clear(): void {
    this.#series.clear()
  }
}
