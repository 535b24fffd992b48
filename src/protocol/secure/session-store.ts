// The file of the secure sessions: `{updated_at, sessions: {aid: …}}`, indented by 2, replaced atomically.
//
// Errors: a missing file means no sessions. A file that cannot be read, is not JSON, or contains invalid entries is reported
// through `onProblem` and copied to `<file>.damaged`; its readable part is used. A failed write is reported, and the caller
// retries later. If the file is lost, each peer needs a new key exchange, and the first sender after that may take the place
// of a device (X37).
import { dirname } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { counted } from '../../lib/counted'
import { asOsError } from '../../lib/errors'
import type { Files } from '../../lib/files'
import { type KeptSession, type SecureSession, sessionFrom } from './state'

export interface StoredSessions {
  updated_at: number
  /** the server of the sessions; absent in files of receivers, who have many peers */
  peer?: string
  sessions: Record<string, KeptSession>
}

interface SessionStoreOptions {
  path: string
  files: Files
  /** a file of another peer is not used: its keys are for another server */
  peer?: string | undefined
  /** called with a sentence that describes the problem of the file */
  onProblem: (problem: string) => void
}

export class SessionStore {
  readonly #options: SessionStoreOptions
  /** the peer of the sessions in the next write */
  peer: string | undefined
  #failing = false

  constructor(options: SessionStoreOptions) {
    this.#options = options
    this.peer = options.peer
  }

  /** The sessions of the file by AID. */
  load(): Map<number, SecureSession> {
    const { path, files, onProblem } = this.#options
    const { peer } = this
    const found = new Map<number, SecureSession>()
    if (!files.exists(path)) return found
    let text: string
    try {
      text = files.read(path).toString('utf8')
    } catch (error) {
      onProblem(`secure sessions not read from ${path}: ${asOsError(error).message}`)
      return found
    }
    const damaged = parseInto(found, text, peer)
    if (damaged) onProblem(`${path} is damaged: ${damaged}; ${this.#keepDamaged()}`)
    return found
  }

  /** Replaces the file; false if that failed. */
  save(content: StoredSessions): boolean {
    const { path, files, onProblem } = this.#options
    const { peer } = this
    try {
      files.mkdir(dirname(path))
      atomicWrite(path, JSON.stringify(peer === undefined ? content : { peer, ...content }, null, 2), files)
      this.#failing = false
      return true
    } catch (error) {
      // logged once per failure: the write is retried every few seconds
      if (!this.#failing) onProblem(`secure sessions not written to ${path}: ${asOsError(error).message}`)
      this.#failing = true
      return false
    }
  }

  #keepDamaged(): string {
    const { path, files } = this.#options
    try {
      files.rename(path, `${path}.damaged`)
      return `renamed to ${path}.damaged`
    } catch (error) {
      return `not renamed: ${asOsError(error).message}`
    }
  }
}

/** Fills `found`; returns what is wrong with the text, null if nothing is. */
function parseInto(found: Map<number, SecureSession>, text: string, peer?: string): string | null {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch (error) {
    return asOsError(error).message
  }
  const sessions = (content as { sessions?: unknown } | null)?.sessions
  if (typeof sessions !== 'object' || sessions === null || Array.isArray(sessions)) return 'it contains no sessions'
  if (peer !== undefined && (content as { peer?: unknown }).peer !== peer) return null
  let bad = 0
  for (const [aid, value] of Object.entries(sessions)) {
    const session = /^(0|[1-9]\d{0,9})$/.test(aid) && Number(aid) <= 0xffff_ffff ? sessionFrom(value) : null
    if (session) found.set(Number(aid), session)
    else bad++
  }
  return bad > 0 ? `${counted(bad, 'entry')} not valid` : null
}
