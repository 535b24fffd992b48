// The pluggable transporters of a node (specification, "Transporter manager", "Transporter media"). A transporter is a
// medium of the registry, opened on its first packet and kept; one that is lost is opened again by the next packet. A
// medium that is switched off in Config.json, or that has no driver, is not there: getDriver answers null.
import type { ConfigStore } from '../config/store'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, type OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import type { Medium, PacketHandler } from '../links/contracts'
import { MEDIA, type MediumInfo, mediumInfo, type Registry } from '../links/registry'

/** What dispatch needs of an enabled medium. */
export interface Transporter {
  /** the specification's spelling */
  readonly name: string
  /** opens when needed and sends one packet; false when it could not, with `lastError` set */
  send(packet: Uint8Array): Promise<boolean>
  close(): Promise<void>
  readonly lastError: OsError | null
}

class LazyTransporter implements Transporter {
  lastError: OsError | null = null
  #opening: Promise<Medium> | undefined
  readonly name: string
  readonly #create: () => Promise<Medium>
  readonly #logger: Logger
  readonly #onPacket: PacketHandler

  constructor(name: string, create: () => Promise<Medium>, logger: Logger, onPacket: PacketHandler) {
    this.name = name
    this.#create = create
    this.#logger = logger
    this.#onPacket = onPacket
  }

  async send(packet: Uint8Array): Promise<boolean> {
    try {
      const medium = await (this.#opening ??= this.#open())
      return await medium.send(packet)
    } catch (error) {
      this.#opening = undefined
      this.lastError = asOsError(error, 'NETWORK')
      this.#logger.warn(`${this.name}: ${this.lastError.message}`)
      return false
    }
  }

  async #open(): Promise<Medium> {
    const medium = await this.#create()
    medium.onPacket(this.#onPacket)
    await medium.open({
      lost: reason => {
        this.#logger.warn(`${this.name} lost: ${reason}`)
        this.#opening = undefined
        void medium.close()
      },
      degraded: () => undefined,
    })
    return medium
  }

  async close(): Promise<void> {
    const opening = this.#opening
    this.#opening = undefined
    if (!opening) return
    await opening.then(
      medium => medium.close(),
      () => undefined, // it never opened: nothing to close
    )
  }
}

export interface TransporterManagerOptions {
  config: ConfigStore
  registry: Registry
  clock?: Clock
  logger?: Logger
  /** what comes back from where packets were sent */
  onPacket?: PacketHandler
}

export class TransporterManager {
  readonly #config: ConfigStore
  readonly #registry: Registry
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #onPacket: PacketHandler
  readonly #drivers = new Map<string, Transporter>()

  constructor(options: TransporterManagerOptions) {
    const { config, registry, clock = systemClock, logger = silentLogger, onPacket = () => undefined } = options
    this.#onPacket = onPacket
    this.#config = config
    this.#registry = registry
    this.#clock = clock
    this.#logger = logger
  }

  /** True when Config.json has the medium's status flag on. */
  enabled(info: MediumInfo): boolean {
    return this.#config.get(`RESOURCES.${info.status}.${info.options_name}`) === true
  }

  /** Every enabled medium that has a driver, by the specification's spelling (X32). */
  active(): Record<string, Transporter> {
    const found: Record<string, Transporter> = {}
    for (const info of MEDIA) {
      const driver = this.getDriver(info.name)
      if (driver) found[info.name] = driver
    }
    return found
  }

  /** Same as active(): nothing is opened before its first packet. */
  autoLoad(): Record<string, Transporter> {
    return this.active()
  }

  /** The transporter of a medium, its name in any case, or null when it is off or has no driver. */
  getDriver(medium: string): Transporter | null {
    const info = mediumInfo(medium)
    if (!info || !this.#registry.hasMedium(info.name) || !this.enabled(info)) return null
    let driver = this.#drivers.get(info.name)
    if (!driver) {
      driver = new LazyTransporter(info.name, () => this.#create(info), this.#logger, this.#onPacket)
      this.#drivers.set(info.name, driver)
    }
    return driver
  }

  async #create(info: MediumInfo): Promise<Medium> {
    const driver = await this.#registry.mediumDriver(info.name)
    const own = (this.#config.get(`RESOURCES.${info.section}.${info.options_name}`) ?? {}) as Record<string, unknown>
    const core = (this.#config.get('Client_Core') ?? {}) as { server_host?: string; server_port?: number }
    const options = {
      host: own.host || core.server_host || '127.0.0.1',
      port: own.port || core.server_port || info.default_port,
      ...(typeof own.max_packet === 'number' && { maxPacket: own.max_packet }),
    }
    return driver.create(`dispatch-${info.options_name}`, options, { clock: this.#clock, logger: this.#logger })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#drivers.values()].map(driver => driver.close()))
    this.#drivers.clear()
  }
}
