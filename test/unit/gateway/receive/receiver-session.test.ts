// The calls of the receiving half to the sessions, and what it counts, packet by packet: the sessions themselves are
// recorded.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReceiveSession } from '../../../../src/gateway/receive/receiver-session'
import { Receiver as PacketReceiver, type Received } from '../../../../src/pipeline/receiver'
import { KEY_REQUEST_TID, UplinkEncoder } from '../../../../src/pipeline/sender'
import type { SecureServer } from '../../../../src/protocol/secure/server'
import { resolve } from '../../../../src/units/canonical'
import { wireUnits } from '../../../../src/units/wire'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { COMMAND } from '../../../../src/wire/commands'

const units = { ...wireUnits(), resolve }
const T0 = 1_710_000_000_000
const encoder = new UplinkEncoder({ aid: 9, units, acknowledged: true })
const fact = (k: number) => ({
  ...{ id: 'D', state: 'ONLINE', tRaw: T0 + k, aid: 9 },
  sensors: [{ id: 'a', status: 'OK', unit: 'K', value: 1 }],
})
const PLAIN = encoder.encode(fact(0), { full: true }).bytes.slice()
const SECURE = encoder.encode(fact(1), { full: true }, deriveSessionKey(9, T0)).bytes.slice()
/** an empty secure heartbeat */
const HEART = encoder.encode(fact(2), {}, deriveSessionKey(9, T0)).bytes.slice()

function session(plaintext: boolean, home: boolean) {
  const calls: unknown[][] = []
  const note =
    <T>(name: string, answer: T) =>
    (...args: unknown[]): T => {
      calls.push([name, ...args])
      return answer
    }
  const server = {
    requireSecure: false,
    sessions: { size: 3 },
    hears: note('hears', undefined),
    takesPlaintext: note('takesPlaintext', plaintext),
    isHome: note('isHome', home),
    onPlaintext: note('onPlaintext', null),
    refuse: note('refuse', null),
    refusesPlaintext: note('refusesPlaintext', false),
    timeless: note('timeless', undefined),
  }
  const receiving = new ReceiveSession(server as unknown as SecureServer)
  const take = (): unknown[][] => calls.splice(0)
  return { receiving, take }
}
const from = { medium: 'UDP', address: 'a:1', reply: async () => true }

test("secure frames are decoded, an empty heartbeat only from the session's address; nothing is counted before a refusal", () => {
  assert.deepEqual([PLAIN[0], SECURE[0], HEART[0]], [COMMAND.DATA_FULL, COMMAND.DATA_FULL_SEC, COMMAND.DATA_HEART_SEC])
  const { receiving, take } = session(true, true)
  assert.deepEqual(receiving.report(), {
    refused_plaintext: 0,
    refused_elsewhere: 0,
    openers: 0,
    bad_key: 0,
    sessions: 3,
  })
  assert.equal(receiving.judge(SECURE, from), 'data')
  assert.deepEqual(take(), [['hears', 'a:1']])
  assert.equal(receiving.judge(HEART, from), 'data')
  assert.deepEqual(take(), [
    ['hears', 'a:1'],
    ['isHome', 9, 'a:1'],
  ])
  assert.equal(receiving.judge(PLAIN, from), 'data')
  assert.deepEqual(take(), [['takesPlaintext', 9, 'a:1']])
  const away = session(true, false)
  assert.equal(away.receiving.judge(HEART, from), 'refused')
  assert.equal(away.receiving.counters.refused_elsewhere, 1)
})

test('a packet outside the exchange is refused by name each time, one inside it is not', () => {
  const frame = { aid: 9, tid: PLAIN[6]!, ts: T0, crc16: (PLAIN.at(-2)! << 8) | PLAIN.at(-1)! }
  const { receiving, take } = session(false, false)
  for (const bare of [undefined, true, false]) {
    assert.equal(receiving.judge(PLAIN, from, bare), 'refused')
    assert.deepEqual(take().at(-1), ['refuse', frame, 'a:1', bare ?? true])
  }
  assert.deepEqual(receiving.counters, { refused_plaintext: 0, refused_elsewhere: 3, openers: 0, bad_key: 0 })
  for (const bare of [undefined, true, false]) {
    receiving.undecryptable(SECURE, from, bare)
    const [name, named, address, each] = take()[0]!
    assert.deepEqual([name, (named as { ts: number }).ts, address, each], ['refuse', T0 + 1, 'a:1', bare ?? true])
  }
  receiving.undecryptable(SECURE.subarray(0, 5), from)
  assert.deepEqual([take(), receiving.counters.bad_key], [[], 4])
  const home = session(false, true)
  assert.equal(home.receiving.judge(PLAIN, from), 'refused')
  assert.ok(!home.take().some(([name]) => name === 'refuse'), 'at home it knows its key')
})

test('over a shared subscription plaintext gets no key, a key request does', () => {
  const shared = { ...from, shared: true }
  const { receiving, take } = session(true, true)
  const received = new PacketReceiver().receive(PLAIN) as Extract<Received, { kind: 'fact' }>
  receiving.decoded(PLAIN, received, from)
  assert.deepEqual(take(), [['onPlaintext', 9, T0, false, 'a:1', false]])
  receiving.decoded(PLAIN, received, shared)
  assert.deepEqual(take(), [['timeless', 9, 'a:1']])
  const request = encoder.encodeFull({ ...fact(3), sensors: [] }, KEY_REQUEST_TID).bytes.slice()
  assert.equal(receiving.judge(request, shared), 'key_request')
  assert.deepEqual(take().at(1), ['onPlaintext', 9, T0 + 3, false, 'a:1', false])
})
