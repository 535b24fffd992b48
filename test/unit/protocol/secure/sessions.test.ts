// The component of the secure sessions: states, queries, expiry, limits, and a clock that jumps.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SecureSessions, type SecureSessionsOptions } from '../../../../src/protocol/secure/sessions'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { ManualClock } from '../../../lib/manual'

const T = 1_710_000_000_000
const seconds = (clock: ManualClock) => (): number => Math.floor(clock.wall() / 1000)
const at = (clock = new ManualClock(), options: SecureSessionsOptions = {}): SecureSessions =>
  new SecureSessions({ now: seconds(clock), ...options })

describe('the client path', () => {
  test('the first plaintext makes the pending key, later ones none', () => {
    const sessions = at()
    const record = sessions.noteLocalPlaintextSent(5, T)
    assert.deepEqual(
      [record.state, record.pending_timestamp, record.first_plaintext_ts, record.key],
      ['PLAINTEXT_SENT', T, null, null],
    )
    assert.deepEqual(record.pending_key, deriveSessionKey(5, T))
    assert.equal(sessions.noteLocalPlaintextSent(5, T + 1).pending_timestamp, T)
    assert.deepEqual(
      [sessions.hasSecureDict(5), sessions.shouldEncryptOutbound(5), sessions.getSessionKey(5)],
      [false, false, null],
    )
  })

  test('once confirmed, the pending key takes precedence over the received timestamp, and is not cleared', () => {
    const sessions = at()
    sessions.noteLocalPlaintextSent(5, T)
    assert.equal(sessions.confirmSecureDict(5, T + 7, '1.2.3.4:5'), true)
    const record = sessions.session(5)!
    assert.deepEqual(
      [record.state, record.first_plaintext_ts, record.pending_timestamp, record.peer_addr],
      ['DICT_READY', T, T, '1.2.3.4:5'],
    )
    assert.deepEqual(sessions.getSessionKey(5), deriveSessionKey(5, T))
    assert.equal(sessions.shouldEncryptOutbound(5), true)
  })

  test('a key in use is not replaced by any later message', () => {
    const sessions = at()
    sessions.confirmSecureDict(5, T)
    const key = sessions.getSessionKey(5)
    sessions.noteLocalPlaintextSent(5, T + 1)
    sessions.confirmSecureDict(5, T + 2)
    sessions.establishRemotePlaintext(5, T + 3)
    assert.equal(sessions.getSessionKey(5), key)
    assert.equal(sessions.session(5)!.pending_key, null)
  })

  test('without a pending key the received timestamp counts above the threshold only', () => {
    const sessions = at()
    assert.equal(sessions.confirmSecureDict(8), false)
    assert.equal(sessions.confirmSecureDict(9, 1_000_000), false)
    assert.equal(sessions.session(9)!.state, 'INIT')
    assert.equal(sessions.confirmSecureDict(10, 1_000_001), true)
  })
})

describe('the server path', () => {
  test('plaintext of the other side makes the key immediately; the address stays when none is supplied', () => {
    const sessions = at()
    sessions.establishRemotePlaintext(6, T, '1.2.3.4:5')
    const record = sessions.establishRemotePlaintext(6, T + 9)
    assert.deepEqual([record.state, record.first_plaintext_ts, record.peer_addr], ['DICT_READY', T, '1.2.3.4:5'])
    assert.deepEqual(sessions.getSessionKey(6), deriveSessionKey(6, T))
  })

  test('without a usable time it is ready and has no key; a later time gives one', () => {
    const sessions = at()
    sessions.establishRemotePlaintext(7, 5)
    assert.deepEqual([sessions.hasSecureDict(7), sessions.shouldEncryptOutbound(7)], [true, false])
    sessions.establishRemotePlaintext(7, T)
    assert.equal(sessions.shouldEncryptOutbound(7), true)
  })

  test('a confirmed channel stays confirmed, with or without a key', () => {
    const sessions = at()
    sessions.markSecureChannel(5)
    assert.deepEqual(
      [sessions.session(5)!.state, sessions.session(5)!.dict_ready, sessions.getSessionKey(5)],
      ['SECURE', false, null],
    )
    sessions.establishRemotePlaintext(5, T)
    assert.deepEqual([sessions.session(5)!.state, sessions.session(5)!.dict_ready], ['SECURE', true])
    assert.equal(sessions.isConfirmed(5), true)
  })

  test('an address as a pair is written as the reference writes it', () => {
    assert.equal(at().establishRemotePlaintext(6, T, ['10.1.1.1', 5]).peer_addr, "('10.1.1.1', 5)")
  })
})

