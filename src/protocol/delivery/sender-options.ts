// Parameters and counters of a sender of the delivery exchange.

export type DeliveryMode = 'probing' | 'acked' | 'best_effort' | 'silent'

export interface DeliverySenderOptions<Token> {
  /** the medium's largest packet in bytes */
  maxPacket: number
  /** numbers the probes: the counter all requests of the process share, never 0 */
  nextSeq: () => number
  /** 32 random bits: the epoch of this start and uplink, and of its successors */
  randomEpoch: () => number
  /** packets in flight at most; 8 on LoRa, RS485 and BLE */
  maxPackets?: number
  /**
   * packets in flight when a link was opened: one more with each that is acknowledged, half with each loss, never less than
   * this; left out: as many as may be
   */
  startPackets?: number
  /** packets in one frame, and its bytes; a larger packet goes alone */
  batchItems?: number
  batchBytes?: number
  /** bytes in flight */
  maxBytes?: number
  /** sending rounds of the oldest packet without any answer until the peer counts as silent */
  silentAfter?: number
  /** least pause before a packet goes again, where a slow medium needs more than 2 s */
  minRtoMs?: number
  /** the pause doubles with each sending that nothing answers: for media whose time on the air is dear */
  backsOff?: boolean
  /** seq from which the epoch is renewed as soon as nothing is in flight; 4 bytes must never run over */
  renewAt?: number
  /** called once per acknowledged packet, in order of seq within one answer */
  onAcked: (token: Token) => void
  /**
   * The bytes of a packet that must go again, as a FULL with its own TID and TS; they are copied at once. null: the record is gone
   * and it is not wanted any more; it is counted `abandoned` and not sent.
   */
  onResend: (token: Token, resends: number) => Uint8Array | null
}

export interface DeliveryCounters {
  acked: number
  resent: number
  abandoned: number
  /** answers that did not fit: another epoch, or packets never sent */
  stray: number
}
