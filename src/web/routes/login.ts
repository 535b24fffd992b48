// Login and users. Answers never contain hashes; times are UNIX seconds.
import * as v from 'valibot'
import { OsError } from '../../lib/errors'
import { type Route, route } from '../route'
import * as s from '../schemas'

const login = v.object({
  username: v.optional(v.pipe(v.string(), v.maxLength(256))),
  password: v.optional(v.pipe(v.string(), v.maxLength(1024))),
  token: v.optional(v.pipe(v.string(), v.maxLength(1024))),
})

const changeable = {
  password: v.optional(v.string()),
  role: v.optional(s.role),
  enabled: v.optional(v.boolean()),
}

function named(name: string): string {
  if (name.trim() === '') throw new OsError('BAD_REQUEST', 'username is required', { details: { key: 'username' } })
  return name
}

export const LOGIN: readonly Route[] = [
  route('POST /api/login', {
    role: 'open',
    summary: 'opens a session with user and password, or admin token; send its name in X-Admin-Token',
    body: login,
    answer: s.answer({ session: s.text, ...s.session }),
    run: async ({ access, body, remote }) => {
      const { id, session } = await access.login(body, remote)
      return { ok: true, session: id, ...session }
    },
  }),
  route('POST /api/logout', {
    role: 'viewer',
    summary: 'ends the session it is sent with',
    answer: s.answer({}),
    run: ({ access, request }) => {
      access.logout(request)
      return { ok: true }
    },
  }),
  route('GET /api/session', {
    role: 'viewer',
    summary: 'the current session',
    answer: s.answer({ ...s.session, auth_enabled: s.flag }),
    run: ({ session, context }) => ({ ok: true, ...session, auth_enabled: context.auth.enabled() }),
  }),
]

export const USERS: readonly Route[] = [
  route('GET /users', {
    role: 'viewer',
    summary: 'every user',
    answer: s.answer({ users: v.array(v.strictObject(s.user)) }),
    run: ({ context }) => ({ ok: true, users: context.users.list() }),
  }),
  route('POST /users', {
    role: 'admin',
    write: 'state',
    summary: 'creates a user; without a password it cannot sign in',
    body: v.object({ username: s.needed('username'), ...changeable }),
    answer: s.answer(s.user),
    run: async ({ context, body }) => ({ ok: true, ...(await context.users.add(body)) }),
  }),
  route('PUT /users/:username', {
    role: 'admin',
    write: 'state',
    summary: 'changes password, role or enabled; open sessions of that user end',
    body: v.object(changeable),
    answer: s.answer(s.user),
    run: async ({ context, params, body }) => ({
      ok: true,
      ...(await context.users.update(named(params.username ?? ''), body)),
    }),
  }),
  route('DELETE /users/:username', {
    role: 'admin',
    write: 'state',
    summary: 'removes a user; open sessions of that user end',
    answer: s.answer({ username: s.text }),
    run: ({ context, params }) => {
      const { username } = context.users.remove(named(params.username ?? ''))
      return { ok: true, username }
    },
  }),
]
