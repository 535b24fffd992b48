// Secure sessions between a gateway's uplink and a gateway's receiver over a serial line: X7, X8, X29, and everything that can be lost or
// forgotten on the way.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { deriveSessionKey } from '../../../src/wire/cipher'
import { packetsIn } from '../../lib/packets'
import { World } from '../../lib/secureworld'
import { assertSettled, is, PLAIN, values, world } from './gateway-secure-world'

const SECURE = ['40', 'AB', '80']

/** No plaintext after the first secure frame. */
function assertNoFallback(commands: string[]): void {
  const first = commands.findIndex(command => SECURE.includes(command))
  assert.ok(first >= 0, 'something went encrypted')
  assert.ok(!commands.slice(first).some(command => PLAIN.includes(command)), commands.join(' '))
}

for (const delivery of ['auto', 'best_effort'] as const)
  for (const framing of ['uart', 'rs485'] as const)
    describe(`${delivery}, ${framing}`, () => {
      test('plaintext first, then the key is named, then everything is encrypted and the channel confirmed once', async t => {
        const w = await world(t, { delivery, framing })
        await w.facts(8)
        assert.deepEqual(w.commands.slice(0, 4), ['a:3F', 'b:0D', 'a:40', 'b:0E'])
        assert.ok(w.data.includes('AB'))
        assertNoFallback(w.data)
        assertSettled(w)
        assert.equal(w.commands.filter(c => c === 'b:0E').length, 1)
        assert.equal(w.commands.filter(c => c === 'b:0D').length, 1)
        assert.equal(w.uplink.status().secure_aids.secure, 1)
        assert.equal(w.receive.report()['sessions'], 1)
      })

      test('an unchanged fact goes as an encrypted heartbeat', async t => {
        const w = await world(t, { delivery, framing })
        await w.facts(2)
        // until no FULL can be in transit any more
        await w.run(15_000)
        for (let k = 0; k < 3; k++) {
          const { fact } = w.sent.records.at(-1)!
          w.sent.appendFact({ ...fact, tRaw: w.clock.wall() }, { medium: 'local' })
          w.uplink.pump()
          await w.run(200)
        }
        assert.equal(w.data.includes('80'), delivery === 'auto', w.data.join(' '))
        assertNoFallback(w.data)
        assertSettled(w)
      })
    })

describe('lost packets of a secure session', () => {
  test('the first packet lost: the key comes from the first one that arrives', async t => {
    let lost = 0
    const w = await world(t, { delivery: 'best_effort', lose: p => is(0x3f)(p) && lost++ === 0 })
    await w.facts(6)
    // the second was a DIFF and needed the first: refused, it is sent again as FULL
    const key = deriveSessionKey(5, w.sent.facts[1]!.tRaw)
    assert.deepEqual(w.client.sessions.getSessionKey(5), key)
    assert.deepEqual(w.server.sessions.getSessionKey(5), key)
    assertNoFallback(w.data)
    assert.equal(w.got.facts.length, 5)
  })

  test('the first packet lost, with acknowledgements: it is retransmitted encrypted', async t => {
    let lost = 0
    const w = await world(t, { lose: p => is(0x3f)(p) && lost++ === 0 })
    await w.facts(4)
    await w.run(4000)
    assertSettled(w)
  })

  for (const delivery of ['auto', 'best_effort'] as const)
    test(`SECURE_DICT_READY lost: plaintext continues, and ten seconds later another key is named (${delivery})`, async t => {
      let lost = 0
      const w = await world(t, { delivery, lose: p => p[0] === 0x0d && lost++ < 2 })
      await w.facts(15, 1000)
      const named = w.commands.filter(c => c === 'b:0D').length
      assert.equal(named, 2)
      assert.ok(!w.data.some(c => SECURE.includes(c)))
      assert.equal(w.uplink.status().secure, 'pending')
      await w.facts(10, 1000)
      assert.equal(w.commands.filter(c => c === 'b:0D').length, 3)
      assertNoFallback(w.data)
      assertSettled(w)
    })

  test('SECURE_CHANNEL_ACK lost: everything is encrypted nevertheless', async t => {
    const w = await world(t, { lose: p => p[0] === 0x0e })
    await w.facts(6)
    await w.run(3000)
    assertNoFallback(w.data)
    assertSettled(w)
    await w.restartClient()
    await w.facts(2)
    assertNoFallback(w.data)
  })

  test('a third of all packets lost, in both directions: the same facts on both sides, and no plaintext once the session is secure', async t => {
    let state = 4
    const w = await world(t)
    w.options.lose = () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return state / 2 ** 32 < 0.3
    }
    await w.facts(60, 300)
    w.options.lose = () => false
    await w.run(30_000)
    assertNoFallback(w.data)
    assertSettled(w)
  })

  test('the cable pulled: waiting packets are sent encrypted when it is back', async t => {
    const w = await world(t)
    await w.facts(3)
    w.pair.cut()
    await w.facts(3)
    assert.equal(w.link.state.state, 'down')
    w.pair.mend()
    await w.restartServer()
    await w.run(5000)
    assertNoFallback(w.data)
    assertSettled(w)
  })
})

