// The secure sessions by AID (docs/protocol.md section 6): the component of the reference, with expiry and its file. It
// trusts its callers; SecureClient and SecureServer, which use it, decide which packets count (X7, S13).
//
// Errors: only its file can fail, see SessionStore; the sessions in memory stay valid. Their number is bounded: at the limit,
// the oldest without a confirmed secure packet is evicted, so that invented AIDs evict no working session. With a monotonic
// clock, a jump of the time (the first sync of a board without a clock) ends no session.
import { systemClock } from '../../lib/clock'
import { type Files, realFiles } from '../../lib/files'
import { secondTimers, type Timers } from '../../lib/timers'
import { SessionStore, type StoredSessions } from './session-store'
import {
  channelConfirmed,
  dictConfirmed,
  INITIAL,
  keptForm,
  keyedOn,
  type OtherKey,
  plaintextReceived,
  plaintextSent,
  recordOf,
  type SecureSession,
  type SessionRecord,
  type SessionState,
} from './state'

export type { SessionRecord }

export interface SecureSessionsOptions {
  /** a session that is not used for this time is dropped */
  expireSeconds?: number
  /** null: in memory only */
  storePath?: string | null
  /** the one server of these sessions; the file of another server is not used */
  peer?: string
  /** no key is derived from a timestamp up to this */
  timeSyncThreshold?: number
  /** UNIX seconds */
  now?: () => number
  /** milliseconds that never jump */
  mono?: () => number
  files?: Files
  timers?: Timers
  /** called with what is wrong with the file */
  onProblem?: (problem: string) => void
  maxSessions?: number
}

const SAVE_SECONDS = 5
/** a large file is written less often, so that invented AIDs do not wear the flash */
const SAVED_PER_SECOND = 50
/** a difference to the monotonic clock of more than this is a jump */
const JUMP_SECONDS = 60
/** new or confirmed keys that are written immediately; later ones are delayed */
const BURST = 1000
const MAX_SESSIONS = 16_384

export class SecureSessions {
  readonly expireSeconds: number
  readonly timeSyncThreshold: number
  /** sessions that others took the place of, since there are more than the limit */
  evicted = 0
  readonly #now: () => number
  readonly #mono: (() => number) | undefined
  readonly #store: SessionStore | null
  readonly #maxSessions: number
  readonly #sessions: Map<number, SecureSession>
  /** AIDs whose channel is not confirmed, oldest first */
  readonly #unproven = new Set<number>()
  #peer: string | undefined
  #cleanedAt: number
  #triedAt = Number.NEGATIVE_INFINITY
  #savedAt: number
  /** now() minus mono() in seconds at the last check */
  #anchor = 0
  #lookedAt: number
  /** more than the time of the last access has changed since the last write */
  #changed = false
  /** sessions that may be written immediately; grows by SAVED_PER_SECOND each second */
  #room = BURST
  readonly #timers: Timers
  #armed = false

