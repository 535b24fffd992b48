// The pluggable transporters of a node (specification, "Transporter manager", "Transporter media"). A transporter is a
// medium of the registry with the whole of its options in Config.json. A medium that is switched off there, that has no
// driver or an unknown one is not there: getDriver answers null. Names count in any case. Nothing here throws.
import type { ConfigStore } from '../config/config-store'
import { type Clock, systemClock } from '../lib/clock'
import { type Logger, silentLogger } from '../lib/logger'
import { systemTimers, type Timers } from '../lib/timers'
import type { DriverContext, PacketHandler } from '../links/contracts'
import { mediumEnabled } from '../links/enabled'
import { MEDIA, type MediumInfo, mediumInfo, portOf, type Registry } from '../links/registry'
import { type DeviceRole, sendRefusal } from '../protocol/handshake/roles'
import { DispatchIdentity } from './identity'
import { LazyTransporter, type Transporter } from './transporter'

export type { Transporter } from './transporter'

export interface TransporterManagerOptions {
  config: ConfigStore
  registry: Registry
  clock?: Clock
  logger?: Logger
  timers?: Timers
  /** what comes back from where packets were sent */
  onPacket?: PacketHandler
  /** further options of drivers; left out: who the configuration says, under a name of its own (see DispatchIdentity) */
  context?: Pick<DriverContext, 'identity' | 'trueNow'>
}

/** Everything Config.json has for the medium. A network medium without a peer sends to the node's server. */
function settingsOf(config: ConfigStore, info: MediumInfo): Record<string, unknown> {
  const own = config.get<Record<string, unknown> | undefined>(`RESOURCES.${info.section}.${info.options_name}`) ?? {}
  const port = portOf(info.name, own)
  // what is retained at a broker is the gateway's to say: a dispatch comes and goes
  if (info.name === 'MQTT') return { ...own, port, topics: { state: '', ...(own.topics as object | undefined) } }
  if (info.layer !== 'L4') return { ...own, ...(typeof port === 'number' && { port }) }
  const server = config.get<{ server_host?: string; server_port?: number } | undefined>('Client_Core') ?? {}
  return {
    ...own,
    host: own.host || server.server_host || '127.0.0.1',
    port: own.port || server.server_port || info.default_port,
  }
}

/** One server, as session keys are kept for it. */
export const serverName = (medium: string, host: unknown, port: unknown): string =>
  [medium, host ?? '', port ?? ''].join(' ')

/** Where a medium of the configuration sends to, by medium, host and port; `''` for a name that is none. */
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
  /** the media that could be used when they were last looked at */
  #usable: Set<string>
  /** closes that are not over yet, by medium */
  readonly #closing = new Map<string, Promise<unknown>>()
  /** as it was at the start: a change counts from the next one on */
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
    this.#context = { identity: new DispatchIdentity(config, logger), ...context }
    this.#usable = this.#names()
    this.#role = config.config.Node_Setting.device_role
  }

  /** True when Config.json has the medium's status flag on. */
  enabled(info: MediumInfo): boolean {
    return mediumEnabled(this.#options.config, info.name)
  }

  /** Every enabled medium of every layer that has a driver, by the specification's spelling (X32). */
  active(): Record<string, Transporter> {
    return Object.fromEntries([...this.#names()].map(name => [name, this.getDriver(name)!]))
  }

  /** Makes every enabled driver. Nothing is opened before its first packet. */
  autoLoad(): Record<string, Transporter> {
    this.#usable = this.#names()
    return this.active()
  }

  /** The transporter of a medium, its name in any case, or null when it is off or has no driver. */
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
   * A transporter of the caller's own, with `options` over those of the configuration; null when the medium is off or has no
   * driver. The caller closes it.
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

  /** Closes the driver of a medium and makes it anew from the present configuration; null when there is none now. */
  refreshProtocol(medium: string): Transporter | null {
    const info = mediumInfo(medium)
    if (!info) return null
    this.#drop(info.name)
    return this.getDriver(medium)
  }

  /**
   * Reloads what is stale: drivers whose options or flag changed since they were made, or whose link was lost. True when
   * something was reloaded.
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
