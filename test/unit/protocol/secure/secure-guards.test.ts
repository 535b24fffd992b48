// What must not change a secure session (S13, X11), when answers are due, and require_secure.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SecureServer } from '../../../../src/protocol/secure/server'
import { SecureSessions } from '../../../../src/protocol/secure/sessions'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { ManualClock } from '../../../lib/manual'
import { badKeyOf, Pair, SERVER } from './secure-pair'

const T = 1_710_000_000_000
const hex = (bytes: Uint8Array | null): string | null => bytes && Buffer.from(bytes).toString('hex')

describe('off-path packets change nothing', () => {
  test('DICT_READY with a timestamp we did not send, without one, or for another AID', () => {
    const pair = new Pair()
    pair.send('one')
    const before = pair.client.sessions.stored()
    for (const [aid, ts] of [
      [5, T - 1],
      [5, 0],
      [5, null],
      [6, pair.now],
    ] as const)
      assert.equal(pair.client.onDictReady(aid, ts, '6.6.6.6:6'), false)
    assert.deepEqual(pair.client.sessions.stored(), before)
    assert.equal(pair.client.counters.ignoredReady, 4)
  })

  test('DICT_READY on a session with a key changes no key', () => {
    const pair = new Pair()
    const first = pair.send('one')
    const second = pair.send('two')
    pair.answer(first.answer)
    const before = pair.client.sessions.stored()
    assert.equal(pair.client.onDictReady(5, second.ts, '6.6.6.6:6'), true)
    assert.deepEqual(pair.client.sessions.stored(), before)
  })

  test('CHANNEL_ACK without a key', () => {
    const pair = new Pair()
    pair.client.onChannelAck(5, '6.6.6.6:6')
    assert.equal(pair.client.sessions.size, 0)
    assert.equal(pair.client.counters.ignoredAck, 1)
  })

  test('forged plaintext of a device with a confirmed key: the key stays, its packets are decoded', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    pair.send('two')
    const key = hex(pair.server.keys(5)[0]!)
    for (let k = 0; k < 20; k++) {
      pair.clock.advance(10_000)
      pair.server.onPlaintext(5, T + 5000 + k, false, '6.6.6.6:6')
      assert.ok(pair.server.keys(5).length <= 8)
      assert.equal(hex(pair.server.keys(5)[0]!), key)
    }
    assert.equal(pair.send('three').taken, 'three')
    assert.equal(pair.server.keys(5).length, 1)
    assert.equal(pair.server.sessions.session(5)!.peer_addr, '10.0.0.5:1')
  })

  const STRANGER = '6.6.6.6:6'

  test('while a device sends plaintext, no other address gets a key: a confirmed one would lock the device out', () => {
    const HOME = '10.0.0.5:1'
    for (const [what, heard] of [
      ['a time in ms', (server: SecureServer) => server.onPlaintext(5, T, false, HOME)],
      ['a time in seconds', (server: SecureServer) => server.onPlaintext(5, T / 1000, false, HOME)],
      ['no time', (server: SecureServer) => server.timeless(5, HOME)],
    ] as const) {
      const clock = new ManualClock(T)
      const events: string[] = []
      const server = new SecureServer({
        clock,
        onRekey: (event, aid, from) => events.push(`${event} ${aid} ${from}`),
      })
      heard(server)
      assert.equal(server.onPlaintext(5, T + 1, false, STRANGER), null, what)
      assert.equal(
        server.keys(5).some(key => hex(key) === hex(deriveSessionKey(5, T + 1))),
        false,
        what,
      )
      assert.deepEqual(events, [`refused 5 ${STRANGER}`], what)
      clock.advance(599_000)
      heard(server)
      clock.advance(599_000)
      assert.equal(server.onPlaintext(5, T + 2, false, STRANGER), null, what)
      assert.ok(server.onPlaintext(5, T + 3, false, '10.0.0.5:9'), 'another port of the device')
      clock.advance(600_000)
      assert.ok(server.onPlaintext(5, T + 4, false, STRANGER), 'silent for rekey_after_s: it moved')
    }
    // with require_secure plaintext is refused, so no device can be locked out
    const strict = new SecureServer({ clock: new ManualClock(T), requireSecure: true })
    assert.ok(strict.onPlaintext(5, T, false, HOME))
    assert.ok(strict.onPlaintext(5, T + 1, false, STRANGER))
  })

  /** A pair with a confirmed session, and the events of its server. */
  const confirmed = (requireSecure = false, expireSeconds = 86_400) => {
    const pair = new Pair()
    const events: string[] = []
    const { clock } = pair
    const sessions = new SecureSessions({
      expireSeconds,
      now: () => Math.floor(clock.wall() / 1000),
      mono: () => clock.mono(),
    })
    const onRekey = (...event: unknown[]): void => void events.push(event.join(' '))
    pair.server = new SecureServer({ clock, sessions, onRekey, requireSecure })
    pair.answer(pair.send('one').answer)
    pair.send('two')
    return { pair, events, key: hex(pair.server.keys(5)[0]!) }
  }
  /** Requests a key of that timestamp and uses it, answered or not. */
  const take = ({ server }: Pair, ts: number, from: string) => {
    const named = server.onPlaintext(5, ts, false, from) !== null
    const wanted = hex(deriveSessionKey(5, ts))
    server.hears(from)
    const own = server.keys(5).find(other => hex(other) === wanted)
    return { named, taken: own !== undefined && server.onSecure(5, own, from, true) !== null }
  }

  test('a confirmed key is not replaced from another address while its device is heard; attempts are counted', () => {
    const { pair, events, key } = confirmed()
    for (let k = 0; k < 4; k++) {
      pair.clock.advance(599_000)
      assert.deepEqual(take(pair, T + 5000 + k, `6.6.6.6:${k}`), { named: false, taken: false })
      assert.equal(pair.send(`still ${k}`).taken, `still ${k}`)
    }
    assert.deepEqual(pair.server.keys(5).map(hex), [key])
    assert.equal(pair.server.counters.rekeyRefused, 4)
    pair.clock.advance(1)
    take(pair, T + 9000, STRANGER)
    take(pair, T + 9001, STRANGER)
    assert.equal(pair.server.counters.rekeyRefused, 6)
    assert.equal(events.length, 4, 'one line a minute')
    assert.equal(pair.server.counters.replaced, 0)
  })

  test('after ten minutes without a valid packet another address may replace it; with require_secure, when it has expired', () => {
    const { pair, events } = confirmed()
    pair.clock.advance(599_999)
    assert.equal(take(pair, T + 9000, STRANGER).named, false)
    pair.clock.advance(1)
    assert.deepEqual(take(pair, T + 9001, STRANGER), { named: true, taken: true })
    assert.deepEqual([pair.server.counters.replaced, events.at(-1)], [1, `replaced 5 ${STRANGER}`])
    assert.equal(pair.server.isHome(5, '6.6.6.6:99'), true)

    const strict = confirmed(true, 7200)
    strict.pair.clock.advance(7_199_000)
    strict.pair.server.keys(5)
    assert.equal(take(strict.pair, T + 9000, STRANGER).named, false, 'nor does asking keep it alive')
    strict.pair.clock.advance(20_000)
    assert.equal(take(strict.pair, T + 9001, STRANGER).named, true)
  })

  test('a device that lost its keys immediately gets another at its address, whatever the port; the key is valid only there', () => {
    const { pair } = confirmed()
    const ts = T + 9000
    assert.ok(pair.server.onPlaintext(5, ts, false, '10.0.0.5:777'))
    pair.server.hears(STRANGER)
    assert.ok(!pair.server.keys(5).some(key => hex(key) === hex(deriveSessionKey(5, ts))))
    pair.server.hears('10.0.0.5:778')
    assert.ok(pair.server.keys(5).some(key => hex(key) === hex(deriveSessionKey(5, ts))))
  })

  test('a device that moved is recognized by its key immediately, by a packet that is no copy', () => {
    const { pair } = confirmed()
    const [key] = pair.server.keys(5)
    pair.server.onSecure(5, key!, '10.0.0.9:1', true, false)
    assert.equal(pair.server.isHome(5, '10.0.0.9:1'), false)
    pair.server.onSecure(5, key!, '10.0.0.9:1', true)
    assert.equal(pair.server.isHome(5, '10.0.0.9:2'), true)
    assert.equal(pair.server.isHome(5, '10.0.0.5:1'), false)
    assert.deepEqual([pair.server.counters.moved, pair.server.counters.replaced], [1, 0])
    assert.equal(take(pair, T + 9000, '10.0.0.5:1').named, false)
  })

  test('an operator removes a session: the next one to request it gets it', () => {
    const { pair } = confirmed(true)
    assert.equal(take(pair, T + 9000, STRANGER).named, false)
    assert.equal(pair.server.forget(5), true)
    assert.equal(pair.server.forget(5), false)
    assert.deepEqual(take(pair, T + 9001, STRANGER), { named: true, taken: true })
    assert.equal(pair.server.counters.forgotten, 1)
  })

  test('plaintext next to a confirmed session is accepted from its address, from anywhere, or not at all, until it expires', () => {
    const { pair } = confirmed()
    const { clock } = pair
    const { sessions } = pair.server
    for (const [rule, home, elsewhere] of [
      ['same_address', true, false],
      ['any', true, true],
      ['never', false, false],
    ] as const) {
      const server = new SecureServer({ clock, sessions, plaintextAfterSecure: () => rule })
      assert.deepEqual(
        [
          server.takesPlaintext(5, '10.0.0.5:9'),
          server.takesPlaintext(5, STRANGER),
          server.takesPlaintext(6, STRANGER),
        ],
        [home, elsewhere, true],
        rule,
      )
    }
    clock.advance(86_400_000 + 400_000)
    assert.equal(pair.server.takesPlaintext(5, STRANGER), true)
  })

  test('packets of an unknown sender withhold neither a key nor BAD_KEY from the device itself', () => {
    const pair = new Pair()
    pair.server.onPlaintext(5, T + 5000, false, '6.6.6.6:6')
    pair.answer(pair.send('one').answer)
    assert.equal(pair.send('two').taken, 'two')
    const frame = { aid: 5, tid: 1, ts: T, crc16: 7 }
    for (const from of ['6.6.6.6:6', '10.0.0.5:1']) {
      assert.ok(pair.server.refuse(frame, from))
      assert.equal(pair.server.refuse(frame, from), null)
    }
  })

  test('a key that is not among the candidates is not adopted', () => {
    const pair = new Pair()
    pair.send('one')
    assert.equal(pair.server.onSecure(5, deriveSessionKey(5, 1), SERVER, true), null)
    assert.equal(pair.server.sessions.isConfirmed(5), false)
  })
})

