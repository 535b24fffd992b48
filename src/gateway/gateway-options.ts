// What a gateway is made of.
import type { ConfigStore } from '../config/config-store'
import type { Clock } from '../lib/clock'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { Registry } from '../links/registry'
import type { UnitResolver, WireUnits } from '../pipeline/wireunit'
import type { Supervision } from './guard/guard'
import type { SourceEntry } from './intake/test-source'
import type { ClockSigns } from './time/time-sources'
import type { Unkept } from './unsaved'

export interface GatewayOptions {
  config: ConfigStore
  registry: Registry
  units: WireUnits & UnitResolver
  /** the bundle: SQL worker and loopback upstream run it again */
  script: string
  version: string
  /** unix ms the program was built at: a system clock before it is not believed */
  builtAt: number
  logger: Logger
  /** sources of a machine that configures none */
  defaultSources: readonly SourceEntry[]
  role: 'run' | 'serve'
  /** `serve`: where packets are received */
  listen?: { host: string; port: number }
  /** address of the page where the command line names it */
  pageHost?: string
  clock?: Clock
  files?: Files
  /** what main knows of the process; without, the guard only looks */
  supervision?: Supervision
  /** takes what the disk refuses to keep */
  unkept?: Unkept
  /** what this machine tells of its clock; by default what can be read of it */
  clockSigns?: () => ClockSigns
}
