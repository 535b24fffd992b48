import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLogger } from '../../../src/lib/logger'
import { hashSecret, verifySecret } from '../../../src/lib/scrypt'
import { makeToken } from '../../../src/services/users'
import { Access } from '../../../src/web/access'
import { TokenVerifier } from '../../../src/web/auth'
import { addressKey, TokenGate } from '../../../src/web/login-throttle'
import { Sessions } from '../../../src/web/sessions'
import { ManualClock } from '../../lib/manual'

test('S3: tokens are 256 random bits and no two hashes are the same', async () => {
  const [a, b] = [makeToken(), makeToken()]
  assert.match(a, /^[\w-]{43}$/)
  assert.notEqual(a, b)
  const [one, two] = await Promise.all([hashSecret(a), hashSecret(a)])
  assert.match(one, /^scrypt\$16384\$8\$1\$[\w-]{22}\$[\w-]{43}$/)
  assert.notEqual(one, two)
  assert.equal(await verifySecret(a, one), true)
  assert.equal(await verifySecret(a, two), true)
  assert.equal(await verifySecret(b, one), false)
  assert.equal(await verifySecret('', one), false)
})

test('S3: a stored text that is no hash, or an expensive one, matches no token', async () => {
  const salt = 'A'.repeat(22)
  const key = 'A'.repeat(43)
  for (const stored of [
    '',
    'x',
    'scrypt$',
    `scrypt$16383$8$1$${salt}$${key}`,
    `scrypt$0$8$1$${salt}$${key}`,
    `scrypt$1048576$8$1$${salt}$${key}`,
    `scrypt$16384$8$1$$${key}`,
    `scrypt$16384$8$1$${salt}$`,
  ]) {
    assert.equal(await verifySecret('', stored), false, stored)
  }
})

test('S3: the right token is remembered for ten minutes after its last use, and not past a new hash', async () => {
  const clock = new ManualClock()
  const token = makeToken()
  let stored: string | null = await hashSecret(token)
  const verifier = new TokenVerifier(() => stored, clock)
  assert.equal(verifier.remembered(token), false)
  assert.equal(await verifier.verify(token), true)
  for (let k = 0; k < 3; k++) {
    clock.advance(500_000)
    assert.equal(verifier.remembered(token), true)
  }
  assert.equal(verifier.remembered(`${token}x`), false)
  clock.advance(600_001)
  assert.equal(verifier.remembered(token), false)
  assert.equal(await verifier.verify(token), true)
  stored = await hashSecret(makeToken())
  assert.equal(verifier.remembered(token), false)
  assert.equal(await verifier.verify(token), false)
  stored = null
  assert.equal(await verifier.verify(token), false)
})

interface Rig {
  gate: TokenGate
  clock: ManualClock
  runs: () => number
  remember: (on: boolean) => void
}

function rig(): Rig {
  const clock = new ManualClock()
  let runs = 0
  let remembered = false
  const auth = {
    enabled: () => true,
    verify: async (token: string) => {
      runs++
      return token === 'right'
    },
    remembered: (token: string) => remembered && token === 'right',
  }
  const gate = new TokenGate(auth, clock, async ms => clock.advance(ms))
  return {
    gate,
    clock,
    runs: () => runs,
    remember: on => {
      remembered = on
    },
  }
}

test('S4: wrong tokens of one address take longer and longer, up to two seconds, and the right one is still accepted', async () => {
  const { gate, clock } = rig()
  const waits: number[] = []
  for (let k = 0; k < 12; k++) {
    const before = clock.mono()
    assert.equal(await gate.check('wrong', '192.0.2.1'), false)
    waits.push(clock.mono() - before)
  }
  assert.deepEqual(waits, [0, 0, 0, 0, 100, 200, 400, 800, 1600, 2000, 2000, 2000])
  assert.equal(await gate.check('right', '192.0.2.1'), true)
  const before = clock.mono()
  await gate.check('wrong', '192.0.2.1')
  assert.equal(clock.mono() - before, 0)
})

test('S4: an address without a wrong token for more than five minutes starts over', async () => {
  const waits: number[] = []
  for (const rest of [299_999, 300_000, 300_001]) {
    const { gate, clock } = rig()
    for (let k = 0; k < 6; k++) await gate.check('wrong', '192.0.2.1')
    clock.advance(rest)
    await gate.check('wrong', '192.0.2.1')
    const before = clock.mono()
    await gate.check('wrong', '192.0.2.1')
    waits.push(clock.mono() - before)
  }
  assert.deepEqual(waits, [800, 800, 0])
})

