// The sending side of a secure session (docs/protocol.md section 6, X7, S13): plaintext until the server names one of our
// last 8 plaintext timestamps, then encrypted with the key of exactly that one. One per Node or uplink, with its own
// sessions.
//
// Errors: if the answer is lost, the server names another timestamp within 10 s. If the server lost the key, it answers
// BAD_KEY, and we start again in plaintext; accepted at most once per 10 s and AID, so that a forger cannot keep us in
// plaintext. With requireSecure data is never sent in plaintext, nor if the server refuses it because it has a session with
// the AID from another address (X36): until there is a key only key requests (a FULL without sensors) are sent, with
// delays of 2 s doubling to 60 s.

import { type Clock, systemClock } from '../../lib/clock'
import { LruMap } from '../../lib/lru-map'
import type { RefusedFrame } from '../nack'
import { SecureSessions } from './sessions'

export interface SecureClientOptions {
  /** sessions of this side only: a receiving key must never encrypt */
  sessions?: SecureSessions
  clock?: Clock
  requireSecure?: boolean
  /** timestamps of the keys that other uplinks have for an AID, best first */
  otherServers?: (aid: number) => number[]
  /** AIDs whose timestamps are remembered; the oldest is evicted */
  maxSources?: number
}

const REMEMBERED = 8
const BAD_KEY_INTERVAL_MS = 10_000
const FIRST_KEY_BACKOFF_MS = 2000
const MAX_KEY_BACKOFF_MS = 60_000
const MAX_SOURCES = 16_384

/** State of one AID. */
class Source {
  /** the last plaintext timestamps, a ring; 0 is none */
  readonly timestamps = new Float64Array(REMEMBERED)
  next = 0
  badKeyAt = Number.NEGATIVE_INFINITY
  keyRequestAt = Number.NEGATIVE_INFINITY
  keyRequestBackoff = 0
  /** timestamp of the key that was refused last */
  refused = 0
  /** the server accepts no plaintext from here: only key requests are sent until there is a key */
  held = false

  forget(): void {
    this.held = false
    this.timestamps.fill(0)
    this.next = 0
    this.keyRequestAt = Number.NEGATIVE_INFINITY
    this.keyRequestBackoff = 0
  }
}

export class SecureClient {
  readonly sessions: SecureSessions
  readonly requireSecure: boolean
  /** DICT_READY for a timestamp not sent recently, CHANNEL_ACK and BAD_KEY without a session, BAD_KEY too often */
  readonly counters = { ignoredReady: 0, ignoredAck: 0, ignoredBadKey: 0, badKey: 0 }
  readonly #clock: Clock
  readonly #otherServers: (aid: number) => number[]
  readonly #sources: LruMap<number, Source>
  #peer = ''

  constructor({
    clock = systemClock,
    sessions = new SecureSessions({ now: () => Math.floor(clock.wall() / 1000), mono: () => clock.mono() }),
    requireSecure = false,
    otherServers = () => [],
    maxSources = MAX_SOURCES,
  }: SecureClientOptions = {}) {
    this.sessions = sessions
    this.requireSecure = requireSecure
    this.#clock = clock
    this.#otherServers = otherServers
    this.#sources = new LruMap(maxSources)
  }

