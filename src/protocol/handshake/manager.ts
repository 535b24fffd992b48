// The handshake manager (specification "Handshake manager"): builds requests and replies, answers the packets of peers, keeps
// the secure sessions, and decides FULL or DIFF. Pure: allocator, parser, clock and transports are parameters. Alone it is
// the component of the vectors; Node and gateway pass `strict`, and then only packets that relate to an action of this node
// change a key (X7, S13).
//
// Errors: an unknown packet is answered NACK. A request that cannot be served is answered NACK with its reason. An id that is
// not on flash yet must not be sent: await `durable` before sending `response`, or use dispatch(), which drops the response
// if the disk fails (the device repeats its request). classifyAndDispatch never throws, whatever the bytes.
import { join } from 'node:path'
import { newDeviceId } from '../../config/device'
import { checkNames, namesOf } from '../../lib/checked'
import { type Clock, systemClock } from '../../lib/clock'
import { asOsError } from '../../lib/errors'
import { realFiles } from '../../lib/files'
import { LruMap } from '../../lib/lru-map'
import { sleep, systemTimers } from '../../lib/timers'
import { COMMAND, isData } from '../../wire/commands'
import * as control from '../control'
import { type DispatchResult, IdService } from '../ids/service'
import { type RefusedFrame, refusedFrameText } from '../nack'
import { SecureSessions, type SessionRecord } from '../secure/sessions'
import { ControlHandler } from './control-packets'
import { DataHandler } from './data-packets'
import type { RecvFn, SendFn } from './exchange'
import { Requester } from './request-loops'
import { type DeviceRole, ignoresControl } from './roles'
import { type PacketStrategy, SyncStatus } from './strategy'
import type { HandshakeDeps, HandshakeOptions } from './types'

export type { HandshakeDeps, HandshakeOptions, StrictSecurity } from './types'
export type { DispatchResult }

/** AIDs whose newest timestamp is remembered */
const MAX_WATERMARKS = 65_536

const OPTIONS = namesOf<HandshakeOptions>()('targetSyncCount registryDir expireSeconds secureStorePath')
const DEPS = namesOf<HandshakeDeps>()(
  'clock serverTime allocator parser sessions strict role sequence timeSyncThreshold requireOpenRequest',
  'onServerTime onProblem files deviceId sleep',
)

export class HandshakeManager {
  readonly targetSyncCount: number
  readonly expireSeconds: number
  readonly secureStorePath: string | null
  /** the sessions read by hasSecureDict and similar methods: those of the client in strict mode */
  readonly sessions: SecureSessions
  /** newest accepted server time, UNIX seconds; 0 before any */
  lastServerTime = 0
  /** answers about time or identity without an open request, or from an address that is not the server's */
  strayAnswers = 0
  readonly #deps: HandshakeDeps
  readonly #clock: Clock
  readonly #role: DeviceRole
  readonly #requester: Requester
  readonly #sync: SyncStatus
  readonly #control: ControlHandler
  readonly #data: DataHandler
  /** newest accepted timestamp by AID; the AID not checked for longest is evicted */
  readonly #newest = new LruMap<number, number>(MAX_WATERMARKS)

