// The secure sessions of a node (docs/protocol.md section 6, X7, S13): the sending half for its own id, the receiving
// half for its peers, each with its own sessions and file, so that a key made for receiving never encrypts. Fusion gets
// its keys here, and the handshake manager checks here whether to trust a packet.
//
// A key belongs to one server (medium, host, port): `client` is for the server that dispatch uses when no medium is
// named. A packet for another server is re-encrypted for that one, or refused.
//
// Errors: with require_secure and no key, data is refused with SECURE_REQUIRED; a packet without readings is sent in
// plaintext and opens the session. A refusal of a frame that we did not send in the last minute is ignored.

import type { Clock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { LruMap } from '../lib/lru-map'
import type { SessionKeys } from '../pipeline/fuse'
import { SentFrames } from '../protocol/handshake/refusals'
import { crc16Of, type RefusedFrame } from '../protocol/nack'
import { SecureClient } from '../protocol/secure/client'
import { SecureServer } from '../protocol/secure/server'
import { SecureSessions } from '../protocol/secure/sessions'
import { isData, isSecure } from '../wire/commands'
import { readHeader, rekeyFrame } from '../wire/frame'

interface NodeSecurityOptions {
  clock: Clock
  expireSeconds: number
  timeSyncThreshold: number
  requireSecure: boolean
  /** file of the sessions of peers; those of this node as a sender are in `….own.json` next to it. null: only in memory */
  storePath: string | null
  onProblem: (problem: string) => void
  /** the peer lacks templates of that AID: the next packets must be FULL */
  needFull: (aid: number) => void
  /** whether a packet from this address may be the server's */
  trusted: (addr: unknown) => boolean
  /** the server for packets when no medium is named */
  server: string
  /** the server that sends packets from that address; null: the one above */
  serverAt: (addr: unknown) => string | null
}

/** sent frames whose refusals count */
const REMEMBERED = 4096

/** other servers whose keys are stored, only in memory */
const MAX_OTHERS = 16

/** offset of the TID in a frame with one route */
const TID = 6

export class NodeSecurity implements SessionKeys {
  readonly client: SecureClient
  readonly server: SecureServer
  readonly #options: NodeSecurityOptions
  readonly #sent = new SentFrames(REMEMBERED)
  readonly #others = new LruMap<string, SecureClient>(MAX_OTHERS)
  /** the server of `client` */
  #usual: string

  constructor(options: NodeSecurityOptions) {
    const { clock, requireSecure, storePath, server } = options
    this.#options = options
    this.#usual = server
    const own = storePath === null ? null : storePath.replace(/(\.json)?$/, '.own$1')
    this.client = new SecureClient({ clock, requireSecure, sessions: this.#sessions(own, server) })
    this.server = new SecureServer({ clock, requireSecure, sessions: this.#sessions(storePath) })
  }

  #sessions(storePath: string | null, peer?: string): SecureSessions {
    const { clock, expireSeconds, timeSyncThreshold, onProblem } = this.#options
    const now = (): number => Math.floor(clock.wall() / 1000)
    const mono = (): number => clock.mono()
    return new SecureSessions({
      ...{ expireSeconds, timeSyncThreshold, storePath, now, mono, onProblem },
      ...(peer !== undefined && { peer }),
    })
  }

  /** Changes the server for packets when no medium is named; keys of another one are dropped. */
  useServer(server: string): void {
    this.#usual = server
    this.client.usePeer(server)
  }

  /** The sending half for packets of that address. */
  readonly clientAt = (addr: unknown): SecureClient => this.#clientOf(this.#options.serverAt(addr) ?? this.#usual)

  #clientOf(server: string): SecureClient {
    if (server === this.#usual) return this.client
    const { clock, requireSecure } = this.#options
    const client =
      this.#others.get(server) ?? new SecureClient({ clock, requireSecure, sessions: this.#sessions(null, server) })
    this.#others.set(server, client)
    return client
  }

  /**
   * A packet as it is sent to that server: one of `aid` encrypted with the server's key, or in plaintext; any other
   * unchanged. Throws SECURE_REQUIRED, BAD_PACKET.
   */
  outgoing(packet: Uint8Array, aid: number, server: string): Uint8Array {
    const cmd = packet[0] ?? 0
    if (!isData(cmd) || (server === this.#usual && !isSecure(cmd))) return packet
    const header = readHeader(packet)
    if (typeof header === 'string' || header.sourceAid !== aid) return packet
    const client = this.#clientOf(server)
    const key = client.outboundKey(aid)
    if (isSecure(cmd) && key && rekeyFrame(packet, key, key)) return packet
    const plain = isSecure(cmd) ? this.#plain(packet, aid) : packet
    if (!plain)
      throw new OsError('BAD_PACKET', `this packet of id ${aid} is encrypted with a key that is no longer in use`, {
        hint: 'transmit it again',
      })
    if (!key && isSecure(cmd) && !client.mayPlain(aid)) throw required(aid)
    if (!key) client.plaintextSent(aid, header.ts)
    const out = (key && rekeyFrame(plain, null, key)) ?? plain
    this.#note(out, aid, header.tid, header.ts)
    return out
  }

  /** Decrypts a secure packet of ours; null if none of our keys fits. */
  #plain(packet: Uint8Array, aid: number): Uint8Array | null {
    for (const client of [this.client, ...this.#others.values()]) {
      const key = client.outboundKey(aid)
      const plain = key && rekeyFrame(packet, key, null)
      if (plain) return plain
    }
    return null
  }

  outbound(aid: number): Uint8Array | null {
    return this.client.outboundKey(aid)
  }

  /** The most likely key of a received frame. */
  inbound(aid: number): Uint8Array | null {
    return this.inboundKeys(aid)[0] ?? null
  }

  /** Possible keys of a received frame, the most likely first; for our own frames that return, the key they were sent with. */
  inboundKeys(aid: number): readonly Uint8Array[] {
    const keys = this.server.keys(aid)
    const own = this.client.outboundKey(aid)
    return own ? [...keys, own] : keys
  }

  /** Throws SECURE_REQUIRED if readings would be sent in plaintext although the configuration forbids it. */
  check(aid: number, readings: number): void {
    if (readings === 0 || this.client.outboundKey(aid) || this.client.mayPlain(aid)) return
    throw required(aid)
  }

  /** Called when a data packet of ours was made. */
  packetMade(packet: Buffer, aid: number, tMs: number): void {
    this.#note(packet, aid, packet[TID]!, tMs)
    if (!isSecure(packet[0]!)) this.client.plaintextSent(aid, tMs)
  }

  #note(packet: Uint8Array, aid: number, tid: number, ts: number): void {
    this.#sent.note({ aid, tid, ts, crc16: crc16Of(packet) }, this.#options.clock.mono())
  }

  /** A peer refused a frame of ours; true if the refusal was accepted. */
  onRefused(refused: RefusedFrame, addr: unknown): boolean {
    if (!this.#options.trusted(addr) || !this.#sent.obey(refused, this.#options.clock.mono())) return false
    if (refused.reason === 'BAD_KEY' && !this.clientAt(addr).onBadKey(refused)) return false
    // a peer that lost the key has probably lost the templates too
    this.#options.needFull(refused.aid)
    return true
  }

  /** Stores the sessions for the next run. */
  stop(): void {
    for (const { sessions } of [this.client, this.server]) if (sessions.size > 0) sessions.save(true)
  }
}

const required = (aid: number): OsError =>
  new OsError('SECURE_REQUIRED', `no secure session for id ${aid} yet, and security_settings.require_secure is on`)