test('S4: wrong tokens of many addresses are slowed together', async () => {
  const { gate, clock } = rig()
  for (let k = 0; k < 100; k++) await gate.check('wrong', `192.0.2.${k}`)
  assert.ok(clock.mono() >= 79 * 200 && clock.mono() <= 80 * 200, String(clock.mono()))
})

test('S4: excess concurrent attempts are refused without running scrypt, the remembered token is accepted immediately', async () => {
  const { gate, runs, remember } = rig()
  const all = await Promise.allSettled(Array.from({ length: 20 }, () => gate.check('wrong', '192.0.2.1')))
  assert.equal(all.filter(result => result.status === 'rejected').length, 16)
  assert.equal(runs(), 4)
  remember(true)
  const flood = Array.from({ length: 20 }, () => gate.check('wrong', '192.0.2.1').catch(error => error.code))
  assert.equal(await gate.check('right', '192.0.2.1'), true)
  assert.ok((await Promise.all(flood)).includes('TOO_MANY_ATTEMPTS'))
  remember(false)
  assert.equal(await gate.check('right', '192.0.2.1'), true)
})

test('S4, S19: a right password from a new address is accepted while 12 others guess continuously', async () => {
  const { gate, clock } = rig()
  let guessing = true
  const refused: unknown[] = []
  // four attempts at a time from each, repeatedly
  const guess = async (k: number): Promise<void> => {
    while (guessing) await gate.check('wrong', `192.0.2.${k}`).catch(error => refused.push(error.code))
  }
  const guessers = Array.from({ length: 48 }, (_, k) => guess(k % 12))
  for (let k = 0; k < 2000; k++) await Promise.resolve()
  const before = clock.mono()
  const waits: number[] = []
  for (let k = 0; k < 5; k++) {
    assert.equal(await gate.check('right', `198.51.100.${k}`), true)
    waits.push(clock.mono() - before)
  }
  guessing = false
  await Promise.all(guessers)
  assert.ok(waits[0]! <= 400, `the first waited ${waits[0]} ms`)
  assert.ok(refused.every(code => code === 'TOO_MANY_ATTEMPTS') && refused.length > 0)
})

test('S19: guesses for one user from many addresses are limited, and the right password is still accepted in between', async () => {
  const { gate, clock } = rig()
  const password = (right: boolean) => async () => right
  // a new address for each guess, so that no single address is slowed down
  for (let k = 0; k < 40; k++) await gate.attempt(`192.0.2.${k}`, password(false), 'anna')
  const took = clock.mono()
  assert.ok(took >= 29 * 2000 && took <= 30 * 2000, `40 guesses in ${took} ms`)
  await gate.attempt('192.0.2.50', password(false), 'bert')
  assert.equal(clock.mono(), took, 'another user waits for nothing')
  assert.equal(await gate.check('wrong', '192.0.2.51'), false)
  assert.equal(clock.mono(), took, 'nor does a token')
  // after five idle minutes, ten at a time are free again, not more
  clock.advance(300_000)
  const rested = clock.mono()
  for (let k = 0; k < 11; k++) await gate.attempt(`198.51.100.${k}`, password(false), 'anna')
  assert.equal(clock.mono() - rested, 0)
  await gate.attempt('198.51.100.60', password(false), 'anna')
  assert.ok(clock.mono() - rested > 0)

  let guessing = true
  const guess = async (k: number): Promise<void> => {
    while (guessing) await gate.attempt(`203.0.113.${k}`, password(false), 'anna').catch(() => undefined)
  }
  const guessers = Array.from({ length: 12 }, (_, k) => guess(k))
  for (let k = 0; k < 2000; k++) await Promise.resolve()
  const before = clock.mono()
  assert.equal(await gate.attempt('198.51.100.99', password(true), 'anna'), true)
  const wait = clock.mono() - before
  guessing = false
  await Promise.all(guessers)
  assert.ok(wait <= 2 * 2000, `waited ${wait} ms`)
})

test('S19: the right password is also accepted before the guessing addresses have had a wrong one', async () => {
  for (const each of [1, 4]) {
    const { gate } = rig()
    let end: (right: boolean) => void = () => undefined
    const ended = new Promise<boolean>(resolve => {
      end = resolve
    })
    // the first attempt is still being verified: no address has a wrong one
    const all = Array.from({ length: 12 * each }, (_, k) => gate.attempt(`203.0.113.${k % 12}`, () => ended, 'anna'))
    const guesses = Promise.allSettled(all)
    const right = gate.attempt('198.51.100.99', async () => true, 'anna')
    end(false)
    assert.equal(await right, true, `${each} each`)
    const refused = (await guesses).filter(({ status }) => status === 'rejected').length
    assert.equal(refused, each === 1 ? 0 : 12 * each + 1 - 17)
  }
})

