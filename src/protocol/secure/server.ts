// The receiving half of secure sessions (PROTOCOL §7 with X7, X11 and S13): names a timestamp of a plaintext packet to
// its sender, holds the keys of the named ones, and settles on the key with which a secure frame decrypts.
//
// What fails: the answer is lost: another timestamp is named with a plaintext packet 10 s later, and every key that may
// still be in use is kept as a candidate. No key decrypts: the frame is answered BAD_KEY (refuse()), the sender begins
// again. A forged plaintext packet adds a candidate and changes nothing else: a confirmed key stays the first until a
// frame decrypts with another, and is good for a minute after that, so that nobody who names himself a new key takes
// the session from a device that is sending. What is told at most so often is counted for each address, so that a
// stranger's packets keep no answer from the device itself. A packet stamped here for want of a time makes no key, for
// its sender cannot know the time.
import { type Clock, systemClock } from '../../lib/clock'
import { deriveSessionKey } from '../../wire/cipher'
import { buildNack, buildSecureChannelAck, buildSecureDictReady, buildTimeResponse } from '../control'
import { addressText } from '../ids/service'
import { type RefusedFrame, refusedFrameText } from '../nack'
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
const RECENT = 7
/** addresses of one AID whose pauses are kept */
const ADDRESSES = 4
/** how long a confirmed key stays good after another one took its place */
const REPLACED_MS = 60_000
const MAX_SOURCES = 16_384
const NAMED = Number.POSITIVE_INFINITY
const NO_KEYS: readonly Uint8Array[] = []

interface Candidate {
  readonly timestamp: number
  readonly key: Uint8Array
  /** mono ms; Infinity for a named one, which goes when the session settles */
  readonly until: number
}

/** What an address was told, and when (mono ms). */
interface Told {
  readonly address: string
  readonly at: number
}

/** What is kept of one AID beside its session. */
interface Source {
  readonly named: Told[]
  readonly refused: Told[]
  /** the last timestamps named, newest first, without that of the session's key; a replaced key last */
  recent: Candidate[]
  /** the session's key, then the recent ones: built anew when either changes */
  keys: readonly Uint8Array[]
  sessionKey: Uint8Array | null
  /** the session's key is confirmed and no other is named */
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
    } else if (source.settled && source.recent.length > 0) this.#outlived(source)
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
    const now = this.#clock.mono()
    const candidate = source.recent.find(recent => recent.key === key)
    if (!known && !candidate) return null
    const good = source.recent.filter(other => other !== candidate && other.until !== NAMED && other.until > now)
    const replaced = candidate ? this.#confirmed(aid, now + REPLACED_MS) : null
    if (candidate) {
      this.sessions.keyOn(aid, candidate.timestamp, addr)
      source.sessionKey = this.sessions.getSessionKey(aid)
    }
    source.recent = replaced ? [replaced, ...good].slice(0, RECENT) : good
    rebuild(source)
    source.settled = true
    if (this.sessions.isConfirmed(aid)) return null
    this.sessions.markSecureChannel(aid, addr)
    this.counters.confirmed++
    return buildSecureChannelAck(aid)
  }

  /**
   * A plaintext data packet was understood; `timestampRaw` is its TS field as it is on the wire. The answer, if one is
   * due: SECURE_DICT_READY naming this packet, at most every 10 s, AID and address; TIME_RESPONSE for a packet without a time.
   */
  onPlaintext(aid: number, timestampRaw: number, serverStamped: boolean, addr: unknown): Uint8Array | null {
    if (serverStamped) return buildTimeResponse(0, Math.floor(this.#serverTime()))
    if (timestampRaw <= this.sessions.timeSyncThreshold) return null
    const now = this.#clock.mono()
    const source = this.#source(aid, this.sessions.getSessionKey(aid))
    if (!due(source.named, addr, now, READY_PAUSE_MS)) return null
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

  /** NACK BAD_KEY for a secure frame that no key decrypts; null when that AID got one there within the last second. */
  refuse(frame: Omit<RefusedFrame, 'reason'>, addr: unknown = null): Uint8Array | null {
    const now = this.#clock.mono()
    const source = this.#source(frame.aid, this.sessions.getSessionKey(frame.aid))
    if (!due(source.refused, addr, now, REFUSE_PAUSE_MS)) return null
    this.counters.badKey++
    return buildNack(0, refusedFrameText({ ...frame, reason: 'BAD_KEY' }))
  }

  #remember(source: Source, aid: number, timestamp: number): void {
    if (source.recent.some(candidate => candidate.timestamp === timestamp)) return
    const key = deriveSessionKey(aid, timestamp)
    if (source.sessionKey && Buffer.compare(key, source.sessionKey) === 0) return
    source.recent = [{ timestamp, key, until: NAMED }, ...source.recent].slice(0, RECENT)
  }

  /** The confirmed key of the session as one that is good until then; null when there is none. */
  #confirmed(aid: number, until: number): Candidate | null {
    const session = this.sessions.isConfirmed(aid) ? this.sessions.session(aid) : null
    const timestamp = session?.first_plaintext_ts ?? null
    return session?.key && timestamp !== null ? { timestamp, key: session.key, until } : null
  }

  /** Replaced keys whose time is over go. */
  #outlived(source: Source): void {
    const now = this.#clock.mono()
    if (source.recent.every(({ until }) => until > now)) return
    source.recent = source.recent.filter(({ until }) => until > now)
    rebuild(source)
    source.settled = true
  }

  #source(aid: number, sessionKey: Uint8Array | null): Source {
    let source = this.#sources.get(aid)
    if (!source) {
      if (this.#sources.size >= this.#maxSources) this.#sources.delete(this.#sources.keys().next().value!)
      source = {
        named: [],
        refused: [],
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

/** Whether that address was told nothing of this kind for so long; noted as told now. */
function due(told: Told[], addr: unknown, now: number, pause: number): boolean {
  const address = addressText(addr) ?? ''
  const known = told.findIndex(one => one.address === address)
  if (known >= 0 && now - told[known]!.at < pause) return false
  if (known >= 0) told.splice(known, 1)
  else if (told.length >= ADDRESSES) told.shift()
  told.push({ address, at: now })
  return true
}

function rebuild(source: Source): void {
  const recent = source.recent.map(candidate => candidate.key)
  source.settled = false
  source.keys = source.sessionKey ? [source.sessionKey, ...recent] : recent
}
