// The dependencies shared by a gateway's sources, receivers and uplinks.
import type { ConfigStore } from '../config'
import type { Clock } from '../lib/clock'
import type { Logger } from '../lib/logger'
import type { NodeIdentity } from '../links/contracts'
import type { Registry } from '../links/registry'
import type { Supervisor } from '../links/supervisor'

export interface LinkDeps {
  readonly config: ConfigStore
  readonly clock: Clock
  readonly logger: Logger
  readonly registry: Registry
  readonly supervisor: Supervisor
  readonly identity: NodeIdentity
  /** best estimate of the real time, UNIX ms */
  readonly trueNow?: () => number
}
