// Enables, disables and recreates media while everything else continues (specification, transporter-toggle and POST
// /api/transport). In a running gateway the hooks apply changes to the links; without one only Config.json changes.
//
// Errors: an unknown medium (BAD_REQUEST, `unknown medium`); a file that cannot be written (CONFIG_WRITE; nothing is
// changed). A link that does not come up after that is a state of that link.
import type { ConfigStore } from '../config/config-store'
import { OsError } from '../lib/errors'
import { mediumEnabled } from '../links/enabled'
import { MEDIA, type MediumInfo, mediumInfo, type Registry } from '../links/registry'
import type { LinkReport } from '../links/supervisor'
import { linksOf, mediumFlag, type TransportView, transportView } from '../links/transport-view'
import type { TransporterManager } from './transporters'

interface TransportHooks {
  /** every link of the gateway by name */
  links?(): Record<string, LinkReport>
  /** closes and opens links as the changed configuration says; resolves when done */
  apply?(): Promise<unknown>
  /** closes and opens one link */
  reopen?(link: string): void
}

interface TransportParts {
  readonly config: ConfigStore
  readonly registry: Registry
  readonly manager: TransporterManager
  readonly hooks?: TransportHooks
}

export class TransportControl {
  readonly #parts: TransportParts
  readonly #hooks: TransportHooks

  constructor(parts: TransportParts) {
    this.#parts = parts
    this.#hooks = parts.hooks ?? {}
  }

  /** Media, their flags and the links over them. */
  view(): TransportView {
    const { config, registry } = this.#parts
    return transportView(config, registry, this.#hooks.links?.())
  }

  /** Switches a medium for everything that uses it: dispatch, uplinks, receivers. Throws BAD_REQUEST, CONFIG_WRITE. */
  async toggle(medium: string, enabled: boolean): Promise<{ name: string; enabled: boolean }> {
    const { config, manager } = this.#parts
    const { name } = known(medium)
    config.set(mediumFlag(name)!, enabled)
    manager.runtimeTick()
    await this.#hooks.apply?.()
    return { name, enabled }
  }

  /**
   * Reads Config.json again and recreates the medium: dispatch's driver and the links over it. False if it is off or
   * has no driver. Throws BAD_REQUEST.
   */
  async reload(medium: string): Promise<{ name: string; reloaded: boolean }> {
    const { config, registry, manager } = this.#parts
    const { name } = known(medium)
    config.reload()
    const usable = registry.hasMedium(name) && mediumEnabled(config, name)
    if (usable) await registry.mediumDriver(name)
    manager.refreshProtocol(name)
    await this.#hooks.apply?.()
    if (usable) for (const link of linksOf(config, name, this.#hooks.links?.() ?? {})) this.#hooks.reopen?.(link)
    return { name, reloaded: usable }
  }
}

function known(medium: string): MediumInfo {
  const info = mediumInfo(medium)
  if (info) return info
  throw new OsError('BAD_REQUEST', 'unknown medium', {
    details: { medium },
    hint: `name one of: ${MEDIA.map(({ name }) => name).join(', ')}`,
  })
}