test('keyOn uses exactly that timestamp, whatever was before, and needs a new confirmation', () => {
  const sessions = at()
  sessions.establishRemotePlaintext(5, T)
  sessions.markSecureChannel(5)
  sessions.keyOn(5, T + 4)
  assert.deepEqual(sessions.getSessionKey(5), deriveSessionKey(5, T + 4))
  assert.deepEqual([sessions.isConfirmed(5), sessions.session(5)!.first_plaintext_ts], [false, T + 4])
})

test('a dropped session starts over', () => {
  const sessions = at()
  sessions.confirmSecureDict(5, T)
  sessions.drop(5)
  sessions.drop(5)
  assert.deepEqual([sessions.session(5), sessions.hasSecureDict(5)], [null, false])
})

describe('expiry', () => {
  test('a session without queries is dropped after expire_seconds; a query keeps it, a mere look does not', () => {
    const clock = new ManualClock()
    const sessions = at(clock, { expireSeconds: 100 })
    for (const aid of [1, 2, 3]) sessions.establishRemotePlaintext(aid, T)
    clock.advance(100_000)
    assert.equal(sessions.hasSecureDict(1), true)
    sessions.session(2)
    clock.advance(1000)
    sessions.expire()
    assert.deepEqual(sessions.aids(), [1])
  })

  test('expired sessions are searched at most every max(15, min(expire, 300)) seconds', () => {
    const clock = new ManualClock()
    const sessions = at(clock, { expireSeconds: 1 })
    sessions.establishRemotePlaintext(1, T)
    clock.advance(14_000)
    sessions.hasSecureDict(2)
    assert.deepEqual(sessions.aids(), [1])
    clock.advance(1000)
    sessions.hasSecureDict(2)
    assert.deepEqual(sessions.aids(), [])
  })

  test('a jump of the clock ends no session when there is a monotonic one', () => {
    const clock = new ManualClock(0)
    const sessions = at(clock, { expireSeconds: 100, mono: () => clock.mono() })
    sessions.establishRemotePlaintext(1, T)
    clock.wallMs = T
    sessions.expire()
    assert.equal(sessions.session(1)!.last, T / 1000)
    clock.wallMs = T - 1e9
    sessions.expire()
    assert.deepEqual(sessions.aids(), [1])
    clock.advance(101_000)
    sessions.expire()
    assert.deepEqual(sessions.aids(), [])
  })
})

test('the number of sessions is limited; those that no secure packet confirmed are evicted first, oldest first', () => {
  const sessions = at(undefined, { maxSessions: 3 })
  sessions.establishRemotePlaintext(1, T)
  sessions.markSecureChannel(1)
  for (let aid = 2; aid < 50; aid++) sessions.establishRemotePlaintext(aid, T)
  assert.deepEqual(sessions.aids(), [1, 48, 49])
  for (const aid of [48, 49]) sessions.markSecureChannel(aid)
  sessions.establishRemotePlaintext(50, T)
  assert.deepEqual(sessions.aids(), [48, 49, 50], 'all confirmed: the oldest')
  assert.equal(sessions.evicted, 47)
})

test('the key of the next packet is returned without an allocation', () => {
  const sessions = at(new ManualClock())
  sessions.confirmSecureDict(5, T)
  const key = sessions.outboundKey(5)
  for (let k = 0; k < 1000; k++) assert.equal(sessions.outboundKey(5), key)
})
