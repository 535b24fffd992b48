// The secure sessions of a node (PROTOCOL §7 with X7 and S13): the sending half for its own id, the receiving half for its
// peers, each over sessions and a file of its own, so that no key made for receiving ever encrypts. It is what Fusion asks
// for keys and what the handshake manager asks before it believes a packet.
//
// What fails: with require_secure and no key, data is refused with SECURE_REQUIRED; a packet without readings goes out in
// plaintext and opens the session. A refusal of a frame we did not send in the last minute is ignored.
import type { Clock } from '../lib/clock'
import { OsError } from '../lib/errors'
import type { SessionKeys } from '../pipeline/fuse'
import { SentFrames } from '../protocol/handshake/refusals'
import type { RefusedFrame } from '../protocol/nack'
import { SecureClient } from '../protocol/secure/client'
import { SecureServer } from '../protocol/secure/server'
import { SecureSessions } from '../protocol/secure/sessions'
import { isSecure } from '../wire/commands'

export interface NodeSecurityOptions {
  clock: Clock
  expireSeconds: number
  timeSyncThreshold: number
  requireSecure: boolean
  /** file of the sessions of peers; those of this node as a sender lie beside it in `….own.json`. null: in memory only */
  storePath: string | null
  onProblem: (problem: string) => void
  /** the peer lacks templates of that AID: the next packets must be FULL */
  needFull: (aid: number) => void
  /** whether a packet from there may be the server's */
  trusted: (addr: unknown) => boolean
}

/** offset of the TID in a frame with one route */
const TID = 6

export class NodeSecurity implements SessionKeys {
  readonly client: SecureClient
  readonly server: SecureServer
  readonly #options: NodeSecurityOptions
  readonly #sent: SentFrames

  constructor(options: NodeSecurityOptions) {
    const { clock, requireSecure, storePath } = options
    this.#options = options
    this.#sent = new SentFrames(clock)
    const own = storePath === null ? null : storePath.replace(/(\.json)?$/, '.own$1')
    this.client = new SecureClient({ clock, requireSecure, sessions: this.#sessions(own) })
    this.server = new SecureServer({ clock, requireSecure, sessions: this.#sessions(storePath) })
  }

  #sessions(storePath: string | null): SecureSessions {
    const { clock, expireSeconds, timeSyncThreshold, onProblem } = this.#options
    const now = (): number => Math.floor(clock.wall() / 1000)
    const mono = (): number => clock.mono()
    return new SecureSessions({ expireSeconds, timeSyncThreshold, storePath, now, mono, onProblem })
  }

  outbound(aid: number): Uint8Array | null {
    return this.client.outboundKey(aid)
  }

  /** The likeliest key of a received frame. */
  inbound(aid: number): Uint8Array | null {
    return this.inboundKeys(aid)[0] ?? null
  }

  /** Keys a received frame may have, the likeliest first; of our own frames that come back the one they were sent with. */
  inboundKeys(aid: number): readonly Uint8Array[] {
    const keys = this.server.keys(aid)
    const own = this.client.outboundKey(aid)
    return own ? [...keys, own] : keys
  }

  /** Throws SECURE_REQUIRED when readings would leave in plaintext although the configuration forbids it. */
  check(aid: number, readings: number): void {
    if (readings === 0 || this.client.outboundKey(aid) || this.client.mayPlain(aid)) return
    throw new OsError(
      'SECURE_REQUIRED',
      `no secure session for id ${aid} yet, and security_settings.require_secure is on`,
    )
  }

  /** A data packet of ours was made. */
  packetMade(packet: Buffer, aid: number, tMs: number): void {
    this.#sent.sent(aid, packet[TID]!, tMs, packet.readUInt16BE(packet.length - 2))
    if (!isSecure(packet[0]!)) this.client.plaintextSent(aid, tMs)
  }

  /** A peer refused a frame of ours; true when it was obeyed. */
  onRefused(refused: RefusedFrame, addr: unknown): boolean {
    if (!this.#options.trusted(addr) || !this.#sent.obeys(refused)) return false
    if (refused.reason === 'BAD_KEY' && !this.client.onBadKey(refused)) return false
    // who lost the key has most likely lost the templates too
    this.#options.needFull(refused.aid)
    return true
  }

  /** Keeps the sessions for the next run. */
  stop(): void {
    for (const { sessions } of [this.client, this.server]) if (sessions.size > 0) sessions.save(true)
  }
}
