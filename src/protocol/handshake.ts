// The handshake manager (specification "Handshake manager", PROTOCOL §7): builds requests, answers the control packets of
// peers, and decides FULL or DIFF. Pure: allocator, parser, clock and transports are handed in.
//
// What fails: a packet nobody understands is answered NACK; a request that cannot be served is answered NACK with its
// reason; an id that is not on flash yet must not be told: await `durable` before sending `response`, or use dispatch(), which
// drops the response when the disk fails (the device asks again). classifyAndDispatch never throws for any bytes.
import { join } from 'node:path'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { COMMAND, isData } from '../wire/commands'
import * as control from './control'
import { type Accepted, exchange, type RecvFn, type SendFn } from './exchange'
import { addressText, type DispatchResult, IdService, type IdSource } from './idservice'
import { OpenRequests } from './requests'
import { type Strategy, SyncStatus } from './strategy'

export interface HandshakeOptions {
  targetSyncCount?: number
  /** folder of the template registry; a file of an AID there lets its first packet be a DIFF */
  registryDir?: string | null
  expireSeconds?: number
  /** file of the secure sessions, for the sessions handed in */
  secureStorePath?: string | null
}

/** What it reads of a decoded packet. */
export interface DataMeta {
  source_aid?: number | null
  secure?: boolean | null
  crc16_ok?: boolean | null
  server_stamped?: boolean | null
  timestamp_raw?: number | null
}

/** Decodes data packets: the fact dict with `__packet_meta__`, or `{error, __packet_meta__}`. */
export interface DataParser {
  decompress(raw: Uint8Array): Record<string, unknown> & { error?: unknown; __packet_meta__?: DataMeta }
}

/** The secure sessions of PROTOCOL §7, when there are any. */
export interface SecureSessions {
  hasSecureDict(aid: number): boolean
  confirmSecureDict(aid: number, timestampRaw: number | null, addr: unknown): boolean
  markSecureChannel(aid: number, addr: unknown): void
  /** the packet that moves the session on after a decoded data packet */
  replyToData(meta: DataMeta, addr: unknown): Uint8Array | null
}

export type DeviceRole = 'duplex' | 'tx_only' | 'rx_only'

export interface HandshakeDeps {
  clock?: Clock
  /** what this node tells others as the time, UNIX seconds */
  serverTime?: () => number
  allocator?: IdSource | null
  parser?: DataParser | null
  sessions?: SecureSessions | null
  role?: DeviceRole
  /** shared with everything that sends requests (the delivery probes) */
  sequence?: control.SequenceCounter
  /** server times at or below are no times, seconds */
  timeSyncThreshold?: number
  /** D16: ID_ASSIGN, ID_POOL_RES and TIME_RESPONSE only count with the seq of an open request */
  requireOpenRequest?: boolean
  /** told of a server time that counts: UNIX seconds, and how long the answer took */
  onServerTime?: (seconds: number, rttMs: number) => void
  files?: Files
  sleep?: (ms: number) => Promise<void>
}

const UNASSIGNED = 0xffff_ffff

const IGNORED: Record<DeviceRole, ReadonlySet<number>> = {
  duplex: new Set(),
  tx_only: new Set([COMMAND.ID_REQUEST, COMMAND.ID_POOL_REQ, COMMAND.PING, COMMAND.TIME_REQUEST]),
  rx_only: new Set([
    COMMAND.ID_REQUEST,
    COMMAND.ID_ASSIGN,
    COMMAND.ID_POOL_REQ,
    COMMAND.ID_POOL_RES,
    COMMAND.PONG,
    COMMAND.TIME_RESPONSE,
    COMMAND.SECURE_DICT_READY,
    COMMAND.SECURE_CHANNEL_ACK,
  ]),
}

export type { DispatchResult, IdSource }

export class HandshakeManager {
  readonly targetSyncCount: number
  readonly expireSeconds: number
  readonly secureStorePath: string | null
  /** newest server time that counted, UNIX seconds; 0 before any */
  lastServerTime = 0
  /** answers without an open request */
  strayAnswers = 0
  readonly #deps: HandshakeDeps
  readonly #clock: Clock
  readonly #sequence: control.SequenceCounter
  readonly #requests: OpenRequests
  readonly #sync: SyncStatus
  readonly #ids: IdService

