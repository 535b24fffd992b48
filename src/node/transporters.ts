// The pluggable transporters of a node (specification, "Transporter manager", "Transporter media"). A transporter is a
// medium of the registry with all its options from Config.json. getDriver returns null for a medium that is disabled,
// has no driver or is unknown. Names are case-insensitive. Nothing here throws.
import type { ConfigStore } from '../config/config-store'
import { installIdOf } from '../config/install'
import { isAssigned } from '../lib/assigned-id'
import { type Clock, systemClock } from '../lib/clock'
import { type Logger, silentLogger } from '../lib/logger'
import { systemTimers, type Timers } from '../lib/timers'
import type { DriverContext, NodeIdentity, PacketHandler } from '../links/contracts'
import { mediumEnabled } from '../links/enabled'
import { MEDIA, type MediumInfo, mediumInfo, portOf, type Registry } from '../links/registry'
import { type DeviceRole, sendRefusal } from '../protocol/handshake/roles'
import { LazyTransporter, type Transporter } from './transporter'

export type { Transporter } from './transporter'

export interface TransporterManagerOptions {
  config: ConfigStore
  registry: Registry
  clock?: Clock
  logger?: Logger
  timers?: Timers
  /** packets received from peers of sent packets */
  onPacket?: PacketHandler
  /** further options of drivers; left out: the configured identity with a different client id (see dispatchIdentity) */
  context?: Pick<DriverContext, 'identity' | 'trueNow'>
}

/**
 * The identity of a node when it dispatches, for media whose names contain it (MQTT). The gateway's own links may use the same
 * broker simultaneously, and a broker ends the older of two connections with the same client id: so this one differs.
 */
function dispatchIdentity(config: ConfigStore, logger: Logger): NodeIdentity {
  let installId = ''
  return {
    get aid() {
      const id = config.get<unknown>('assigned_id')
      return isAssigned(id) ? id : null
    },
    get installId() {
      installId ||= `${installIdOf(config.dataDir, logger)}-dispatch`
      return installId
    },
    onAssigned(listener) {
      let before = this.aid
      return config.onChange(() => {
        const { aid } = this
        if (aid !== null && aid !== before) listener(aid)
        before = aid
      })
    },
  }
}

/** All options of the medium in Config.json. A network medium without a peer sends to the node's server. */
function settingsOf(config: ConfigStore, info: MediumInfo): Record<string, unknown> {
  const own = config.get<Record<string, unknown> | undefined>(`RESOURCES.${info.section}.${info.options_name}`) ?? {}
  const port = portOf(info.name, own)
  // only the gateway sets retained state at a broker, because a dispatch connection is temporary
  if (info.name === 'MQTT') return { ...own, port, topics: { state: '', ...(own.topics as object | undefined) } }
  if (info.layer !== 'L4') return { ...own, ...(typeof port === 'number' && { port }) }
  const server = config.get<{ server_host?: string; server_port?: number } | undefined>('Client_Core') ?? {}
  return {
    ...own,
    host: own.host || server.server_host || '127.0.0.1',
    port: own.port || server.server_port || info.default_port,
  }
}

/** The name of one server, under which session keys are stored. */
export const serverName = (medium: string, host: unknown, port: unknown): string =>
  [medium, host ?? '', port ?? ''].join(' ')

/** The destination of a configured medium, by medium, host and port; `''` for an unknown name. */
export function serverOf(config: ConfigStore, medium: string): string {
  const info = mediumInfo(medium)
  if (!info) return ''
  const { host, port } = settingsOf(config, info)
  return serverName(info.name, host, port)
}

export class TransporterManager {
  readonly #options: Required<TransporterManagerOptions>
  readonly #context: Pick<DriverContext, 'identity' | 'trueNow'>
  readonly #drivers = new Map<string, LazyTransporter>()
  #opened = 0
  /** the media that were usable at the last check */
  #usable: Set<string>
  /** closes in progress, by medium */
  readonly #closing = new Map<string, Promise<unknown>>()
  /** as at the start: a change takes effect at the next one */
  readonly #role: DeviceRole

