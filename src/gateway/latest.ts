// The newest fact of every device and group of sensors, for the user interfaces. Bounded: the group without updates for
// longest is evicted.
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

/** A fact in the form that every user interface shows. */
export function latestOf({ id, state, tRaw, aid, sensors }: Fact, { medium, address }: LinkMetadata): LatestReading {
  const reading: LatestReading = { device_id: id, state, t_raw: tRaw, source_aid: aid, medium, sensors }
  if (address !== undefined) reading.address = address
  return reading
}

/**
 * Bounded by GROUPS. A sensor is in one group of its device: that of its newest fact. `latest`: the ms after which a stored
 * time is no longer trusted once this machine's own time is correct (X36).
 */
export class LatestBoard {
  readonly #latest: () => number
  /** groups by device, the device without updates for longest first; no LruMap: the bound counts groups */
  readonly #devices = new Map<string, LatestReading[]>()
  #size = 0
  /** the last key of `#devices` */
  #newest = ''

  constructor(latest: () => number = () => Number.POSITIVE_INFINITY) {
    this.#latest = latest
  }

  note(fact: Fact, link: LinkMetadata): void {
    // own sensors keep their key when the gateway gets its id
    const device = `${link.medium === 'local' ? OWN : `${fact.aid} `}${fact.id}`
    const groups = this.#devices.get(device) ?? []
    const at = groups.findIndex(({ sensors }) => sameSensors(sensors, fact.sensors))
    if (at >= 0 && this.#isNewer(groups[at]!, fact)) return
    let next = groups
    if (at >= 0) groups[at] = latestOf(fact, link)
    else next = this.#merged(groups, fact, link)
    if (device !== this.#newest) this.#devices.delete(device)
    this.#newest = device
    this.#replace(device, groups, next)
    for (const [oldest, list] of this.#devices) {
      if (this.#size <= GROUPS) break
      // invented device ids must not evict the readings of this machine
      if (oldest.startsWith(OWN) && this.#devices.size > 1) continue
      this.#replace(oldest, list, list.slice(this.#size - GROUPS))
    }
  }

  /** Removes own sensors that are no longer read. */
  drop(ids: readonly string[]): void {
    if (ids.length === 0) return
    const gone = new Set(ids)
    for (const [device, groups] of this.#devices)
      if (device.startsWith(OWN)) this.#replace(device, groups, without(groups, gone))
  }

  /** Sorted by device and first sensor, so that rows keep their place on a page. */
  list(): LatestReading[] {
    const all = [...this.#devices].flatMap(([device, groups]) =>
      groups.map(group => [`${device} ${group.sensors.length} ${group.sensors[0]?.id ?? ''}`, group] as const),
    )
    return all.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, reading]) => reading)
  }

  /** The newest values of this machine's sensors, by id. */
  own(): Record<string, number | null> {
    const own = [...this.#devices].filter(([device]) => device.startsWith(OWN)).flatMap(([, groups]) => groups)
    return Object.fromEntries(own.flatMap(({ sensors }) => sensors.map(({ id, value }) => [id, value])))
  }

  #isNewer({ t_raw }: LatestReading, fact: Fact): boolean {
    return t_raw > fact.tRaw && t_raw <= this.#latest()
  }

  /** The groups with one group replaced or added, for a fact with another set of sensors. */
  #merged(groups: readonly LatestReading[], fact: Fact, link: LinkMetadata): LatestReading[] {
    const [newer, older] = [true, false].map(is => groups.filter(group => this.#isNewer(group, fact) === is))
    const taken = idsOf(newer!.flatMap(({ sensors }) => sensors))
    const sensors = fact.sensors.filter(({ id }) => !taken.has(id))
    const remaining = [...newer!, ...without(older!, idsOf(sensors))]
    return sensors.length > 0 || fact.sensors.length === 0
      ? [...remaining, latestOf({ ...fact, sensors }, link)]
      : remaining
  }

  #replace(device: string, old: readonly LatestReading[], groups: LatestReading[]): void {
    this.#size += groups.length - old.length
    if (groups.length > 0) this.#devices.set(device, groups)
    else this.#devices.delete(device)
  }
}

/** distinct from every AID */
const OWN = 'local '

const idsOf = (sensors: readonly { readonly id: string }[]): Set<string> => new Set(sensors.map(({ id }) => id))

/** The groups without these sensors; a group that had no sensors stays. */
function without(groups: readonly LatestReading[], gone: ReadonlySet<string>): LatestReading[] {
  return groups.flatMap(group => {
    const sensors = group.sensors.filter(({ id }) => !gone.has(id))
    if (sensors.length === group.sensors.length) return [group]
    return sensors.length > 0 ? [{ ...group, sensors }] : []
  })
}

function sameSensors(a: readonly { readonly id: string }[], b: readonly { readonly id: string }[]): boolean {
  if (a.length !== b.length) return false
  for (let k = 0; k < a.length; k++) if (a[k]!.id !== b[k]!.id) return false
  return true
}
