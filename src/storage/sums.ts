// Sums of the open window, updated per packet: a query over all rows of a window takes longer than writing them. They become
// invalid when rows change or are removed, or if there are too many sums; a query computes them then.

import type { Fact } from '../pipeline/fact'
import { addNumber, type Numbers, noNumbers, valuesOf } from './numbers'
import { type EncodedSeries, WindowSeries } from './series'
import type { SensorSum, Sum } from './windowfile'

/** maximum number of sums: each takes about 200 bytes */
const MOST = 20_000

interface Rows {
  count: number
  first: number
  last: number
}

interface SensorRows extends Rows {
  /** its number among the series */
  readonly index: number
  readonly numbers: Numbers
  unit: string
  other: string
}

type Table<S> = Map<string, Map<string, S>>

const byBytes = (a: string, b: string): number => (a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b)))

function take(rows: Rows, at: number): void {
  rows.count++
  if (at < rows.first) rows.first = at
  if (at > rows.last) rows.last = at
}

function addUnit(to: SensorRows, unit: string): void {
  if (unit !== to.unit && byBytes(unit, to.unit) < 0) to.unit = unit
  if (unit !== to.other && byBytes(unit, to.other) > 0) to.other = unit
}

/** The sums in the order of their names. */
const listed = <S, L>(table: Table<S>, make: (device: string, of: string, sum: S) => L): L[] =>
  [...table]
    .sort(([a], [b]) => byBytes(a, b))
    .flatMap(([device, sums]) => [...sums].sort(([a], [b]) => byBytes(a, b)).map(([of, sum]) => make(device, of, sum)))

export class WindowSums {
  #statuses: Table<Rows> = new Map()
  #sensors: Table<SensorRows> = new Map()
  readonly #series = new WindowSeries()
  #size = 0
  /** they match the rows */
  sound = true

  clear(): void {
    this.#statuses = new Map()
    this.#sensors = new Map()
    this.#series.clear()
    this.#size = 0
    this.sound = true
  }

  /** Frees sums that became invalid. */
  drop(): void {
    this.clear()
    this.sound = false
  }

  /** Adds a packet of the time `at` (UNIX seconds). */
  add({ id, state, sensors }: Fact, at: number): void {
    if (!this.sound) return
    take(
      this.#of(this.#statuses, id, state, () => ({ count: 0, first: at, last: at })),
      at,
    )
    for (const { id: sensor, value, unit } of sensors) {
      const sum = this.#of(this.#sensors, id, sensor, () => ({
        ...{ index: this.#series.sensor(), count: 0, first: at, last: at },
        ...{ numbers: noNumbers(), unit, other: unit },
      }))
      take(sum, at)
      addUnit(sum, unit)
      if (value !== null) addNumber(sum.numbers, value)
      this.#series.add(sum.index, at, value)
    }
    if (this.#size > MOST) this.drop()
  }

  get statuses(): Sum[] {
    return listed(this.#statuses, (device, of, { count, first, last }) => [device, of, count, first, last])
  }

  get sensors(): SensorSum[] {
    return listed(this.#sensors, (device, of, { count, first, last, numbers, unit, other }) => [
      ...([device, of, count, first, last] as const),
      ...valuesOf(numbers),
      ...([unit, other] as const),
    ])
  }

  /** The values of `sensors`, in their order. */
  get series(): EncodedSeries {
    return this.#series.encode(listed(this.#sensors, (_device, _of, sum) => sum))
  }

  #of<S>(table: Table<S>, device: string, of: string, make: () => S): S {
    let sums = table.get(device)
    if (!sums) table.set(device, (sums = new Map()))
    let sum = sums.get(of)
    if (!sum) {
      sums.set(of, (sum = make()))
      this.#size++
    }
    return sum
  }
}
