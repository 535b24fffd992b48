// The receiving side of secure sessions (docs/protocol.md section 6, X7, X11, S13): names a timestamp of a plaintext packet
// to its sender, keeps the keys of the named ones, and settles on the key that decrypts a secure frame.
//
// Errors: if the answer is lost, another timestamp is named with a plaintext packet 10 s later, and every key that may still
// be in use is kept as a candidate. If no key decrypts, the frame is answered BAD_KEY (refuse()), and the sender starts
// again.
//
// A confirmed key is replaced only from the address it was confirmed from (a packet encrypted with it moves that address), or
// after no valid packet came from there for `rekeyAfterS` (X37); a request from another address gets no answer and is
// counted. A named key is valid for the address that requested it. A replaced key is valid for a minute more. Answers are
// rate limited per address, so that packets of other senders cannot suppress answers to the device. A packet without a time,
// stamped here, makes no key, since its sender cannot know the time.
import { type Clock, systemClock } from '../../lib/clock'
import { peerAddress, senderOf } from '../address'
import { buildNack, buildSecureChannelAck, buildSecureDictReady, buildTimeResponse } from '../control'
import { addressText } from '../ids/service'
import { type FrameName, refusedFrameText } from '../nack'
import { candidateOf, due, keysOf, NAMED, othersOf, rebuild, type SecureSource } from './aid-state'
import { SecureSessions } from './sessions'

export interface SecureServerOptions {
  /** sessions of this side only */
  sessions?: SecureSessions
  clock?: Clock
  /** UNIX seconds, sent to senders without a time */
  serverTime?: () => number
  /** plaintext data is refused; senders get their key through a key request, a FULL without sensors */
  requireSecure?: boolean
  /** seconds without a valid packet from its address after which a confirmed key may be replaced from another address */
  rekeyAfterS?: number
  /** which plaintext of an AID with a confirmed session is accepted (X36) */
  plaintextAfterSecure?: () => PlaintextAfterSecure
  /** a key was replaced, or its replacement refused; refusals of one AID at most once a minute */
  onRekey?: (event: 'replaced' | 'refused', aid: number, address: string) => void
  maxSources?: number
}

type PlaintextAfterSecure = 'same_address' | 'any' | 'never'

const READY_INTERVAL_MS = 10_000
const REFUSE_INTERVAL_MS = 1000
const RECENT = 7
const MAX_SOURCES = 16_384
const REKEY_AFTER_S = 600
const WARN_INTERVAL_MS = 60_000
const NO_KEYS: readonly Uint8Array[] = []

export class SecureServer {
  readonly sessions: SecureSessions
  readonly requireSecure: boolean
  /**
   * plaintext data packets refused by requireSecure, timestamps named, secure frames answered BAD_KEY, channels
   * confirmed
   */
  readonly counters = {
    plaintextRefused: 0,
    named: 0,
    badKey: 0,
    confirmed: 0,
    /** replaced confirmed keys, refused replacements, confirmed peers at a new address, forgotten sessions */
    replaced: 0,
    rekeyRefused: 0,
    moved: 0,
    forgotten: 0,
  }
  readonly #clock: Clock
  readonly #serverTime: () => number
  readonly #maxSources: number
  readonly #rekeyAfterMs: number
  readonly #plaintextAfterSecure: () => PlaintextAfterSecure
  readonly #onRekey: NonNullable<SecureServerOptions['onRekey']>
  /** the sender of the frame for which keys() is called; null: any */
  #sender: string | null = null
  readonly #sources = new Map<number, SecureSource>()

  constructor({
    clock = systemClock,
    sessions = new SecureSessions({ now: () => Math.floor(clock.wall() / 1000), mono: () => clock.mono() }),
    serverTime = () => Math.floor(clock.wall() / 1000),
    requireSecure = false,
    rekeyAfterS = REKEY_AFTER_S,
    plaintextAfterSecure = () => 'same_address',
    onRekey = () => undefined,
    maxSources = MAX_SOURCES,
  }: SecureServerOptions = {}) {
    this.sessions = sessions
    this.requireSecure = requireSecure
    this.#clock = clock
    this.#serverTime = serverTime
    this.#maxSources = maxSources
    this.#rekeyAfterMs = 1000 * (requireSecure ? sessions.expireSeconds : rekeyAfterS)
    this.#plaintextAfterSecure = plaintextAfterSecure
    this.#onRekey = onRekey
  }

  /** Sets the sender of the next frames for keys(): keys named to other senders are not used for them. */
  hears(address: string): void {
    this.#sender = address
  }

  /** Whether plaintext of that AID from that address is accepted: its confirmed session, if any, must allow it (X36). */
  takesPlaintext(aid: number, address: string): boolean {
    if (this.sessions.confirmed === 0) return true
    const rule = this.#plaintextAfterSecure()
    if (rule === 'any' || this.sessions.confirmedPeer(aid) === null) return true
    return rule === 'same_address' && this.isHome(aid, address)
  }

