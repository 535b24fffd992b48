// The options of a gateway.
import type { ConfigStore } from '../config/config-store'
import type { GatewayCores } from '../cores'
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
  /** path of the bundle; the SQL worker and the local upstream run it as well */
  script: string
  version: string
  /** build time of the program, unix ms: a system clock before it is not trusted */
  builtAt: number
  logger: Logger
  /** default sources for a machine that configures none */
  defaultSources: readonly SourceEntry[]
  role: 'run' | 'serve'
  /** `serve`: address where packets are received */
  listen?: { host: string; port: number }
  /** address of the page if the command line sets it */
  pageHost?: string
  /** which core makes and checks packets; left out: the pure one */
  cores?: GatewayCores
  clock?: Clock
  files?: Files
  /** what main knows about the process; without it the guard only observes */
  supervision?: Supervision
  /** receives records that the disk refuses */
  unkept?: Unkept
  /** how this machine sets its clock; by default read from the system */
  clockSigns?: () => ClockSigns
}
