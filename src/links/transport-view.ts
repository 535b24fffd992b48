// The media as every user interface shows them: the configured status maps, and each medium of the specification with
// its layer, whether it is enabled, whether it has a driver, and the links that use it (GET /api/transport).
import type { ConfigStore } from '../config'
import { maskText } from '../lib/secrets'
import { mediumEnabled } from './enabled'
import { MEDIA, mediumInfo, type Registry } from './registry'
import type { LinkReport } from './supervisor'

interface TransportItem {
  readonly name: string
  readonly layer: string
  readonly enabled: boolean
  /** whether a driver exists */
  readonly driver: boolean
  readonly default_port: number | string | null
  /** place of its options in Config.json */
  readonly config_key: string
  /** links of a running gateway over it */
  readonly links: readonly { readonly name: string; readonly state: string; readonly reason?: string }[]
}

/** Body of GET /api/transport without `ok`. */
export interface TransportView {
  readonly transport: {
    readonly application_status: Record<string, boolean>
    readonly transport_status: Record<string, boolean>
    readonly physical_status: Record<string, boolean>
    readonly transporters_status: Record<string, boolean>
    /** X32 */
    readonly active_transporters: readonly string[]
  }
  readonly items: readonly TransportItem[]
}

type Links = Readonly<Record<string, LinkReport>>

/** Names of the links that use a medium: the configured ones, even if they could not be created, and other running ones. */
export function linksOf(config: ConfigStore, medium: string, links: Links): string[] {
  const { uplinks, receivers } = config.config.gateway
  const uses = (other: string | undefined): boolean => other?.toLowerCase() === medium.toLowerCase()
  const configured = [...uplinks, ...receivers].filter(link => uses(link.medium)).map(link => link.name)
  const running = Object.keys(links).filter(name => links[name]!.kind === 'medium' && uses(links[name]!.type))
  return [...new Set([...configured, ...running])].filter(name => Object.hasOwn(links, name))
}

export function transportView(config: ConfigStore, registry: Registry, links: Links = {}): TransportView {
  const flags = (section: string): Record<string, boolean> => ({ ...config.get<Record<string, boolean>>(section) })
  const items = MEDIA.map(({ name, layer, default_port, section, options_name }) => ({
    name,
    layer,
    enabled: mediumEnabled(config, name),
    driver: registry.hasMedium(name),
    default_port,
    config_key: `RESOURCES.${section}.${options_name}`,
    links: linksOf(config, name, links).map(link => {
      const { state, reason } = links[link]!
      return { name: link, state, ...(reason !== undefined && { reason: maskText(reason) }) }
    }),
  }))
  return {
    transport: {
      application_status: flags('RESOURCES.application_status'),
      transport_status: flags('RESOURCES.transport_status'),
      physical_status: flags('RESOURCES.physical_status'),
      transporters_status: Object.fromEntries(items.map(item => [item.name.toLowerCase(), item.enabled])),
      active_transporters: items.filter(item => item.enabled && item.driver).map(item => item.name),
    },
    items,
  }
}

/** The Config.json key that switches a medium on and off; undefined for an unknown medium. */
export function mediumFlag(medium: string): string | undefined {
  const info = mediumInfo(medium)
  return info && `RESOURCES.${info.status}.${info.options_name}`
}
