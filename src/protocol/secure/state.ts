// One secure session (specification "States and transitions"): its states, the transitions, and its displayed and stored
// forms. Pure: reads no clock or file. A transition that does not apply returns the state unchanged; an inconsistent stored
// form is read as null.
import { deriveSessionKey } from '../../wire/cipher'

/** The key of a plaintext packet this side sent, until the other side confirms it. */
interface PendingKey {
  readonly timestamp: number
  readonly key: Uint8Array
}

/** The states of the specification. */
type StateName = 'INIT' | 'PLAINTEXT_SENT' | 'DICT_READY' | 'SECURE'

export interface SessionState {
  readonly pending: PendingKey | null
  /** null: none yet, or the packet had no usable time to derive a key from */
  readonly key: Uint8Array | null
  /** timestamp (ms) the key was derived from */
  readonly keyTimestamp: number | null
  readonly dictReady: boolean
  /** a secure packet was understood, or the other side reported it */
  readonly confirmed: boolean
}

export const INITIAL: SessionState = {
  pending: null,
  key: null,
  keyTimestamp: null,
  dictReady: false,
  confirmed: false,
}

/** Ready, with the key of that timestamp. */
const keyed = (aid: number, timestamp: number) => ({
  key: deriveSessionKey(aid, timestamp),
  keyTimestamp: timestamp,
  dictReady: true,
})

/** The state without another key; a confirmed channel stays confirmed. */
const ready = (state: SessionState): SessionState => (state.dictReady ? state : { ...state, dictReady: true })

/** This side sent plaintext: the first packet makes the pending key. */
export const plaintextSent = (state: SessionState, aid: number, timestamp: number): SessionState =>
  state.key || state.pending ? state : { ...state, pending: { timestamp, key: deriveSessionKey(aid, timestamp) } }

/** The other side sent plaintext: always becomes ready; with a key if its time is above `threshold` and there is none yet. */
export const plaintextReceived = (
  state: SessionState,
  aid: number,
  timestamp: number,
  threshold: number,
): SessionState => (state.key || timestamp <= threshold ? ready(state) : { ...state, ...keyed(aid, timestamp) })

/** The other side has the key: the pending one takes precedence over the timestamp. */
export function dictConfirmed(
  state: SessionState,
  aid: number,
  timestamp: number | null,
  threshold: number,
): SessionState {
  if (state.key) return ready(state)
  const { pending } = state
  if (pending) return { ...state, key: pending.key, keyTimestamp: pending.timestamp, dictReady: true }
  if (timestamp !== null && timestamp > threshold) return { ...state, ...keyed(aid, timestamp) }
  // a ready state without a key is reset: a confirmation needs a key
  return state.confirmed ? { ...state, dictReady: false } : state.dictReady ? INITIAL : state
}

/** A secure packet was understood, or the other side reports it. */
export const channelConfirmed = (state: SessionState): SessionState =>
  state.confirmed ? state : { ...state, confirmed: true }

/** Sets the key of that timestamp, whatever the state was (X7). */
export const keyedOn = ({ pending }: SessionState, aid: number, timestamp: number): SessionState => ({
  pending,
  confirmed: false,
  ...keyed(aid, timestamp),
})

const nameOf = ({ pending, dictReady, confirmed }: SessionState): StateName =>
  confirmed ? 'SECURE' : dictReady ? 'DICT_READY' : pending ? 'PLAINTEXT_SENT' : 'INIT'

/** A key other than the session's: its timestamp, and the sender to which it was named; "" for the previous key. */
export type OtherKey = readonly [timestamp: number, from: string]

/** A session: its state and metadata. */
export interface SecureSession {
  state: SessionState
  /** UNIX seconds of the last access */
  last: number
  peerAddr: string | null
  others?: readonly OtherKey[]
}

/** The displayed form, with the reference's fields. */
export interface SessionRecord extends KeptSession {
  pending_key: Uint8Array | null
  key: Uint8Array | null
}

/** The stored form. */
export interface KeptSession {
  last: number
  peer_addr: string | null
  first_plaintext_ts: number | null
  pending_timestamp: number | null
  pending_key_hex: string | null
  key_hex: string | null
  dict_ready: boolean
  decrypt_confirmed: boolean
  state: StateName
  /** not of the reference; absent where there are none */
  other_keys?: readonly OtherKey[]
}

const hex = (bytes: Uint8Array | null): string | null =>
  bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')

export function keptForm({ state, last, peerAddr, others }: SecureSession): KeptSession {
  const { pending, key, keyTimestamp, dictReady, confirmed } = state
  return {
    last,
    peer_addr: peerAddr,
    first_plaintext_ts: keyTimestamp,
    pending_timestamp: pending?.timestamp ?? null,
    pending_key_hex: hex(pending?.key ?? null),
    key_hex: hex(key),
    dict_ready: dictReady,
    decrypt_confirmed: confirmed,
    state: nameOf(state),
    ...(others?.length && { other_keys: others }),
  }
}

export const recordOf = (session: SecureSession): SessionRecord => ({
  ...keptForm(session),
  pending_key: session.state.pending?.key ?? null,
  key: session.state.key,
})

const time = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0
const isOtherKey = (one: OtherKey | null): boolean => time(one?.[0])
const keyFrom = (value: unknown): Uint8Array | null =>
  typeof value === 'string' && /^[0-9a-f]{64}$/.test(value) ? Buffer.from(value, 'hex') : null

/**
 * A session from its file; null if it is not valid. The state is derived from the flags: peers write more combinations of
 * them than we do.
 */
export function sessionFrom(value: unknown): SecureSession | null {
  if (typeof value !== 'object' || value === null) return null
  const kept = value as Record<string, unknown>
  const { last, key_hex, pending_key_hex, pending_timestamp, first_plaintext_ts, peer_addr } = kept
  const key = keyFrom(key_hex)
  const pendingKey = keyFrom(pending_key_hex)
  if (!time(last) || (key_hex != null && !key) || (pending_key_hex != null && !pendingKey)) return null
  const pending = pendingKey && { timestamp: time(pending_timestamp) ? pending_timestamp : 0, key: pendingKey }
  const dictReady = kept['dict_ready'] === true
  const confirmed = kept['decrypt_confirmed'] === true
  const keyTimestamp = time(first_plaintext_ts) ? first_plaintext_ts : null
  const others = Array.isArray(kept['other_keys']) ? kept['other_keys'].filter(isOtherKey) : []
  return {
    last,
    others,
    peerAddr: typeof peer_addr === 'string' ? peer_addr : null,
    state: dictReady || confirmed ? { pending, key, keyTimestamp, dictReady, confirmed } : { ...INITIAL, pending },
  }
}