describe('a backlog in a secure session', () => {
  for (const delivery of ['auto', 'best_effort'] as const)
    test(`a backlog of hundreds of facts waits for the key after a few packets (${delivery})`, async t => {
      const w = new World({ delivery })
      t.after(() => w.end())
      for (let k = 0; k < 300; k++) {
        const sensors = [{ id: 'T1', status: 'OK', unit: 'K', value: k }]
        w.sent.appendFact(
          { id: 'GW', state: 'ONLINE', tRaw: 1_700_000_000_000 + k, aid: 0, sensors },
          { medium: 'local' },
        )
      }
      await w.start()
      await w.run(3000)
      assert.equal(w.data.filter(cmd => PLAIN.includes(cmd)).length, 8)
      assertNoFallback(w.data)
      assertSettled(w)
    })

  test('a backlog is not blocked by an upstream that names no key', async t => {
    for (const delivery of ['auto', 'best_effort'] as const) {
      const w = new World({ delivery, lose: p => p[0] === 0x0d })
      t.after(() => w.end())
      for (let k = 0; k < 300; k++) {
        const sensors = [{ id: 'T1', status: 'OK', unit: 'K', value: k }]
        w.sent.appendFact(
          { id: 'GW', state: 'ONLINE', tRaw: 1_700_000_000_000 + k, aid: 0, sensors },
          { medium: 'local' },
        )
      }
      await w.start()
      await w.run(3000)
      assert.equal(w.got.facts.length, 300)
      assert.equal(w.uplink.status().secure, 'pending')
    }
  })
})

describe('restarts in a secure session', () => {
  test('restart of either side, stopped or killed, with its session file: no plaintext at all', async t => {
    for (const kill of [false, true]) {
      const w = await world(t)
      await w.facts(3)
      await w.run(6000)
      await w.facts(1)
      await w.restartServer({ kill })
      await w.facts(3)
      await w.restartClient({ kill })
      await w.facts(3)
      await w.run(3000)
      assertNoFallback(w.data)
      assertSettled(w)
      assert.equal(w.receive.report()['bad_key'], 0)
    }
  })

  test('restart of the client without its file: plaintext, another key named, and the old one removed within a minute', async t => {
    const w = await world(t)
    await w.facts(3)
    const before = w.server.sessions.getSessionKey(5)
    await w.run(10_000)
    w.carried.length = 0
    await w.restartClient({ kill: true, forget: true })
    await w.facts(5)
    await w.run(3000)
    assert.deepEqual(w.commands.slice(0, 4), ['a:3F', 'b:0D', 'a:40', 'b:0E'])
    assertSettled(w)
    assert.notDeepEqual(w.server.sessions.getSessionKey(5), before)
    await w.run(60_000)
    assert.equal(w.server.keys(5).length, 1)
  })

  for (const delivery of ['auto', 'best_effort'] as const)
    test(`restart of the server without its file: BAD_KEY, plaintext, another key (${delivery})`, async t => {
      const w = await world(t, { delivery })
      await w.facts(3)
      await w.restartServer({ kill: true, forget: true })
      w.carried.length = 0
      await w.facts(5)
      await w.run(4000)
      const seen = w.commands
      assert.deepEqual(seen.slice(0, 6), ['a:AB', 'b:06', 'a:3F', 'b:0D', 'a:40', 'b:0E'])
      assert.ok(w.receive.report()['bad_key']! >= 1)
      if (delivery === 'auto') assertSettled(w)
      else assert.equal(w.uplink.status().secure, 'secure')
    })

  test('restart of the server without its file, the BAD_KEY lost too: it is sent again', async t => {
    const w = await world(t)
    await w.facts(3)
    await w.restartServer({ kill: true, forget: true })
    let lost = 0
    w.options.lose = p => p[0] === 0x06 && lost++ < 2
    await w.facts(10, 500)
    await w.run(20_000)
    assertSettled(w)
  })
})

