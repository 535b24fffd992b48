// What status shows of one uplink.
import type { DeliverySender } from '../../protocol/delivery'
import type { SecureClient } from '../../protocol/secure/client'
import type { UplinkReport } from '../status'
import type { Delivery } from './carriers'
import type { Item } from './lane'
import type { Packer } from './packer'
import type { SendQueue } from './send-queue'
import type { UplinkSession } from './session'

export interface ReportParts {
  readonly carrying: boolean
  readonly kind: Delivery
  readonly queue: SendQueue
  readonly delivery: DeliverySender<Item | null>
  readonly client: SecureClient
  readonly packer: Packer
  readonly session: UplinkSession
  /** packets outside the exchange: acknowledged by a medium such as a broker, or just handed to one */
  readonly direct: { readonly medium: number; readonly best_effort: number }
  readonly inFlight: number
  /** control packets that answer no open request */
  readonly stray: number
}

export function uplinkReport(of: ReportParts): UplinkReport {
  const { acked, resent, abandoned, stray } = of.delivery.counters
  const { ignoredReady: ready, ignoredAck: channel_ack, ignoredBadKey: bad_key } = of.client.counters
  return {
    carrying: of.carrying,
    cursor: of.queue.cursor,
    backlog: of.queue.backlog,
    acked: acked + of.direct.medium,
    sent: of.direct.best_effort,
    resent: resent + of.packer.counters.again,
    refused: of.packer.counters.refused,
    delivery: of.kind === 'exchange' ? of.delivery.mode : of.kind === 'medium' ? 'acked' : 'best_effort',
    in_flight: of.inFlight,
    round_trip_ms: Math.round(of.delivery.roundTripMs),
    abandoned,
    stray_answers: stray + of.stray,
    ignored: { ready, channel_ack, bad_key },
    ...of.session.report(),
  }
}
