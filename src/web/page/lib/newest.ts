// The newest readings and link states between two rounds. Events only mark changes; the page is drawn a few times a
// second, so that a thousand devices do not cause a thousand redraws.
import type { Dashboard, LinkInfo, Readings } from './types'

/** result of a round: readings only if they were requested */
export type Round = Omit<Dashboard, 'latest'> & Partial<Pick<Dashboard, 'latest'>>

export type NamedLink = LinkInfo & { name: string }

const keyOf = ({ device_id, medium, source_aid, sensors }: Readings): string =>
  JSON.stringify([device_id, medium, source_aid, sensors.map(sensor => sensor.id)])

export class Newest {
  readonly #readings = new Map<string, Readings>()
  readonly #links = new Map<string, NamedLink>()

  /** A round returned every link, and every reading if requested. */
  round({ latest }: Round): void {
    this.#links.clear()
    if (!latest) return
    this.#readings.clear()
    for (const reading of latest) this.#readings.set(keyOf(reading), reading)
  }

  /** False if it is not a reading. */
  putReading(reading: Readings): boolean {
    if (!Array.isArray(reading?.sensors)) return false
    this.#readings.set(keyOf(reading), reading)
    return true
  }

  putLink(link: NamedLink): boolean {
    if (typeof link?.name !== 'string') return false
    this.#links.set(link.name, link)
    return true
  }

  /** The dashboard with the changes since the last round. */
  over(dashboard: Round): Dashboard {
    const links = { ...dashboard.status.links }
    for (const [name, { name: _, ...link }] of this.#links) {
      if (link.state === 'removed') delete links[name]
      else links[name] = { ...links[name], ...link }
    }
    return { ...dashboard, latest: [...this.#readings.values()], status: { ...dashboard.status, links } }
  }
}
