// The newest readings and link states between two rounds. Events only mark what changed; the page is drawn again a few
// times a second, so a thousand devices cost a thousand steps and not a thousand drawings.
import type { Dashboard, Link, Readings } from './types'

/** what a round brings: readings only where they were requested */
export type Round = Omit<Dashboard, 'latest'> & Partial<Pick<Dashboard, 'latest'>>

export type NamedLink = Link & { name: string }

const keyOf = ({ device_id, medium, source_aid, sensors }: Readings): string =>
  JSON.stringify([device_id, medium, source_aid, sensors.map(sensor => sensor.id)])

export class Newest {
  readonly #readings = new Map<string, Readings>()
  readonly #links = new Map<string, NamedLink>()

  /** A round brought every link, and every reading where it was requested. */
  round({ latest }: Round): void {
    this.#links.clear()
    if (!latest) return
    this.#readings.clear()
    for (const reading of latest) this.#readings.set(keyOf(reading), reading)
  }

  /** False for what is no reading. */
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

  /** The dashboard with what came since. */
  over(dashboard: Round): Dashboard {
    const links = { ...dashboard.status.links }
    for (const [name, { name: _, ...link }] of this.#links) {
      if (link.state === 'removed') delete links[name]
      else links[name] = { ...links[name], ...link }
    }
    return { ...dashboard, latest: [...this.#readings.values()], status: { ...dashboard.status, links } }
  }
}
