// State of one AID in addition to its session: when each address was answered, and the other keys that its packets may use.
// These keys are stored with the session, so that a restart has them: packets under each of them may wait in a broker.
import { deriveSessionKey } from '../../wire/cipher'
import { addressText } from '../ids/service'
import type { OtherKey } from './state'

/** addresses per AID whose rate limits are kept */
const ADDRESSES = 4
/** how long a confirmed key stays valid after it was replaced */
export const REPLACED_MS = 60_000
export const NAMED = Number.POSITIVE_INFINITY

interface Candidate {
  readonly timestamp: number
  readonly key: Uint8Array
  /** the sender for which it was named; "" for a replaced key */
  readonly from: string
  /** mono ms; Infinity for a named key, which is dropped when the session settles */
  readonly until: number
}

/** An address that got an answer, and when (mono ms). */
interface RecentAnswer {
  readonly address: string
  readonly at: number
}

/** State of one AID in addition to its session. */
export interface SecureSource {
  named: readonly RecentAnswer[]
  refused: readonly RecentAnswer[]
  /** keys of the last named timestamps, newest first, without the session's key; a replaced key last */
  recent: Candidate[]
  /** the session's key, then the recent ones: rebuilt when either changes */
  keys: readonly Uint8Array[]
  sessionKey: Uint8Array | null
  /** the session's key is confirmed and no other is named */
  settled: boolean
  /**
   * of a confirmed key, else of the device's plaintext: its address as the medium last wrote it, the sender in it, and when
   * it was last heard, mono ms
   */
  address: string
  home: string
  heardAt: number
  warnedAt: number
}

/** Whether that address got no answer of this kind within the interval; notes one now. */
export function due(
  source: Pick<SecureSource, 'named' | 'refused'>,
  kind: 'named' | 'refused',
  addr: unknown,
  now: number,
  intervalMs: number,
): boolean {
  const address = addressText(addr) ?? ''
  const known = source[kind].find(one => one.address === address)
  if (known && now - known.at < intervalMs) return false
  const others = source[kind].filter(one => one !== known)
  // concat makes a list of its exact size; one that grows from empty has 17 places
  source[kind] = others.slice(1 - ADDRESSES).concat({ address, at: now })
  return true
}

/** The keys to try, best first, each once: a copy of a plaintext packet that came another way names the same key again. */
export function keysOf({ sessionKey, recent }: SecureSource, usable = recent): Uint8Array[] {
  const keys = sessionKey ? [sessionKey] : []
  for (const { key } of usable) if (keys.every(other => Buffer.compare(other, key) !== 0)) keys.push(key)
  return keys
}

/** Call after a change of the session's key or of `recent`. */
export function rebuild(source: SecureSource): void {
  source.settled = false
  source.keys = keysOf(source)
}

/** The candidates in the form that the session stores. */
export const othersOf = ({ recent }: SecureSource): OtherKey[] => recent.map(({ timestamp, from }) => [timestamp, from])

/** A stored candidate, read at mono ms `now`. A replaced key gets its full time again: how much of it had passed is unknown. */
export const candidateOf = (aid: number, [timestamp, from]: OtherKey, now: number): Candidate => ({
  timestamp,
  from,
  key: deriveSessionKey(aid, timestamp),
  until: from ? NAMED : now + REPLACED_MS,
})
