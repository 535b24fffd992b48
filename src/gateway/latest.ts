// The newest fact of every device and group of sensors, for the faces. Bounded: the group that was silent longest leaves.
import type { Fact, LinkMetadata } from '../pipeline/fact'

export interface LatestReading {
  device_id: string
  state: string
  t_raw: number
  source_aid: number
  medium: string
  address?: string
  sensors: { id: string; status: string; unit: string; value: number | null }[]
}

const GROUPS = 512

/** A fact as every face shows it. */
export const latestOf = (fact: Fact, { medium, address }: LinkMetadata): LatestReading => ({
  device_id: fact.id,
  state: fact.state,
  t_raw: fact.tRaw,
  source_aid: fact.aid,
  medium,
  ...(address !== undefined && { address }),
  sensors: fact.sensors,
})

/** Bounded by GROUPS. `latest`: ms after which a kept time is not believed any more, when this machine's own became right (X36). */
export class LatestBoard {
  readonly #latest: () => number
  readonly #groups = new Map<string, LatestReading>()

  constructor(latest: () => number = () => Number.POSITIVE_INFINITY) {
    this.#latest = latest
  }

  note(fact: Fact, link: LinkMetadata): void {
    // own sensors keep their place when the gateway gets its id
    const source = link.medium === 'local' ? 'local' : String(fact.aid)
    const key = `${source} ${fact.id} ${fact.sensors.length} ${fact.sensors[0]?.id ?? ''}`
    const old = this.#groups.get(key)
    if (old && old.t_raw > fact.tRaw && old.t_raw <= this.#latest()) return
    this.#groups.delete(key)
    if (this.#groups.size >= GROUPS)
      for (const first of this.#groups.keys()) return void this.#replace(first, key, fact, link)
    this.#put(key, fact, link)
  }

  /** Sorted by device and first sensor, so that a page does not jump. */
  list(): LatestReading[] {
    return [...this.#groups.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, reading]) => reading)
  }

  /** The newest values of this machine's sensors, by id. */
  own(): Record<string, number | null> {
    const own = [...this.#groups.values()].filter(({ medium }) => medium === 'local')
    return Object.fromEntries(own.flatMap(({ sensors }) => sensors.map(({ id, value }) => [id, value])))
  }

  #replace(oldest: string, key: string, fact: Fact, link: LinkMetadata): void {
    this.#groups.delete(oldest)
    this.#put(key, fact, link)
  }

  #put(key: string, fact: Fact, link: LinkMetadata): void {
    this.#groups.set(key, latestOf(fact, link))
  }
}
