import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { OsError } from '../../../../src/lib/errors'
import { realFiles } from '../../../../src/lib/files'
import { mayAct, UserStore } from '../../../../src/services/users'

function dir(t: TestContext): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'os-users-'))
  t.after(() => rmSync(dataDir, { recursive: true, force: true }))
  return dataDir
}

test('users survive a restart, each password as its own scrypt hash', async t => {
  const dataDir = join(dir(t), 'data')
  const store = new UserStore({ dataDir })
  assert.deepEqual(store.list(), [])
  await store.add({ username: 'zoë', password: 'one', role: 'admin' })
  await store.add({ username: 'Al', password: 'one' })
  const again = new UserStore({ dataDir })
  assert.deepEqual(
    again.list().map(({ username, role }) => [username, role]),
    [
      ['Al', 'viewer'],
      ['zoë', 'admin'],
    ],
  )
  assert.equal((await again.verify('ZOË', 'one'))?.role, 'admin')
  assert.equal(await again.verify('Al', 'two'), null)
  const { users } = JSON.parse(realFiles.read(store.path).toString()) as { users: { password_hash: string }[] }
  assert.notEqual(users[0]!.password_hash, users[1]!.password_hash)
})

test('an unreadable users file lets no user in and is not overwritten', async t => {
  const dataDir = dir(t)
  const broken = { '{"users": [': /JSON/, '{"users": [{"role": "admin"}]}': /a user without a name/ }
  const others = ['{}', 'null', '7', '{"users": 5}'].map(text => [text, /: it contains no users$/] as const)
  for (const [text, message] of [...Object.entries(broken), ...others]) {
    writeFileSync(join(dataDir, 'web_users.json'), text)
    const store = new UserStore({ dataDir })
    assert.throws(() => store.list(), { code: 'STORAGE', message }, text)
    await assert.rejects(store.verify('bob', 'x'), { code: 'STORAGE' })
    await assert.rejects(store.add({ username: 'bob' }), { code: 'STORAGE' })
    assert.equal(realFiles.read(store.path).toString(), text)
  }
})

test('an unknown role counts as viewer; a user without a hash, or with a broken one, cannot sign in', async t => {
  const dataDir = dir(t)
  mkdirSync(dataDir, { recursive: true })
  const users = [
    { username: 'root', role: 'root', password_hash: 'scrypt$1$1$1$x$x' },
    { username: 'old', enabled: true },
  ]
  writeFileSync(join(dataDir, 'web_users.json'), JSON.stringify({ users }))
  const store = new UserStore({ dataDir })
  assert.equal(store.get('root')?.role, 'viewer')
  for (const name of ['root', 'old']) assert.equal(await store.verify(name, ''), null)
})

test('a write that fails changes nothing', async t => {
  const dataDir = dir(t)
  let full = false
  const files = {
    ...realFiles,
    write: (...args: Parameters<typeof realFiles.write>) => {
      if (full) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
      realFiles.write(...args)
    },
  }
  const store = new UserStore({ dataDir, files })
  await store.add({ username: 'bob', password: 'x' })
  full = true
  for (const run of [
    () => store.add({ username: 'eve' }),
    () => store.update('bob', { role: 'admin' }),
    async () => store.remove('bob'),
  ])
    await assert.rejects(run, (error: OsError) => error.code === 'STORAGE' && error.message.includes('ENOSPC'))
  assert.deepEqual(
    store.list().map(({ username, role }) => [username, role]),
    [['bob', 'viewer']],
  )
  assert.ok(await store.verify('bob', 'x'))
})

test('roles: each may do what the lower ones may', () => {
  const may = (['viewer', 'operator', 'admin'] as const).map(role =>
    (['viewer', 'operator', 'admin'] as const).map(needed => mayAct(role, needed)),
  )
  assert.deepEqual(may, [
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ])
})