test('a session file with another key: the sides agree on a new one', async t => {
  for (const side of ['client', 'server'] as const) {
    const w = await world(t)
    await w.facts(3)
    await w.run(6000)
    await w.facts(1)
    const path = side === 'client' ? w.clientStore : w.serverStore
    if (side === 'client') w.uplink.stop()
    else w.server.sessions.save(true)
    const kept = JSON.parse(readFileSync(path, 'utf8'))
    kept.sessions['5'].key_hex = 'ab'.repeat(32)
    if (side === 'client') {
      await w.link.disable()
      writeFileSync(path, JSON.stringify(kept))
      await w.startClient()
    } else {
      writeFileSync(path, JSON.stringify(kept))
      await w.restartServer({ kill: true })
    }
    await w.facts(15, 500)
    await w.run(5000)
    assertSettled(w)
    assert.ok(w.receive.report()['bad_key']! >= 1, side)
  }
})

describe('when BAD_KEY is obeyed', () => {
  test('BAD_KEY counts only for a frame that was sent with this key, with its checksum', async t => {
    const w = await world(t)
    await w.facts(4)
    const frame = packetsIn(w.carried.filter(c => is(0xab)(c.bytes)).at(-1)!.bytes)[0]!
    const plain = packetsIn(w.carried.find(c => is(0x3f)(c.bytes))!.bytes)[0]!
    const name = (packet: Uint8Array, wrong = 0): string => {
      const bytes = Buffer.from(packet)
      return `BAD_KEY;5;${bytes[6]};${bytes.readUIntBE(7, 6)};${(bytes.readUInt16BE(bytes.length - 2) ^ wrong).toString(16).padStart(4, '0')}`
    }
    const nack = (text: string): Promise<void> => w.pair.b.write(Buffer.from(`\x02\x06\x00\x00${text}\x03`))
    for (const text of [name(frame, 1), name(plain), name(frame).replace(';5;', ';6;')]) {
      await nack(text)
      await w.run(100)
      assert.ok(w.client.outboundKey(5), text)
    }
    await nack(name(frame))
    await w.run(100)
    assert.equal(w.client.outboundKey(5), null)
    await w.run(10_000)
    await w.facts(3)
    assert.ok(w.client.outboundKey(5), 'a new session')
    await w.run(3000)
    assertSettled(w)
  })

  test('BAD_KEY counts at most every ten seconds: forged ones cannot force plaintext', async t => {
    const w = await world(t)
    await w.facts(3)
    await w.restartServer({ kill: true, forget: true })
    await w.facts(3)
    assert.equal(w.client.counters.badKey, 1)
    await w.restartServer({ kill: true, forget: true })
    await w.facts(3)
    assert.equal(w.client.counters.badKey, 1)
    await w.run(12_000)
    await w.facts(3)
    await w.run(4000)
    assert.equal(w.client.counters.badKey, 2)
    assertSettled(w)
  })
})

test('relayed devices have their own keys', async t => {
  const w = await world(t)
  for (let k = 0; k < 4; k++) {
    w.fact()
    w.fact(21)
    w.fact(22)
    await w.run(100)
  }
  await w.run(3000)
  assert.deepEqual(w.uplink.status().secure_aids, { pending: 0, secure: 3 })
  assert.equal(w.receive.report()['sessions'], 3)
  assert.equal(new Set([5, 21, 22].map(aid => Buffer.from(w.server.keys(aid)[0]!).toString('hex'))).size, 3)
  assert.deepEqual(values(w.got), values(w.sent))
  assertNoFallback(w.data.slice(6))
})
