// The secure session of one uplink (docs/protocol.md section 6, X7, X9): which data may be sent now and with which key, what
// the upstream's answers about it mean, and what status shows. Data is plaintext until SECURE_DICT_READY names one of the
// last 8 timestamps sent; with `require_secure` no reading is sent in plaintext: a key request (a FULL without sensors) gets
// the key. The named timestamp must still be remembered, so a backlog is slowed down: at most 8 plaintext packets of an AID
// are in flight, since the upstream names its key before it acknowledges; on media without acknowledgements 8 are sent per
// half second. Data does not wait for an upstream that names no key: the limit applies in rounds that contain one repetition
// of the answer (10 s), with longer and longer times of full speed between them.
//
// Errors: if the upstream gives no key, data is sent in plaintext, or with `require_secure` stays in the log and the link is
// degraded with the reason. If the upstream lost the key, it answers BAD_KEY, which counts from its own address, for a frame
// sent in the last minute, once in ten seconds per AID; then the session restarts. BAD_KEY for plaintext says that the
// upstream has a session with that AID from another address (X36): after a failover the key of another uplink to the same
// server is used here too, which proves our identity (X37); without such a key, data waits in the log and key requests are
// sent. Where they stay unanswered, the next uplink takes over: its address may be the one that the upstream has the session
// with, and its key is then used here too.
import { counted } from '../../lib/counted'
import type { Logger } from '../../lib/logger'
import type { Fact } from '../../pipeline/fact'
import { parseNackReason, parseSecureChannelAck, parseSecureDictReady } from '../../protocol/control'
import { parseRefusedFrame, type RefusedFrame } from '../../protocol/nack'
import type { SecureClient } from '../../protocol/secure/client'
import { COMMAND } from '../../wire/commands'
import type { SecureReport } from '../status'
import type { Encoders } from './encoders'

interface SessionParts {
  client: SecureClient
  encoders: Encoders
  logger: Logger
  send: (packet: Uint8Array) => Promise<boolean>
  /** of this process, ms */
  mono: () => number
  /** of this node, unix ms: the time of a key request */
  now: () => number
  /** the link works, but data waits for a key (again at each unanswered key request); empty: no longer */
  degraded: (reason: string) => void
  /** the upstream could not use a frame */
  refused?: (refused: RefusedFrame) => void
}

/** this many unanswered key requests degrade the link: an answer takes a round trip */
const UNANSWERED = 2
/** as many as SecureClient remembers */
const PLAIN_IN_FLIGHT = 8
/** without acknowledgements: how long 8 packets wait for an answer */
const GRACE_MS = 500
/** the upstream names a timestamp again after 10 s (X7), so a round contains one */
const ROUND_MS = 11_000
const FIRST_FREE_MS = 60_000
const LONGEST_FREE_MS = 3_600_000
const REQUEST_EVERY_MS = 1000

/** Plaintext packets of an AID since the link was opened or its key was lost; times in mono ms. */
interface Plain {
  inFlight: number
  /** in this half second */
  sent: number
  sentSince: number
  /** the limit applies until then, and again from `next` on */
  roundEnds: number
  next: number
  free: number
}

export class UplinkSession {
  readonly #parts: SessionParts
  /** unanswered key requests, by AID */
  readonly #requested = new Map<number, number>()
  readonly #plain = new Map<number, Plain>()
  #answers = false
  #graceEnds = Number.POSITIVE_INFINITY
  #complained = ''

  constructor(parts: SessionParts) {
    this.#parts = parts
  }

