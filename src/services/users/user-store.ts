// The users of the HTTP service, in `<data>/web_users.json`: `{users: [{username, role, enabled, created_at, updated_at,
// password_hash?}]}`. Names must differ by more than case. A user without a password exists, but cannot sign in.
//
// Errors: an existing file that cannot be read (STORAGE) admits no user and is not overwritten. A name is in use
// (USER_EXISTS), unknown (NOT_FOUND) or invalid (BAD_REQUEST). A failed write changes nothing.
import { dirname, join } from 'node:path'
import { atomicWrite } from '../../lib/atomic'
import { systemClock } from '../../lib/clock'
import { asOsError, errno, OsError } from '../../lib/errors'
import { type Files, realFiles } from '../../lib/files'
import { hashSecret, verifySecret } from '../../lib/scrypt'
import { isRole, type Role } from './roles'

/** The public fields of a user; times are UNIX seconds. */
interface UserView {
  readonly username: string
  readonly role: Role
  readonly enabled: boolean
  readonly created_at: number
  readonly updated_at: number
}

interface NewUser {
  readonly username: string
  readonly password?: string
  /** default viewer */
  readonly role?: Role
  /** default true */
  readonly enabled?: boolean
}

export type UserChange = Omit<Partial<NewUser>, 'username'>

interface StoredUser extends UserView {
  readonly password_hash?: string
}

const MAX_USERS = 1000
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}_.@-]{0,63}$/u
const MAX_PASSWORD_CHARS = 1024

/** the hash of no user's password: an unknown name takes as long as a wrong password */
const UNKNOWN_USER = `scrypt$16384$8$1$${'A'.repeat(22)}$${'A'.repeat(43)}`

/** The comparison key of a user name. */
export const userKey = (username: string): string => username.normalize('NFC').toLowerCase()

const nowS = (): number => Math.floor(systemClock.wall() / 1000)

const viewOf = ({ username, role, enabled, created_at, updated_at }: StoredUser): UserView => ({
  username,
  role,
  enabled,
  created_at,
  updated_at,
})

export class UserStore {
  /** the file */
  readonly path: string
  readonly #files: Files
  #users: Map<string, StoredUser> | undefined

  constructor({ dataDir, files = realFiles }: { dataDir: string; files?: Files }) {
    this.path = join(dataDir, 'web_users.json')
    this.#files = files
  }

  /** Sorted by name. Throws STORAGE. */
  list(): UserView[] {
    return [...this.#all().values()].map(viewOf).sort((a, b) => (a.username < b.username ? -1 : 1))
  }

  get(username: string): UserView | undefined {
    const user = this.#all().get(userKey(username))
    return user && viewOf(user)
  }

  /** Throws BAD_REQUEST, USER_EXISTS, STORAGE. */
  async add({ username, password, role = 'viewer', enabled = true }: NewUser): Promise<UserView> {
    const name = username.normalize('NFC').trim()
    if (name === '') throw new OsError('BAD_REQUEST', 'username is required', { details: { key: 'username' } })
    if (!NAME.test(name)) {
      throw new OsError('BAD_REQUEST', 'a username is 1 to 64 letters, digits, _ . @ or -', {
        details: { key: 'username' },
      })
    }
    const password_hash = password === undefined ? undefined : await this.#hash(password)
    const users = this.#all()
    if (users.has(userKey(name)))
      throw new OsError('USER_EXISTS', 'user already exists', { details: { username: name } })
    if (users.size >= MAX_USERS) throw new OsError('BAD_REQUEST', `there are ${MAX_USERS} users, the maximum`)
    const now = nowS()
    return this.#put({
      username: name,
      role,
      enabled,
      created_at: now,
      updated_at: now,
      ...(password_hash && { password_hash }),
    })
  }

  /** Changes the fields that are set. Throws NOT_FOUND, BAD_REQUEST, STORAGE. */
  async update(username: string, { password, role, enabled }: UserChange): Promise<UserView> {
    this.#known(username)
    const password_hash = password === undefined ? undefined : await this.#hash(password)
    const old = this.#known(username)
    return this.#put({
      ...old,
      role: role ?? old.role,
      enabled: enabled ?? old.enabled,
      updated_at: nowS(),
      ...(password_hash && { password_hash }),
    })
  }

  /** Throws NOT_FOUND, STORAGE. */
  remove(username: string): UserView {
    const old = this.#known(username)
    const users = new Map(this.#all())
    users.delete(userKey(username))
    this.#save(users)
    return viewOf(old)
  }

  /** The enabled user with this password, else null; takes as long for an unknown name. */
  async verify(username: string, password: string): Promise<UserView | null> {
    const user = this.#all().get(userKey(username))
    const right = await verifySecret(password, user?.password_hash ?? UNKNOWN_USER)
    // looked up again: it may have changed during the hashing
    const now = this.#all().get(userKey(username))
    return right && user?.password_hash !== undefined && now === user && user.enabled ? viewOf(user) : null
  }

  /** A value that changes whenever the user changes; undefined for an unknown or disabled user. */
  stamp(username: string): unknown {
    const user = this.#all().get(userKey(username))
    return user?.enabled ? user : undefined
  }

  async #hash(password: string): Promise<string> {
    if (password === '' || password.length > MAX_PASSWORD_CHARS) {
      throw new OsError('BAD_REQUEST', `a password is 1 to ${MAX_PASSWORD_CHARS} characters`, {
        details: { key: 'password' },
      })
    }
    return hashSecret(password)
  }

  #known(username: string): StoredUser {
    const user = this.#all().get(userKey(username))
    if (!user) throw new OsError('NOT_FOUND', 'user not found', { details: { username } })
    return user
  }

  #put(user: StoredUser): UserView {
    const users = new Map(this.#all())
    users.set(userKey(user.username), user)
    this.#save(users)
    return viewOf(user)
  }

  #all(): Map<string, StoredUser> {
    this.#users ??= this.#read()
    return this.#users
  }

  #read(): Map<string, StoredUser> {
    try {
      const { users } = Object(JSON.parse(this.#files.read(this.path).toString('utf8'))) as { users?: StoredUser[] }
      if (!Array.isArray(users)) throw new TypeError('it contains no users')
      return new Map(users.map(checked).map(user => [userKey(user.username), user]))
    } catch (cause) {
      if (errno(cause) === 'ENOENT') return new Map()
      throw new OsError('STORAGE', `${this.path} cannot be read: ${asOsError(cause).message}`, {
        cause,
        hint: 'repair or move the file; the admin token works without it',
      })
    }
  }

  #save(users: Map<string, StoredUser>): void {
    try {
      this.#files.mkdir(dirname(this.path))
      atomicWrite(this.path, `${JSON.stringify({ users: [...users.values()] }, null, 2)}\n`, this.#files)
    } catch (cause) {
      throw new OsError('STORAGE', `${this.path} could not be written (${errno(cause) ?? 'unknown reason'})`, { cause })
    }
    this.#users = users
  }
}

/** One entry of the file; throws a TypeError if it is invalid. An unknown role counts as the lowest. */
function checked(user: StoredUser): StoredUser {
  if (typeof user?.username !== 'string') throw new TypeError('a user without a name')
  const { username, role, enabled, created_at = 0, updated_at = created_at, password_hash } = user
  return {
    username,
    role: isRole(role) ? role : 'viewer',
    enabled: enabled !== false,
    created_at,
    updated_at,
    ...(typeof password_hash === 'string' && { password_hash }),
  }
}
