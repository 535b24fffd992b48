// What a gateway requests of its upstream when a link is ready: a device id if it has none, the time (at each opening and
// every ten minutes), and ids for its own nodes when few are left. An answer counts only with the number of an open request
// and from the uplink's own address (decision 0018). An unanswered id request is repeated every five seconds, a time request in the
// next round. A server time that differs from the node's is accepted when a second answer agrees, since control packets
// have no checksum. A pool is requested with identical bytes until the answer arrives, so that the upstream repeats a
// lost answer and no id is lost with it; it is acknowledged when it is on flash.
import { isAssigned } from '../../lib/assigned-id'
import type { Clock } from '../../lib/clock'
import { counted } from '../../lib/counted'
import { asOsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import {
  buildAck,
  buildIdPoolRequest,
  buildIdRequest,
  buildTimeRequest,
  controlSeq,
  parseIdAssign,
  parseIdPool,
  parseNackReason,
  parseServerTime,
} from '../../protocol/control'
import { AGREEMENT_MS, type NodeClock } from '../../protocol/time'
import { COMMAND } from '../../wire/commands'
import type { Identity } from '../identity'
import type { PoolWish } from '../ids'

interface RequestsOptions {
  send: (packet: Uint8Array) => Promise<boolean>
  nextSeq: () => number
  clock: Clock
  /** null: the upstream has the clock of this machine, which confirms nothing */
  time: NodeClock | null
  identity: Identity
  logger: Logger
  /** an id was assigned or the time was set: records may be sent */
  changed: () => void
  /** ids for the nodes of this gateway; null: none are requested of this upstream now */
  pool: () => PoolWish | null
}

const ID_EVERY_MS = 5000
const TIME_EVERY_MS = 600_000
const TIME_RETRY_MS = 5000
const POOL_EVERY_MS = 5000
const POOL_REFUSED_MS = 60_000

/** In one line, for a terminal. */
const reasonOf = (packet: Uint8Array): string =>
  parseNackReason(packet)
    .replace(/[^ -~]/g, '·')
    .slice(0, 100)

export class UpstreamRequests {
  readonly #options: RequestsOptions
  #idSeq = 0
  #timeSeq = 0
  #timeRequestedAt = 0
  #timer: NodeJS.Timeout | undefined
  #nextTime = 0
  /** the time by an answer that waits for a second one, minus the monotonic clock */
  #claim = Number.NaN
  #poolSeq = 0
  #poolRequest: Uint8Array | null = null
  #nextPool = 0

  constructor(options: RequestsOptions) {
    this.#options = options
  }

  /** The link is ready; sends the requests now. */
  start(): void {
    this.#nextTime = 0
    this.#turn()
  }

  /** The time is in doubt: requests it now if the link is ready. */
  requestTime(): void {
    if (this.#timer !== undefined) this.start()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#idSeq = this.#timeSeq = 0
  }

  /** A control packet of the upstream; false if it answers no open request. */
  received(packet: Uint8Array): boolean {
    const seq = controlSeq(packet)
    if (seq === 0) return false
    if (packet[0] === COMMAND.ID_ASSIGN && seq === this.#idSeq) this.#assigned(packet, seq)
    else if (packet[0] === COMMAND.TIME_RESPONSE && seq === this.#timeSeq) this.#timed(packet)
    else if (packet[0] === COMMAND.HANDSHAKE_NACK && seq === this.#idSeq) this.#idRefused(reasonOf(packet))
    else if (packet[0] === COMMAND.ID_POOL_RES && seq === this.#poolSeq) void this.#granted(parseIdPool(packet), seq)
    else if (packet[0] === COMMAND.HANDSHAKE_NACK && seq === this.#poolSeq) this.#refused(reasonOf(packet))
    else return false
    return true
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
      this.#timeRequestedAt = now
      this.#nextTime = now + TIME_RETRY_MS
      void send(buildTimeRequest(this.#timeSeq))
    }
    const pool = this.#options.pool()
    if (pool && now >= this.#nextPool) this.#requestPool(pool)
    const wait = Math.min(
      identity.assigned ? TIME_EVERY_MS : ID_EVERY_MS,
      pool ? POOL_EVERY_MS : TIME_EVERY_MS,
      this.#nextTime - now,
    )
    this.#timer = setTimeout(() => this.#turn(), Math.max(100, wait))
    this.#timer.unref()
  }

  #requestPool(pool: PoolWish): void {
    const { send, nextSeq, identity } = this.#options
    const count = pool.wanted()
    if (count === 0) return
    if (!this.#poolRequest) this.#poolSeq = nextSeq()
    void send((this.#poolRequest ??= buildIdPoolRequest(this.#poolSeq, count, { device_id: identity.deviceId })))
  }

  async #granted(ids: readonly number[], seq: number): Promise<void> {
    const { send, logger } = this.#options
    const pool = this.#options.pool()
    this.#poolSeq = 0
    this.#poolRequest = null
    if (!pool || ids.length === 0) return
    try {
      await pool.granted(ids)
      await send(buildAck(seq))
    } catch (error) {
      logger.error(
        `${counted(ids.length, 'id')} from the upstream's pool could not be stored: ${asOsError(error).message}`,
      )
    }
  }

  #idRefused(reason: string): void {
    const { identity, logger } = this.#options
    logger.warn(`the upstream assigns no device id: ${reason}`)
    identity.refuse(reason)
  }

  #refused(reason: string): void {
    this.#options.logger.warn(`the upstream assigns no ids for nodes of this gateway: ${reason}`)
    this.#poolSeq = 0
    this.#poolRequest = null
    this.#nextPool = this.#options.clock.mono() + POOL_REFUSED_MS
  }

  #assigned(packet: Uint8Array, seq: number): void {
    const { identity, send, logger, changed } = this.#options
    const { assignedId } = parseIdAssign(packet)
    if (identity.assigned || !isAssigned(assignedId)) return
    this.#idSeq = 0
    identity.assign(assignedId)
    logger.info(`the upstream assigned id ${assignedId}`)
    void send(buildAck(seq))
    changed()
  }

  #timed(packet: Uint8Array): void {
    const { clock, time, changed } = this.#options
    const now = clock.mono()
    const seconds = parseServerTime(packet)
    const halfMs = (now - this.#timeRequestedAt) / 2
    const differs = (ms: number): boolean => !(Math.abs(seconds * 1000 + 500 + halfMs - ms) <= AGREEMENT_MS + halfMs)
    const again = time !== null && differs(time.now()) && differs(this.#claim + now)
    const first = Number.isNaN(this.#claim)
    this.#claim = again ? seconds * 1000 + 500 + halfMs - now : Number.NaN
    this.#timeSeq = 0
    // the second request follows at once; answers that never agree are requested every 5 s only
    this.#nextTime = now + (again ? (first ? 0 : TIME_RETRY_MS) : TIME_EVERY_MS)
    if (!again) {
      time?.noteServerTime(seconds, 2 * halfMs)
      changed()
    }
    this.#turn()
  }
}