  /** When to check waiting data again, in mono time; Infinity: when an answer arrives. */
  get wakeAt(): number {
    const request = this.#requested.size > 0 ? this.#parts.mono() + REQUEST_EVERY_MS : Number.POSITIVE_INFINITY
    return Math.min(request, this.#graceEnds)
  }

  /** Whether the fact may be sent now; sends a key request if it waits for a key. */
  mayGo(fact: Fact): boolean {
    const { client, encoders, send, mono, now, degraded } = this.#parts
    const { aid } = fact
    if (client.outboundKey(aid)) return true
    // a broker accepts plaintext that the upstream may refuse later, when it is forgotten here
    if (!this.#answers && client.useOtherKey(aid)) {
      this.#otherKey(aid)
      return true
    }
    if (client.mayPlain(aid)) return this.#hasRoom(aid)
    if (!client.keyRequestDue(aid, mono())) return false
    const count = this.#requested.get(aid) ?? 0
    if (count > 0 && client.useOtherKey(aid)) {
      this.#otherKey(aid)
      return true
    }
    const ts = Math.floor(now())
    if (count >= UNANSWERED) {
      this.#complained = `no secure session: no answer to ${counted(count, 'key request')} of AID ${aid}`
      degraded(this.#complained)
    }
    this.#requested.set(aid, count + 1)
    client.plaintextSent(aid, ts)
    void send(encoders.keyRequest(fact, ts))
    return false
  }

  /** A packet of that AID is being sent in plaintext. */
  sentPlain(aid: number): void {
    let plain = this.#plain.get(aid)
    if (!plain) {
      const now = this.#parts.mono()
      // without acknowledgements a key is unlikely too: wait for it once, and start the rounds later
      const roundEnds = now + (this.#answers ? ROUND_MS : GRACE_MS)
      const free = FIRST_FREE_MS
      plain = { inFlight: 0, sent: 0, sentSince: now, roundEnds, next: roundEnds + free, free }
      this.#plain.set(aid, plain)
    }
    plain.inFlight++
    plain.sent++
  }

  /** A packet sent in plaintext is acknowledged. */
  ackedPlain(aid: number): void {
    const plain = this.#plain.get(aid)
    if (plain && plain.inFlight > 0) plain.inFlight--
  }

  /** The link was opened: no key request was sent over it yet. `answers`: the upstream acknowledges packets. */
  opened(answers: boolean): void {
    this.#answers = answers
    this.#plain.clear()
    this.#requested.clear()
    this.#complained = ''
  }

  /** A packet of the upstream; true if it was about sessions or templates, and more data may be sent than before. */
  received(packet: Uint8Array, address: string): boolean {
    switch (packet[0]) {
      case COMMAND.HANDSHAKE_NACK: {
        const refused = parseRefusedFrame(parseNackReason(packet))
        if (refused?.reason === 'NEED_FULL') this.#parts.encoders.needFull(refused)
        else if (refused) this.#badKey(refused)
        if (refused) this.#parts.refused?.(refused)
        return refused !== null
      }
      case COMMAND.SECURE_DICT_READY: {
        const { assignedId, timestampRaw } = parseSecureDictReady(packet)
        this.#ready(assignedId, timestampRaw, address)
        return true
      }
      case COMMAND.SECURE_CHANNEL_ACK:
        this.#parts.client.onChannelAck(parseSecureChannelAck(packet), address)
        return true
      default:
        return false
    }
  }

  /** For status: the session state of the AIDs that send. */
  report(): SecureReport {
    const { client, encoders } = this.#parts
    const aids = { pending: 0, secure: 0 }
    for (const aid of new Set([...encoders.aids(), ...this.#requested.keys()]))
      aids[client.sessions.getSessionKey(aid) ? 'secure' : 'pending']++
    const state = aids.pending > 0 ? 'pending' : aids.secure > 0 ? 'secure' : 'none'
    return { secure: state, secure_aids: aids }
  }

  save(now: boolean): void {
    this.#parts.client.sessions.save(now)
  }

  #hasRoom(aid: number): boolean {
    this.#graceEnds = Number.POSITIVE_INFINITY
    const plain = this.#plain.get(aid)
    if (!plain) return true
    const now = this.#parts.mono()
    if (now >= plain.roundEnds) {
      if (now < plain.next) return true
      plain.roundEnds = now + ROUND_MS
      plain.free = Math.min(LONGEST_FREE_MS, plain.free * 2)
      plain.next = plain.roundEnds + plain.free
    }
    if (this.#answers) return plain.inFlight < PLAIN_IN_FLIGHT
    if (now >= plain.sentSince + GRACE_MS) {
      plain.sent = 0
      plain.sentSince = now
    }
    if (plain.sent < PLAIN_IN_FLIGHT) return true
    this.#graceEnds = plain.sentSince + GRACE_MS
    return false
  }

  #ready(aid: number, timestamp: number | null, address: string): void {
    const { client, logger } = this.#parts
    if (client.outboundKey(aid) || !client.onDictReady(aid, timestamp, address)) return
    logger.info(`AID ${aid} has a secure session`)
    this.#keyed(aid)
  }

  #keyed(aid: number): void {
    const { encoders, degraded } = this.#parts
    // the first encrypted frame must decode without any earlier one
    encoders.keyed(aid)
    this.#requested.delete(aid)
    this.#plain.delete(aid)
    if (this.#complained === '' || this.#requested.size > 0) return
    this.#complained = ''
    degraded('')
  }

  #otherKey(aid: number): void {
    this.#parts.logger.info(`AID ${aid} uses the session of another uplink`)
    this.#keyed(aid)
  }

  #badKey(refused: RefusedFrame): void {
    const { client, encoders, logger } = this.#parts
    const { aid } = refused
    const held = !client.mayPlain(aid)
    const plain = client.onPlaintextRefused(refused)
    if (plain === 'keyed') this.#otherKey(aid)
    else if (plain && !held)
      logger.warn(
        `the upstream has a session with AID ${aid} from another address; data waits for a key, ` +
          `until that address is silent or after os-node session forget ${aid} there. ` +
          'Where another uplink leads to it, set the same "server" in both',
      )
    if (plain) return
    if (!encoders.wasSent(refused) || !client.onBadKey(refused)) return
    logger.warn(`the upstream lost the key of AID ${refused.aid}; a new session begins`)
    encoders.keyFrames(refused.aid)
  }
}
