// Logins, sessions and users over HTTP (S3, S4): who is accepted, for how long, and what ends it.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { OsError } from '../../../src/lib/errors'
import { Sessions } from '../../../src/web/sessions'
import { ManualClock } from '../../lib/manual'
import { ask, TOKEN } from './helper'
import { PASSWORD, world } from './world'

test('S3: a session is 256 random bits that are not stored, and ends when idle, when old, and by logout', () => {
  const clock = new ManualClock()
  const sessions = new Sessions(clock, () => ({ idleS: 100, maxS: 250 }))
  const { id, session } = sessions.open('viewer', 'bob', '192.0.2.1', () => true)
  assert.match(id, /^os-session-[\w-]{51}$/)
  assert.deepEqual(session, { role: 'viewer', username: 'bob', expires_at: 1_710_000_100 })
  assert.ok(!JSON.stringify([...Object.entries(sessions)]).includes(id))
  clock.advance(99_000)
  assert.equal(sessions.find(id)?.expires_at, 1_710_000_199)
  clock.advance(99_000)
  // a mere look does not keep it alive
  assert.ok(sessions.find(id, false))
  clock.advance(1_000)
  assert.equal(sessions.find(id), null)
  // one that ended here is unknown to another start
  const other = new Sessions(clock, () => ({ idleS: 100, maxS: 250 }))
  assert.deepEqual(
    [id, `${id}x`, id.slice(1), 'os-session-x'].map(name => [
      sessions.isOfOtherStart(name),
      other.isOfOtherStart(name),
    ]),
    [
      [false, true],
      [false, false],
      [false, false],
      [false, false],
    ],
  )
  const busy = sessions.open('viewer', 'bob', '192.0.2.1', () => true).id
  for (let k = 0; k < 4; k++) {
    clock.advance(60_000)
    assert.ok(sessions.find(busy), String(k))
  }
  clock.advance(10_000)
  assert.equal(sessions.find(busy), null)
  const closed = sessions.open('viewer', 'bob', '192.0.2.1', () => true).id
  sessions.close(closed)
  assert.equal(sessions.find(closed), null)
  assert.equal(sessions.size, 0)
})

test('the number of sessions is limited per user, per address and in total; the one unused for longest is closed', () => {
  const sessions = new Sessions(new ManualClock(), () => ({ idleS: 100, maxS: 250 }))
  const open = (user: string, address: string): string => sessions.open('viewer', user, address, () => true).id
  const first = open('a', '192.0.2.1')
  const second = open('b', '192.0.2.1')
  // one user closes only his own
  for (let k = 0; k < 100; k++) open('c', `198.51.100.${k}`)
  assert.equal(sessions.size, 2 + 32)
  // one address closes only its own
  for (let k = 0; k < 100; k++) open(`x${k}`, '203.0.113.9')
  assert.equal(sessions.size, 2 + 32 + 64)
  assert.ok(sessions.find(first) && sessions.find(second))
  for (let k = 0; k < 157; k++) open(`y${k}`, `100.64.0.${k}`)
  assert.equal(sessions.size, 255)
  sessions.find(first)
  open('d', '192.0.2.7')
  open('e', '192.0.2.8')
  assert.equal(sessions.size, 256)
  assert.ok(sessions.find(first))
})

test('login with a password or the token gives a session, logout ends it', async t => {
  const { send, users } = await world(t)
  await users.add({ username: 'Bob', password: PASSWORD, role: 'operator' })
  const login = await send('POST', '/api/login', { username: 'bob', password: PASSWORD }, false)
  assert.equal(login.status, 200)
  const { session, ...rest } = login.json as { session: string; expires_at: number }
  assert.deepEqual(rest, { ok: true, role: 'operator', username: 'Bob', expires_at: rest.expires_at })
  assert.ok(rest.expires_at > Date.now() / 1000 + 1000)
  const who = await send('GET', '/api/session', undefined, session)
  assert.deepEqual([who.json.role, who.json.username, who.json.auth_enabled], ['operator', 'Bob', true])
  assert.equal((await send('POST', '/api/logout', {}, session)).status, 200)
  assert.equal((await send('GET', '/api/session', undefined, session)).status, 401)
  const admin = await send('POST', '/api/login', { token: TOKEN }, false)
  assert.deepEqual([admin.json.role, admin.json.username], ['admin', 'admin'])
  assert.equal((await send('GET', '/users', undefined, String(admin.json.session))).status, 200)
  const direct = await send('GET', '/api/session')
  assert.deepEqual(direct.json, { ok: true, role: 'admin', username: 'admin', expires_at: null, auth_enabled: true })
})

