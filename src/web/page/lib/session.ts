// The signed-in user, with a session of the gateway. Roles only decide what the page offers: the gateway checks every
// call.
import { mayAct } from '../../../services/users/roles'
import { ApiError, asApiError, call, currentToken, get, useToken } from './api'
import { Store } from './observable'
import type { Role } from './types'

interface LoginSession {
  /** 'unknown' until the gateway has answered */
  state: 'unknown' | 'in' | 'out'
  role: Role
  /** the gateway has reported the role */
  known: boolean
  username: string
  /** a token is in use, so signing out makes sense */
  token: boolean
  /** why the user was signed out */
  reason: string
}

/** The page says that the gateway requires a token: a request without one would be refused. */
const mustSignIn = currentToken() === null && 'signIn' in document.documentElement.dataset

export const session = new Store<LoginSession>({
  state: mustSignIn ? 'out' : 'unknown',
  role: 'viewer',
  known: false,
  username: '',
  token: currentToken() !== null,
  reason: '',
})

export const may = (role: Role): boolean => mayAct(session.value.role, role)

/** only in memory, to sign in again after a restart of the gateway has ended its sessions */
let kept: Credentials | null = null

/** After the next restart of the gateway the user must sign in. */
export function forget(): void {
  kept = null
}

/** The token is no longer valid: the user must sign in. */
export function ended(): void {
  forget()
  const had = currentToken() !== null
  useToken(null)
  const { state, reason } = session.value
  const why = had && state === 'in' ? 'Your session has ended. Please sign in again.' : reason
  session.patch({ state: 'out', known: false, token: false, reason: why })
}

/** Signs in with the token of a link; if it is invalid, the form says so. */
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
 * Signs in again with the credentials of this tab; false if they are unknown or no longer valid. Throws ApiError for
 * anything else, such as a gateway that is unreachable again.
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

/** Called after a successful call: the token, or none, is accepted. */
export function admitted(): void {
  if (session.value.state !== 'in') session.patch({ state: 'in', token: currentToken() !== null, reason: '' })
  if (!session.value.known) void learnRole()
}

async function learnRole(): Promise<void> {
  try {
    const { role, username } = await get<{ role: Role; username: string }>('/api/session')
    session.patch({ role, username, known: true })
  } catch {
    // onRefused reports a refusal, the next round queries again
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
  // a wrong password must not end a session, so this request omits the current token
  const opened = await call<Opened>('POST', '/api/login', { body: credentials, token: '' })
  kept = credentials
  useToken(opened.session)
  const { role, username } = opened
  session.set({ state: 'in', role, known: true, username, token: true, reason: '' })
}

export async function signOut(): Promise<void> {
  kept = null
  try {
    await call('POST', '/api/logout', { body: {} })
  } catch (thrown) {
    // the token is removed here in any case; a session that the gateway did not end times out there
    if (!(thrown instanceof ApiError)) throw thrown
  }
  useToken(null)
  session.set({ state: 'out', role: 'viewer', known: false, username: '', token: false, reason: '' })
}
