// What a receiver keeps of one AID beside its session: when which address was answered, and the keys that packets may come under beside
// the session's own. Those are kept with the session, so that a start has them again: packets under each of them may wait in a broker.
import { deriveSessionKey } from '../../wire/cipher'
import { addressText } from '../ids/service'
import type { OtherKey } from './state'

/** addresses of one AID whose pauses are kept */
const ADDRESSES = 4
/** how long a confirmed key stays good after another one took its place */
export const REPLACED_MS = 60_000
export const NAMED = Number.POSITIVE_INFINITY

interface Candidate {
  readonly timestamp: number
  readonly key: Uint8Array
  /** the sender it was named to; "" for one that was replaced */
  readonly from: string
  /** mono ms; Infinity for a named one, which goes when the session settles */
  readonly until: number
}

/** An address that got an answer, and when (mono ms). */
interface RecentAnswer {
  readonly address: string
  readonly at: number
}

/** What is kept of one AID beside its session. */
export interface Source {
  readonly named: RecentAnswer[]
  readonly refused: RecentAnswer[]
  /** the last timestamps named, newest first, without that of the session's key; a replaced key last */
  recent: Candidate[]
  /** the session's key, then the recent ones: built anew when either changes */
  keys: readonly Uint8Array[]
  sessionKey: Uint8Array | null
  /** the session's key is confirmed and no other is named */
  settled: boolean
  /**
   * of a confirmed key, else of the device's plaintext: its address as the medium wrote it last, the sender that means, and when
   * that was heard, mono ms
   */
  address: string
  home: string
  heardAt: number
  warnedAt: number
}

/** Whether that address got no answer of this kind for so long; notes one now. */
export function due(answerList: RecentAnswer[], addr: unknown, now: number, intervalMs: number): boolean {
  const address = addressText(addr) ?? ''
  const known = answerList.findIndex(one => one.address === address)
  if (known >= 0 && now - answerList[known]!.at < intervalMs) return false
  if (known >= 0) answerList.splice(known, 1)
  else if (answerList.length >= ADDRESSES) answerList.shift()
  answerList.push({ address, at: now })
  return true
}

/** The keys to try, best first. */
export const keysOf = ({ sessionKey, recent }: Source, usable = recent): Uint8Array[] => [
  ...(sessionKey ? [sessionKey] : []),
  ...usable.map(({ key }) => key),
]

/** The keys changed. */
export function rebuild(source: Source): void {
  source.settled = false
  source.keys = keysOf(source)
}

/** Its candidates as its session keeps them. */
export const othersOf = ({ recent }: Source): OtherKey[] => recent.map(({ timestamp, from }) => [timestamp, from])

/** A candidate that a session kept, at mono ms `now`: how long a replaced key was good is not known any more. */
export const candidateOf = (aid: number, [timestamp, from]: OtherKey, now: number): Candidate => ({
  timestamp,
  from,
  key: deriveSessionKey(aid, timestamp),
  until: from ? NAMED : now + REPLACED_MS,
})