test('the token is also accepted as a bearer', async t => {
  const { server } = await world(t)
  const status = async (authorization: string): Promise<number> =>
    (await ask(server, '/metrics', { token: false, headers: { Authorization: authorization } })).status
  assert.equal(await status(`Bearer ${TOKEN}`), 200)
  assert.equal(await status(`Bearer ${TOKEN}x`), 401)
  assert.equal(await status(`Basic ${Buffer.from(`admin:${TOKEN}`).toString('base64')}`), 401)
})

test('a wrong password, a disabled user, one without a password, and an unknown one are refused', async t => {
  const { send, users } = await world(t)
  await users.add({ username: 'bob', password: PASSWORD })
  await users.add({ username: 'off', password: PASSWORD, enabled: false })
  await users.add({ username: 'bare' })
  for (const body of [
    { username: 'off', password: PASSWORD },
    { username: 'bare', password: '' },
    { username: '__proto__', password: PASSWORD },
  ]) {
    const { status, json } = await send('POST', '/api/login', body, false)
    assert.deepEqual(
      [status, json],
      [401, { ok: false, error: 'wrong username or password', code: 'UNAUTHORIZED' }],
      JSON.stringify(body),
    )
  }
  for (const body of [{}, { username: 'bob' }, { password: PASSWORD }])
    assert.equal((await send('POST', '/api/login', body, false)).status, 400)
  assert.equal((await send('POST', '/api/login', { token: 'wrong' }, false)).status, 401)
  assert.equal((await send('GET', '/users', undefined, `os-session-${'A'.repeat(43)}`)).status, 401)
})

test('with an unreadable users file no user can log in, and no path is shown to unauthenticated callers; the token works', async t => {
  const { send, users } = await world(t)
  mkdirSync(dirname(users.path), { recursive: true })
  writeFileSync(users.path, '{"users": [')
  const { status, json } = await send('POST', '/api/login', { username: 'bob', password: PASSWORD }, false)
  assert.deepEqual([status, json], [500, { ok: false, error: 'the users cannot be read', code: 'STORAGE' }])
  assert.equal((await send('GET', '/users')).status, 500)
  assert.equal((await send('GET', '/api/session')).status, 200)
  assert.equal((await send('GET', '/api/dashboard')).status, 200)
})

test('with an unreadable token file the token is refused, its sessions end, and no path is shown to unauthenticated callers', async t => {
  let broken = false
  const read = (): string => {
    if (broken) throw new OsError('STORAGE', '/data/token.json cannot be read')
    return 'stamp'
  }
  const w = await world(t)
  w.context.auth.stamp = read
  w.context.auth.remembered = () => false
  w.context.auth.verify = async token => read() === 'stamp' && token === TOKEN
  const { session } = (await w.send('POST', '/api/login', { token: TOKEN }, false)).json as { session: string }
  broken = true
  for (const [method, path, body, as] of [
    ['GET', '/api/session', undefined, TOKEN],
    ['GET', '/api/session', undefined, session],
    ['POST', '/api/login', { token: TOKEN }, false],
  ] as const) {
    const { status, text } = await w.send(method, path, body, as)
    assert.equal(status, 401)
    assert.ok(!text.includes('/data'))
  }
  assert.ok(w.logger.recent().some(({ text }) => text.includes('/data/token.json cannot be read')))
})

test('S4: many simultaneous logins are refused, not queued forever', async t => {
  const { send, users } = await world(t)
  await users.add({ username: 'bob', password: PASSWORD })
  const all = await Promise.all(
    Array.from({ length: 12 }, () => send('POST', '/api/login', { username: 'bob', password: 'wrong' }, false)),
  )
  const statuses = new Set(all.map(({ status }) => status))
  assert.deepEqual([...statuses].sort(), [401, 429])
  assert.ok(all.find(({ status }) => status === 429)?.headers['retry-after'])
})

