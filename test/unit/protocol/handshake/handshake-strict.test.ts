// The handshake manager with the strict halves of Node and gateway: which messages change a key, what is refused and how,
// and a complete exchange of two managers over real frames.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Fusion } from '../../../../src/index'
import { HandshakeManager, type StrictSecurity } from '../../../../src/protocol/handshake/manager'
import { SentFrames } from '../../../../src/protocol/handshake/refusals'
import type { RefusedFrame } from '../../../../src/protocol/nack'
import { SecureClient } from '../../../../src/protocol/secure/client'
import { SecureServer } from '../../../../src/protocol/secure/server'
import { deriveSessionKey } from '../../../../src/wire/cipher'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock } from '../../../lib/manual'

const T = 1_710_000_000_000
const AID = 5
const CLIENT = '10.0.0.5:1'
const SERVER = '10.0.0.1:9999'
const text = (bytes: Uint8Array | null): string => (bytes ? Buffer.from(bytes.subarray(3)).toString() : '')

/** A manager that decodes with its own Fusion, and one that sends with its own. */
function world({ requireSecure = false } = {}) {
  const clock = new ManualClock()
  const client = new SecureClient({ clock, requireSecure })
  const server = new SecureServer({ clock, requireSecure })
  const sent = new SentFrames()
  const outbound = { outbound: (aid: number) => client.outboundKey(aid), inbound: () => null }
  const out = new Fusion(null, { unitDialect: 'attribute', clock, localId: AID, registryDir: null, keys: outbound })
  let inbound: Uint8Array | null = null
  const inKeys = { outbound: () => null, inbound: () => inbound }
  const receiver = new Fusion(null, { unitDialect: 'attribute', clock, localId: 1, registryDir: null, keys: inKeys })
  const sender = new HandshakeManager(
    {},
    {
      clock,
      strict: {
        client,
        onRefused: (refused, addr) =>
          addr === SERVER &&
          sent.obey(refused, clock.mono()) &&
          refused.reason === 'BAD_KEY' &&
          client.onBadKey(refused),
      },
    },
  )
  const taker = new HandshakeManager(
    {},
    {
      clock,
      strict: { server },
      parser: {
        decompress: (raw, key) => {
          inbound = key ?? null
          return receiver.decompress(raw)
        },
      },
    },
  )
  const frame = (value: string, strategy = 'DIFF', sensors = `T1>K.A:${value}|`): Buffer => {
    clock.advance(1)
    const token = Buffer.alloc(8)
    token.writeBigUInt64BE(BigInt(clock.wall()))
    const packet = out.runEngine(`${AID};HUB.1.${token.subarray(2).toString('base64url')}|${sensors}`, strategy)
    const crc16 = packet.readUInt16BE(packet.length - 2)
    sent.note({ aid: AID, tid: packet[6]!, ts: clock.wall(), crc16 }, clock.mono())
    if (!client.outboundKey(AID)) client.plaintextSent(AID, clock.wall())
    return packet
  }
  const take = (packet: Uint8Array) => taker.classifyAndDispatch(packet, CLIENT)
  const answer = (packet: Uint8Array | null, addr = SERVER) => sender.classifyAndDispatch(packet!, addr)
  return { clock, client, server, sender, taker, frame, take, answer }
}

describe('an exchange of two managers', () => {
  test('plaintext, DICT_READY, secure DIFF, CHANNEL_ACK, secure HEART', () => {
    const { frame, take, answer, client } = world()
    const first = frame('abc')
    assert.equal(first[0], COMMAND.DATA_FULL)
    const ready = take(first).response
    assert.equal(answer(ready).result['status'], 'DICT_READY')
    const diff = frame('abd')
    assert.equal(diff[0], COMMAND.DATA_DIFF_SEC)
    const taken = take(diff)
    assert.equal(taken.result['error'], undefined)
    assert.equal(taken.response?.[0], COMMAND.SECURE_CHANNEL_ACK)
    answer(taken.response)
    assert.equal(client.sessions.session(AID)!.state, 'SECURE')
    const heart = frame('abd')
    assert.equal(heart[0], COMMAND.DATA_HEART_SEC)
    assert.deepEqual([take(heart).result['s1_id'], take(heart).response], ['T1', null])
  })

  test('a server that lost its sessions refuses, the client starts a new session, and forged refusals are ignored', () => {
    const { frame, take, answer, client, server } = world()
    answer(take(frame('a')).response)
    answer(take(frame('b')).response)
    server.sessions.drop(AID)
    const refused = take(frame('c')).response
    assert.match(text(refused), /^BAD_KEY;5;1;\d+;[0-9a-f]{4}$/)
    assert.equal(answer(refused, '6.6.6.6:6').result['obeyed'], false, 'another address')
    const forged = Buffer.from(refused!)
    forged[forged.length - 1] = forged.at(-1)! === 0x30 ? 0x31 : 0x30
    assert.equal(answer(forged).result['obeyed'], false, 'no frame of ours')
    assert.ok(client.outboundKey(AID))
    assert.equal(answer(refused).result['obeyed'], true)
    assert.equal(client.outboundKey(AID), null)
  })

  test('several keys may be in use: the frame determines which', () => {
    const { frame, take, answer, clock, server } = world()
    take(frame('a'))
    clock.advance(10_000)
    answer(take(frame('b')).response)
    assert.equal(server.keys(AID).length, 2)
    assert.equal(take(frame('c', 'FULL')).response?.[0], COMMAND.SECURE_CHANNEL_ACK)
    assert.equal(server.keys(AID).length, 1)
  })
})

