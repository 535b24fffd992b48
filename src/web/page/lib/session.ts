// Who is signed in. The gateway's sessions are used where it has them; a bare admin token works as well, since it goes in
// the same header. Roles only decide what the page offers: the gateway checks every call itself.
import { ApiError, asApiError, call, currentToken, get, useToken } from './api'
import { Store } from './observable'
import type { Role } from './types'

interface LoginSession {
  /** 'unknown' until the gateway has answered */
  state: 'unknown' | 'in' | 'out'
  role: Role
  /** the gateway has said which role it is */
  known: boolean
  username: string
  /** a token is in use, so signing out means something */
  token: boolean
  /** why the reader is out, when he was in */
  reason: string
}

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 }

/** The gateway has said with the page that it wants a token: without one it would only refuse. */
const mustSignIn = currentToken() === null && 'signIn' in document.documentElement.dataset

export const session = new Store<LoginSession>({
  state: mustSignIn ? 'out' : 'unknown',
  role: 'viewer',
  known: false,
  username: '',
  token: currentToken() !== null,
  reason: '',
})

export const may = (role: Role): boolean => RANK[session.value.role] >= RANK[role]

/** in memory only, so that a gateway that started anew, and has forgotten its sessions, can be signed in to again */
let kept: Credentials | null = null

/** The next restart of the gateway asks the reader to sign in. */
export function forget(): void {
  kept = null
}

/** The token is no good any more: the reader has to sign in. */
export function ended(): void {
  forget()
  const had = currentToken() !== null
  useToken(null)
  const { state, reason } = session.value
  const why = had && state === 'in' ? 'Your session has ended. Please sign in again.' : reason
  session.patch({ state: 'out', known: false, token: false, reason: why })
}

/** Signs in with the token of a link; where it is not good, the form says so. */
export async function signInByLink(token: string): Promise<void> {
  try {
    await signIn({ token })
  } catch (thrown) {
    const { status, message } = asApiError(thrown)
    const reason = status === 401 ? 'This sign-in link is no longer valid.' : message
    session.patch({ reason })
  }
}

let renewing: Promise<boolean> | undefined

/**
 * Signs in again with what was used in this tab; false where that is not known or not good any more. Throws ApiError for
 * anything else, as a gateway that went away again.
 */
export function renew(): Promise<boolean> {
  if (!kept) return Promise.resolve(false)
  renewing ??= signIn(kept)
    .then(
      () => true,
      thrown => {
        if (asApiError(thrown).status === 401) return false
        throw thrown
      },
    )
    .finally(() => {
      renewing = undefined
    })
  return renewing
}

/** Called when a call came through: the token, or none, is good. */
export function admitted(): void {
  if (session.value.state !== 'in') session.patch({ state: 'in', token: currentToken() !== null, reason: '' })
  if (!session.value.known) void learnRole()
}

async function learnRole(): Promise<void> {
  try {
    const { role, username } = await get<{ role: Role; username: string }>('/api/session')
    session.patch({ role, username, known: true })
  } catch (thrown) {
    // a gateway without sessions knows the admin token only; onRefused reports a refusal, the next round asks again
    if (asApiError(thrown).status === 404) session.patch({ role: 'admin', username: 'admin', known: true })
  }
}

type Credentials = { token: string } | { username: string; password: string }

interface Opened {
  session: string
  role: Role
  username: string
}

/** Throws ApiError 401 for wrong credentials, 429 after too many. */
export async function signIn(credentials: Credentials): Promise<void> {
  try {
    // a wrong password must not end a session, so this goes without the token in use
    const opened = await call<Opened>('POST', '/api/login', { body: credentials, token: '' })
    kept = credentials
    useToken(opened.session)
    const { role, username } = opened
    session.set({ state: 'in', role, known: true, username, token: true, reason: '' })
  } catch (thrown) {
    const error = asApiError(thrown)
    if (error.status !== 404 || !('token' in credentials)) throw error
    await signInBare(credentials.token)
  }
}

/** A gateway that has no sessions takes the token itself. */
async function signInBare(token: string): Promise<void> {
  await get('/api/dashboard?sections=identity', { token })
  useToken(token)
  session.set({ state: 'in', role: 'admin', known: true, username: 'admin', token: true, reason: '' })
}

export async function signOut(): Promise<void> {
  kept = null
  try {
    await call('POST', '/api/logout', { body: {} })
  } catch (thrown) {
    // the token is forgotten here in any case; a session the gateway did not end runs out there
    if (!(thrown instanceof ApiError)) throw thrown
  }
  useToken(null)
  session.set({ state: 'out', role: 'viewer', known: false, username: '', token: false, reason: '' })
}
