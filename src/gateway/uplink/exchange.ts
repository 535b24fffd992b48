// What the delivery exchange (X29) must know of the medium it runs over: how much may be in flight, and how long a packet and
// its answer take where the air is shared and slow. Pure; nothing fails.
import type { Medium } from '../../links/contracts'
import type { DeliverySenderOptions } from '../../protocol/delivery'
import { packetsInFlight } from './carriers'
import type { UplinkSettings } from './parts'

/** of an answer in the exchange, for estimates */
export const ANSWER_BYTES = 24
/** packets in flight when the exchange begins: as many as one answer can name */
const START_PACKETS = 32

type OfMedium = 'maxPacket' | 'maxPackets' | 'startPackets' | 'batchItems' | 'batchBytes' | 'leastPauseMs' | 'backsOff'

export function exchangeOver(
  medium: Medium,
  { batchItems, batchBytes }: Pick<UplinkSettings, 'batchItems' | 'batchBytes'>,
): Pick<DeliverySenderOptions<unknown>, OfMedium> {
  const { airtime, maxPacket } = medium
  return {
    maxPacket,
    maxPackets: packetsInFlight(medium),
    startPackets: START_PACKETS,
    ...(batchItems !== undefined && { batchItems }),
    ...(batchBytes !== undefined && { batchBytes }),
    // the longest frame and its answer, each after a wait for a free channel
    ...(airtime && { leastPauseMs: 2 * (airtime.of(maxPacket) + answerMs(medium)), backsOff: true }),
  }
}

/** How long an answer may be on its way because the air is slow; 0 where it is not. */
export const answerMs = ({ airtime }: Medium): number => (airtime ? 2 * airtime.of(ANSWER_BYTES) : 0)