describe('refusals', () => {
  test('a DIFF without its template is answered NEED_FULL, broken frames are not answered', () => {
    const { frame, take } = world()
    frame('a')
    const diff = frame('b')
    assert.match(text(take(diff).response), new RegExp(`^NEED_FULL;5;1;\\d+;${diff.subarray(-2).toString('hex')}$`))
    const broken = Buffer.from(diff)
    broken[broken.length - 1]! ^= 1
    assert.equal(take(broken).response, null)
    assert.equal(take(diff.subarray(0, 12)).response, null)
  })

  test('a secure frame whose template is missing is NEED_FULL, not BAD_KEY', () => {
    const { frame, take, server, client } = world()
    frame('a')
    client.onDictReady(AID, T + 1, SERVER)
    server.onPlaintext(AID, T + 1, false, CLIENT)
    assert.match(text(take(frame('b')).response), /^NEED_FULL;5;/)
  })

  test('of several keys the matching one determines what is missing', () => {
    const { frame, take, server, client, clock } = world()
    frame('a')
    for (const ts of [T + 700, T + 1]) {
      server.onPlaintext(AID, ts, false, CLIENT)
      clock.advance(10_000)
    }
    client.onDictReady(AID, T + 1, SERVER)
    assert.equal(server.keys(AID).length, 2)
    assert.match(text(take(frame('b')).response), /^NEED_FULL;5;/)
  })

  test('a broken secure frame is noise and not answered', () => {
    const { frame, take, client } = world()
    frame('a')
    client.onDictReady(AID, T + 1, SERVER)
    const secure = frame('b', 'FULL')
    assert.equal(secure[0], COMMAND.DATA_FULL_SEC)
    const broken = Buffer.from(secure)
    broken[20]! ^= 1
    assert.equal(take(broken).response, null)
    assert.match(text(take(secure).response), /^BAD_KEY;5;/)
  })

  test('BAD_KEY is sent once a second', () => {
    const { frame, take, client } = world()
    frame('a')
    client.onDictReady(AID, T + 1, SERVER)
    assert.match(text(take(frame('b', 'FULL')).response), /^BAD_KEY;5;/)
    assert.equal(take(frame('c', 'FULL')).response, null)
  })

  test('both NACKs are parsed, and reported to the part that knows what was sent', () => {
    const told: [RefusedFrame, unknown][] = []
    const onRefused = (refused: RefusedFrame, addr: unknown): boolean => told.push([refused, addr]) > 0
    const m = new HandshakeManager({}, { strict: { onRefused } })
    const refused: RefusedFrame = { reason: 'NEED_FULL', aid: 7, tid: 2, ts: T, crc16: 0xab }
    assert.equal(text(m.buildRefusal(refused)), `NEED_FULL;7;2;${T};00ab`)
    const { result, response } = m.classifyAndDispatch(m.buildRefusal(refused), SERVER)
    assert.deepEqual([result['refused'], result['obeyed'], response], [refused, true, null])
    const other: RefusedFrame = { ...refused, reason: 'BAD_KEY' }
    m.classifyAndDispatch(m.buildRefusal(other), SERVER)
    assert.deepEqual(told, [
      [refused, SERVER],
      [other, SERVER],
    ])
    assert.equal(m.classifyAndDispatch(m.buildNack(9, `BAD_KEY;7;2;${T};00ab`)).result['refused'], undefined)
  })
})

describe('require_secure', () => {
  test('data in plaintext is refused, but its sender gets a key; a key request gets one too, uncounted', () => {
    const { frame, take, answer, server } = world({ requireSecure: true })
    const opener = take(frame('', 'FULL', ''))
    assert.deepEqual([opener.type, opener.response?.[0]], ['IGNORED', COMMAND.SECURE_DICT_READY])
    assert.equal(server.counters.plaintextRefused, 0)
    const refused = take(frame('a'))
    assert.deepEqual(refused.result, { reason: 'plaintext refused: require_secure' })
    assert.equal(server.counters.plaintextRefused, 1)
    answer(opener.response)
    assert.equal(take(frame('b', 'FULL')).type, 'DATA')
  })
})

