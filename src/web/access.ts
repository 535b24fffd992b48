// Authentication: the admin token, or a session opened with it or with a user's password, in the header X-Admin-Token
// (or Authorization: Bearer). Wrong ones are rate limited by the gate; every sign-in, successful or not, is logged.
// While auth is off, callers from this machine are the admin and others are refused (decision 0050).
import type { IncomingMessage } from 'node:http'
import { isLoopback } from '../config'
import { asOsError, OsError } from '../lib/errors'
import { mayAct, type Role, userKey } from '../services/users'
import type { WebContext } from './context'
import type { TokenGate } from './login-throttle'
import { looksLikeSession, type Sessions, type WebSession } from './sessions'

export type { WebSession } from './sessions'

const TOKEN_ADMIN: WebSession = { role: 'admin', username: 'admin', expires_at: null }

/** For open routes: the caller is unknown. */
export const ANONYMOUS: WebSession = { role: 'viewer', username: '', expires_at: null }

interface Login {
  readonly username?: string | undefined
  readonly password?: string | undefined
  readonly token?: string | undefined
}

/** The credentials of a request; '' if there are none. */
function credentials({ headers }: IncomingMessage): string {
  const header = headers['x-admin-token']
  const token = (Array.isArray(header) ? header[0] : header)?.trim()
  return token || (/^Bearer +(\S+)\s*$/i.exec(headers.authorization ?? '')?.[1] ?? '')
}

export class Access {
  constructor(
    private readonly context: WebContext,
    private readonly gate: TokenGate,
    private readonly sessions: Sessions,
    /** true: only this machine reaches the server */
    private readonly loopback: boolean,
  ) {}

  /** Auth can be off only on the loopback: on a network the token is required, whatever the configuration says (decision 0050). */
  get #asks(): boolean {
    return !this.loopback || this.context.auth.enabled()
  }

  /** Throws UNAUTHORIZED or TOO_MANY_ATTEMPTS unless the request may use closed routes. */
  async admit(req: IncomingMessage): Promise<WebSession> {
    const remote = req.socket.remoteAddress ?? ''
    const text = credentials(req)
    if (!this.#asks) {
      if (isLoopback(remote)) return TOKEN_ADMIN
      throw unauthorized()
    }
    if (text === '') throw unauthorized()
    if (looksLikeSession(text)) {
      const session = this.sessions.find(text)
      if (session) return session
      // after a restart the page signs in again automatically; after any other 401 it must not
      throw unauthorized(this.sessions.isOfOtherStart(text) ? { restarted: true } : {})
    }
    if (await this.#isToken(text, remote)) return TOKEN_ADMIN
    this.context.logger.warn(`wrong admin token from ${remote}`)
    throw unauthorized()
  }

  /** True while the credentials of the request are still valid; does not keep a session alive. */
  holds(req: IncomingMessage): boolean {
    const text = credentials(req)
    if (!this.#asks) return isLoopback(req.socket.remoteAddress ?? '')
    if (looksLikeSession(text)) return this.sessions.find(text, false) !== null
    return this.context.auth.remembered?.(text) ?? true
  }

  #welcome(line: string): void {
    this.context.logger.info(line)
    this.context.update?.loggedIn()
  }

  /** Opens a session. Throws UNAUTHORIZED, TOO_MANY_ATTEMPTS, BAD_REQUEST. */
  async login({ username, password, token }: Login, remote: string): Promise<{ id: string; session: WebSession }> {
    const { users, logger } = this.context
    if (token !== undefined) {
      // read before the check: a session opened with a token that is replaced meanwhile ends immediately
      const stamp = this.#stamp()
      if (token !== '' && (await this.#isToken(token, remote))) {
        this.#welcome(`admin token used to sign in from ${remote}`)
        return this.sessions.open('admin', 'admin', remote, () => stamp !== undefined && this.#stamp() === stamp)
      }
      logger.warn(`wrong admin token from ${remote}`)
      throw unauthorized()
    }
    if (username === undefined || password === undefined) {
      throw new OsError('BAD_REQUEST', 'username and password, or token, are required')
    }
    const verify = () =>
      users.verify(username, password).catch(error => {
        // clients that are not signed in must not learn the path of the users file
        logger.error(`sign-in: ${asOsError(error).message}`)
        throw new OsError('STORAGE', 'the users cannot be read', { cause: error })
      })
    const user = await this.gate.attempt(remote, verify, userKey(username))
    if (!user) {
      logger.warn(`failed sign-in from ${remote}`)
      throw new OsError('UNAUTHORIZED', 'wrong username or password')
    }
    const stamp = users.stamp(user.username)
    this.#welcome(`${user.username} signed in from ${remote}`)
    return this.sessions.open(user.role, user.username, remote, () => users.stamp(user.username) === stamp)
  }

  /** undefined: it cannot be read */
  #stamp(): unknown {
    try {
      return this.context.auth.stamp?.() ?? null
    } catch (error) {
      this.context.logger.error(asOsError(error).message)
      return undefined
    }
  }

  /** A stored hash that cannot be read matches no token, and clients that are not signed in must not learn its path. */
  async #isToken(text: string, remote: string): Promise<boolean> {
    try {
      return await this.gate.check(text, remote)
    } catch (thrown) {
      const error = asOsError(thrown)
      if (error.code !== 'STORAGE') throw error
      this.context.logger.error(error.message)
      return false
    }
  }

  logout(req: IncomingMessage): void {
    this.sessions.close(credentials(req))
  }
}

/** Throws FORBIDDEN `role <x> required`. */
export function requireRole({ role }: WebSession, needed: Role): void {
  if (!mayAct(role, needed)) throw new OsError('FORBIDDEN', `role ${needed} required`)
}

const unauthorized = (details: Readonly<Record<string, unknown>> = {}): OsError =>
  new OsError('UNAUTHORIZED', 'admin token required', { details })
