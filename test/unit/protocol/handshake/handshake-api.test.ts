// The handshake manager's operations as listed in the specification: names, defaults, builders, request numbers, its file.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SequenceCounter } from '../../../../src/protocol/control'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { ManualClock } from '../../../lib/manual'
import { MemFiles } from '../../log/memfiles'

const T = 1_710_000_000_000
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('the constructor has the defaults of the specification', () => {
  const m = new HandshakeManager()
  assert.deepEqual([m.targetSyncCount, m.expireSeconds, m.secureStorePath], [3, 86_400, null])
  assert.equal(m.sessions.expireSeconds, 86_400)
})

test('every operation of the specification exists', () => {
  const m = new HandshakeManager() as unknown as Record<string, unknown>
  const operations = `getStrategy commitSuccess noteLocalPlaintextSent establishRemotePlaintext confirmSecureDict
    markSecureChannel hasSecureDict shouldEncryptOutbound getSessionKey noteServerTime classifyAndDispatch checkTimestamp
    requestIdViaTransport requestIdPoolViaTransport requestTimeViaTransport
    buildIdRequest buildIdPoolRequest buildPing buildTimeRequest buildAck buildNack buildPong buildTimeResponse
    buildIdAssign buildIdPoolResponse buildSecureDictReady buildSecureChannelAck buildRefusal`
  for (const name of operations.split(/\s+/)) assert.equal(typeof m[name], 'function', name)
})

test('the timestamp check only rises, per AID, and evicts the AID used longest ago', () => {
  const m = new HandshakeManager()
  const check = (aid: number | string, ts: number | null): string => m.checkTimestamp(aid, ts)
  assert.deepEqual(
    [check(1, 10), check(1, 10), check(1, 9), check('1', 11)],
    ['ACCEPT', 'REPLAY', 'OUT_OF_ORDER', 'ACCEPT'],
  )
  assert.deepEqual([check(2, null), check(2, 0)], ['ACCEPT', 'REPLAY'])
  for (let aid = 3; aid <= 65_536; aid++) check(aid, 1)
  assert.equal(check(1, 11), 'REPLAY')
  check(65_537, 1)
  assert.equal(check(1, 1), 'ACCEPT')
})

test('replies repeat the number of the request and have the layout of the protocol', () => {
  const m = new HandshakeManager({}, { clock: new ManualClock() })
  assert.deepEqual(
    [
      m.buildAck(),
      m.buildAck(7),
      m.buildNack(),
      m.buildNack(8, 'NO'),
      m.buildPong(65535),
      m.buildTimeResponse(1),
      m.buildIdAssign(2, 77),
      m.buildIdAssign(2, 77, 1_710_000_000),
      m.buildIdPoolResponse(3, [1, 4294967295]),
      m.buildSecureDictReady(5, T),
      m.buildSecureChannelAck(5),
      m.buildRefusal({ reason: 'BAD_KEY', aid: 1, tid: 2, ts: 3, crc16: 4 }),
    ].map(hex),
    [
      '050000',
      '050007',
      '060000',
      '0600084e4f',
      '0affff',
      '0c00010000000065ec8780',
      '0200020000004d',
      '0200020000004d0000000065ec8780',
      '040003000200000001ffffffff',
      '0d000000050000018e23f14c00',
      '0e00000005',
      `060000${Buffer.from('BAD_KEY;1;2;3;0004').toString('hex')}`,
    ],
  )
})

test('requests are numbered 1 to 65535 and again from 1: 0 answers no request', () => {
  const m = new HandshakeManager({}, { sequence: new SequenceCounter(65534) })
  assert.deepEqual([m.buildPing(), m.buildTimeRequest(), m.buildIdRequest()].map(hex), [
    '09ffff',
    '0b0001',
    '0100027b7d',
  ])
})

test('the loops time out after 5 s, 5 s and 3 s, and a pool request requests 10 ids', async () => {
  const clock = new ManualClock()
  const m = new HandshakeManager({}, { clock })
  const sent: Uint8Array[] = []
  const send = (packet: Uint8Array): number => sent.push(packet)
  const receive = (seconds: number): null => {
    clock.advance(seconds * 1000)
    return null
  }
  const lasted = async (ask: () => Promise<unknown>): Promise<number> => {
    const start = clock.mono()
    await ask()
    return clock.mono() - start
  }
  assert.equal(await lasted(() => m.requestIdViaTransport(send, receive)), 5000)
  sent.length = 0
  assert.equal(await lasted(() => m.requestIdPoolViaTransport(send, receive)), 5000)
  assert.match(Buffer.from(sent[0]!.subarray(3)).toString('latin1'), /^\0\n\{"device_id": ?"[^"]+-[0-9a-f]{4}"\}$/)
  assert.equal(await lasted(() => m.requestTimeViaTransport(send, receive)), 3000)
})

test('sessions made from its own options have its file and lifetime, and stop() writes them', () => {
  const files = new MemFiles()
  const clock = new ManualClock()
  const make = (problems: string[] = []): HandshakeManager =>
    new HandshakeManager(
      { secureStorePath: '/d/s.json', expireSeconds: 100 },
      { clock, files, onProblem: problem => problems.push(problem) },
    )
  const m = make()
  m.establishRemotePlaintext(6, T)
  m.establishRemotePlaintext(7, T)
  m.stop()
  const again = make()
  assert.deepEqual([again.hasSecureDict(6), again.hasSecureDict(7)], [true, true])
  clock.advance(101_000)
  again.getStrategy(9)
  assert.deepEqual(again.sessions.aids(), [], 'asking for a strategy looks for expired sessions')
  const fd = files.open('/d/s.json', 'w')
  files.write(fd, Buffer.from('{'))
  files.close(fd)
  const problems: string[] = []
  make(problems)
  assert.equal(problems.length, 1)
})

test('a server time counts above the threshold only', () => {
  const told: number[] = []
  const m = new HandshakeManager({}, { timeSyncThreshold: 500, onServerTime: seconds => told.push(seconds) })
  assert.deepEqual(
    [500, 501, Number.NaN, Number.POSITIVE_INFINITY].map(seconds => m.noteServerTime(seconds)),
    [false, true, false, false],
  )
  assert.deepEqual([m.lastServerTime, told], [501, [501]])
})
