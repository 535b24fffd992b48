// The receiving half of secure sessions (PROTOCOL §7 with X7, X11 and S13): names a timestamp of a plaintext packet to
// its sender, holds the keys of the named ones, and settles on the key with which a secure frame decrypts.
//
// What fails: the answer is lost: another timestamp is named with a plaintext packet 10 s later, and every key that may
// still be in use is kept as a candidate. No key decrypts: the frame is answered BAD_KEY (refuse()), the sender begins
// again. A forged plaintext packet adds a candidate and changes nothing else: a confirmed key stays the first until a
// frame decrypts with another. A packet stamped here for want of a time makes no key, for its sender cannot know the
// time.
import { type Clock, systemClock } from '../lib/clock'
import { deriveSessionKey } from '../wire/cipher'
import { buildNack, buildSecureChannelAck, buildSecureDictReady, buildTimeResponse } from './control'
import { type RefusedFrame, refusedFrameText } from './nack'
import { SecureSessions } from './sessions'

export interface SecureServerOptions {
  /** sessions of this side only */
  sessions?: SecureSessions
  clock?: Clock
  /** UNIX seconds told to senders without a time */
  serverTime?: () => number
  /** plaintext data is refused; senders get their key by an opener, a FULL without sensors */
  requireSecure?: boolean
  maxSources?: number
}

const READY_PAUSE_MS = 10_000
const REFUSE_PAUSE_MS = 1000
const RECENT = 3
const MAX_SOURCES = 16_384
const NO_KEYS: readonly Uint8Array[] = []

interface Candidate {
  readonly timestamp: number
  readonly key: Uint8Array
}

/** What is kept of one AID beside its session. */
interface Source {
  readyAt: number
  refusedAt: number
  /** the last timestamps named, newest first, without that of the session's key */
  recent: Candidate[]
  /** the session's key, then the recent ones: built anew when either changes */
  keys: readonly Uint8Array[]
  sessionKey: Uint8Array | null
  /** the session's key is confirmed and there is no other */
  settled: boolean
}

export class SecureServer {
  readonly sessions: SecureSessions
  readonly requireSecure: boolean
  /**
   * plaintext data packets refused by requireSecure, timestamps named, secure frames answered BAD_KEY, channels
   * confirmed
   */
  readonly counters = { plaintextRefused: 0, named: 0, badKey: 0, confirmed: 0 }
  readonly #clock: Clock
  readonly #serverTime: () => number
  readonly #maxSources: number
  readonly #sources = new Map<number, Source>()

  constructor({
    clock = systemClock,
    sessions = new SecureSessions({ now: () => Math.floor(clock.wall() / 1000), mono: () => clock.mono() }),
    serverTime = () => Math.floor(clock.wall() / 1000),
    requireSecure = false,
    maxSources = MAX_SOURCES,
  }: SecureServerOptions = {}) {
    this.sessions = sessions
    this.requireSecure = requireSecure
    this.#clock = clock
    this.#serverTime = serverTime
    this.#maxSources = maxSources
  }

  /**
   * Keys to try on a secure frame of that AID, best first. Called per secure frame: allocates only when they changed.
   */
  keys(aid: number): readonly Uint8Array[] {
    const sessionKey = this.sessions.getSessionKey(aid)
    const source = this.#sources.get(aid)
    if (!source) return sessionKey ? this.#source(aid, sessionKey).keys : NO_KEYS
    if (source.sessionKey !== sessionKey) {
      source.sessionKey = sessionKey
      rebuild(source)
    }
    return source.keys
  }