  constructor({
    expireSeconds = 86_400,
    storePath = null,
    peer,
    timeSyncThreshold = 1_000_000,
    now = () => Math.floor(systemClock.wall() / 1000),
    mono,
    files = realFiles,
    timers = secondTimers,
    onProblem = () => undefined,
    maxSessions = MAX_SESSIONS,
  }: SecureSessionsOptions = {}) {
    this.expireSeconds = expireSeconds
    this.timeSyncThreshold = timeSyncThreshold
    this.#now = now
    this.#mono = mono
    if (mono) this.#anchor = now() - mono() / 1000
    this.#peer = peer
    this.#maxSessions = maxSessions
    this.#timers = timers
    this.#store = storePath === null ? null : new SessionStore({ path: storePath, files, peer, onProblem })
    this.#sessions = this.#store?.load() ?? new Map()
    for (const [aid, { state }] of this.#sessions) if (!state.confirmed) this.#unproven.add(aid)
    this.#cleanedAt = now()
    this.#lookedAt = this.#cleanedAt
    this.#savedAt = this.#cleanedAt
    this.expire()
    while (this.#sessions.size > maxSessions) this.#dropOldest()
  }

  /** From now on the sessions are with that server: those with another one end. */
  usePeer(peer: string): void {
    if (peer === this.#peer) return
    this.#peer = peer
    if (this.#store) this.#store.peer = peer
    this.#changed ||= this.#sessions.size > 0
    this.#sessions.clear()
    this.#unproven.clear()
    this.save()
  }

  get size(): number {
    return this.#sessions.size
  }

  /** Sessions with a confirmed channel. */
  get confirmed(): number {
    return this.#sessions.size - this.#unproven.size
  }

  /** AIDs with a session. */
  aids(): number[] {
    return [...this.#sessions.keys()]
  }

  /** This side sent plaintext with that timestamp (ms); only the first one makes the pending key. */
  noteLocalPlaintextSent(aid: number, timestampRaw: number, addr: unknown = null): SessionRecord {
    return recordOf(this.#move(aid, addr, state => plaintextSent(state, aid, timestampRaw)))
  }

  /** The other side sent plaintext with that timestamp. */
  establishRemotePlaintext(aid: number, timestampRaw: number, addr: unknown = null): SessionRecord {
    return recordOf(this.#move(aid, addr, state => plaintextReceived(state, aid, timestampRaw, this.timeSyncThreshold)))
  }

  /**
   * The other side reports that it has the key; true if this side has one now. The pending key takes precedence over the
   * timestamp.
   */
  confirmSecureDict(aid: number, timestampRaw: number | null = null, addr: unknown = null): boolean {
    const { state } = this.#move(aid, addr, before => dictConfirmed(before, aid, timestampRaw, this.timeSyncThreshold))
    return state.key !== null
  }

  /** Secure packets are understood. */
  markSecureChannel(aid: number, addr: unknown = null): void {
    this.#move(aid, addr, channelConfirmed)
  }

  /** Sets the session's key to that of exactly this timestamp, not yet confirmed. */
  keyOn(aid: number, timestampRaw: number, addr: unknown = null): void {
    this.#move(aid, addr, state => keyedOn(state, aid, timestampRaw))
  }

  hasSecureDict(aid: number): boolean {
    return this.#get(aid)?.state.dictReady === true
  }

  shouldEncryptOutbound(aid: number): boolean {
    return this.outboundKey(aid) !== null
  }

  /** Key of the next packet of that AID, null for plaintext. Called per packet: no allocation. */
  outboundKey(aid: number): Uint8Array | null {
    const state = this.#get(aid)?.state
    return state?.dictReady ? state.key : null
  }

  getSessionKey(aid: number): Uint8Array | null {
    return this.#get(aid)?.state.key ?? null
  }

  /** True if a secure packet of that AID was understood, or the other side reported it. */
  isConfirmed(aid: number): boolean {
    return this.#get(aid)?.state.confirmed === true
  }

  /** The key of a session; does not keep it alive, since forged packets would do so. */
  peekKey(aid: number): Uint8Array | null {
    return this.#peek(aid)?.state.key ?? null
  }

  /** Like peekKey(), for a confirmed channel: its peer's address, null if there is no such session. */
  confirmedPeer(aid: number): string | null {
    const session = this.#peek(aid)
    return session?.state.confirmed ? (session.peerAddr ?? '') : null
  }

  /** A valid packet arrived: keeps the session alive and sets its peer's address. */
  heard(aid: number, addr: unknown = null): void {
    const session = this.#get(aid)
    const peerAddr = peerText(addr)
    if (!session || peerAddr === null || peerAddr === session.peerAddr) return
    session.peerAddr = peerAddr
    this.#changed = true
  }

  /** Keys other than the session's, newest first. */
  others(aid: number): readonly OtherKey[] {
    return this.#sessions.get(aid)?.others ?? []
  }

  /** `written`: they are written immediately, not with the next change. */
  setOthers(aid: number, others: readonly OtherKey[], written: boolean): void {
    const session = this.#sessions.get(aid)
    if (!session) return
    session.others = others
    if (!written) return
    this.#changed = true
    this.#save('now')
  }

  /** The session in its displayed form; does not keep it alive. */
  session(aid: number): SessionRecord | null {
    const session = this.#sessions.get(aid)
    return session ? recordOf(session) : null
  }

  drop(aid: number): void {
    if (!this.#sessions.delete(aid)) return
    this.#unproven.delete(aid)
    this.#changed = true
    this.save()
  }

  /** Drops sessions not used for expireSeconds. */
  expire(): void {
    const now = this.#time()
    this.#cleanedAt = now
    for (const [aid, { last }] of this.#sessions) {
      if (now - last <= this.expireSeconds) continue
      this.#sessions.delete(aid)
      this.#unproven.delete(aid)
      this.#changed = true
    }
  }

  /** The content of the file. */
  stored(): StoredSessions {
    const sessions: StoredSessions['sessions'] = {}
    for (const [aid, session] of this.#sessions) sessions[String(aid)] = keptForm(session)
    return { updated_at: this.#now(), sessions }
  }

  /**
   * Writes the file if a session changed and the last write was 5 s ago (longer with more than 250 sessions); otherwise
   * delays the write until then. Forced: immediately, including times of access. The owner forces it at stop.
   */
  save(force = false): void {
    this.#save(force ? 'forced' : 'later')
  }

  /** `now`: immediately, as long as BURST allows. */
  #save(how: 'later' | 'now' | 'forced'): void {
    if (!this.#store) return
    const now = this.#time()
    const since = Math.abs(now - this.#triedAt)
    const { size } = this.#sessions
    const room = Math.min(BURST, this.#room + since * SAVED_PER_SECOND)
    const wait = Math.max(SAVE_SECONDS, size / SAVED_PER_SECOND) - since
    if (how !== 'forced' && wait > 0 && (how === 'later' || size > room)) {
      if (this.#changed) this.#arm(wait * 1000)
      return
    }
    // times of access only need a write if live sessions would otherwise expire in the file
    const stale = size > 0 && (how === 'forced' || Math.abs(now - this.#savedAt) > this.expireSeconds / 4)
    if (!this.#changed && !stale) return
    this.#triedAt = now
    this.#room = Math.max(0, room - size)
    if (!this.#store.save(this.stored())) return
    this.#savedAt = now
    this.#changed = false
  }

  #arm(ms: number): void {
    if (this.#armed) return
    this.#armed = true
    this.#timers.after(ms, () => {
      this.#armed = false
      this.save()
    })
  }

  #peek(aid: number): SecureSession | undefined {
    if (this.#sessions.size === 0) return undefined
    this.#cleanSometimes()
    return this.#sessions.get(aid)
  }

  /** Called per packet: costs nothing without sessions, and one clock read with sessions. */
  #get(aid: number): SecureSession | undefined {
    if (this.#sessions.size === 0) return undefined
    const now = this.#cleanSometimes()
    const session = this.#sessions.get(aid)
    if (session) session.last = now
    return session
  }

  #move(aid: number, addr: unknown, next: (state: SessionState) => SessionState): SecureSession {
    const now = this.#cleanSometimes()
    let session = this.#sessions.get(aid)
    if (!session) {
      if (this.#sessions.size >= this.#maxSessions) this.#dropOldest()
      session = { state: INITIAL, last: 0, peerAddr: null }
      this.#sessions.set(aid, session)
      this.#unproven.add(aid)
      this.#changed = true
    }
    session.last = now
    const peerAddr = peerText(addr) ?? session.peerAddr
    const state = next(session.state)
    const matters = state.key !== session.state.key || (state.confirmed && !session.state.confirmed)
    if (state !== session.state || peerAddr !== session.peerAddr) this.#changed = true
    session.state = state
    session.peerAddr = peerAddr
    if (state.confirmed) this.#unproven.delete(aid)
    else this.#unproven.add(aid)
    // after a kill, a broker may still deliver packets with a new key, and a confirmed key keeps other senders out (X37)
    this.#save(matters ? 'now' : 'later')
    return session
  }

  /** UNIX seconds now. */
  #cleanSometimes(): number {
    const now = this.#time()
    if (Math.abs(now - this.#cleanedAt) >= Math.max(15, Math.min(this.expireSeconds, 300))) this.expire()
    return now
  }

  /** UNIX seconds; if the clock jumped, shifts the noted times. */
  #time(): number {
    const now = this.#now()
    if (now === this.#lookedAt) return now
    this.#lookedAt = now
    if (!this.#mono) return now
    const anchor = now - this.#mono() / 1000
    const jump = anchor - this.#anchor
    if (Math.abs(jump) > JUMP_SECONDS) this.#shift(Math.round(jump), now)
    if (jump !== 0) this.#anchor = anchor
    return now
  }

  #shift(seconds: number, now: number): void {
    this.#cleanedAt += seconds
    this.#savedAt += seconds
    this.#triedAt += seconds
    for (const session of this.#sessions.values()) session.last = Math.min(now, session.last + seconds)
    this.#changed ||= this.#sessions.size > 0
  }

  /** No LruMap: a session without a confirmed key is evicted before any other. */
  #dropOldest(): void {
    const aid = this.#unproven.values().next().value ?? this.#sessions.keys().next().value
    if (aid === undefined) return
    this.evicted++
    this.#sessions.delete(aid)
    this.#unproven.delete(aid)
  }
}

/** An address in the reference's format: a pair in Python's form, else unchanged. */
const peerText = (addr: unknown): string | null => {
  if (addr === null || addr === undefined || addr === '') return null
  if (!Array.isArray(addr)) return String(addr)
  return `(${addr.map(part => (typeof part === 'number' ? String(part) : `'${String(part)}'`)).join(', ')})`
}