  /** From now on packets are sent to that server: keys and timestamps of another one are forgotten. */
  usePeer(peer: string): void {
    if (peer === this.#peer) return
    this.#peer = peer
    this.sessions.usePeer(peer)
    this.#sources.clear()
  }

  /** Key of the next packet of that AID; null: plaintext, if mayPlain. Hot path, allocates nothing. */
  outboundKey(aid: number): Uint8Array | null {
    return this.sessions.outboundKey(aid)
  }

  /** Whether data of that AID may be sent in plaintext while there is no key. */
  mayPlain(aid: number): boolean {
    return !this.requireSecure && this.#sources.get(aid)?.held !== true
  }

  /**
   * A plaintext data frame (or a key request, if data may not be sent) is being sent; `timestampRaw` is its TS field as sent.
   * A frame without a time (0) makes no key and is not remembered. Allocates nothing except for the first frame of an AID.
   */
  plaintextSent(aid: number, timestampRaw: number): void {
    const source = this.#source(aid)
    if (this.requireSecure || source.held) {
      source.keyRequestAt = this.#clock.mono()
      source.keyRequestBackoff = Math.min(MAX_KEY_BACKOFF_MS, source.keyRequestBackoff * 2 || FIRST_KEY_BACKOFF_MS)
    }
    if (timestampRaw <= 0) return
    if (source.timestamps[0] === 0) this.sessions.noteLocalPlaintextSent(aid, timestampRaw)
    source.timestamps[source.next] = timestampRaw
    source.next = (source.next + 1) % REMEMBERED
  }

  /**
   * SECURE_DICT_READY from the server; the caller has checked its address. Counts only for a timestamp among the last 8 sent
   * in plaintext; the session then uses the key of exactly that one. True if there is a key now.
   */
  onDictReady(aid: number, timestampRaw: number | null, addr: unknown = null): boolean {
    // the server keeps every key it named until one decrypts, so the first answer stays valid
    if (this.sessions.outboundKey(aid)) return true
    const source = this.#sources.get(aid)
    if (!timestampRaw || !source?.timestamps.includes(timestampRaw)) {
      this.counters.ignoredReady++
      return false
    }
    this.sessions.keyOn(aid, timestampRaw, addr)
    source.forget()
    return true
  }

  /** SECURE_CHANNEL_ACK from the server: it decrypts our packets. Ignored without a key of ours. */
  onChannelAck(aid: number, addr: unknown = null): void {
    if (this.sessions.outboundKey(aid)) this.sessions.markSecureChannel(aid, addr)
    else this.counters.ignoredAck++
  }

  /**
   * NACK BAD_KEY; the caller has checked the server's address and that the frame was sent in the last 60 s (SentFrames). True
   * if the session was dropped and a new exchange begins.
   */
  onBadKey({ reason, aid }: RefusedFrame): boolean {
    const now = this.#clock.mono()
    const source = this.#source(aid)
    const due = reason === 'BAD_KEY' && now - source.badKeyAt >= BAD_KEY_INTERVAL_MS
    if (!due || !this.sessions.outboundKey(aid)) {
      this.counters.ignoredBadKey++
      return false
    }
    this.counters.badKey++
    source.badKeyAt = now
    source.refused = this.sessions.session(aid)?.first_plaintext_ts ?? 0
    // a late answer to an earlier timestamp must not restore the refused key
    source.forget()
    this.sessions.drop(aid)
    return true
  }

  /**
   * NACK BAD_KEY for a plaintext packet: the server has a session with this AID from another address (X37). `keyed`: the key
   * of another uplink is used now; a packet encrypted with it proves our identity. `held`: there is none, so only key
   * requests are sent until the server names a key. Null: not about a plaintext packet of ours.
   */
  onPlaintextRefused({ reason, aid, ts }: RefusedFrame): 'keyed' | 'held' | null {
    const source = this.#sources.get(aid)
    if (reason !== 'BAD_KEY' || !source || this.sessions.outboundKey(aid)) return null
    // a server without a session for this AID never sends this: it gets no key of another server
    if (!source.timestamps.includes(ts)) return null
    source.held = !this.useOtherKey(aid)
    return source.held ? 'held' : 'keyed'
  }

  /**
   * Continues with the key that another uplink to the same server has for this AID; false: there is none, or it was refused.
   * Without BAD_KEY, only use it if a refused packet cannot be sent again.
   */
  useOtherKey(aid: number): boolean {
    const known = this.#otherServers(aid)
    if (known.length === 0) return false
    const source = this.#source(aid)
    const usable = known.find(timestamp => timestamp !== source.refused)
    if (usable === undefined) return false
    this.sessions.keyOn(aid, usable)
    source.forget()
    return true
  }

  /** Whether to send a key request now, if plaintext data is not allowed and there is no key. `nowMono` in ms. */
  keyRequestDue(aid: number, nowMono: number): boolean {
    if (this.mayPlain(aid) || this.sessions.outboundKey(aid)) return false
    const source = this.#sources.get(aid)
    return !source || nowMono - source.keyRequestAt >= source.keyRequestBackoff
  }

  #source(aid: number): Source {
    let source = this.#sources.get(aid)
    if (!source) {
      source = new Source()
      this.#sources.set(aid, source)
    }
    return source
  }
}