test('S19: a login counts for its user name in any spelling, a token for no user', async () => {
  const seen: unknown[] = []
  const gate = {
    check: async () => seen.push('token') < 0,
    attempt: async (_remote: string, _verify: unknown, user?: string) => seen.push(user) < 0,
  }
  const context = { users: { stamp: () => 0 }, logger: silentLogger, auth: { enabled: () => true } }
  const access = new Access(context as never, gate as never, {} as never, false)
  const wrong = { code: 'UNAUTHORIZED' }
  await assert.rejects(access.login({ username: 'Bo\u0301B', password: 'x' }, '192.0.2.1'), wrong)
  await assert.rejects(access.login({ token: 'x' }, '192.0.2.1'), wrong)
  assert.deepEqual(seen, ['b\u00f3b', 'token'])
})

test('a login by token or password is reported to the system at any log level, a wrong one is not', async () => {
  let logins = 0
  const gate = {
    check: async (text: string) => text === 'right',
    attempt: async (_remote: string, verify: () => Promise<boolean>) => verify(),
  }
  const users = {
    stamp: () => 0,
    verify: async (username: string) => (username === 'anna' ? { username, role: 'viewer' } : null),
  }
  const update = { loggedIn: () => void logins++ }
  const context = { users, update, logger: silentLogger, auth: { enabled: () => true } }
  const sessions = new Sessions(new ManualClock(), () => ({ idleS: 100, maxS: 1000 }))
  const access = new Access(context as never, gate as never, sessions, false)
  const wrong = { code: 'UNAUTHORIZED' }
  await assert.rejects(access.login({ username: 'bert', password: 'x' }, '192.0.2.1'), wrong)
  await assert.rejects(access.login({ token: 'wrong' }, '192.0.2.1'), wrong)
  assert.equal(logins, 0)
  await access.login({ username: 'anna', password: 'x' }, '192.0.2.1')
  await access.login({ token: 'right' }, '192.0.2.1')
  assert.equal(logins, 2)
})

test('S3: an open event stream checks that its session is still valid, and does not keep it alive', () => {
  const clock = new ManualClock()
  const sessions = new Sessions(clock, () => ({ idleS: 100, maxS: 1000 }))
  const context = { logger: silentLogger, auth: { enabled: () => true } }
  const access = new Access(context as never, {} as never, sessions, false)
  const { id } = sessions.open('viewer', 'vera', '192.0.2.1', () => true)
  const stream = { headers: { 'x-admin-token': id }, socket: { remoteAddress: '192.0.2.1' } } as never
  for (let second = 0; second < 100; second++) {
    assert.ok(access.holds(stream), `after ${second} s`)
    clock.advance(1000)
  }
  assert.ok(!access.holds(stream))
})

test('S19: attempts for one user do not fill the queue for the others', async () => {
  const { gate } = rig()
  const all = Array.from({ length: 40 }, (_, k) => gate.attempt(`192.0.2.${k}`, async () => false, 'anna'))
  const other = gate.attempt('198.51.100.1', async () => true, 'bert')
  const refused = (await Promise.allSettled(all)).filter(({ status }) => status === 'rejected').length
  assert.equal(await other, true)
  // one runs already, sixteen wait
  assert.equal(refused, 23)
})

test('a failed check affects only its own request', async () => {
  let fail = true
  const auth = {
    enabled: () => true,
    verify: async () => {
      if (fail) throw new Error('no memory')
      return true
    },
  }
  const gate = new TokenGate(auth, new ManualClock(), async () => undefined)
  await assert.rejects(gate.check('a', '192.0.2.1'), /no memory/)
  fail = false
  assert.equal(await gate.check('a', '192.0.2.1'), true)
})

test('an IPv6 /64 counts as one address, an IPv4-mapped IPv6 address as IPv4', () => {
  assert.equal(addressKey('::ffff:192.0.2.1'), '192.0.2.1')
  assert.equal(addressKey('2001:db8:1:2:3:4:5:6'), addressKey('2001:db8:1:2::9'))
  assert.notEqual(addressKey('2001:db8:1:2::9'), addressKey('2001:db8:1:3::9'))
  assert.equal(addressKey('fe80::1%eth0'), 'fe80:0:0:0::/64')
  assert.equal(addressKey('::1'), '0:0:0:0::/64')
})
