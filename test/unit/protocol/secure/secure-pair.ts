// A sending and a receiving half over real frames, combined as a caller does. Every frame is a FULL of AID 5 whose body
// is the text; an empty text is a HEART.
import { parseNackReason, parseSecureChannelAck, parseSecureDictReady } from '../../../../src/protocol/control'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'
import { parseRefusedFrame, type RefusedFrame } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { SecureServer } from '../../../../src/protocol/secure/server'
import type { SecureSessions } from '../../../../src/protocol/secure/sessions'
import { xorPayload } from '../../../../src/wire/cipher'
import { COMMAND, isSecure, secureCommand } from '../../../../src/wire/commands'
import { crc8 } from '../../../../src/wire/crc'
import { FRAME_OVERHEAD, readHeader, sealFrame, writeHeader } from '../../../../src/wire/frame'
import { ManualClock } from '../../../lib/manual'

export const SERVER = '10.0.0.1:9999'
const CLIENT = '10.0.0.5:1'
const AID = 5

export const badKeyOf = (aid: number): RefusedFrame => ({ reason: 'BAD_KEY', aid, tid: 1, ts: 1, crc16: 0 })

export interface SentPacket {
  frame: Buffer
  ts: number
  secure: boolean
  /** text that the server decoded */
  taken: string | null
  /** what the server answers */
  answer: Uint8Array | null
}

export class Pair {
  readonly clock = new ManualClock()
  readonly sent = new SentFrames()
  client: SecureClient
  server: SecureServer
  readonly #requireSecure: boolean
  readonly #brokered: boolean

  /** `brokered`: packets may wait between the halves and do not come again */
  constructor({ requireSecure = false, brokered = false } = {}) {
    this.#requireSecure = requireSecure
    this.#brokered = brokered
    this.client = new SecureClient({ clock: this.clock, requireSecure })
    this.server = new SecureServer({ clock: this.clock })
  }

  get now(): number {
    return this.clock.wall()
  }

  /** New halves over those sessions: a restart of one side or both. */
  use(client: SecureSessions, server: SecureSessions): void {
    if (client !== this.client.sessions)
      this.client = new SecureClient({ clock: this.clock, sessions: client, requireSecure: this.#requireSecure })
    if (server !== this.server.sessions) this.server = new SecureServer({ clock: this.clock, sessions: server })
  }

  send(text: string, { after = 1, lose = false } = {}): SentPacket {
    this.clock.advance(after)
    const ts = this.now
    const key = this.client.outboundKey(AID)
    const body = Buffer.from(text)
    const frame = Buffer.alloc(FRAME_OVERHEAD + body.length)
    const plain = body.length > 0 ? COMMAND.DATA_FULL : COMMAND.DATA_HEART
    const start = writeHeader(frame, 0, key ? secureCommand(plain) : plain, AID, 1, ts)
    frame.set(body, start)
    sealFrame(frame, 0, start, start + body.length, key)
    this.sent.note({ aid: AID, tid: 1, ts, crc16: frame.readUInt16BE(frame.length - 2) }, this.clock.mono())
    if (!key) this.client.plaintextSent(AID, ts)
    const result = lose ? { taken: null, answer: null } : this.#receive(frame)
    return { frame, ts, secure: key !== null, ...result }
  }

  /** The client receives an answer of the server. */
  answer(packet: Uint8Array | null): void {
    if (packet?.[0] === COMMAND.SECURE_DICT_READY) {
      const { assignedId, timestampRaw } = parseSecureDictReady(packet)
      this.client.onDictReady(assignedId, timestampRaw, SERVER)
    } else if (packet?.[0] === COMMAND.SECURE_CHANNEL_ACK) {
      this.client.onChannelAck(parseSecureChannelAck(packet), SERVER)
    } else if (packet?.[0] === COMMAND.HANDSHAKE_NACK) {
      const refused = parseRefusedFrame(parseNackReason(packet))!
      if (this.sent.obey(refused, this.clock.mono())) this.client.onBadKey(refused)
    }
  }

  #receive(frame: Buffer): { taken: string | null; answer: Uint8Array | null } {
    const header = readHeader(frame)
    if (typeof header === 'string') throw new Error(header)
    const { sourceAid: aid, tid, ts } = header
    const body = frame.subarray(header.body, header.end)
    if (!isSecure(header.cmd))
      return { taken: body.toString(), answer: this.server.onPlaintext(aid, ts, ts === 0, CLIENT, this.#brokered) }
    for (const key of this.server.keys(aid)) {
      const plain = xorPayload(body, key, header.crc8)
      // the printable text represents what a decoder checks beyond the CRC-8
      if (crc8(plain) !== header.crc8 || !/^[\x20-\x7e]*$/.test(plain.toString('latin1'))) continue
      return { taken: plain.toString(), answer: this.server.onSecure(aid, key, CLIENT, plain.length > 0) }
    }
    return { taken: null, answer: this.server.refuse({ aid, tid, ts, crc16: frame.readUInt16BE(frame.length - 2) }) }
  }
}
