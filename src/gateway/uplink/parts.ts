// What an uplink is built of, and how it is set.
import type { Clock } from '../../lib/clock'
import type { Logger } from '../../lib/logger'
import type { Timers } from '../../lib/timers'
import type { Medium, PacketOrigin } from '../../links/contracts'
import type { FlashLog, TimeQuality } from '../../log'
import type { WireUnits } from '../../pipeline/wireunit'
import type { SecureClient } from '../../protocol/secure/client'
import type { Identity } from '../identity'
import type { PackSettings } from './encoders'
import type { PaceSettings } from './pace'
import type { SendQueue } from './send-queue'
import type { SentWatchers } from './watchers'

export interface UplinkSettings extends Omit<PackSettings, 'diffBase'>, Partial<PaceSettings> {
  /** left out: `last` where packets arrive in order and the peer itself acknowledges them (TCP), else `sticky` */
  diffBase?: PackSettings['diffBase']
  delivery: 'auto' | 'best_effort'
  /** packets and bytes in one frame or batch */
  batchItems?: number
  batchBytes?: number
}

export interface UplinkParts {
  log: FlashLog
  medium: Medium
  clock: Clock
  logger: Logger
  identity: Identity
  units: WireUnits
  /** counter of request numbers, one per process (X29) */
  nextSeq: () => number
  randomEpoch: () => number
  /** the peer went silent: the link is down and tried again later */
  lost: (reason: string) => void
  /** a control packet of the upstream that is not part of the exchange; false when it answers no open request */
  onControl: (packet: Uint8Array, origin: PacketOrigin) => boolean
  /** the exchange is settled, packets may go */
  onReady: () => void
  /** ms a record of bad time quality is held back for */
  holdMs: (quality: TimeQuality) => number
  /** what goes next, shared with the other uplinks; by default one of its own, which it carries from the start */
  queue?: SendQueue
  watchers?: SentWatchers
  /** bytes the largest uplink of the list carries; by default this one */
  largest?: () => number
  /** whether it takes what is too large for the one that carries */
  helps?: () => boolean
  /** `usable` changed */
  onUsable?: () => void
  /** this uplink's half of its secure sessions; by default one that is not kept */
  secure?: SecureClient
  timers?: Timers
  /** unix ms, for openers; by default the clock's */
  now?: () => number
  /** the link works, but not as it should; empty: it does again */
  degraded?: (reason: string) => void
}
