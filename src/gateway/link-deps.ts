// The dependencies of a gateway's links: the same few parts for sources, receivers and uplinks.
import type { ConfigStore } from '../config'
import type { Clock } from '../lib/clock'
import type { Logger } from '../lib/logger'
import type { NodeIdentity } from '../links/contracts'
import type { Registry } from '../links/registry'
import type { Supervisor } from '../links/supervisor'

export interface LinkParts {
  readonly config: ConfigStore
  readonly clock: Clock
  readonly logger: Logger
  readonly registry: Registry
  readonly supervisor: Supervisor
  readonly identity: NodeIdentity
  /** the best guess at the real time, UNIX ms */
  readonly trueNow?: () => number
}
