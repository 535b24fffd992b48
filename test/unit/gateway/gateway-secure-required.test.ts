// require_secure between a gateway's uplink and a gateway's receiver: nothing is sent or accepted in plaintext.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isData } from '../../../src/wire/commands'
import { assertSettled, is, PLAIN, world } from './gateway-secure-world'

describe('require_secure', () => {
  for (const delivery of ['auto', 'best_effort'] as const)
    test(`require_secure at both ends: a key request without readings, then everything encrypted (${delivery})`, async t => {
      const w = await world(t, { delivery, requireSecure: { client: true, server: true } })
      await w.facts(5)
      await w.run(1000)
      assert.deepEqual(w.commands.slice(0, 4), ['a:3F', 'b:0D', 'a:40', 'b:0E'])
      assert.equal(w.data.filter(c => PLAIN.includes(c)).length, 1)
      const opener = Buffer.from(w.carried.find(c => is(0x3f)(c.bytes))!.bytes)
      assert.ok(!opener.includes('T1'), 'nothing measured, not even the names')
      assertSettled(w)
      assert.equal(w.receive.report()['openers'], 1)
      assert.equal(w.receive.report()['refused_plaintext'], 0)
      assert.equal(w.uplink.status().in_flight, 0)
      const bare = w.carried.filter(({ from, bytes }) => from === 'a' && isData(bytes[0]!))
      assert.equal(
        bare.length > 0,
        delivery === 'best_effort',
        'on a probed link all data travels in the exchange (X29)',
      )
      assert.equal(w.link.state.state, 'up')
    })

  test('the key request or its answer lost: it is sent again, the link is degraded, then recovers', async t => {
    const w = await world(t, { requireSecure: { client: true, server: true }, lose: p => p[0] === 0x0d })
    w.fact()
    await w.run(9000)
    assert.equal(w.data.length, 3, 'immediately, after 2 s and after 4 s more')
    assert.deepEqual(
      { ...w.link.state, since: 0 },
      { state: 'degraded', since: 0, reason: 'no secure session: no answer to 2 key requests of AID 5' },
    )
    assert.equal(w.uplink.status().backlog, 1)
    assert.equal(w.uplink.status().secure, 'pending')
    w.options.lose = () => false
    await w.run(20_000)
    assertSettled(w)
    assert.equal(w.link.state.state, 'up')
  })

  test('the server forgot the key: a key request follows, never plaintext data', async t => {
    const w = await world(t, { requireSecure: { client: true, server: true } })
    await w.facts(3)
    await w.restartServer({ kill: true, forget: true })
    await w.facts(4)
    await w.run(5000)
    assert.equal(w.data.filter(c => c === '3F').length, 2)
    assert.equal(
      w.got.facts.some(fact => fact.sensors.length === 0),
      false,
    )
    assertSettled(w)
  })

  test('the key lost while packets wait for their answer, and no new one available: the link restarts, nothing is lost', async t => {
    const w = await world(t, { requireSecure: { client: true, server: true } })
    await w.facts(3)
    w.options.lose = (_, from) => from === 'b'
    await w.facts(2)
    w.client.sessions.drop(5)
    await w.run(4000)
    assert.equal(w.link.state.state === 'up', false)
    w.options.lose = () => false
    await w.run(20_000)
    assert.ok(!w.data.includes('AA') && !w.data.includes('7F'))
    assertSettled(w)
  })

  test('require_secure only at the server: plaintext readings are refused and counted, and are sent again encrypted', async t => {
    const w = await world(t, { requireSecure: { server: true } })
    await w.facts(4)
    assert.ok(w.receive.report()['refused_plaintext']! >= 1)
    await w.run(4000)
    assertSettled(w)
  })

  test('require_secure only at the client: the key request is answered and is no fact', async t => {
    const w = await world(t, { requireSecure: { client: true } })
    await w.facts(4)
    await w.run(1000)
    assertSettled(w)
    assert.equal(w.receive.report()['openers'], 1)
  })

  test('an upstream without sessions: no reading is sent, and the link says why', async t => {
    const seen: number[] = []
    const w = await world(t, {
      delivery: 'best_effort',
      requireSecure: { client: true },
      peer: packet => void seen.push(packet[0]!),
    })
    await w.facts(5, 2000)
    assert.deepEqual([...new Set(seen)], [0x3f])
    assert.ok(seen.length <= 4)
    assert.equal(w.uplink.status().backlog, 5)
    assert.match(JSON.stringify(w.link.state), /degraded.*no secure session/)
  })
})
