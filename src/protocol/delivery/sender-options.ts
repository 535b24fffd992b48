// Parameters and counters of a sender of the delivery exchange.

export type DeliveryMode = 'probing' | 'acked' | 'best_effort' | 'silent'

export interface DeliverySenderOptions<Token> {
  /** the medium's maximum packet size in bytes */
  maxPacket: number
  /** numbers the probes: the counter shared by all requests of the process, never 0 */
  nextSeq: () => number
  /** 32 random bits: the epoch of this start and uplink, and of later ones */
  randomEpoch: () => number
  /** maximum of packets in flight; 8 on LoRa, RS485 and BLE */
  maxPackets?: number
  /**
   * window size when a link is opened. It grows by one with each acknowledged packet and is halved with each loss, but not
   * below this; default: the maximum
   */
  startPackets?: number
  /** packets and bytes per frame; a larger packet is sent alone */
  batchItems?: number
  batchBytes?: number
  /** bytes in flight */
  maxBytes?: number
  /** transmissions of the oldest packet without an answer after which the peer counts as silent */
  silentAfter?: number
  /** minimum RTO, for a slow medium that needs more than 2 s */
  minRtoMs?: number
  /** the RTO doubles with each transmission without an answer: for media with limited airtime */
  backsOff?: boolean
  /** seq from which the epoch is renewed as soon as nothing is in flight, so that the 4-byte seq never overflows */
  renewAt?: number
  /** called once per acknowledged packet, in order of seq within one answer */
  onAcked: (token: Token) => void
  /**
   * The bytes to retransmit for a packet, as a FULL with its own TID and TS; they are copied immediately. null: the record no
   * longer exists; the packet is counted `abandoned` and not sent.
   */
  onResend: (token: Token, resends: number) => Uint8Array | null
}

export interface DeliveryCounters {
  acked: number
  resent: number
  abandoned: number
  /** answers that do not match: another epoch, or packets never sent */
  stray: number
}
