// Login and users. Answers never contain hashes; times are UNIX seconds.
import * as v from 'valibot'
import { OsError } from '../../lib/errors'
import type { UserStore } from '../../services/users'
import type { WebContext } from '../context'
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

function usersOf({ users }: WebContext): UserStore {
  if (!users) throw new OsError('FORBIDDEN', 'there are no users here')
  return users
}

function named(name: string): string {
  if (name.trim() === '') throw new OsError('BAD_REQUEST', 'username is required', { details: { key: 'username' } })
  return name
}

export const LOGIN: readonly Route[] = [
  route({
    method: 'POST',
    path: '/api/login',
    role: 'open',
    summary: 'opens a session with user and password, or admin token; send its name in X-Admin-Token',
    body: login,
    answer: s.answer({ session: s.text, ...s.session }),
    run: async ({ access, body, remote }) => {
      const { id, session } = await access.login(body, remote)
      return { ok: true, session: id, ...session }
    },
  }),
  route({
    method: 'POST',
    path: '/api/logout',
    role: 'viewer',
    summary: 'ends the session it is sent with',
    answer: s.answer({}),
    run: ({ access, request }) => {
      access.logout(request)
      return { ok: true }
    },
  }),
  route({
    method: 'GET',
    path: '/api/session',
    role: 'viewer',
    summary: 'the current session',
    answer: s.answer({ ...s.session, auth_enabled: s.flag }),
    run: ({ session, context }) => ({ ok: true, ...session, auth_enabled: context.auth.enabled() }),
  }),
]

export const USERS: readonly Route[] = [
  route({
    method: 'GET',
    path: '/users',
    role: 'viewer',
    summary: 'every user',
    answer: s.answer({ users: v.array(v.strictObject(s.user)) }),
    run: ({ context }) => ({ ok: true, users: context.users?.list() ?? [] }),
  }),
  route({
    method: 'POST',
    path: '/users',
    role: 'admin',
    write: 'state',
    summary: 'creates a user; without a password it cannot log in',
    body: v.object({ username: s.needed('username'), ...changeable }),
    answer: s.answer(s.user),
    run: async ({ context, body }) => ({ ok: true, ...(await usersOf(context).add(body)) }),
  }),
  route({
    method: 'PUT',
    path: '/users/:username',
    role: 'admin',
    write: 'state',
    summary: 'changes password, role or enabled; open sessions of that user end',
    body: v.object(changeable),
    answer: s.answer(s.user),
    run: async ({ context, params, body }) => ({
      ok: true,
      ...(await usersOf(context).update(named(params.username ?? ''), body)),
    }),
  }),
  route({
    method: 'DELETE',
    path: '/users/:username',
    role: 'admin',
    write: 'state',
    summary: 'removes a user; open sessions of that user end',
    answer: s.answer({ username: s.text }),
    run: ({ context, params }) => {
      const { username } = usersOf(context).remove(named(params.username ?? ''))
      return { ok: true, username }
    },
  }),
]
