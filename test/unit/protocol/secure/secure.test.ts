// Secure sessions end to end (X7, X8, X11, S13): the sending and the receiving half over real frames, with packets
// lost, sides restarted, keys that disagree and forged packets.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseNackReason } from '../../../../src/protocol/control'
import { parseRefusedFrame } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { SecureServer } from '../../../../src/protocol/secure/server'
import { SecureSessions } from '../../../../src/protocol/secure/sessions'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { ManualClock } from '../../../lib/manual'
import { MemFiles } from '../../log/memfiles'
import { badKeyOf, Pair, SERVER } from './secure-pair'

const T = 1_710_000_000_000
const hex = (bytes: Uint8Array | null): string | null => bytes && Buffer.from(bytes).toString('hex')

describe('the exchange', () => {
  test('plaintext, DICT_READY naming it, secure, CHANNEL_ACK, and then no more answers', () => {
    const pair = new Pair()
    const first = pair.send('one')
    assert.deepEqual([first.secure, first.taken], [false, 'one'])
    assert.equal(hex(first.answer), `0d00000005${first.ts.toString(16).padStart(16, '0')}`)
    pair.answer(first.answer)
    const second = pair.send('two')
    assert.deepEqual([second.secure, second.taken, hex(second.answer)], [true, 'two', '0e00000005'])
    pair.answer(second.answer)
    assert.equal(pair.client.sessions.session(5)!.state, 'SECURE')
    assert.equal(pair.server.sessions.session(5)!.state, 'SECURE')
    const third = pair.send('three')
    assert.deepEqual([third.secure, third.taken, third.answer], [true, 'three', null])
    assert.equal(pair.client.outboundKey(5)!.length, 32)
    assert.equal(hex(pair.client.outboundKey(5)), hex(deriveSessionKey(5, first.ts)))
  })

  test('the first packet is lost: both sides use the one that the server named', () => {
    const pair = new Pair()
    pair.send('lost', { lose: true })
    const second = pair.send('two')
    pair.answer(second.answer)
    const third = pair.send('three')
    assert.deepEqual([third.secure, third.taken], [true, 'three'])
    assert.equal(hex(pair.client.outboundKey(5)), hex(deriveSessionKey(5, second.ts)))
  })

  test('the answer is lost: a later packet is named after 10 s, and either key works', () => {
    const pair = new Pair()
    const first = pair.send('one')
    for (let k = 0; k < 9; k++) assert.equal(pair.send('more', { after: 1000 }).answer, null, 'not within 10 s')
    const named = pair.send('named', { after: 1000 })
    assert.equal(named.answer?.[0], 0x0d)
    assert.equal(pair.server.keys(5).length, 2)
    assert.equal(hex(pair.server.keys(5)[0]!), hex(deriveSessionKey(5, first.ts)))
    pair.answer(named.answer)
    const secure = pair.send('secure')
    assert.deepEqual([secure.secure, secure.taken], [true, 'secure'])
    assert.deepEqual(pair.server.keys(5).map(hex), [hex(deriveSessionKey(5, named.ts))], 'the others are dropped')
  })

  test('of many lost answers the server keeps the first named timestamp and the last seven', () => {
    const pair = new Pair()
    const named = [pair.send('0').ts]
    for (let k = 1; k < 12; k++) {
      const { answer, ts } = pair.send(String(k), { after: 10_000 })
      assert.equal(answer?.[0], 0x0d)
      named.push(ts)
    }
    const want = [named[0]!, ...named.slice(-7).reverse()]
    assert.deepEqual(
      pair.server.keys(5).map(hex),
      want.map(ts => hex(deriveSessionKey(5, ts))),
    )
  })

  test('a late answer naming an older remembered packet still works', () => {
    const pair = new Pair()
    const first = pair.send('one')
    for (let k = 0; k < 7; k++) pair.send('more')
    pair.answer(first.answer)
    assert.deepEqual([pair.send('secure').taken, pair.client.counters.ignoredReady], ['secure', 0])
  })

  test('an answer naming the ninth last packet does not count', () => {
    const pair = new Pair()
    const first = pair.send('one')
    for (let k = 0; k < 8; k++) pair.send('more')
    pair.answer(first.answer)
    assert.deepEqual([pair.send('plain').secure, pair.client.counters.ignoredReady], [false, 1])
  })

  test('the acknowledgement of the channel is lost: data still flows', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    assert.equal(pair.send('two').answer?.[0], 0x0e)
    assert.equal(pair.send('three').taken, 'three')
    assert.equal(pair.client.sessions.session(5)!.state, 'DICT_READY')
  })

  test('an empty HEART proves no key', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    const heart = pair.send('')
    assert.deepEqual([heart.secure, heart.answer], [true, null])
    assert.equal(pair.server.sessions.isConfirmed(5), false)
    assert.equal(pair.send('two').answer?.[0], 0x0e)
  })
})

