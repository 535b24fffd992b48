// The requests of the handshake manager (docs/protocol.md section 2): their numbers, and the three loops that repeat a
// request until it is answered. A timeout or refusal returns null or []; errors of the transport are thrown to the caller.
import type { Clock } from '../../lib/clock'
import { COMMAND } from '../../wire/commands'
import * as control from '../control'
import { deviceKey } from '../ids/devicekey'
import { type Accepted, exchange, type RecvFn, type SendFn } from './exchange'
import { OpenRequests } from './open-requests'

interface RequesterOptions {
  clock: Clock
  sequence: control.SequenceCounter
  sleep: (ms: number) => Promise<void>
  /** the name for a request without a name in its metadata (X39) */
  deviceId: () => string
  /** an ID_ASSIGN with the seq of an open request: the id, null if it is not valid, and the packet that answers it */
  onIdAssign: (raw: Uint8Array, ageMs: number) => Accepted<number | null>
  /** a server time; false if it is not valid */
  onTime: (seconds: number, ageMs: number) => boolean
}

type Meta = Record<string, unknown> | null

/** keys that do not identify a device, since every device without a name has them */
const NAMELESS: ReadonlySet<string> = new Set(['', 'UNKNOWN', 'device_id:UNKNOWN'])

export class Requester {
  readonly #options: RequesterOptions
  readonly #open: OpenRequests

  constructor(options: RequesterOptions) {
    this.#options = options
    this.#open = new OpenRequests(options.clock)
  }

  buildIdRequest(deviceMeta: Meta = null): Uint8Array {
    return this.#request(COMMAND.ID_ASSIGN, seq => control.buildIdRequest(seq, deviceMeta))
  }
  buildIdPoolRequest(count = 10, meta: Meta = null): Uint8Array {
    return this.#request(COMMAND.ID_POOL_RES, seq => control.buildIdPoolRequest(seq, count, meta))
  }
  buildPing(): Uint8Array {
    return this.#request(COMMAND.PONG, control.buildPing)
  }
  buildTimeRequest(): Uint8Array {
    return this.#request(COMMAND.TIME_RESPONSE, control.buildTimeRequest)
  }

  /** Milliseconds since the request that this packet answers; null if none is open (decisions 0029 and 0018). */
  age(raw: Uint8Array): number | null {
    return this.#open.age(control.controlSeq(raw), raw[0] ?? 0)
  }

  /** Closes the request that this packet answers. */
  answered(raw: Uint8Array): void {
    if (this.age(raw) !== null) this.#open.closed(control.controlSeq(raw))
  }

  id(send: SendFn, receive: RecvFn, deviceMeta: Meta, timeout: number): Promise<number | null> {
    return this.#ask<number>(send, receive, timeout, this.buildIdRequest(this.#named(deviceMeta)), raw =>
      raw[0] === COMMAND.ID_ASSIGN ? this.#options.onIdAssign(raw, this.age(raw) ?? 0) : undefined,
    )
  }

  async idPool(send: SendFn, receive: RecvFn, count: number, meta: Meta, timeout: number): Promise<number[]> {
    const pool = await this.#ask<number[]>(
      send,
      receive,
      timeout,
      this.buildIdPoolRequest(count, this.#named(meta)),
      raw => {
        if (raw[0] !== COMMAND.ID_POOL_RES) return undefined
        const ids = control.parseIdPool(raw)
        return { answer: ids, reply: ids.length > 0 ? control.buildAck(control.controlSeq(raw)) : null }
      },
    )
    return pool ?? []
  }

  time(send: SendFn, receive: RecvFn, timeout: number): Promise<number | null> {
    return this.#ask<number>(send, receive, timeout, this.buildTimeRequest(), raw => {
      if (raw[0] !== COMMAND.TIME_RESPONSE) return undefined
      const seconds = control.parseServerTime(raw)
      return { answer: this.#options.onTime(seconds, this.age(raw) ?? 0) ? seconds : null }
    })
  }

  /** Metadata that identify this device to the server. */
  #named(meta: Meta): Meta {
    if (!NAMELESS.has(deviceKey(meta))) return meta
    const { device_key: _, ...others } = meta ?? {}
    return { ...others, device_id: this.#options.deviceId() }
  }

  #request(answer: number, build: (seq: number) => Uint8Array): Uint8Array {
    const seq = this.#options.sequence.next()
    const bytes = build(seq)
    this.#open.opened(seq, answer)
    return bytes
  }

  async #ask<Answer>(
    send: SendFn,
    receive: RecvFn,
    timeout: number,
    request: Uint8Array,
    accept: (raw: Uint8Array) => Accepted<Answer | null> | undefined,
  ): Promise<Answer | null> {
    const { clock, sleep } = this.#options
    const seq = control.controlSeq(request)
    try {
      return await exchange<Answer | null>({
        send,
        receive,
        request,
        timeout,
        clock,
        sleep,
        accept: raw => {
          if (control.controlSeq(raw) !== seq) return undefined
          return raw[0] === COMMAND.HANDSHAKE_NACK ? { answer: null } : accept(raw)
        },
      })
    } finally {
      this.#open.closed(seq)
    }
  }
}
