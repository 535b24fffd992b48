// What a gateway asks its upstream once the exchange is settled: a device id when it has none, and the time, at each
// opening and every ten minutes. Answers count only with the number of an open request and from the uplink's own address
// (D16). An unanswered request is asked again every five seconds for the id, at the next round for the time.
import type { Clock } from '../../lib/clock'
import type { Logger } from '../../lib/logger'
import {
  buildAck,
  buildIdRequest,
  buildTimeRequest,
  controlSeq,
  parseIdAssign,
  parseNackReason,
  parseServerTime,
} from '../../protocol/control'
import type { NodeClock } from '../../protocol/time'
import { COMMAND } from '../../wire/commands'
import { type Identity, UNASSIGNED } from '../identity'

export interface RequestsOptions {
  send: (packet: Uint8Array) => Promise<boolean>
  nextSeq: () => number
  clock: Clock
  time: NodeClock
  identity: Identity
  logger: Logger
  /** an id came or the time was set: records may go */
  changed: () => void
}

const ID_EVERY_MS = 5000
const TIME_EVERY_MS = 600_000
const TIME_RETRY_MS = 5000

export class UpstreamRequests {
  readonly #options: RequestsOptions
  #idSeq = 0
  #timeSeq = 0
  #timeAskedAt = 0
  #timer: NodeJS.Timeout | undefined
  #nextTime = 0

  constructor(options: RequestsOptions) {
    this.#options = options
  }

  /** The link is ready; asks now. */
  start(): void {
    this.#nextTime = 0
    this.#turn()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#idSeq = this.#timeSeq = 0
  }

  /** A control packet of the upstream. */
  received(packet: Uint8Array): void {
    const seq = controlSeq(packet)
    if (packet[0] === COMMAND.ID_ASSIGN && seq !== 0 && seq === this.#idSeq) this.#assigned(packet, seq)
    else if (packet[0] === COMMAND.TIME_RESPONSE && seq !== 0 && seq === this.#timeSeq) this.#timed(packet)
    else if (packet[0] === COMMAND.HANDSHAKE_NACK && seq !== 0 && seq === this.#idSeq)
      this.#options.logger.warn(`the upstream gives no device id: ${parseNackReason(packet)}`)
  }

  #turn(): void {
    clearTimeout(this.#timer)
    const { send, nextSeq, clock, identity } = this.#options
    if (!identity.assigned) {
      this.#idSeq = nextSeq()
      void send(buildIdRequest(this.#idSeq, { device_id: identity.deviceId }))
    }
    const now = clock.mono()
    if (now >= this.#nextTime) {
      this.#timeSeq = nextSeq()
      this.#timeAskedAt = now
      this.#nextTime = now + TIME_RETRY_MS
      void send(buildTimeRequest(this.#timeSeq))
    }
    const wait = identity.assigned ? this.#nextTime - now : Math.min(ID_EVERY_MS, this.#nextTime - now)
    this.#timer = setTimeout(() => this.#turn(), Math.max(100, wait))
    this.#timer.unref()
  }

  #assigned(packet: Uint8Array, seq: number): void {
    const { identity, send, logger, changed } = this.#options
    const { assignedId } = parseIdAssign(packet)
    if (identity.assigned || assignedId === 0 || assignedId === UNASSIGNED) return
    this.#idSeq = 0
    identity.assign(assignedId)
    logger.info(`the upstream assigned id ${assignedId}`)
    void send(buildAck(seq))
    changed()
  }

  #timed(packet: Uint8Array): void {
    const { clock, time, changed } = this.#options
    const now = clock.mono()
    this.#timeSeq = 0
    this.#nextTime = now + TIME_EVERY_MS
    time.noteServerTime(parseServerTime(packet), now - this.#timeAskedAt)
    changed()
    this.#turn()
  }
}