describe('restarts', () => {
  const store = (files: MemFiles, clock: ManualClock, path: string): SecureSessions =>
    new SecureSessions({ storePath: path, files, now: () => Math.floor(clock.wall() / 1000), mono: () => clock.mono() })

  test('both sides restart with their files and continue encrypted', () => {
    const files = new MemFiles()
    const pair = new Pair()
    pair.use(store(files, pair.clock, '/d/client.json'), store(files, pair.clock, '/d/server.json'))
    pair.answer(pair.send('one').answer)
    pair.answer(pair.send('two').answer)
    pair.client.sessions.save(true)
    pair.server.sessions.save(true)
    pair.use(store(files, pair.clock, '/d/client.json'), store(files, pair.clock, '/d/server.json'))
    const next = pair.send('three')
    assert.deepEqual([next.secure, next.taken, next.answer], [true, 'three', null])
  })

  test('a server that restarts before the first secure packet still knows the first key it named', () => {
    const files = new MemFiles()
    const pair = new Pair()
    pair.use(new SecureSessions(), store(files, pair.clock, '/d/server.json'))
    pair.answer(pair.send('one').answer)
    pair.use(pair.client.sessions, store(files, pair.clock, '/d/server.json'))
    assert.equal(pair.send('two').taken, 'two')
  })

  test('a server behind a broker that is killed before the first secure packet knows every key it named', () => {
    const files = new MemFiles()
    const pair = new Pair({ brokered: true })
    pair.use(new SecureSessions(), store(files, pair.clock, '/d/server.json'))
    pair.send('its answer is lost')
    const named = pair.send('named', { after: 10_000 })
    pair.answer(named.answer)
    pair.use(pair.client.sessions, store(files, pair.clock, '/d/server.json'))
    const secure = pair.send('waited in the broker')
    assert.deepEqual([secure.secure, secure.taken], [true, 'waited in the broker'])
    assert.deepEqual(pair.server.keys(5).map(hex), [hex(deriveSessionKey(5, named.ts))])
  })

  test('a server that is killed knows the key that was replaced for a minute more', () => {
    const files = new MemFiles()
    const pair = new Pair()
    pair.use(new SecureSessions(), store(files, pair.clock, '/d/server.json'))
    pair.answer(pair.send('one').answer)
    pair.send('two')
    const old = hex(pair.server.keys(5)[0]!)
    pair.use(new SecureSessions(), pair.server.sessions)
    pair.answer(pair.send('plain', { after: 10_000 }).answer)
    pair.send('new')
    pair.use(pair.client.sessions, store(files, pair.clock, '/d/server.json'))
    pair.send('newer')
    assert.equal(hex(pair.server.keys(5)[1] ?? null), old)
    pair.clock.advance(60_000)
    assert.equal(pair.server.keys(5).length, 1)
  })

  test('behind a broker each key is written: a device that uses none is named one ever more rarely', () => {
    const pair = new Pair({ brokered: true })
    const named: number[] = []
    for (let s = 0; s < 400; s++) if (pair.send('plain', { after: 1000 }).answer) named.push(s)
    assert.deepEqual(named, [0, 10, 30, 70, 150, 310])
  })

  test('a server without its sessions refuses with BAD_KEY; the client begins again and both agree', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    pair.use(pair.client.sessions, new SecureSessions())
    const refused = pair.send('unreadable')
    assert.equal(refused.taken, null)
    const crc = refused.frame.subarray(-2).toString('hex')
    assert.equal(parseNackReason(refused.answer!), `BAD_KEY;5;1;${refused.ts};${crc}`)
    assert.deepEqual([...refused.answer!.subarray(0, 3)], [6, 0, 0])
    pair.answer(refused.answer)
    assert.equal(pair.client.outboundKey(5), null)
    const plain = pair.send('again')
    assert.deepEqual([plain.secure, plain.taken], [false, 'again'])
    pair.answer(plain.answer)
    assert.equal(pair.send('secure').taken, 'secure')
  })

  test('a client without its session sends plaintext and gets a new key from a server that had one', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    pair.send('two')
    const old = hex(pair.server.keys(5)[0]!)
    pair.use(new SecureSessions(), pair.server.sessions)
    const plain = pair.send('plain', { after: 10_000 })
    assert.equal(plain.answer?.[0], 0x0d)
    assert.equal(hex(pair.server.keys(5)[0]!), old, 'the confirmed key stays the first')
    pair.answer(plain.answer)
    const secure = pair.send('new')
    assert.deepEqual([secure.taken, secure.answer?.[0]], ['new', 0x0e])
    assert.deepEqual(pair.server.keys(5).map(hex), [hex(deriveSessionKey(5, plain.ts)), old])
    pair.clock.advance(60_000)
    assert.deepEqual(pair.server.keys(5).map(hex), [hex(deriveSessionKey(5, plain.ts))])
  })
})