  /**
   * A secure frame was understood with `key`, one of keys(). `proven`: it had a body and became a fact; an empty HEART
   * fits every key. The proven key becomes the session's and the others are dropped. Answers SECURE_CHANNEL_ACK the
   * first time.
   */
  onSecure(aid: number, key: Uint8Array, addr: unknown, proven: boolean): Uint8Array | null {
    if (!proven) return null
    const source = this.#source(aid, this.#sources.get(aid)?.sessionKey ?? this.sessions.getSessionKey(aid))
    const known = source.sessionKey === key
    if (known && source.settled) return null
    if (!known) {
      const candidate = source.recent.find(recent => recent.key === key)
      if (!candidate) return null
      this.sessions.keyOn(aid, candidate.timestamp, addr)
      source.sessionKey = this.sessions.getSessionKey(aid)
    }
    source.recent = []
    rebuild(source)
    source.settled = true
    if (this.sessions.isConfirmed(aid)) return null
    this.sessions.markSecureChannel(aid, addr)
    this.counters.confirmed++
    return buildSecureChannelAck(aid)
  }

  /**
   * A plaintext data packet was understood; `timestampRaw` is its TS field as it is on the wire. The answer, if one is
   * due: SECURE_DICT_READY naming this packet, at most every 10 s and AID; TIME_RESPONSE for a packet without a time.
   */
  onPlaintext(aid: number, timestampRaw: number, serverStamped: boolean, addr: unknown): Uint8Array | null {
    if (serverStamped) return buildTimeResponse(0, Math.floor(this.#serverTime()))
    if (timestampRaw <= this.sessions.timeSyncThreshold) return null
    const now = this.#clock.mono()
    const source = this.#source(aid, this.sessions.getSessionKey(aid))
    if (now - source.readyAt < READY_PAUSE_MS) return null
    source.readyAt = now
    this.counters.named++
    if (source.sessionKey === null) {
      this.sessions.establishRemotePlaintext(aid, timestampRaw, addr)
      source.sessionKey = this.sessions.getSessionKey(aid)
    } else this.#remember(source, aid, timestampRaw)
    rebuild(source)
    return buildSecureDictReady(aid, timestampRaw)
  }

  /**
   * Whether the facts of a plaintext packet are to be dropped (requireSecure); refused data is counted. It is told to
   * onPlaintext all the same: that is how its sender gets a key.
   */
  refusesPlaintext(sensors: number): boolean {
    if (this.requireSecure && sensors > 0) this.counters.plaintextRefused++
    return this.requireSecure
  }

  /** NACK BAD_KEY for a secure frame that no key decrypts; null when that AID got one within the last second. */
  refuse(frame: Omit<RefusedFrame, 'reason'>): Uint8Array | null {
    const now = this.#clock.mono()
    const source = this.#source(frame.aid, this.sessions.getSessionKey(frame.aid))
    if (now - source.refusedAt < REFUSE_PAUSE_MS) return null
    source.refusedAt = now
    this.counters.badKey++
    return buildNack(0, refusedFrameText({ ...frame, reason: 'BAD_KEY' }))
  }

  #remember(source: Source, aid: number, timestamp: number): void {
    if (source.recent.some(candidate => candidate.timestamp === timestamp)) return
    const key = deriveSessionKey(aid, timestamp)
    if (source.sessionKey && Buffer.compare(key, source.sessionKey) === 0) return
    source.recent = [{ timestamp, key }, ...source.recent].slice(0, RECENT)
  }

  #source(aid: number, sessionKey: Uint8Array | null): Source {
    let source = this.#sources.get(aid)
    if (!source) {
      if (this.#sources.size >= this.#maxSources) this.#sources.delete(this.#sources.keys().next().value!)
      source = {
        readyAt: Number.NEGATIVE_INFINITY,
        refusedAt: Number.NEGATIVE_INFINITY,
        recent: [],
        keys: NO_KEYS,
        sessionKey: null,
        settled: false,
      }
      this.#sources.set(aid, source)
    }
    if (source.sessionKey !== sessionKey) {
      source.sessionKey = sessionKey
      rebuild(source)
    }
    return source
  }
}

function rebuild(source: Source): void {
  const recent = source.recent.map(candidate => candidate.key)
  source.settled = false
  source.keys = source.sessionKey ? [source.sessionKey, ...recent] : recent
}
