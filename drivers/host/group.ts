// Shared by all host sources: a group is scanned when it is opened and sampled at every read, in the order of the scan
// (decision 0025). Errors: nothing found (NOT_FOUND with the reason; the link is down and rarely retried); one sensor fails (its
// channel stays, status ERROR, no value); all sensors fail because their files are gone (LINK_DOWN: reopening scans
// again).
import { OsError } from '../../src/lib/errors'
import type { Sensor, Source, SourceReading } from '../../src/links/contracts'
import { safeNames } from '../../src/links/names'
import { matcher } from '../kit/match'

export interface HostSensor {
  /** native name; the group makes it safe */
  readonly id: string
  /** UCUM */
  readonly unit: string
}

/** The data source of a group. */
export interface HostProbe<S extends HostSensor = HostSensor> {
  /** sensors that every machine has, known before the scan */
  readonly known?: readonly HostSensor[]
  /** Every sensor, in a fixed order. Throws NOT_FOUND with a reason if there is none. */
  scan(): Promise<readonly S[]>
  /** A value for each of `sensors`, null for a failed one. Throws when the entire group is gone. */
  sample(sensors: readonly S[]): Promise<readonly (number | null)[]>
}

export interface GroupOptions {
  type: string
  intervalMs: number
  match?: string
}

export class HostGroup<S extends HostSensor> implements Source {
  readonly type: string
  readonly intervalMs: number
  /** rx counts values read, errors counts sensors without a value */
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #probe: HostProbe<S>
  readonly #pattern: string | undefined
  readonly #matches: (name: string) => boolean
  #sensors: readonly S[] = []
  #ids: readonly string[] = []
  readonly #failed = new Set<string>()

  constructor(
    readonly name: string,
    { type, intervalMs, match }: GroupOptions,
    probe: HostProbe<S>,
  ) {
    this.type = type
    this.intervalMs = intervalMs
    this.#probe = probe
    this.#pattern = match
    this.#matches = matcher(match)
  }

  async open(): Promise<void> {
    const all = await this.#probe.scan()
    const ids = safeNames(all.map(sensor => sensor.id))
    const chosen = all.map((sensor, k) => ({ sensor, id: ids[k]! })).filter(({ id }) => this.#matches(id))
    if (chosen.length === 0)
      throw new OsError('NOT_FOUND', `no ${this.type} sensor matches ${this.#pattern}`, {
        hint: `there are: ${ids.slice(0, 20).join(', ')}${ids.length > 20 ? ', …' : ''}`,
      })
    this.#sensors = chosen.map(({ sensor }) => sensor)
    this.#ids = chosen.map(({ id }) => id)
  }

  get sensors(): readonly Sensor[] {
    const known = this.#probe.known ?? []
    return known.filter(({ id }) => this.#matches(id)).map(({ id, unit }) => ({ id, unit, fixed: true }))
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  whyNot(id: string): string | undefined {
    return this.#failed.has(id) ? 'no value reported' : undefined
  }

  async read(): Promise<readonly SourceReading[]> {
    this.#failed.clear()
    const values = await this.#probe.sample(this.#sensors)
    return this.#sensors.map((sensor, k) => {
      const value = values[k] ?? null
      const ok = value !== null && Number.isFinite(value)
      if (ok) this.counters.rx++
      else {
        this.counters.errors++
        this.#failed.add(this.#ids[k]!)
      }
      return [this.#ids[k]!, ok ? 'OK' : 'ERROR', ok ? value : null, sensor.unit]
    })
  }
}

/** Names for several devices of one kind: the plain name if it is unique, else with a distinguishing suffix. */
export function distinct(named: readonly (readonly [name: string, apart: string])[]): string[] {
  const counts = new Map<string, number>()
  for (const [name] of named) counts.set(name, (counts.get(name) ?? 0) + 1)
  return named.map(([name, apart]) => (counts.get(name) === 1 ? name : `${name}_${apart}`))
}
