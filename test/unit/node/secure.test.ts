// Secure sessions of complete nodes: the exchange, lost packets, a restart of either side, require_secure, and what an
// off-path packet cannot do (X7, X11, S13).
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { Node } from '../../../src/index'
import type { Reading } from '../../../src/pipeline/fact'
import { buildNack, buildSecureChannelAck, buildSecureDictReady } from '../../../src/protocol/control'
import { refusedFrameText } from '../../../src/protocol/nack'
import { Bench, commands, ROWS, SERVER } from './helper'

const bench = new Bench()
const send = (node: Node, value = 1): Buffer => {
  bench.clock.advance(1000)
  return node.transmit([['T1', 'OK', value, 'Cel']])[0]
}
/** One packet to the server and its answer back. */
function pass(from: Node, to: Node, packet: Buffer): Uint8Array | null {
  const { response } = to.receiveViaProtocol(packet, 'client:1')
  if (response) from.receiveViaProtocol(response, SERVER)
  return response
}
const stateOf = (node: Node, aid: number): string | undefined => node.security.client.sessions.session(aid)?.state

test('plaintext, DICT_READY, secure packets, CHANNEL_ACK; both ends then hold one key', () => {
  const a = bench.node('a1', { assigned_id: 5 })
  const b = bench.node('b1', { assigned_id: 900 })
  const packets: Buffer[] = []
  const answers: (Uint8Array | null)[] = []
  for (let k = 0; k < 4; k++) {
    packets.push(send(a, k))
    answers.push(pass(a, b, packets[k]!))
  }
  assert.deepEqual(commands(packets), ['3f', 'ab', 'ab', 'ab'])
  assert.deepEqual(commands(answers), ['0d', '0e', '-', '-'])
  assert.equal(stateOf(a, 5), 'SECURE')
  assert.deepEqual(a.security.client.sessions.getSessionKey(5), b.security.server.sessions.getSessionKey(5))
  assert.equal(b.receive(packets[3]!).s1_v, 276.15, 'receive alone decodes secure packets too')
})

test('lost first packets and lost answers: the session takes the key of the named timestamp', () => {
  const a = bench.node('a2', { assigned_id: 6 })
  const b = bench.node('b2', { assigned_id: 900 })
  send(a)
  send(a)
  b.receiveViaProtocol(send(a), 'client:1')
  const decoded = []
  for (let k = 0; k < 14; k++) {
    const packet = send(a, k)
    const { result, response } = b.receiveViaProtocol(packet, 'client:1')
    decoded.push(result['error'] === undefined && result['s1_v'] === k + 273.15)
    if (response) a.receiveViaProtocol(response, SERVER)
  }
  assert.ok(decoded.every(Boolean))
  assert.equal(stateOf(a, 6), 'SECURE')
})

test('a server that lost its sessions answers BAD_KEY, and a new session is made', () => {
  const a = bench.node('a3', { assigned_id: 7 })
  const b = bench.node('b3', { assigned_id: 900 })
  for (let k = 0; k < 3; k++) pass(a, b, send(a, k))
  assert.equal(stateOf(a, 7), 'SECURE')
  const restarted = bench.node('b3-without-its-files', { assigned_id: 900 })
  const answers = [0, 1, 2, 3, 4].map(k => pass(a, restarted, send(a, k)))
  assert.equal(Buffer.from(answers[0]!.subarray(3)).toString().split(';')[0], 'BAD_KEY')
  assert.ok(commands(answers).includes('0d') && commands(answers).includes('0e'), commands(answers).join())
  assert.deepEqual(a.security.client.sessions.getSessionKey(7), restarted.security.server.sessions.getSessionKey(7))
})

test('a stop stores the sessions in their files; the next run of either side continues encrypted, beginning with FULL', async () => {
  const a = bench.node('a4', { assigned_id: 8 })
  const b = bench.node('b4', { assigned_id: 900 })
  for (let k = 0; k < 3; k++) pass(a, b, send(a, k))
  await a.close()
  await b.close()
  const file = join(dirname(a.configPath), 'data/secure_sessions.own.json')
  const { sessions } = JSON.parse(readFileSync(file, 'utf8'))
  assert.deepEqual(Object.keys(sessions), ['8'])
  assert.equal(sessions['8'].state, 'SECURE')
  assert.ok(existsSync(join(dirname(b.configPath), 'data/secure_sessions.json')))
  const a2 = bench.node('a4', { assigned_id: 8 })
  const b2 = bench.node('b4', { assigned_id: 900 })
  const packet = send(a2, 9)
  assert.deepEqual(commands([packet]), ['40'])
  assert.equal(b2.receiveViaProtocol(packet, 'client:1').result['s1_v'], 282.15)
})

test('require_secure: readings are refused with a code until a packet without readings has opened the session', () => {
  const a = bench.node('a5', { assigned_id: 9, security_settings: { require_secure: true } })
  const b = bench.node('b5', { assigned_id: 900, security_settings: { require_secure: true } })
  assert.throws(() => send(a), { code: 'SECURE_REQUIRED' })
  const plain = bench.node('p5', { assigned_id: 10 })
  const refused = b.receiveViaProtocol(send(plain), 'client:2')
  assert.equal(refused.type, 'IGNORED')
  const opener = a.transmit([])[0]
  assert.deepEqual(commands([opener, pass(a, b, opener)]), ['3f', '0d'])
  const packet = send(a, 3)
  assert.deepEqual(commands([packet, pass(a, b, packet)]), ['40', '0e'])
})