  constructor(
    { targetSyncCount = 3, registryDir = null, expireSeconds = 86_400, secureStorePath = null }: HandshakeOptions = {},
    deps: HandshakeDeps = {},
  ) {
    this.targetSyncCount = targetSyncCount
    this.expireSeconds = expireSeconds
    this.secureStorePath = secureStorePath
    this.#deps = deps
    this.#clock = deps.clock ?? systemClock
    this.#sequence = deps.sequence ?? new control.SequenceCounter()
    this.#requests = new OpenRequests(this.#clock)
    this.#ids = new IdService(deps.allocator ?? null, this.#clock, () => this.#serverTime())
    const files = deps.files ?? realFiles
    this.#sync = new SyncStatus({
      targetSyncCount,
      expireSeconds,
      now: () => this.#seconds(),
      hasRegistry: aid => {
        if (registryDir === null) return false
        const digits = String(aid).padStart(10, '0')
        return files.exists(join(registryDir, digits.slice(0, 2), digits.slice(2, 4), `${aid}.json`))
      },
    })
  }

  /** What the next packet of that AID should be; X22: ask with hasTemplate false until the first FULL of this run. */
  getStrategy(aid: number, hasTemplate = false): Strategy {
    return this.#sync.strategy(aid, hasTemplate, this.#deps.sessions?.hasSecureDict(aid) ?? false)
  }

  /** A packet of that AID was really sent. */
  commitSuccess(aid: number): void {
    this.#sync.commit(aid)
  }

  /** A server told the time; false when it is none. `rttMs`: how long its answer took. */
  noteServerTime(seconds: number, rttMs = 0): boolean {
    if (!Number.isFinite(seconds) || seconds <= (this.#deps.timeSyncThreshold ?? 1_000_000)) return false
    this.lastServerTime = Math.floor(seconds)
    this.#deps.onServerTime?.(seconds, rttMs)
    return true
  }

  buildIdRequest(deviceMeta: Record<string, unknown> | null = null): Uint8Array {
    return this.#request(COMMAND.ID_ASSIGN, seq => control.buildIdRequest(seq, deviceMeta))
  }
  /** Throws BAD_REQUEST when count is not 0…65535. */
  buildIdPoolRequest(count = 10, meta: Record<string, unknown> | null = null): Uint8Array {
    return this.#request(COMMAND.ID_POOL_RES, seq => control.buildIdPoolRequest(seq, count, meta))
  }
  buildPing(): Uint8Array {
    return this.#request(COMMAND.PONG, control.buildPing)
  }
  buildTimeRequest(): Uint8Array {
    return this.#request(COMMAND.TIME_RESPONSE, control.buildTimeRequest)
  }

  /** Whether an answer's seq belongs to a request of this node that is still open (D8, D16). */
  isOpen(raw: Uint8Array): boolean {
    return this.#requests.age(control.controlSeq(raw), raw[0] ?? 0) !== null
  }

  /** Takes any packet and says what it was and what to answer (PROTOCOL §7). Never throws. */
  classifyAndDispatch(raw: Uint8Array, addr: unknown = null): DispatchResult {
    const cmd = raw[0]
    if (cmd === undefined) return { type: 'ERROR', cmd: 0, result: { error: 'Empty packet' }, response: null }
    const role = this.#deps.role ?? 'duplex'
    const ignored = (reason: string): DispatchResult => ({ type: 'IGNORED', cmd, result: { reason }, response: null })
    if (isData(cmd)) return role === 'tx_only' ? ignored('tx_only: inbound DATA ignored') : this.#onData(raw, cmd, addr)
    if (IGNORED[role].has(cmd)) return ignored(`${role}: CTRL ${control.commandText(cmd)} ignored`)
    if (this.#isStray(raw, cmd)) {
      this.strayAnswers++
      return ignored('no open request')
    }
    try {
      return this.#onControl(raw, cmd, addr)
    } catch (error) {
      return { type: 'ERROR', cmd, result: { error: asOsError(error).message }, response: null }
    }
  }

  /** The same, settled when the response may be sent; without a response when it could not be made durable. */
  async dispatch(raw: Uint8Array, addr: unknown = null): Promise<DispatchResult> {
    const { durable, ...result } = this.classifyAndDispatch(raw, addr)
    try {
      await durable
      return result
    } catch (error) {
      const reason = asOsError(error).message
      return { type: 'ERROR', cmd: result.cmd, result: { status: 'REJECTED', reason }, response: null }
    }
  }

  /** Asks for a device id; null when none came in `timeout` seconds or the server refused. */
  requestIdViaTransport(
    sendFn: SendFn,
    recvFn: RecvFn,
    deviceMeta: Record<string, unknown> | null = null,
    timeout = 5.0,
  ): Promise<number | null> {
    return this.#ask(sendFn, recvFn, timeout, this.buildIdRequest(deviceMeta), (raw, seq) => {
      if (raw[0] !== COMMAND.ID_ASSIGN) return undefined
      const { result, response } = this.#onIdAssign(raw, this.#requests.age(seq, COMMAND.ID_ASSIGN) ?? 0)
      return { answer: result['status'] === 'RECEIVED' ? Number(result['assigned_id']) : null, reply: response }
    })
  }

  /** Asks for `count` ids; empty when none came. */
  async requestIdPoolViaTransport(
    sendFn: SendFn,
    recvFn: RecvFn,
    count = 10,
    meta: Record<string, unknown> | null = null,
    timeout = 5.0,
  ): Promise<number[]> {
    const pool = await this.#ask(sendFn, recvFn, timeout, this.buildIdPoolRequest(count, meta), (raw, seq) => {
      if (raw[0] !== COMMAND.ID_POOL_RES) return undefined
      const ids = control.parseIdPool(raw)
      return { answer: ids, reply: ids.length > 0 ? control.buildAck(seq) : null }
    })
    return pool ?? []
  }

  /** Asks for the server's time in UNIX seconds; null when none came. */
  requestTimeViaTransport(sendFn: SendFn, recvFn: RecvFn, timeout = 3.0): Promise<number | null> {
    return this.#ask(sendFn, recvFn, timeout, this.buildTimeRequest(), (raw, seq) => {
      if (raw[0] !== COMMAND.TIME_RESPONSE) return undefined
      const seconds = control.parseServerTime(raw)
      const taken = this.noteServerTime(seconds, this.#requests.age(seq, COMMAND.TIME_RESPONSE) ?? 0)
      return { answer: taken ? seconds : null }
    })
  }

  async #ask<Answer>(
    send: SendFn,
    receive: RecvFn,
    timeout: number,
    request: Uint8Array,
    accept: (raw: Uint8Array, seq: number) => Accepted<Answer | null> | undefined,
  ): Promise<Answer | null> {
    const seq = control.controlSeq(request)
    const sleep = this.#deps.sleep ?? ((ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms)))
    try {
      return await exchange<Answer | null>({
        send,
        receive,
        request,
        timeout,
        clock: this.#clock,
        sleep,
        accept: raw => {
          if (control.controlSeq(raw) !== seq) return undefined
          return raw[0] === COMMAND.HANDSHAKE_NACK ? { answer: null } : accept(raw, seq)
        },
      })
    } finally {
      this.#requests.closed(seq)
    }
  }

  #request(answer: number, build: (seq: number) => Uint8Array): Uint8Array {
    const seq = this.#sequence.next()
    const bytes = build(seq)
    this.#requests.opened(seq, answer)
    return bytes
  }

  #isStray(raw: Uint8Array, cmd: number): boolean {
    if (!this.#deps.requireOpenRequest) return false
    if (cmd !== COMMAND.ID_ASSIGN && cmd !== COMMAND.ID_POOL_RES && cmd !== COMMAND.TIME_RESPONSE) return false
    return !this.isOpen(raw)
  }

  #onControl(raw: Uint8Array, cmd: number, addr: unknown): DispatchResult {
    const seq = control.controlSeq(raw)
    const done = (result: Record<string, unknown>, response: Uint8Array | null = null): DispatchResult => ({
      type: 'CTRL',
      cmd,
      result,
      response,
    })
    const age = this.#requests.age(seq, cmd) ?? 0
    switch (cmd) {
      case COMMAND.ID_REQUEST:
        return this.#ids.onRequest(raw, addr)
      case COMMAND.ID_POOL_REQ:
        return this.#ids.onPoolRequest(raw, addr)
      case COMMAND.ID_ASSIGN:
        this.#requests.closed(seq)
        return this.#onIdAssign(raw, age)
      case COMMAND.ID_POOL_RES: {
        this.#requests.closed(seq)
        const pool = control.parseIdPool(raw)
        return pool.length > 0
          ? done({ status: 'POOL_RECEIVED', pool }, control.buildAck(seq))
          : done({ status: 'EMPTY_POOL' })
      }
      case COMMAND.HANDSHAKE_ACK:
        return done({ status: 'ACK_RECEIVED', seq })
      case COMMAND.HANDSHAKE_NACK:
        return done({ status: 'NACK_RECEIVED', seq, reason: control.parseNackReason(raw) })
      case COMMAND.PING:
        return done({ status: 'PING', seq }, control.buildPong(seq))
      case COMMAND.PONG:
        this.#requests.closed(seq)
        return done({ status: 'PONG', seq })
      case COMMAND.TIME_REQUEST: {
        const time = this.#serverTime()
        return done({ status: 'TIME_REQUEST', seq, server_time: time }, control.buildTimeResponse(seq, time))
      }
      case COMMAND.TIME_RESPONSE: {
        this.#requests.closed(seq)
        const time = control.parseServerTime(raw)
        this.noteServerTime(time, age)
        return done({ status: 'TIME_RESPONSE', seq, server_time: time })
      }
      case COMMAND.SECURE_DICT_READY: {
        const { assignedId, timestampRaw } = control.parseSecureDictReady(raw)
        const ready = this.#deps.sessions?.confirmSecureDict(assignedId, timestampRaw, addr) ?? false
        const status = ready ? 'DICT_READY' : 'DICT_PENDING'
        return done({ status, assigned_id: assignedId, timestamp_raw: timestampRaw })
      }
      case COMMAND.SECURE_CHANNEL_ACK: {
        const aid = control.parseSecureChannelAck(raw)
        this.#deps.sessions?.markSecureChannel(aid, addr)
        return done({ status: 'SECURE_CHANNEL_ACK', assigned_id: aid })
      }
      default: {
        const name = control.commandText(cmd)
        const response = control.buildNack(0, `Unknown CMD ${name}`)
        return { type: 'UNKNOWN', cmd, result: { error: `Unknown command ${name}` }, response }
      }
    }
  }

  #onData(raw: Uint8Array, cmd: number, addr: unknown): DispatchResult {
    const parser = this.#deps.parser
    if (!parser) {
      const raw_hex = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('hex')
      return { type: 'DATA', cmd, result: { error: 'No parser attached', raw_hex }, response: null }
    }
    let result: ReturnType<DataParser['decompress']>
    try {
      result = parser.decompress(raw)
    } catch (error) {
      return { type: 'ERROR', cmd, result: { error: asOsError(error).message }, response: null }
    }
    const meta = result.__packet_meta__ ?? {}
    if (result.error !== undefined || meta.crc16_ok !== true) return { type: 'DATA', cmd, result, response: null }
    const aid = meta.source_aid ?? 0
    this.#deps.allocator?.touch(aid, addressText(addr))
    const response =
      meta.server_stamped && !meta.secure && !this.#deps.sessions?.hasSecureDict(aid)
        ? control.buildTimeResponse(0, this.#serverTime())
        : (this.#deps.sessions?.replyToData(meta, addr) ?? null)
    return { type: 'DATA', cmd, result, response }
  }

  #onIdAssign(raw: Uint8Array, age: number): DispatchResult {
    const cmd = COMMAND.ID_ASSIGN
    const { seq, assignedId, serverTime } = control.parseIdAssign(raw)
    if (assignedId === 0 || assignedId === UNASSIGNED) {
      const hex = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('hex')
      const response = control.buildNack(seq, 'INVALID_ID')
      return { type: 'CTRL', cmd, result: { status: 'INVALID', raw: hex, seq }, response }
    }
    if (serverTime !== null) this.noteServerTime(serverTime, age)
    const result = { status: 'RECEIVED', assigned_id: assignedId, seq, server_time: serverTime }
    return { type: 'CTRL', cmd, result, response: control.buildAck(seq) }
  }

  #seconds(): number {
    return Math.floor(this.#clock.wall() / 1000)
  }

  #serverTime(): number {
    return Math.floor(this.#deps.serverTime?.() ?? this.#seconds())
  }
}