  constructor(options: HandshakeOptions = {}, deps: HandshakeDeps = {}) {
    checkNames('new HandshakeManager', options, OPTIONS)
    checkNames('new HandshakeManager', deps, DEPS, 'deps')
    const { targetSyncCount = 3, registryDir = null, expireSeconds = 86_400, secureStorePath = null } = options
    this.targetSyncCount = targetSyncCount
    this.expireSeconds = expireSeconds
    this.secureStorePath = secureStorePath
    this.#deps = deps
    this.#clock = deps.clock ?? systemClock
    this.#role = deps.role ?? 'duplex'
    const files = deps.files ?? realFiles
    const strict = deps.strict ?? null
    const serverTime = (): number => this.#serverTime()
    this.sessions =
      deps.sessions ??
      strict?.client?.sessions ??
      new SecureSessions({
        expireSeconds,
        // in strict mode both sessions have their own files; a second writer would overwrite them
        storePath: strict ? null : secureStorePath,
        timeSyncThreshold: deps.timeSyncThreshold,
        now: () => this.#seconds(),
        mono: () => this.#clock.mono(),
        files,
        onProblem: deps.onProblem,
      })
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
    let made = ''
    this.#requester = new Requester({
      // without a file to store it, the name is valid as long as the manager exists
      deviceId: deps.deviceId ?? (() => (made ||= newDeviceId())),
      clock: this.#clock,
      sequence: deps.sequence ?? new control.SequenceCounter(),
      sleep: deps.sleep ?? (ms => sleep(systemTimers, ms)),
      onIdAssign: (raw, age) => {
        const { result, response } = this.#control.idAssign(raw, age)
        return { answer: result['status'] === 'RECEIVED' ? Number(result['assigned_id']) : null, reply: response }
      },
      onTime: (seconds, age) => this.noteServerTime(seconds, age),
    })
    const allocator = deps.allocator ?? null
    this.#control = new ControlHandler({
      ids: new IdService(allocator, this.#clock, serverTime),
      requester: this.#requester,
      sessions: this.sessions,
      strict,
      serverTime,
      noteServerTime: (seconds, rtt) => this.noteServerTime(seconds, rtt),
    })
    const { parser = null } = deps
    this.#data = new DataHandler({ parser, allocator, sessions: this.sessions, strict, role: this.#role, serverTime })
  }

  // ---- FULL or DIFF

  /** The type of the next packet of that AID; X22: pass hasTemplate false until the first FULL of this run. */
  getStrategy(srcAid: number, hasTemplate = false): PacketStrategy {
    return this.#sync.strategy(srcAid, hasTemplate, this.sessions.hasSecureDict(srcAid))
  }

  /** A packet of that AID was sent. */
  commitSuccess(srcAid: number): void {
    this.#sync.commit(srcAid)
  }

  // ---- secure sessions, as the reference changes them

  noteLocalPlaintextSent(aid: number, timestampRaw: number, addr: unknown = null): SessionRecord {
    this.#deps.strict?.client?.plaintextSent(aid, timestampRaw)
    return this.sessions.noteLocalPlaintextSent(aid, timestampRaw, addr)
  }
  establishRemotePlaintext(aid: number, timestampRaw: number, addr: unknown = null): SessionRecord {
    return this.sessions.establishRemotePlaintext(aid, timestampRaw, addr)
  }
  /** A direct call trusts its caller, strict or not. */
  confirmSecureDict(aid: number, timestampRaw: number | null = null, addr: unknown = null): boolean {
    return this.sessions.confirmSecureDict(aid, timestampRaw, addr)
  }
  markSecureChannel(aid: number, addr: unknown = null): void {
    this.sessions.markSecureChannel(aid, addr)
  }
  hasSecureDict(aid: number): boolean {
    return this.sessions.hasSecureDict(aid)
  }
  shouldEncryptOutbound(aid: number): boolean {
    return this.sessions.shouldEncryptOutbound(aid)
  }
  getSessionKey(aid: number): Uint8Array | null {
    return this.sessions.getSessionKey(aid)
  }

  // ---- time

  /** The time of a server; false if it is not valid. `rttMs`: round trip of its answer. */
  noteServerTime(ts: number, rttMs = 0): boolean {
    if (!Number.isFinite(ts) || ts <= (this.#deps.timeSyncThreshold ?? 1_000_000)) return false
    this.lastServerTime = Math.floor(ts)
    this.#deps.onServerTime?.(ts, rttMs)
    return true
  }

  /**
   * The timestamp check of the reference: compares with the newest accepted timestamp of that AID (as a number or its text);
   * a missing one counts as 0. The receive path does not use it, since backlog and reordering are valid (decision 0018, X10).
   */
  checkTimestamp(aid: number | string, timestamp: number | null): 'ACCEPT' | 'REPLAY' | 'OUT_OF_ORDER' {
    const ts = timestamp ?? 0
    const newest = this.#newest.get(Number(aid))
    if (newest !== undefined && ts <= newest) return ts === newest ? 'REPLAY' : 'OUT_OF_ORDER'
    this.#newest.set(Number(aid), ts)
    return 'ACCEPT'
  }

  // ---- builders: requests take the next number, replies repeat that of the request

  buildIdRequest(deviceMeta: Record<string, unknown> | null = null): Uint8Array {
    return this.#requester.buildIdRequest(deviceMeta)
  }
  /** Throws BAD_REQUEST when count is not 0…65535. */
  buildIdPoolRequest(count = 10, meta: Record<string, unknown> | null = null): Uint8Array {
    return this.#requester.buildIdPoolRequest(count, meta)
  }
  buildPing(): Uint8Array {
    return this.#requester.buildPing()
  }
  buildTimeRequest(): Uint8Array {
    return this.#requester.buildTimeRequest()
  }
  buildAck(seq = 0): Uint8Array {
    return control.buildAck(seq)
  }
  buildNack(seq = 0, reason = ''): Uint8Array {
    return control.buildNack(seq, reason)
  }
  /** NACK BAD_KEY (X7) or NEED_FULL (X9), with the identity of the frame. */
  buildRefusal(refused: RefusedFrame): Uint8Array {
    return control.buildNack(0, refusedFrameText(refused))
  }
  buildPong(seq = 0): Uint8Array {
    return control.buildPong(seq)
  }
  /** Default: the time that this node sends. */
  buildTimeResponse(seq = 0, serverTime: number = this.#serverTime()): Uint8Array {
    return control.buildTimeResponse(seq, serverTime)
  }
  buildIdAssign(seq: number, assignedId: number, serverTime: number | null = null): Uint8Array {
    return control.buildIdAssign(seq, assignedId, serverTime)
  }
  buildIdPoolResponse(seq: number, pool: readonly number[]): Uint8Array {
    return control.buildIdPoolResponse(seq, pool)
  }
  buildSecureDictReady(assignedId: number, timestampRaw: number): Uint8Array {
    return control.buildSecureDictReady(assignedId, timestampRaw)
  }
  buildSecureChannelAck(assignedId: number): Uint8Array {
    return control.buildSecureChannelAck(assignedId)
  }

  // ---- received packets

  /** Whether an answer's seq belongs to an open request of this node (decisions 0029 and 0018). */
  isOpen(raw: Uint8Array): boolean {
    return this.#requester.age(raw) !== null
  }

  /** Classifies any packet and returns the answer. Never throws. */
  classifyAndDispatch(rawBytes: Uint8Array, addr: unknown = null): DispatchResult {
    const cmd = rawBytes[0]
    if (cmd === undefined) return { type: 'ERROR', cmd: 0, result: { error: 'Empty packet' }, response: null }
    const role = this.#role
    const ignored = (reason: string): DispatchResult => ({ type: 'IGNORED', cmd, result: { reason }, response: null })
    try {
      if (isData(cmd))
        return role === 'tx_only' ? ignored('tx_only: inbound DATA ignored') : this.#data.handle(rawBytes, cmd, addr)
      if (ignoresControl(role, cmd)) return ignored(`${role}: CTRL ${control.commandText(cmd)} ignored`)
      if (this.#isStray(rawBytes, cmd, addr)) {
        this.strayAnswers++
        return ignored('no open request')
      }
      return this.#control.handle(rawBytes, cmd, addr)
    } catch (error) {
      return { type: 'ERROR', cmd, result: { error: asOsError(error).message }, response: null }
    }
  }

  /**
   * Like classifyAndDispatch(), settled when the response may be sent; without a response if it could not be made durable.
   */
  async dispatch(raw: Uint8Array, addr: unknown = null): Promise<DispatchResult> {
    const { durable, later, ...result } = this.classifyAndDispatch(raw, addr)
    try {
      if (later) return { ...result, response: await later }
      await durable
      return result
    } catch (error) {
      const reason = asOsError(error).message
      return { type: 'ERROR', cmd: result.cmd, result: { status: 'REJECTED', reason }, response: null }
    }
  }

  // ---- request loops; timeouts in seconds

  /** Requests a device id; null if none arrived in `timeout` seconds or the server refused. */
  requestIdViaTransport(
    sendFn: SendFn,
    recvFn: RecvFn,
    deviceMeta: Record<string, unknown> | null = null,
    timeout = 5.0,
  ): Promise<number | null> {
    return this.#requester.id(sendFn, recvFn, deviceMeta, timeout)
  }

  /** Requests `count` ids; empty if none arrived. */
  async requestIdPoolViaTransport(
    sendFn: SendFn,
    recvFn: RecvFn,
    count = 10,
    meta: Record<string, unknown> | null = null,
    timeout = 5.0,
  ): Promise<number[]> {
    return this.#requester.idPool(sendFn, recvFn, count, meta, timeout)
  }

  /** Requests the server's time in UNIX seconds; null if none arrived. */
  async requestTimeViaTransport(sendFn: SendFn, recvFn: RecvFn, timeout = 3.0): Promise<number | null> {
    return this.#requester.time(sendFn, recvFn, timeout)
  }

  /** Writes the sessions that are not on flash yet. */
  stop(): void {
    this.sessions.save(true)
  }

  /** True for an answer about time or identity without an open request to that address (decision 0018). */
  #isStray(raw: Uint8Array, cmd: number, addr: unknown): boolean {
    if (cmd !== COMMAND.ID_ASSIGN && cmd !== COMMAND.ID_POOL_RES && cmd !== COMMAND.TIME_RESPONSE) return false
    if (this.#deps.strict?.trusts?.(addr) === false) return true
    return this.#deps.requireOpenRequest === true && !this.isOpen(raw)
  }

  #seconds(): number {
    return Math.floor(this.#clock.wall() / 1000)
  }

  #serverTime(): number {
    return Math.floor(this.#deps.serverTime?.() ?? this.#seconds())
  }
}