test('sessions of a user end when the user is changed, disabled or removed; those of the token end with the token', async t => {
  let stamp = 'one'
  const w = await world(t)
  w.context.auth.stamp = () => stamp
  for (const change of [
    () => w.users.update('viewer', { role: 'operator' }),
    () => w.users.update('viewer', { password: 'another one' }),
    () => w.users.update('viewer', { enabled: false }),
    async () => w.users.remove('viewer'),
  ]) {
    if (w.users.get('viewer')) w.users.remove('viewer')
    const session = await w.session('viewer')
    assert.equal((await w.send('GET', '/api/session', undefined, session)).status, 200)
    await change()
    assert.equal((await w.send('GET', '/api/session', undefined, session)).status, 401)
  }
  const session = String((await w.send('POST', '/api/login', { token: TOKEN }, false)).json.session)
  assert.equal((await w.send('GET', '/api/session', undefined, session)).status, 200)
  stamp = 'two'
  assert.equal((await w.send('GET', '/api/session', undefined, session)).status, 401)
})

test('users are created as viewer, listed without hashes, changed, removed; names must differ by more than case', async t => {
  const { send, users } = await world(t)
  const made = await send('POST', '/users', { username: 'bob', password: PASSWORD })
  const { created_at } = made.json as { created_at: number }
  const bob = { username: 'bob', role: 'viewer', enabled: true, created_at, updated_at: created_at }
  assert.deepEqual([made.status, made.json], [200, { ok: true, ...bob }])
  const twice = await send('POST', '/users', { username: 'BOB' })
  assert.deepEqual(
    [twice.status, twice.json],
    [409, { ok: false, error: 'user already exists', code: 'USER_EXISTS', username: 'BOB' }],
  )
  assert.deepEqual((await send('GET', '/users')).json, { ok: true, users: [bob] })
  const changed = await send('PUT', '/users/bob', { role: 'admin', enabled: false })
  assert.deepEqual([changed.json.role, changed.json.enabled], ['admin', false])
  for (const [body, error] of [
    [{}, 'username is required'],
    [{ username: ' ' }, 'username is required'],
    [{ username: 'a/b' }, 'a username is 1 to 64 letters, digits, _ . @ or -'],
    [{ username: '__proto__' }, 'a username is 1 to 64 letters, digits, _ . @ or -'],
    [{ username: 'x', role: 'root' }, 'role must be one of viewer, operator, admin'],
    [{ username: 'x', enabled: 'yes' }, 'enabled must be true or false'],
    [{ username: 'x', password: '' }, 'a password is 1 to 1024 characters'],
  ] as const) {
    const { status, json } = await send('POST', '/users', body)
    assert.deepEqual([status, json.error], [400, error])
  }
  for (const [method, path, status] of [
    ['PUT', '/users/nobody', 404],
    ['DELETE', '/users/nobody', 404],
    ['PUT', '/users/', 400],
    ['DELETE', '/users/', 400],
    ['PUT', '/users/%20', 400],
    ['DELETE', '/users/%00', 400],
  ] as const)
    assert.equal((await send(method, path, method === 'PUT' ? {} : undefined)).status, status, `${method} ${path}`)
  const stored = readFileSync(users.path, 'utf8')
  assert.match(stored, /"password_hash": "scrypt\$16384\$8\$1\$/)
  assert.ok(!stored.includes(PASSWORD))
  for (const path of ['/users', '/api/dashboard', '/api/config', '/api/log'])
    assert.doesNotMatch((await send('GET', path)).text, /scrypt|password_hash/, path)
  assert.deepEqual((await send('DELETE', '/users/bob')).json, { ok: true, username: 'bob' })
  assert.deepEqual(users.list(), [])
})

test('a session of another start is refused as such, one that ended here is not', async t => {
  const [before, now] = [await world(t), await world(t)]
  const id = await before.session('viewer')
  const own = await now.session('viewer')
  await now.send('POST', '/api/logout', {}, own)
  assert.equal((await now.send('GET', '/api/session', undefined, id)).json.restarted, true)
  for (const token of [own, `${id}x`, 'os-session-x'])
    assert.equal((await now.send('GET', '/api/session', undefined, token)).json.restarted, undefined, token)
})