describe('which messages change a key', () => {
  const ready = '0d000000050000018e23f14c00'
  const dispatch = (m: HandshakeManager, packet: string) => m.classifyAndDispatch(Buffer.from(packet, 'hex'), SERVER)

  test('strict: only a timestamp that was sent counts; the component accepts every packet', () => {
    const client = new SecureClient({ clock: new ManualClock() })
    const strict = new HandshakeManager({}, { strict: { client } })
    assert.equal(dispatch(strict, ready).result['status'], 'DICT_PENDING')
    dispatch(strict, '0e00000005')
    assert.equal(client.sessions.size, 0)
    strict.noteLocalPlaintextSent(AID, T)
    assert.equal(dispatch(strict, ready).result['status'], 'DICT_READY')
    assert.deepEqual(strict.getSessionKey(AID), deriveSessionKey(AID, T))
    const component = new HandshakeManager()
    assert.equal(dispatch(component, ready).result['status'], 'DICT_READY')
  })

  test('a message from another address than the server’s changes nothing, whatever it contains', () => {
    const client = new SecureClient({ clock: new ManualClock() })
    const told: RefusedFrame[] = []
    const onRefused = (refused: RefusedFrame): boolean => told.push(refused) > 0
    const m = new HandshakeManager({}, { strict: { client, trusts: addr => addr === SERVER, onRefused } })
    m.noteLocalPlaintextSent(AID, T)
    const before = client.sessions.stored()
    const nack = Buffer.from(m.buildRefusal({ reason: 'BAD_KEY', aid: AID, tid: 1, ts: T, crc16: 1 })).toString('hex')
    const forged = (packet: string) => m.classifyAndDispatch(Buffer.from(packet, 'hex'), '6.6.6.6:6').result
    assert.equal(forged(ready)['status'], 'DICT_PENDING')
    assert.equal(forged(nack)['obeyed'], false)
    assert.equal(forged('0c00010000000065ec8780')['reason'], 'no open request', 'nor the time')
    assert.deepEqual([client.sessions.stored(), told, m.lastServerTime], [before, [], 0])
    assert.equal(dispatch(m, ready).result['status'], 'DICT_READY')
    forged('0e00000005')
    assert.equal(client.sessions.isConfirmed(AID), false)
    dispatch(m, '0e00000005')
    assert.equal(client.sessions.isConfirmed(AID), true)
    assert.equal(dispatch(m, nack).result['obeyed'], true)
  })

  test('strict without the halves: no message changes a key', () => {
    const strict: StrictSecurity = {}
    const m = new HandshakeManager({}, { strict })
    assert.equal(dispatch(m, ready).result['status'], 'DICT_PENDING')
    dispatch(m, '0e00000005')
    assert.equal(m.sessions.size, 0)
  })

  test('confirmSecureDict called directly falls back to the pending key and then to the timestamp', () => {
    const m = new HandshakeManager({}, { strict: { client: new SecureClient() } })
    assert.equal(m.confirmSecureDict(AID, T), true)
  })

  test('a session with a key and a template sends DIFF immediately', () => {
    const m = new HandshakeManager()
    m.confirmSecureDict(AID, T)
    assert.deepEqual([m.getStrategy(AID, true), m.getStrategy(AID, false)], ['DIFF_PACKET', 'FULL_PACKET'])
  })
})

test('mutated frames and control packets never throw, and no key is derived from them', () => {
  const { frame, take, server, taker } = world()
  const packets = [frame('a'), frame('b'), frame('b'), frame('c', 'FULL')]
  packets.push(...['0d000000050000018e23f14c00', '0e00000005', '060000'].map(packet => Buffer.from(packet, 'hex')))
  packets.push(Buffer.from(taker.buildRefusal({ reason: 'BAD_KEY', aid: 5, tid: 1, ts: T, crc16: 1 })))
  let state = 5
  const random = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % n
  }
  for (let k = 0; k < 5000; k++) {
    const packet = Buffer.from(packets[random(packets.length)]!)
    for (let n = 0; n <= random(4); n++) packet[random(packet.length)] = random(256)
    const { type } = take(packet.subarray(0, random(8) === 0 ? random(packet.length) : packet.length))
    assert.ok(['DATA', 'CTRL', 'UNKNOWN', 'ERROR', 'IGNORED'].includes(type))
  }
  for (const aid of server.sessions.aids()) assert.equal(server.sessions.isConfirmed(aid), false)
})