describe('times and keys', () => {
  test('a packet without a time is answered with it, and never makes a key (X11)', () => {
    const pair = new Pair()
    for (let k = 0; k < 3; k++)
      assert.equal(hex(pair.server.onPlaintext(5, pair.now, true, SERVER)), '0c00000000000065ec8780')
    assert.deepEqual([pair.server.sessions.size, pair.server.keys(5).length], [0, 0])
    pair.client.plaintextSent(5, 0)
    assert.equal(pair.client.onDictReady(5, 0, SERVER), false)
    assert.equal(pair.client.sessions.size, 0)
  })

  test('a time below the threshold makes no key either', () => {
    const pair = new Pair()
    assert.equal(pair.server.onPlaintext(5, 1_000_000, false, SERVER), null)
    assert.equal(pair.server.sessions.size, 0)
  })

  test('DICT_READY is sent at most every 10 s per AID', () => {
    const pair = new Pair()
    const answered = (aid: number): boolean => pair.server.onPlaintext(aid, pair.now, false, SERVER) !== null
    assert.deepEqual([answered(5), answered(5), answered(6)], [true, false, true])
    pair.clock.advance(9999)
    assert.equal(answered(5), false)
    pair.clock.advance(1)
    assert.equal(answered(5), true)
  })

  test('sessions expire on both sides, and the next packet starts a new one', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    pair.send('two')
    const plain = pair.send('late', { after: 86_700_000 })
    assert.deepEqual([plain.secure, plain.taken], [false, 'late'])
    pair.answer(plain.answer)
    assert.equal(pair.send('secure').taken, 'secure')
    assert.equal(hex(pair.server.keys(5)[0]!), hex(deriveSessionKey(5, plain.ts)))
  })
})

