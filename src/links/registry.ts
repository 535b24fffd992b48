// Drivers by name. The tables are name → () => import(…), so that an unused driver is never loaded. Errors: an unknown
// name, or a module that does not load, is NO_DRIVER.
import { asOsError, OsError } from '../lib/errors'
import type { MediumDriver, SourceDriver } from './contracts'

type Layer = 'L4' | 'application' | 'L1'

export interface MediumInfo {
  readonly name: string
  readonly layer: Layer
  /** null: the specification has none; UART and RS485 have the name of a serial port */
  readonly default_port: number | 'serial port name' | null
  /** as in the specification */
  readonly config_key: string
  /** place of its options in Config.json: RESOURCES.<section>.<options_name> */
  readonly section: 'transport_config' | 'application_config' | 'physical_config'
  /** place of the enabled flag in Config.json: RESOURCES.<status>.<options_name> */
  readonly status: 'transport_status' | 'application_status' | 'physical_status'
  readonly options_name: string
  /** unacknowledged data packets in the delivery exchange (X29): few if the air or a bus is shared and slow */
  readonly in_flight: number
}

const STATUS = {
  L4: ['transport_config', 'transport_status'],
  application: ['application_config', 'application_status'],
  L1: ['physical_config', 'physical_status'],
} as const

const medium = (
  name: string,
  layer: Layer,
  default_port: MediumInfo['default_port'],
  config_key: string,
  in_flight = 1024,
): MediumInfo => ({
  name,
  layer,
  default_port,
  config_key,
  section: STATUS[layer][0],
  status: STATUS[layer][1],
  options_name: name.toLowerCase(),
  in_flight,
})

/** The specification's "Transporter media", in its order and spelling. */
export const MEDIA: readonly MediumInfo[] = [
  medium('UDP', 'L4', 8080, 'transport_options.port'),
  medium('TCP', 'L4', 8888, 'transport_options.port'),
  medium('QUIC', 'L4', 4433, 'transport_options.port'),
  medium('MQTT', 'application', 1883, 'application_config.mqtt'),
  medium('UART', 'L1', 'serial port name', 'physical_config.uart'),
  medium('RS485', 'L1', 'serial port name', 'physical_config.rs485', 8),
  medium('CAN', 'L1', null, 'physical_config.can'),
  medium('LoRa', 'L1', null, 'physical_config.lora', 8),
  medium('Bluetooth', 'L1', 5454, 'physical_config.bluetooth', 8),
  medium('IWIP', 'L4', null, 'transport_config.iwip'),
  medium('UIP', 'L4', null, 'transport_config.uip'),
]

const BY_NAME = new Map(MEDIA.map(info => [info.name.toLowerCase(), info]))

/** The medium of that name in any case, or undefined. */
export const mediumInfo = (name: string): MediumInfo | undefined => BY_NAME.get(name.toLowerCase())

/** 8883 is a broker's port with TLS; every other medium uses the same port with and without */
const TLS_PORTS: Readonly<Record<string, number>> = { MQTT: 8883 }

/** The port in a medium's options: the configured one, else its default number. A serial port has no default. */
export function portOf(name: string, { port, tls }: { port?: unknown; tls?: unknown }): unknown {
  const info = mediumInfo(name)
  const standard = info?.default_port
  return port || (tls && info && TLS_PORTS[info.name]) || (typeof standard === 'number' ? standard : undefined)
}

export type DriverTable<Driver> = Readonly<Record<string, () => Promise<Driver>>>

interface DriverTables {
  /** keys are media in any case */
  media?: DriverTable<MediumDriver>
  /** keys are source types */
  sources?: DriverTable<SourceDriver>
}

export class Registry {
  readonly #media: Map<string, () => Promise<MediumDriver>>
  readonly #sources: Map<string, () => Promise<SourceDriver>>

  constructor({ media = {}, sources = {} }: DriverTables) {
    this.#media = new Map(Object.entries(media).map(([name, load]) => [name.toLowerCase(), load]))
    this.#sources = new Map(Object.entries(sources))
  }

  /** Media with a driver, in the specification's spelling and order; others follow. */
  media(): string[] {
    const known = MEDIA.filter(info => this.#media.has(info.options_name)).map(info => info.name)
    const others = [...this.#media.keys()].filter(name => !BY_NAME.has(name))
    return [...known, ...others]
  }

  sourceTypes(): string[] {
    return [...this.#sources.keys()]
  }

  hasMedium(name: string): boolean {
    return this.#media.has(name.toLowerCase())
  }

  /** The driver of a medium, loaded on first use. Throws NO_DRIVER with the specification's text. */
  mediumDriver(name: string): Promise<MediumDriver> {
    return loaded(this.#media.get(name.toLowerCase()), `No available driver: ${name}`, this.media())
  }

  /** The driver of a source type, loaded on first use. Throws NO_DRIVER. */
  sourceDriver(type: string): Promise<SourceDriver> {
    return loaded(this.#sources.get(type), `no driver for sources of type ${type}`, this.sourceTypes())
  }
}

async function loaded<Driver>(
  load: (() => Promise<Driver>) | undefined,
  text: string,
  names: string[],
): Promise<Driver> {
  if (!load) throw new OsError('NO_DRIVER', text, { hint: `name one of: ${names.join(', ')}` })
  try {
    return await load()
  } catch (cause) {
    throw new OsError('NO_DRIVER', text, { cause, hint: asOsError(cause).message })
  }
}
