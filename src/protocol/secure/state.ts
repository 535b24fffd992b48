// One secure session (specification "States and transitions"): its states, the transitions, and its displayed and stored
// forms. Pure: reads no clock or file. A transition that does not apply returns the state unchanged; an inconsistent stored
// form is read as null.
import { deriveSessionKey } from '../../wire/cipher'

/** The key of a plaintext packet this side sent, until the other side confirms it. */
interface PendingKey {
  readonly timestamp: number
  readonly key: Uint8Array
}

interface Keyed {
  readonly pending: PendingKey | null
  /** null: the packet had no usable time to derive a key from */
  readonly key: Uint8Array | null
  /** timestamp (ms) the key was derived from */
  readonly keyTimestamp: number | null
}

export type SessionState =
  | { readonly kind: 'INIT' }
  | { readonly kind: 'PLAINTEXT_SENT'; readonly pending: PendingKey }
  | ({ readonly kind: 'DICT_READY' } & Keyed)
  | ({ readonly kind: 'SECURE'; readonly dictReady: boolean } & Keyed)

export const INITIAL: SessionState = { kind: 'INIT' }

const pendingOf = (state: SessionState): PendingKey | null => (state.kind === 'INIT' ? null : state.pending)

export const keyOf = (state: SessionState): Uint8Array | null =>
  state.kind === 'DICT_READY' || state.kind === 'SECURE' ? state.key : null

export const dictReady = (state: SessionState): boolean =>
  state.kind === 'DICT_READY' || (state.kind === 'SECURE' && state.dictReady)

const keyTimestampOf = (state: SessionState): number | null =>
  state.kind === 'DICT_READY' || state.kind === 'SECURE' ? state.keyTimestamp : null

/** The state with the given key (or none) in use; a confirmed channel stays confirmed. */
const ready = (state: SessionState, key: Uint8Array | null, keyTimestamp: number | null): SessionState => {
  const keyed = { pending: pendingOf(state), key, keyTimestamp }
  return state.kind === 'SECURE' ? { kind: 'SECURE', dictReady: true, ...keyed } : { kind: 'DICT_READY', ...keyed }
}

/** This side sent plaintext: the first packet makes the pending key. */
export function plaintextSent(state: SessionState, aid: number, timestamp: number): SessionState {
  if (keyOf(state) || pendingOf(state)) return state
  const pending = { timestamp, key: deriveSessionKey(aid, timestamp) }
  return state.kind === 'INIT' ? { kind: 'PLAINTEXT_SENT', pending } : { ...state, pending }
}

/** The other side sent plaintext: always becomes ready; with a key if its time is above `threshold` and there is none yet. */
export function plaintextReceived(
  state: SessionState,
  aid: number,
  timestamp: number,
  threshold: number,
): SessionState {
  const key = keyOf(state)
  if (key || timestamp <= threshold) return dictReady(state) ? state : ready(state, key, keyTimestampOf(state))
  return ready(state, deriveSessionKey(aid, timestamp), timestamp)
}

/** The other side has the key: the pending one takes precedence over the timestamp. */
export function dictConfirmed(
  state: SessionState,
  aid: number,
  timestamp: number | null,
  threshold: number,
): SessionState {
  if (keyOf(state)) return dictReady(state) ? state : ready(state, keyOf(state), keyTimestampOf(state))
  const pending = pendingOf(state)
  if (pending) return ready(state, pending.key, pending.timestamp)
  if (timestamp !== null && timestamp > threshold) return ready(state, deriveSessionKey(aid, timestamp), timestamp)
  // a ready state without a key is reset: a confirmation needs a key
  return state.kind === 'DICT_READY' ? INITIAL : state.kind === 'SECURE' ? { ...state, dictReady: false } : state
}

/** A secure packet was understood, or the other side reports it. */
export function channelConfirmed(state: SessionState): SessionState {
  if (state.kind === 'SECURE') return state
  return {
    kind: 'SECURE',
    dictReady: dictReady(state),
    pending: pendingOf(state),
    key: keyOf(state),
    keyTimestamp: keyTimestampOf(state),
  }
}

/** Sets the key of that timestamp, whatever the state was (X7). */
export const keyedOn = (state: SessionState, aid: number, timestamp: number): SessionState => ({
  kind: 'DICT_READY',
  pending: pendingOf(state),
  key: deriveSessionKey(aid, timestamp),
  keyTimestamp: timestamp,
})

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
  state: SessionState['kind']
  /** not of the reference; absent where there are none */
  other_keys?: readonly OtherKey[]
}

const hex = (bytes: Uint8Array | null): string | null =>
  bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')

export function keptForm({ state, last, peerAddr, others }: SecureSession): KeptSession {
  const pending = pendingOf(state)
  return {
    last,
    peer_addr: peerAddr,
    first_plaintext_ts: keyTimestampOf(state),
    pending_timestamp: pending?.timestamp ?? null,
    pending_key_hex: hex(pending?.key ?? null),
    key_hex: hex(keyOf(state)),
    dict_ready: dictReady(state),
    decrypt_confirmed: state.kind === 'SECURE',
    state: state.kind,
    ...(others?.length && { other_keys: others }),
  }
}

export const recordOf = (session: SecureSession): SessionRecord => ({
  ...keptForm(session),
  pending_key: pendingOf(session.state)?.key ?? null,
  key: keyOf(session.state),
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
  const keyed = { pending, key, keyTimestamp: time(first_plaintext_ts) ? first_plaintext_ts : null }
  const ready = kept['dict_ready'] === true
  const others = Array.isArray(kept['other_keys']) ? kept['other_keys'].filter(isOtherKey) : []
  return {
    last,
    others,
    peerAddr: typeof peer_addr === 'string' ? peer_addr : null,
    state:
      kept['decrypt_confirmed'] === true
        ? { kind: 'SECURE', dictReady: ready, ...keyed }
        : ready
          ? { kind: 'DICT_READY', ...keyed }
          : pending
            ? { kind: 'PLAINTEXT_SENT', pending }
            : INITIAL,
  }
}