test('off-path packets never change a session: invented timestamps, stray acknowledgements, refusals of frames never sent', () => {
  const a = bench.node('a6', { assigned_id: 11 })
  const b = bench.node('b6', { assigned_id: 900 })
  send(a)
  a.receiveViaProtocol(Buffer.from(buildSecureDictReady(11, bench.clock.wall() - 500)), SERVER)
  a.receiveViaProtocol(Buffer.from(buildSecureChannelAck(11)), SERVER)
  const real = bench.clock.wall()
  a.receiveViaProtocol(Buffer.from(buildSecureDictReady(11, real)), '198.51.100.9:8080')
  assert.deepEqual(commands([send(a)]), ['3f'], 'still plaintext')
  for (let k = 0; k < 3; k++) pass(a, b, send(a, k))
  const packet = send(a)
  const named = { reason: 'BAD_KEY', aid: 11, tid: packet[6]!, ts: packet.readUIntBE(7, 6) } as const
  const crc16 = packet.readUInt16BE(packet.length - 2)
  a.receiveViaProtocol(Buffer.from(buildNack(0, refusedFrameText({ ...named, crc16: crc16 ^ 1 }))), SERVER)
  a.receiveViaProtocol(Buffer.from(buildNack(0, refusedFrameText({ ...named, crc16 }))), '198.51.100.9:8080')
  assert.equal(stateOf(a, 11), 'SECURE')
  a.receiveViaProtocol(Buffer.from(buildNack(0, refusedFrameText({ ...named, crc16 }))), SERVER)
  assert.equal(stateOf(a, 11), undefined)
})

test('a packet without a time makes no key, and an own packet that returns changes nothing that is sent', () => {
  const a = bench.node('a7', { assigned_id: 12 })
  const b = bench.node('b7', { assigned_id: 900 })
  const timeless = a.transmit(ROWS, null, 'ONLINE', { no_timestamp: true })[0]
  assert.deepEqual(commands([pass(a, b, timeless)]), ['0c'])
  assert.equal(b.security.server.sessions.getSessionKey(12), null)
  const own = send(a)
  a.receiveViaProtocol(own, 'anybody:1')
  assert.equal(a.security.client.sessions.getSessionKey(12), null)
  assert.deepEqual(commands([send(a)]), ['3f'])
})

test('a session unused for its lifetime is removed: plaintext again, and a new exchange', () => {
  const settings = { security_settings: { secure_session_expire_seconds: 60 } }
  const a = bench.node('a8', { assigned_id: 13, ...settings })
  const b = bench.node('b8', { assigned_id: 900, ...settings })
  for (let k = 0; k < 2; k++) pass(a, b, send(a, k))
  const before = a.security.client.sessions.getSessionKey(13)
  bench.clock.advance(61_000)
  const packet = send(a, 5)
  assert.deepEqual(commands([packet, pass(a, b, packet)]), ['aa', '0d'])
  assert.deepEqual(commands([send(a, 6)]), ['ab'])
  assert.notDeepEqual(a.security.client.sessions.getSessionKey(13), before)
})

test('require_secure: a forged plaintext packet changes no template of a secure device', () => {
  const settings = { security_settings: { require_secure: true } }
  const a = bench.node('a9', { assigned_id: 14, ...settings })
  const b = bench.node('b9', { assigned_id: 900, ...settings })
  const forger = bench.node('a9-forged', { assigned_id: 14, device_id: 'a9' })
  const rows = (t: number, p: number): readonly Reading[] => [
    ['T1', 'OK', t, 'Cel'],
    ['P1', 'OK', p, 'Pa'],
  ]
  pass(a, b, a.transmit([])[0])
  bench.clock.advance(1000)
  pass(a, b, a.transmit(rows(20, 100))[0])
  bench.clock.advance(1000)
  forger.transmit([])
  assert.equal(b.receiveViaProtocol(forger.transmit(rows(99, 7))[0], '6.6.6.6:6').type, 'IGNORED')
  bench.clock.advance(1000)
  const { result } = b.receiveViaProtocol(a.transmit(rows(21, 100))[0], 'client:1')
  assert.deepEqual([result['s1_v'], result['s2_v']], [294.15, 100])
  assert.equal(b.security.server.counters.plaintextRefused, 1)
})

test('an rx_only node names no time, and decodes a peer that uses the key of its first packet, as the reference does', () => {
  const a = bench.node('a10', { assigned_id: 15 })
  const b = bench.node('b10', { assigned_id: 900, Node_Setting: { device_role: 'rx_only' } })
  const ready = pass(a, b, send(a, 1))
  assert.equal(Buffer.from(ready!).toString('hex'), '0d0000000f0000000000000000')
  assert.deepEqual(commands([send(a, 2)]), ['3f'], 'ours keys on a named time only')
  assert.equal(a.protocol.confirmSecureDict(15, 0), true)
  const packet = send(a, 4)
  const { result, response } = b.receiveViaProtocol(packet, 'client:1')
  assert.deepEqual(commands([packet, response]), ['ab', '0e'])
  assert.equal(result['s1_v'], 277.15)
  assert.equal((result['__packet_meta__'] as { timestamp_raw: number }).timestamp_raw, 0)
})

test('a jump of the clock ends no session', () => {
  const a = bench.node('a11', { assigned_id: 16 })
  const b = bench.node('b11', { assigned_id: 900 })
  for (let k = 0; k < 2; k++) pass(a, b, send(a, k))
  bench.clock.wallMs += 400 * 86_400_000
  assert.deepEqual(commands([send(a, 5)]), ['ab'])
})
