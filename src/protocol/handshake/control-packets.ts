// Handles each control packet (docs/protocol.md section 2), one case per command byte. Pure over its parameters; a packet
// with an unknown command is answered NACK. Throws the errors of its parts; the manager turns them into an ERROR envelope.
import { isAssigned } from '../../lib/assigned-id'
import { COMMAND } from '../../wire/commands'
import * as control from '../control'
import type { DispatchResult, IdService } from '../ids/service'
import { parseRefusedFrame } from '../nack'
import type { SecureClient } from '../secure/client'
import type { SecureSessions } from '../secure/sessions'
import type { Requester } from './request-loops'
import type { StrictSecurity } from './types'

interface ControlHandlerOptions {
  ids: IdService
  requester: Requester
  sessions: SecureSessions
  strict: StrictSecurity | null
  /** UNIX seconds */
  serverTime: () => number
  noteServerTime: (seconds: number, rttMs: number) => boolean
}

export class ControlHandler {
  readonly #options: ControlHandlerOptions

  constructor(options: ControlHandlerOptions) {
    this.#options = options
  }

  handle(raw: Uint8Array, cmd: number, addr: unknown): DispatchResult {
    const { ids, requester, serverTime, noteServerTime } = this.#options
    const seq = control.controlSeq(raw)
    const age = requester.age(raw) ?? 0
    requester.answered(raw)
    const done = (result: Record<string, unknown>, response: Uint8Array | null = null): DispatchResult => ({
      type: 'CTRL',
      cmd,
      result,
      response,
    })
    switch (cmd) {
      case COMMAND.ID_REQUEST:
        return ids.onRequest(raw, addr)
      case COMMAND.ID_POOL_REQ:
        return ids.onPoolRequest(raw, addr)
      case COMMAND.ID_ASSIGN:
        return this.idAssign(raw, age)
      case COMMAND.ID_POOL_RES: {
        const pool = control.parseIdPool(raw)
        return pool.length > 0
          ? done({ status: 'POOL_RECEIVED', pool }, control.buildAck(seq))
          : done({ status: 'EMPTY_POOL' })
      }
      case COMMAND.HANDSHAKE_ACK:
        ids.onAck(seq, addr)
        return done({ status: 'ACK_RECEIVED', seq })
      case COMMAND.HANDSHAKE_NACK:
        return done(this.#nack(raw, seq, addr))
      case COMMAND.PING:
        return done({ status: 'PING', seq }, control.buildPong(seq))
      case COMMAND.PONG:
        return done({ status: 'PONG', seq })
      case COMMAND.TIME_REQUEST: {
        const time = serverTime()
        return done({ status: 'TIME_REQUEST', seq, server_time: time }, control.buildTimeResponse(seq, time))
      }
      case COMMAND.TIME_RESPONSE: {
        const time = control.parseServerTime(raw)
        noteServerTime(time, age)
        return done({ status: 'TIME_RESPONSE', seq, server_time: time })
      }
      case COMMAND.SECURE_DICT_READY:
        return done(this.#dictReady(raw, addr))
      case COMMAND.SECURE_CHANNEL_ACK:
        return done(this.#channelAck(raw, addr))
      default: {
        const name = control.commandText(cmd)
        const response = control.buildNack(0, `Unknown CMD ${name}`)
        return { type: 'UNKNOWN', cmd, result: { error: `Unknown command ${name}` }, response }
      }
    }
  }

  /** An id was assigned to this node; `ageMs`: since the request. */
  idAssign(raw: Uint8Array, ageMs: number): DispatchResult {
    const cmd = COMMAND.ID_ASSIGN
    const { seq, assignedId, serverTime } = control.parseIdAssign(raw)
    if (!isAssigned(assignedId)) {
      const hex = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('hex')
      const response = control.buildNack(seq, 'INVALID_ID')
      return { type: 'CTRL', cmd, result: { status: 'INVALID', raw: hex, seq }, response }
    }
    if (serverTime !== null) this.#options.noteServerTime(serverTime, ageMs)
    const result = { status: 'RECEIVED', assigned_id: assignedId, seq, server_time: serverTime }
    return { type: 'CTRL', cmd, result, response: control.buildAck(seq) }
  }

  #nack(raw: Uint8Array, seq: number, addr: unknown): Record<string, unknown> {
    const reason = control.parseNackReason(raw)
    const refused = seq === 0 ? parseRefusedFrame(reason) : null
    const result = { status: 'NACK_RECEIVED', seq, reason }
    if (!refused) return result
    const { strict } = this.#options
    const obeyed = trusts(strict, addr) && (strict?.onRefused?.(refused, addr) ?? false)
    return { ...result, refused, obeyed }
  }

  /** The client session for a packet of its server. */
  #client(addr: unknown): SecureClient | null {
    const { strict } = this.#options
    return trusts(strict, addr) ? (strict?.clientOf?.(addr) ?? strict?.client ?? null) : null
  }

  #dictReady(raw: Uint8Array, addr: unknown): Record<string, unknown> {
    const { strict, sessions } = this.#options
    const { assignedId, timestampRaw } = control.parseSecureDictReady(raw)
    const ready = strict
      ? (this.#client(addr)?.onDictReady(assignedId, timestampRaw, addr) ?? false)
      : sessions.confirmSecureDict(assignedId, timestampRaw, addr)
    return { status: ready ? 'DICT_READY' : 'DICT_PENDING', assigned_id: assignedId, timestamp_raw: timestampRaw }
  }

  #channelAck(raw: Uint8Array, addr: unknown): Record<string, unknown> {
    const { strict, sessions } = this.#options
    const aid = control.parseSecureChannelAck(raw)
    if (strict) this.#client(addr)?.onChannelAck(aid, addr)
    else sessions.markSecureChannel(aid, addr)
    return { status: 'SECURE_CHANNEL_ACK', assigned_id: aid }
  }
}

const trusts = (strict: StrictSecurity | null, addr: unknown): boolean => strict?.trusts?.(addr) ?? true