  /** Whether the confirmed session of that AID, if any, is with that sender. */
  isHome(aid: number, address: string): boolean {
    const peer = this.sessions.confirmedPeer(aid)
    if (peer === null) return true
    const source = this.#source(aid, this.sessions.peekKey(aid))
    return source.address === address || source.home === senderOf(address)
  }

  /** A packet that needs no key, an empty HEART, came from there: it keeps the session alive. */
  alive(aid: number, address: string): void {
    if (this.sessions.confirmedPeer(aid) === null || !this.isHome(aid, address)) return
    this.#sources.get(aid)!.heardAt = this.#clock.mono()
    this.sessions.heard(aid)
  }

  /** Called for an operator: the AID may get a key from any address again. False if it had no session. */
  forget(aid: number): boolean {
    const known = this.sessions.session(aid) !== null
    this.#sources.delete(aid)
    if (!known) return false
    this.sessions.drop(aid)
    this.sessions.save(true)
    this.counters.forgotten++
    return true
  }

  /** Keys to try on a secure frame of that AID, best first. Called per secure frame: allocates only after a change. */
  keys(aid: number): readonly Uint8Array[] {
    const sessionKey = this.sessions.peekKey(aid)
    const source = this.#sources.get(aid)
    if (!source) return sessionKey ? this.#source(aid, sessionKey).keys : NO_KEYS
    if (source.sessionKey !== sessionKey) {
      source.sessionKey = sessionKey
      rebuild(source)
    } else if (source.settled && source.recent.length > 0) this.#outlived(source)
    if (this.#sender === null || source.recent.length === 0) return source.keys
    const sender = senderOf(this.#sender)
    const usable = source.recent.filter(({ from, until }) => until !== NAMED || from === sender)
    return usable.length === source.recent.length ? source.keys : keysOf(source, usable)
  }

  /**
   * A secure frame was understood with `key`, one of keys(). `proven`: it had a body and became a fact; an empty HEART fits
   * every key. The proven key becomes the session's and the others are dropped. `fresh`: it is newer than earlier packets, so
   * it is no replayed copy; only then does its address become that of the session. Answers SECURE_CHANNEL_ACK the first time.
   */
  onSecure(aid: number, key: Uint8Array, addr: unknown, proven: boolean, fresh = true): Uint8Array | null {
    if (!proven) return null
    const source = this.#source(aid, this.#sources.get(aid)?.sessionKey ?? this.sessions.peekKey(aid))
    const known = source.sessionKey === key
    const now = this.#clock.mono()
    if (known) this.#under(source, aid, addr, fresh, now)
    if (known && source.settled) return null
    const candidate = source.recent.find(recent => recent.key === key)
    if (!known && !candidate) return null
    const good = source.recent.filter(other => other !== candidate && other.until !== NAMED && other.until > now)
    const replaced = candidate && this.sessions.isConfirmed(aid) ? this.sessions.session(aid)!.first_plaintext_ts : null
    if (candidate) {
      if (replaced !== null) {
        this.counters.replaced++
        this.#onRekey('replaced', aid, addressText(addr) ?? '')
      }
      this.sessions.keyOn(aid, candidate.timestamp, addr)
      this.#settle(source, addr, now)
      source.sessionKey = this.sessions.getSessionKey(aid)
    }
    source.recent = replaced === null ? good : [candidateOf(aid, [replaced, ''], now), ...good].slice(0, RECENT)
    this.sessions.setOthers(aid, othersOf(source), false)
    rebuild(source)
    source.settled = true
    if (this.sessions.isConfirmed(aid)) return null
    this.sessions.markSecureChannel(aid, addr)
    this.#settle(source, addr, now)
    this.counters.confirmed++
    return buildSecureChannelAck(aid)
  }

  /**
   * A plaintext data packet was understood; `timestampRaw` is its TS field as sent. Returns the answer, if one is due:
   * SECURE_DICT_READY with this packet's timestamp, at most every 10 s per AID and address; TIME_RESPONSE for a packet
   * without a time. `waits`: packets of that device may wait in a broker, and a refused one is not sent again: each key is
   * written before it is named, and the interval doubles while the device uses none. No answer while another address has the
   * confirmed key, or none has and the device's plaintext came from another address: the sender that confirms a key is the
   * only trusted one from then on (X36, X37).
   */
  onPlaintext(
    aid: number,
    timestampRaw: number,
    serverStamped: boolean,
    addr: unknown,
    waits = false,
  ): Uint8Array | null {
    if (serverStamped) return buildTimeResponse(0, Math.floor(this.#serverTime()))
    const now = this.#clock.mono()
    const source = this.#source(aid, this.sessions.peekKey(aid))
    const home = this.#atHome(source, aid, addr, now)
    if (timestampRaw <= this.sessions.timeSyncThreshold) return null
    if (!home) return this.#refuseKey(source, aid, addr, now)
    const from = senderOf(addressText(addr) ?? '')
    const unused = waits ? source.recent.filter(other => other.from === from).length : 0
    if (!due(source, 'named', addr, now, READY_INTERVAL_MS << unused)) return null
    this.counters.named++
    if (source.sessionKey === null) {
      this.sessions.establishRemotePlaintext(aid, timestampRaw, addr)
      source.sessionKey = this.sessions.getSessionKey(aid)
    } else {
      const others = source.recent.filter(other => other.timestamp !== timestampRaw || other.from !== from)
      source.recent = [{ ...candidateOf(aid, [timestampRaw, from], now), until: NAMED }, ...others].slice(0, RECENT)
      this.sessions.setOthers(aid, othersOf(source), waits)
    }
    rebuild(source)
    return buildSecureDictReady(aid, timestampRaw)
  }

  /** A plaintext data packet without a time was understood: it makes no key, but shows the device's address. */
  timeless(aid: number, addr: unknown): void {
    this.#atHome(this.#source(aid, this.sessions.peekKey(aid)), aid, addr, this.#clock.mono())
  }

  /**
   * Whether the facts of a plaintext packet must be dropped (requireSecure); refused data is counted. The caller passes it to
   * onPlaintext nevertheless, so that its sender gets a key.
   */
  refusesPlaintext(sensors: number): boolean {
    if (this.requireSecure && sensors > 0) this.counters.plaintextRefused++
    return this.requireSecure
  }

  /**
   * NACK BAD_KEY for a secure frame that no key decrypts, or for plaintext of an AID whose session is with another address:
   * the owner of its key can prove itself with it (X37). Null if that AID got one at that address within the last second,
   * unless `each`.
   */
  refuse(frame: FrameName, addr: unknown = null, each = false): Uint8Array | null {
    const now = this.#clock.mono()
    const source = this.#source(frame.aid, this.sessions.peekKey(frame.aid))
    if (!due(source, 'refused', addr, now, REFUSE_INTERVAL_MS) && !each) return null
    this.counters.badKey++
    return buildNack(0, refusedFrameText({ ...frame, reason: 'BAD_KEY' }))
  }

  /** A packet encrypted with the session's key: the peer is at that address, unless it is a replayed copy. */
  #under(source: SecureSource, aid: number, addr: unknown, fresh: boolean, now: number): void {
    const address = addressText(addr) ?? ''
    if (source.address !== address) {
      const sender = senderOf(address)
      if (source.home !== sender) {
        if (!fresh || this.sessions.confirmedPeer(aid) === null) return
        this.counters.moved++
        source.home = sender
        this.sessions.heard(aid, addr)
      }
      source.address = address
    }
    source.heardAt = now
    this.sessions.heard(aid)
  }

  #settle(source: SecureSource, addr: unknown, now: number): void {
    source.address = addressText(addr) ?? ''
    source.home = senderOf(source.address)
    source.heardAt = now
  }

  /** Whether a key may be confirmed from there: the device is heard there, or was not heard anywhere for long (X37). */
  #atHome(source: SecureSource, aid: number, addr: unknown, now: number): boolean {
    const confirmed = this.sessions.confirmedPeer(aid) !== null
    if (!confirmed && this.requireSecure) return true
    const address = addressText(addr) ?? ''
    if (source.address === address) {
      if (!confirmed) source.heardAt = now
      return true
    }
    const known = source.home === senderOf(address)
    if (!known && source.home !== '' && now - source.heardAt < this.#rekeyAfterMs) return false
    if (!confirmed) this.#settle(source, addr, now)
    return true
  }

  #refuseKey(source: SecureSource, aid: number, addr: unknown, now: number): null {
    this.counters.rekeyRefused++
    if (now - source.warnedAt >= WARN_INTERVAL_MS) {
      source.warnedAt = now
      this.#onRekey('refused', aid, addressText(addr) ?? '')
    }
    return null
  }

  /** Drops expired replaced keys. */
  #outlived(source: SecureSource): void {
    const now = this.#clock.mono()
    if (source.recent.every(({ until }) => until > now)) return
    source.recent = source.recent.filter(({ until }) => until > now)
    rebuild(source)
    source.settled = true
  }

  /** The AID to evict: an old one without a confirmed session. No LruMap: the search ends after 32 AIDs. */
  #leastOf(): number {
    let looks = 32
    for (const aid of this.#sources.keys()) if (looks-- === 0 || this.sessions.confirmedPeer(aid) === null) return aid
    return this.#sources.keys().next().value!
  }

  #source(aid: number, sessionKey: Uint8Array | null): SecureSource {
    let source = this.#sources.get(aid)
    if (!source) {
      if (this.#sources.size >= this.#maxSources) this.#sources.delete(this.#leastOf())
      const address = peerAddress(this.sessions.confirmedPeer(aid) ?? '')
      source = {
        named: [],
        refused: [],
        recent: this.sessions.others(aid).map(other => candidateOf(aid, other, this.#clock.mono())),
        keys: NO_KEYS,
        sessionKey: null,
        settled: false,
        address,
        home: senderOf(address),
        heardAt: this.#clock.mono(),
        warnedAt: Number.NEGATIVE_INFINITY,
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