describe('require_secure', () => {
  test('key requests are sent immediately, then after 2 s doubling to 60 s, until there is a key', () => {
    const pair = new Pair({ requireSecure: true })
    assert.equal(pair.client.mayPlain(5), false)
    const sentAt: number[] = []
    for (; pair.clock.mono() < 300_000; pair.clock.advance(500)) {
      if (!pair.client.keyRequestDue(5, pair.clock.mono())) continue
      sentAt.push(pair.clock.mono() / 1000)
      pair.client.plaintextSent(5, pair.now)
    }
    assert.deepEqual(sentAt, [0, 2, 6, 14, 30, 62, 122, 182, 242])
    assert.equal(pair.client.onDictReady(5, pair.client.sessions.session(5)!.pending_timestamp, SERVER), false)
  })

  test('a key request that could not be sent stays due', () => {
    const pair = new Pair({ requireSecure: true })
    assert.deepEqual(
      [0, 1, 2].map(ms => pair.client.keyRequestDue(5, ms)),
      [true, true, true],
    )
  })

  test('with the key no key request is due, and after BAD_KEY one is due immediately', () => {
    const pair = new Pair({ requireSecure: true })
    pair.client.plaintextSent(5, T)
    pair.client.onDictReady(5, T, SERVER)
    assert.equal(pair.client.keyRequestDue(5, 1e6), false)
    pair.client.onBadKey(badKeyOf(5))
    assert.deepEqual([pair.client.keyRequestDue(5, pair.clock.mono()), pair.client.mayPlain(5)], [true, false])
  })

  test('a key request in flight when the key arrived does not delay one after BAD_KEY', () => {
    const pair = new Pair({ requireSecure: true })
    pair.client.plaintextSent(5, T)
    pair.client.onDictReady(5, T, SERVER)
    pair.client.plaintextSent(5, T + 1)
    pair.client.onBadKey(badKeyOf(5))
    assert.equal(pair.client.keyRequestDue(5, pair.clock.mono()), true)
    assert.equal(pair.client.onDictReady(5, T + 1, SERVER), false)
  })

  test('without require_secure no key request is ever due and plaintext may be sent', () => {
    const { client } = new Pair()
    assert.deepEqual([client.keyRequestDue(5, 0), client.mayPlain(5)], [false, true])
  })

  test('the server drops plaintext data and counts it, key requests are dropped uncounted, both are answered', () => {
    const server = new SecureServer({ clock: new ManualClock(), requireSecure: true })
    assert.deepEqual([server.refusesPlaintext(3), server.refusesPlaintext(0)], [true, true])
    assert.equal(server.counters.plaintextRefused, 1)
    assert.equal(server.onPlaintext(5, T, false, SERVER)?.[0], 0x0d)
    const open = new SecureServer({ clock: new ManualClock() })
    assert.deepEqual([open.refusesPlaintext(3), open.counters.plaintextRefused], [false, 0])
  })
})