describe('key disagreement', () => {
  test('a secure frame that fails its CRC-8 leads to a new key', () => {
    const pair = new Pair()
    pair.answer(pair.send('one').answer)
    pair.send('two')
    pair.server.sessions.keyOn(5, T + 999)
    const refused = pair.send('unreadable')
    assert.equal(refused.taken, null)
    pair.answer(refused.answer)
    pair.answer(pair.send('plain', { after: 10_000 }).answer)
    assert.equal(pair.send('secure').taken, 'secure')
  })

  test('the server sends BAD_KEY at most once a second per AID', () => {
    const pair = new Pair()
    const frame = { aid: 5, tid: 1, ts: T, crc16: 7 }
    assert.ok(pair.server.refuse(frame))
    assert.equal(pair.server.refuse(frame), null)
    assert.ok(pair.server.refuse({ ...frame, aid: 6 }))
    pair.clock.advance(1000)
    assert.ok(pair.server.refuse(frame))
    assert.equal(pair.server.counters.badKey, 3)
  })

  test('the client obeys at most once per 10 s and AID, and only for an AID that encrypts', () => {
    const pair = new Pair()
    const bad = badKeyOf(5)
    assert.equal(pair.client.onBadKey(bad), false, 'no session')
    const key = (): void => {
      pair.client.plaintextSent(5, T)
      assert.equal(pair.client.onDictReady(5, T, SERVER), true)
    }
    key()
    assert.equal(pair.client.onBadKey({ ...bad, reason: 'NEED_FULL' }), false)
    assert.equal(pair.client.onBadKey(badKeyOf(6)), false)
    assert.equal(pair.client.onBadKey(bad), true)
    key()
    pair.clock.advance(9999)
    assert.equal(pair.client.onBadKey(bad), false)
    assert.ok(pair.client.outboundKey(5))
    pair.clock.advance(1)
    assert.equal(pair.client.onBadKey(bad), true)
    assert.deepEqual(pair.client.counters, { ignoredReady: 0, ignoredAck: 0, ignoredBadKey: 4, badKey: 2 })
  })

  test('after BAD_KEY a late earlier DICT_READY does not restore the refused key', () => {
    const pair = new Pair()
    const first = pair.send('one')
    pair.send('two')
    pair.answer(first.answer)
    pair.client.onBadKey(badKeyOf(5))
    pair.answer(first.answer)
    assert.equal(pair.client.outboundKey(5), null)
  })
})

describe('limits', () => {
  test('invented AIDs evict no confirmed session and use no more memory', () => {
    const clock = new ManualClock()
    const sessions = new SecureSessions({ maxSessions: 50 })
    const server = new SecureServer({ clock, sessions, maxSources: 50 })
    server.onPlaintext(5, T, false, SERVER)
    server.onSecure(5, server.keys(5)[0]!, SERVER, true)
    for (let aid = 100; aid < 2000; aid++) server.onPlaintext(aid, T, false, '6.6.6.6:6')
    assert.equal(sessions.size, 50)
    assert.equal(hex(server.keys(5)[0]!), hex(deriveSessionKey(5, T)))
    assert.equal(server.onSecure(5, server.keys(5)[0]!, SERVER, true), null)
  })

  test('keys() returns the same list while nothing changed', () => {
    const pair = new Pair()
    pair.send('one')
    const keys = pair.server.keys(5)
    assert.equal(pair.server.keys(5), keys)
    assert.equal(new SecureClient({ maxSources: 1 }).outboundKey(9), null)
  })

  test('any order of loss, duplicates and restarts ends in agreement', () => {
    let state = 7
    const random = (n: number): number => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0
      return (state >>> 8) % n
    }
    for (let run = 0; run < 60; run++) {
      const pair = new Pair()
      const kept: (Uint8Array | null)[] = []
      for (let k = 0; k < 40; k++) {
        const sent = pair.send(`v${k}`, { lose: random(3) === 0, after: random(15_000) })
        assert.ok(sent.taken === null || sent.taken === `v${k}`, 'never another text')
        kept.push(sent.answer)
        if (random(3) > 0) pair.answer(sent.answer)
        if (random(4) === 0) pair.answer(kept[random(kept.length)] ?? null)
        if (random(15) === 0) pair.use(new SecureSessions(), pair.server.sessions)
        if (random(15) === 0) pair.use(pair.client.sessions, new SecureSessions())
      }
      for (let k = 0; k < 6; k++) pair.answer(pair.send('settle', { after: 10_000 }).answer)
      const last = pair.send('end')
      assert.deepEqual([last.secure, last.taken], [true, 'end'], `run ${run}`)
    }
  })
})

test('the refused frame is named as the other side reads it', () => {
  const pair = new Pair()
  const nack = pair.server.refuse({ aid: 5, tid: 255, ts: 2 ** 48 - 1, crc16: 0xbeef })!
  assert.deepEqual(parseRefusedFrame(parseNackReason(nack)), {
    reason: 'BAD_KEY',
    aid: 5,
    tid: 255,
    ts: 2 ** 48 - 1,
    crc16: 0xbeef,
  })
})
