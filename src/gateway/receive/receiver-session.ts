// The receiving side of secure sessions in the gateway (docs/protocol.md section 6, X7, X8): the answers to plaintext, to the
// first frame that decrypts and to one that does not, and what `require_secure` refuses.
//
// Errors: a secure frame that no key decrypts is answered BAD_KEY and counted; its sender starts a new session. With
// `require_secure` plaintext is not decoded, so it changes no template; its sender still gets a key, and may send again
// encrypted. Plaintext of an AID whose confirmed session is with another address is refused as well, with the answer BAD_KEY
// (X36). A key request (a FULL without sensors on its own TID) is never stored. Over a shared subscription only a key
// request gets a key.
import type { PacketOrigin } from '../../links/contracts'
import type { Received } from '../../pipeline/receiver'
import { KEY_REQUEST_TID } from '../../pipeline/sender'
import { frameName } from '../../protocol/nack'
import type { SecureServer } from '../../protocol/secure/server'
import { COMMAND, isSecure } from '../../wire/commands'
import { crc8 } from '../../wire/crc'
import { ByteReader } from '../../wire/cursor'
import { type FrameHeader, readHeader } from '../../wire/frame'

/** Sessions with devices, and their events since the start. */
export interface SessionsReport {
  aids: number
  /** the number of AIDs with a confirmed channel */
  confirmed: number
  channels_confirmed: number
  keys_named: number
  keys_replaced: number
  /** refused key requests from another address while the device was active (X37) */
  rekey_refused: number
  /** devices that moved to a new address, proved by their key */
  moved: number
  bad_key: number
  forgotten: number
  /** keys of devices that made room for other devices: more than 16,384 send here */
  evicted: number
}

/** first character of a sensor's status in a text */
const SENSOR_MARK = 0x3e

export class ReceiveSession {
  readonly counters = {
    refused_plaintext: 0,
    /** plaintext and empty heartbeats of an AID whose confirmed session is with another address (X36) */
    refused_elsewhere: 0,
    /** key requests received */
    openers: 0,
    bad_key: 0,
  }
  readonly #server: SecureServer

  constructor(server: SecureServer) {
    this.#server = server
  }

  /**
   * Judges a packet before it is decoded: data to decode, a key request, or refused. The sender is already answered.
   * `bare`: the packet was sent outside the exchange, which would retransmit it.
   */
  judge(packet: Uint8Array, origin: PacketOrigin, bare = true): 'data' | 'key_request' | 'refused' {
    const cmd = packet[0]!
    if (isSecure(cmd)) {
      this.#server.hears(origin.address)
      // its empty body needs no key
      if (cmd !== COMMAND.DATA_HEART_SEC || this.#server.isHome(sourceAid(packet), origin.address)) return 'data'
      this.counters.refused_elsewhere++
      return 'refused'
    }
    const taken = this.#server.takesPlaintext(sourceAid(packet), origin.address)
    // nearly every packet returns here, so the checksum is checked later
    if (taken && !this.#server.requireSecure && packet[tidAt(packet)] !== KEY_REQUEST_TID) return 'data'
    const header = readHeader(packet)
    // broken frames are reported by the decoder
    if (typeof header === 'string' || !header.crc16Ok) return 'data'
    if (crc8(packet, header.body, header.end) !== header.crc8) return 'data'
    const keyRequest = isKeyRequest(packet, header)
    if (taken && !keyRequest && !this.#server.requireSecure) return 'data'
    if (!this.#plain(header.sourceAid, header.ts, origin) && !this.#server.isHome(header.sourceAid, origin.address))
      this.#refuse(packet, header, origin, bare)
    if (keyRequest) {
      this.counters.openers++
      return 'key_request'
    }
    if (taken) {
      this.#server.refusesPlaintext(1)
      this.counters.refused_plaintext++
    } else this.counters.refused_elsewhere++
    return 'refused'
  }

  /** A data packet was decoded to a fact. */
  decoded(packet: Uint8Array, received: Extract<Received, { kind: 'fact' }>, origin: PacketOrigin): void {
    const { meta, key, advanced } = received
    const aid = meta.source_aid ?? 0
    if (!meta.secure) {
      const ts = new ByteReader(packet, tidAt(packet) + 1).u48()
      // a packet without a time makes no key; the receiver answers it with the time. The receivers that share a subscription
      // would each refuse what is under the key of another
      if (ts !== 0 && !origin.shared) this.#plain(aid, ts, origin)
      else this.#server.timeless(aid, origin.address)
    } else if (key) send(origin, this.#server.onSecure(aid, key, origin.address, true, advanced))
    else this.#server.alive(aid, origin.address)
  }

  /** A secure frame that no key decrypts. */
  undecryptable(packet: Uint8Array, origin: PacketOrigin, bare = true): void {
    this.counters.bad_key++
    const header = readHeader(packet)
    if (typeof header !== 'string') this.#refuse(packet, header, origin, bare)
  }

  #refuse(packet: Uint8Array, header: FrameHeader, origin: PacketOrigin, bare: boolean): void {
    // outside the exchange a sender repeats a packet only if the refusal is reported to it
    send(origin, this.#server.refuse(frameName(packet, header), origin.address, bare))
  }

  /** For status; `sessions` counts the AIDs with a session. */
  report(): Record<string, number> {
    return { ...this.counters, sessions: this.#server.sessions.size }
  }

  /** Called for an operator; false: that AID has no session. */
  forget(aid: number): boolean {
    return this.#server.forget(aid)
  }

  /** The session block of the status. */
  status(): SessionsReport {
    const { sessions, counters } = this.#server
    const { named, badKey, confirmed, replaced, rekeyRefused, moved, forgotten } = counters
    return {
      aids: sessions.size,
      confirmed: sessions.confirmed,
      channels_confirmed: confirmed,
      keys_named: named,
      keys_replaced: replaced,
      rekey_refused: rekeyRefused,
      moved,
      bad_key: badKey,
      forgotten,
      evicted: sessions.evicted,
    }
  }

  /** True if it was answered. */
  #plain(aid: number, ts: number, origin: PacketOrigin): boolean {
    const answer = this.#server.onPlaintext(aid, ts, ts === 0, origin.address, origin.settle !== undefined)
    send(origin, answer)
    return answer !== null
  }
}

/** The source AID of a data frame, 0 if it is truncated. Called per packet: allocates nothing. */
export function sourceAid(packet: Uint8Array): number {
  const at = tidAt(packet) - 4
  if (at < 2 || at + 4 > packet.length) return 0
  return ((packet[at]! << 24) | (packet[at + 1]! << 16) | (packet[at + 2]! << 8) | packet[at + 3]!) >>> 0
}

/** offset of the TID in a data frame, after its route */
export const tidAt = (packet: Uint8Array): number => 2 + 4 * (packet[1] ?? 0)

const isKeyRequest = (packet: Uint8Array, { cmd, tid, body, end }: FrameHeader): boolean =>
  cmd === COMMAND.DATA_FULL && tid === KEY_REQUEST_TID && !packet.subarray(body, end).includes(SENSOR_MARK)

function send(origin: PacketOrigin, answer: Uint8Array | null): void {
  if (answer) void origin.reply(answer)
}
