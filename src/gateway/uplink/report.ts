// What status shows of one uplink.
import type { DeliverySender } from '../../protocol/delivery'
import type { SecureClient } from '../../protocol/secure/client'
import type { UplinkReport } from '../status'
import type { Delivery } from './carriers'
import type { Feed } from './feed'
import type { Payload, Records, Sent } from './records'
import type { UplinkSession } from './session'

export interface ReportParts {
  readonly carrying: boolean
  readonly kind: Delivery
  readonly feed: Feed<Payload>
  readonly delivery: DeliverySender<Sent | null>
  readonly client: SecureClient
  readonly records: Records
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
    cursor: of.feed.cursor,
    backlog: of.feed.backlog,
    acked: acked + of.direct.medium,
    sent: of.direct.best_effort,
    resent: resent + of.records.counters.again,
    refused: of.records.counters.refused,
    delivery: of.kind === 'exchange' ? of.delivery.mode : of.kind === 'medium' ? 'acked' : 'best_effort',
    in_flight: of.inFlight,
    round_trip_ms: Math.round(of.delivery.roundTripMs),
    abandoned,
    stray_answers: stray + of.stray,
    ignored: { ready, channel_ack, bad_key },
    ...of.session.report(),
  }
}