  constructor(options: TransporterManagerOptions) {
    this.#options = {
      clock: systemClock,
      logger: silentLogger,
      timers: systemTimers,
      onPacket: () => undefined,
      context: {},
      ...options,
    }
    const { config, logger, context } = this.#options
    this.#context = { identity: dispatchIdentity(config, logger), ...context }
    this.#usable = this.#names()
    this.#role = config.config.Node_Setting.device_role
  }

  /** True when Config.json has the medium's status flag on. */
  enabled(info: MediumInfo): boolean {
    return mediumEnabled(this.#options.config, info.name)
  }

  /** Every enabled medium of every layer with a driver, in the specification's spelling (X32). */
  active(): Record<string, Transporter> {
    return Object.fromEntries([...this.#names()].map(name => [name, this.getDriver(name)!]))
  }

  /** Creates every enabled driver. Nothing is opened before its first packet. */
  autoLoad(): Record<string, Transporter> {
    this.#usable = this.#names()
    return this.active()
  }

  /** The transporter of a medium, its name in any case, or null if it is off or has no driver. */
  getDriver(medium: string): LazyTransporter | null {
    const info = mediumInfo(medium)
    if (!info || !this.#isUsable(info)) return null
    const known = this.#drivers.get(info.name)
    if (known) return known
    const driver = this.#make(info, settingsOf(this.#options.config, info), `dispatch-${info.options_name}`)
    this.#drivers.set(info.name, driver)
    return driver
  }

  /**
   * A separate transporter for the caller, with `options` over those of the configuration; null if the medium is off or
   * has no driver. The caller closes it.
   */
  open(medium: string, options: Record<string, unknown>): LazyTransporter | null {
    const info = mediumInfo(medium)
    if (!info || !this.#isUsable(info)) return null
    return this.#make(
      info,
      { ...settingsOf(this.#options.config, info), ...options },
      `extra-${info.options_name}-${++this.#opened}`,
    )
  }

  #make(info: MediumInfo, settings: Record<string, unknown>, name: string): LazyTransporter {
    const { registry, clock, logger, timers, onPacket, config } = this.#options
    return new LazyTransporter(info.name, settings, {
      create: async options => {
        const made = await registry.mediumDriver(info.name)
        return made.create(name, options, { clock, logger, dataDir: config.dataDir, ...this.#context })
      },
      refusal: packet => sendRefusal(this.#role, packet[0]),
      after: this.#closing.get(info.name) ?? Promise.resolve(),
      logger,
      timers,
      onPacket,
    })
  }

  /** Closes the driver of a medium and recreates it from the current configuration; null if there is none now. */
  refreshProtocol(medium: string): Transporter | null {
    const info = mediumInfo(medium)
    if (!info) return null
    this.#drop(info.name)
    return this.getDriver(medium)
  }

  /**
   * Reloads stale drivers: those whose options or flag changed since they were made, or whose link was lost. True if
   * one was reloaded.
   */
  runtimeTick(): boolean {
    const before = this.#usable
    this.#usable = this.#names()
    const switched = MEDIA.filter(({ name }) => before.has(name) !== this.#usable.has(name))
    const stale = [...this.#drivers.values()].filter(driver => {
      const info = mediumInfo(driver.name)!
      return this.#isUsable(info) && driver.stale(settingsOf(this.#options.config, info))
    })
    for (const name of new Set([...switched, ...stale].map(changed => changed.name))) this.refreshProtocol(name)
    return switched.length + stale.length > 0
  }

  async close(): Promise<void> {
    for (const name of [...this.#drivers.keys()]) this.#drop(name)
    await Promise.all(this.#closing.values())
  }

  #drop(name: string): void {
    const driver = this.#drivers.get(name)
    if (!driver) return
    this.#drivers.delete(name)
    const closing = Promise.all([this.#closing.get(name), driver.close()])
      .catch(error => this.#options.logger.warn(`${name}: close: ${String(error)}`))
      .finally(() => {
        if (this.#closing.get(name) === closing) this.#closing.delete(name)
      })
    this.#closing.set(name, closing)
  }

  #isUsable(info: MediumInfo): boolean {
    return this.#options.registry.hasMedium(info.name) && this.enabled(info)
  }

  #names(): Set<string> {
    return new Set(MEDIA.filter(info => this.#isUsable(info)).map(info => info.name))
  }
}
