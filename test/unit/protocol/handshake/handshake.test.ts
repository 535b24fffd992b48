import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type HandshakeDeps, HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { IdAllocator } from '../../../../src/protocol/ids/allocator'
import type { IdStore } from '../../../../src/protocol/ids/id-store'
import { ManualClock, memoryIdStore } from '../../../lib/manual'

const hex = (b: Uint8Array | null): string | null => (b ? Buffer.from(b).toString('hex') : null)
const bytes = (h: string): Uint8Array => new Uint8Array(Buffer.from(h, 'hex'))
const ADDR = ['10.0.0.5', 4076]

const allocator = (store: IdStore = memoryIdStore(), endId = 4294967295): IdAllocator =>
  new IdAllocator({ endId }, { store, now: () => 1_710_000_000 })

const manager = (deps: HandshakeDeps = {}): HandshakeManager =>
  new HandshakeManager({}, { clock: new ManualClock(), ...deps })

function says(m: HandshakeManager, packet: string, type: string, result: object, response: string | null): void {
  const got = m.classifyAndDispatch(bytes(packet), ADDR)
  assert.deepEqual(
    { type: got.type, cmd: got.cmd, result: got.result, response: hex(got.response) },
    { type, cmd: Number.parseInt(packet.slice(0, 2), 16), result, response },
    packet,
  )
}

test('the builders share one counter that starts at 1', () => {
  const m = manager()
  assert.deepEqual([m.buildIdRequest(), m.buildIdPoolRequest(), m.buildPing(), m.buildTimeRequest()].map(hex), [
    '0100017b7d',
    '030002000a7b7d',
    '090003',
    '0b0004',
  ])
})

test('control packets are classified and answered as the protocol says', () => {
  const m = manager()
  const seq = 0x544a
  const ctrl = (packet: string, result: object, response: string | null = null): void =>
    says(m, packet, 'CTRL', result, response)
  ctrl('02544a0000004d', { status: 'RECEIVED', assigned_id: 77, seq, server_time: null }, '05544a')
  assert.equal(m.lastServerTime, 0)
  const received = { status: 'RECEIVED', assigned_id: 77, seq, server_time: 1_710_000_000 }
  ctrl('02544a0000004d0000000065ec8780', received, '05544a')
  assert.equal(m.lastServerTime, 1_710_000_000)
  ctrl('02544a00000000', { status: 'INVALID', raw: '02544a00000000', seq }, '06544a494e56414c49445f4944')
  ctrl('02544affffffff', { status: 'INVALID', raw: '02544affffffff', seq }, '06544a494e56414c49445f4944')
  ctrl('02544a00', { status: 'INVALID', raw: '02544a00', seq }, '06544a494e56414c49445f4944')
  ctrl('04544a0002000000010000000a', { status: 'POOL_RECEIVED', pool: [1, 10] }, '05544a')
  ctrl('04544a0000', { status: 'EMPTY_POOL' })
  ctrl('05544a', { status: 'ACK_RECEIVED', seq })
  ctrl('05', { status: 'ACK_RECEIVED', seq: 0 })
  ctrl('06544a4e4f', { status: 'NACK_RECEIVED', seq, reason: 'NO' })
  ctrl('09544affff', { status: 'PING', seq }, '0a544a')
  ctrl('0900', { status: 'PING', seq: 0 }, '0a0000')
  ctrl('0a544a', { status: 'PONG', seq })
  ctrl('0b544a', { status: 'TIME_REQUEST', seq, server_time: 1_710_000_000 }, '0c544a0000000065ec8780')
  ctrl('0c544a0000000000000005', { status: 'TIME_RESPONSE', seq, server_time: 5 })
  ctrl('0c544a00', { status: 'TIME_RESPONSE', seq, server_time: 0 })
  ctrl('0d00000005', { status: 'DICT_PENDING', assigned_id: 5, timestamp_raw: null })
  ctrl('0e00000005', { status: 'SECURE_CHANNEL_ACK', assigned_id: 5 })
  says(m, '77544a', 'UNKNOWN', { error: 'Unknown command 0x77' }, '060000556e6b6e6f776e20434d442030783737')
  says(m, '08', 'UNKNOWN', { error: 'Unknown command 0x08' }, '060000556e6b6e6f776e20434d442030783038')
  says(m, '3f544a', 'DATA', { error: 'No parser attached', raw_hex: '3f544a' }, null)
  const empty = m.classifyAndDispatch(new Uint8Array())
  assert.deepEqual([empty.type, empty.cmd, empty.response], ['ERROR', 0, null])
})

test('without an allocator requests are refused', () => {
  const m = manager()
  const rejected = { status: 'REJECTED', reason: 'No allocator' }
  says(m, '01544a7b7b', 'CTRL', rejected, '06544a4e4f5f414c4c4f4341544f52')
  says(m, '01', 'CTRL', rejected, '0600004e4f5f414c4c4f4341544f52')
  const pool = { status: 'REJECTED', reason: 'Cannot allocate pool' }
  says(m, '03544a00037b7d', 'CTRL', pool, '06544a504f4f4c5f414c4c4f435f4641494c4544')
})

test('an id request is answered with an id and the time, broken JSON or not', () => {
  const assigned = { status: 'ASSIGNED', assigned_id: 1, addr: ADDR }
  for (const packet of ['01544a7b226465766963655f6964223a20224431227d', '01544a7b7b', '01544a5b315d', '01544a'])
    says(manager({ allocator: allocator() }), packet, 'CTRL', assigned, '02544a000000010000000065ec8780')
  says(manager({ allocator: allocator() }), '01', 'CTRL', assigned, '020000000000010000000065ec8780')
})

test('a pool contains distinct ids, at most 256, and an exhausted range is reported by name', () => {
  const m = manager({ allocator: allocator() })
  const pool = m.classifyAndDispatch(bytes('03544a012c'), ADDR)
  assert.equal(new Set(pool.result['pool'] as number[]).size, 256)
  assert.equal(hex(pool.response)!.slice(0, 10), '04544a0100')
  says(
    m,
    '03544a0000',
    'CTRL',
    { status: 'REJECTED', reason: 'Cannot allocate pool' },
    '06544a504f4f4c5f414c4c4f435f4641494c4544',
  )
  const full = manager({ allocator: allocator(memoryIdStore(), 1) })
  full.classifyAndDispatch(bytes('0100017b7d'))
  const { result, response } = full.classifyAndDispatch(bytes('0100027b7d'))
  assert.deepEqual(result, { status: 'REJECTED', reason: '[IDAllocator] ID pool exhausted (1-1)' })
  assert.equal(Buffer.from(response!.subarray(3)).toString(), 'ID_POOL_EXHAUSTED')
})

test('the same request again, after its reply was lost, takes no second id', () => {
  const clock = new ManualClock()
  const m = manager({ clock, allocator: allocator() })
  const ask = (packet: string, addr: unknown = ADDR) => m.classifyAndDispatch(bytes(packet), addr).result
  assert.equal(ask('0100017b7d')['assigned_id'], 1)
  assert.equal(ask('0100017b7d')['assigned_id'], 1)
  assert.deepEqual(ask('03000200027b7d')['pool'], [2, 3])
  assert.deepEqual(ask('03000200027b7d')['pool'], [2, 3])
  assert.equal(ask('0100017b7d', '10.0.0.6:1')['assigned_id'], 4)
  assert.equal(ask('0100027b7d')['assigned_id'], 5)
  assert.equal(ask('0100017b7d', null)['assigned_id'], 6)
  clock.advance(15_001)
  assert.equal(ask('0100017b7d')['assigned_id'], 7)
})

test('oversized metadata is not stored in the allocator', () => {
  const m = manager({ allocator: allocator() })
  const big = Buffer.concat([bytes('010001'), Buffer.from(JSON.stringify({ x: 'y'.repeat(5000) }))])
  assert.equal(m.classifyAndDispatch(big).result['status'], 'REJECTED')
})

test('an id is sent only when it is on flash, and not at all when the disk fails', async () => {
  let settle: () => void = () => undefined
  let fail = false
  const store: IdStore = {
    ...memoryIdStore(),
    commit: () =>
      fail
        ? Promise.reject(new Error('no space left'))
        : new Promise(resolve => {
            settle = resolve
          }),
  }
  const m = manager({ allocator: allocator(store) })
  let answered = false
  const waiting = m.dispatch(bytes('0100017b7d'), ADDR).then(result => {
    answered = true
    return result
  })
  await new Promise(resolve => setImmediate(resolve))
  assert.equal(answered, false)
  settle()
  assert.equal(hex((await waiting).response), '020001000000010000000065ec8780')
  fail = true
  const failed = await m.dispatch(bytes('0100027b7d'), ADDR)
  assert.deepEqual([failed.type, failed.response], ['ERROR', null])
  assert.equal((await m.dispatch(bytes('090001'))).response!.length, 3)
})

test('roles ignore messages that are not for them', () => {
  const tx = manager({ role: 'tx_only', allocator: allocator() })
  for (const cmd of ['01', '03', '09', '0b'])
    says(tx, `${cmd}544a`, 'IGNORED', { reason: `tx_only: CTRL 0x${cmd.toUpperCase()} ignored` }, null)
  says(tx, 'aa544a', 'IGNORED', { reason: 'tx_only: inbound DATA ignored' }, null)
  says(tx, '0a544a', 'CTRL', { status: 'PONG', seq: 0x544a }, null)
  const rx = manager({ role: 'rx_only', allocator: allocator() })
  for (const cmd of ['01', '02', '03', '04', '0a', '0c', '0d', '0e'])
    says(rx, `${cmd}544a`, 'IGNORED', { reason: `rx_only: CTRL 0x${cmd.toUpperCase()} ignored` }, null)
  says(rx, '09544a', 'CTRL', { status: 'PING', seq: 0x544a }, '0a544a')
  assert.equal(rx.classifyAndDispatch(bytes('3f544a')).type, 'DATA')
})

test('with requireOpenRequest answers count once, and only with the seq of an open request', () => {
  const clock = new ManualClock()
  const times: number[][] = []
  const m = manager({ clock, requireOpenRequest: true, onServerTime: (...args) => times.push(args) })
  const type = (packet: string): string => m.classifyAndDispatch(bytes(packet)).type
  assert.equal(type('0c00000000000065ec8780'), 'IGNORED')
  m.buildTimeRequest()
  assert.equal(type('0c00020000000065ec8780'), 'IGNORED')
  assert.equal(type('0200010000004d'), 'IGNORED', 'an answer of another kind')
  assert.equal(type('0a0001'), 'CTRL', 'a PONG with its seq closes nothing')
  clock.advance(40)
  assert.equal(type('0c00010000000065ec8780'), 'CTRL')
  assert.equal(type('0c00010000000065ec8780'), 'IGNORED')
  assert.deepEqual(times, [[1_710_000_000, 40]])
  m.buildIdRequest()
  clock.advance(60_001)
  assert.equal(type('0200020000004d'), 'IGNORED', 'a request of long ago')
  assert.equal(type('0400020001'), 'IGNORED')
  assert.equal(m.strayAnswers, 6)
})

test('data is parsed, its device is marked as heard, and its sender gets a key or the time', () => {
  const ids = allocator()
  const id = ids.allocateId({ device_id: 'd' })
  const ts = 1_710_000_000_000
  let meta: Record<string, unknown> = { source_aid: id, crc16_ok: true, timestamp_raw: ts, secure: false }
  let error: string | undefined
  const parser = { decompress: () => ({ id: 'd', ...(error && { error }), __packet_meta__: meta }) }
  const m = manager({ allocator: ids, parser })
  const got = m.classifyAndDispatch(bytes('3f00'), ADDR)
  assert.deepEqual([got.type, got.result['id'], hex(got.response)], ['DATA', 'd', '0d000000010000018e23f14c00'])
  assert.equal(m.classifyAndDispatch(bytes('3f00'), ADDR).response, null, 'once')
  const record = (): Record<string, unknown> =>
    (ids.dump() as { allocated: Record<string, Record<string, unknown>> }).allocated[id]!
  assert.equal(record()['addr'], '10.0.0.5:4076')
  m.sessions.drop(id)
  meta = { ...meta, server_stamped: true }
  assert.equal(hex(m.classifyAndDispatch(bytes('3f00'), ['10.9.9.9', 1]).response), '0c00000000000065ec8780')
  assert.equal(m.sessions.size, 0, 'and makes no key (X11)')
  error = 'CRC16 mismatch'
  meta = { ...meta, crc16_ok: false }
  assert.equal(m.classifyAndDispatch(bytes('3f00'), ['10.6.6.6', 6]).response, null)
  error = undefined
  assert.equal(m.classifyAndDispatch(bytes('3f00'), ['10.6.6.6', 6]).response, null)
  assert.equal(record()['addr'], '10.9.9.9:1', 'a bad packet touches nothing')
  const broken = manager({ parser: { decompress: () => assert.fail('boom') } })
  assert.equal(broken.classifyAndDispatch(bytes('3f00')).type, 'ERROR')
})

test('FULL until the target is reached, then DIFF', () => {
  const m = manager()
  assert.equal(m.getStrategy(5, false), 'FULL_PACKET')
  for (let k = 0; k < 3; k++) {
    assert.equal(m.getStrategy(5, true), 'FULL_PACKET')
    m.commitSuccess(5)
  }
  assert.equal(m.getStrategy(5, true), 'DIFF_PACKET')
  assert.equal(m.getStrategy(5, false), 'FULL_PACKET')
  assert.equal(m.getStrategy(6, true), 'DIFF_PACKET', 'a template from before counts as synchronised')
  const one = new HandshakeManager({ targetSyncCount: 1 }, { clock: new ManualClock() })
  one.getStrategy(8, false)
  one.commitSuccess(8)
  assert.equal(one.getStrategy(8, true), 'DIFF_PACKET')
})

test('sync entries expire', () => {
  const clock = new ManualClock()
  const m = new HandshakeManager({ expireSeconds: 100 }, { clock })
  m.getStrategy(5, false)
  for (let k = 0; k < 3; k++) m.commitSuccess(5)
  clock.advance(100_000)
  assert.equal(m.getStrategy(5, true), 'DIFF_PACKET')
  clock.advance(101_000)
  m.getStrategy(5, false)
  assert.equal(m.getStrategy(5, true), 'FULL_PACKET')
})

test('a registry file of the AID counts as a template', () => {
  const registryDir = mkdtempSync(join(tmpdir(), 'os-node-reg-'))
  try {
    mkdirSync(join(registryDir, '00/00'), { recursive: true })
    writeFileSync(join(registryDir, '00/00/7.json'), '{}')
    const m = new HandshakeManager({ registryDir }, { clock: new ManualClock() })
    m.getStrategy(7, false)
    m.getStrategy(8, false)
    assert.deepEqual([m.getStrategy(7, true), m.getStrategy(8, true)], ['DIFF_PACKET', 'FULL_PACKET'])
  } finally {
    rmSync(registryDir, { recursive: true, force: true })
  }
})

/** A transport over a manual clock: `answers` gives the reply to each packet sent. */
function wire(clock: ManualClock, answers: (packet: string, nth: number) => string[]) {
  const sent: [at: number, packet: string][] = []
  const inbox: string[] = []
  return {
    sent,
    send: (packet: Uint8Array) => {
      sent.push([clock.mono(), hex(packet)!])
      inbox.push(...answers(hex(packet)!, sent.length))
      return true
    },
    receive: async (seconds: number) => {
      const next = inbox.shift()
      clock.advance(next ? 10 : seconds * 1000)
      return next ? bytes(next) : null
    },
  }
}

test('an id request is resent with the same bytes every max(1, timeout / 2) seconds', async () => {
  const clock = new ManualClock()
  const m = manager({ clock })
  const line = wire(clock, () => [])
  assert.equal(await m.requestIdViaTransport(line.send, line.receive, { device_id: 'D' }), null)
  assert.deepEqual(
    line.sent.map(([at]) => at),
    [0, 2500],
  )
  assert.equal(new Set(line.sent.map(([, packet]) => packet)).size, 1)
  const quick = wire(clock, () => [])
  const start = clock.mono()
  assert.equal(await m.requestTimeViaTransport(quick.send, quick.receive, 1.5), null)
  assert.deepEqual(
    quick.sent.map(([at]) => at - start),
    [0, 1000],
  )
})

test('only the answer with its seq ends the wait, and an id is confirmed', async () => {
  const clock = new ManualClock()
  const m = manager({ clock, deviceId: () => 'D' })
  const line = wire(clock, packet =>
    packet.startsWith('01') ? ['02000900000063', '0600094e4f', '0a0001', 'ff', '0200010000004d0000000065ec8780'] : [],
  )
  assert.equal(await m.requestIdViaTransport(line.send, line.receive), 77)
  assert.deepEqual(
    line.sent.map(([, packet]) => packet),
    [`010001${Buffer.from('{"device_id": "D"}').toString('hex')}`, '050001'],
  )
  assert.equal(m.lastServerTime, 1_710_000_000)
})

test('a NACK to the request ends the wait, and so does an invalid id', async () => {
  const clock = new ManualClock()
  const nack = wire(clock, () => ['0600014e4f'])
  assert.equal(await manager({ clock }).requestIdViaTransport(nack.send, nack.receive), null)
  assert.equal(nack.sent.length, 1)
  const zero = wire(clock, packet => (packet.startsWith('01') ? ['02000100000000'] : []))
  assert.equal(await manager({ clock }).requestIdViaTransport(zero.send, zero.receive), null)
  assert.equal(zero.sent.at(-1)![1].slice(0, 2), '06')
})

test('pool and time are returned as numbers, and a missing answer as [] and null', async () => {
  const clock = new ManualClock()
  const rtts: number[] = []
  const m = manager({ clock, onServerTime: (_seconds, rtt) => rtts.push(rtt) })
  const pool = wire(clock, packet => (packet.startsWith('03') ? ['04000100020000000100000002'] : []))
  assert.deepEqual(await m.requestIdPoolViaTransport(pool.send, pool.receive, 2), [1, 2])
  assert.equal(pool.sent.at(-1)![1], '050001')
  const time = wire(clock, (_packet, nth) => (nth === 2 ? ['0c00020000000065ec8780'] : []))
  assert.equal(await m.requestTimeViaTransport(time.send, time.receive), 1_710_000_000)
  assert.deepEqual(rtts, [1510])
  const none = wire(clock, () => ['0600034e4f'])
  assert.deepEqual(await m.requestIdPoolViaTransport(none.send, none.receive), [])
  const old = wire(clock, () => ['0c00040000000000000005'])
  assert.equal(await m.requestTimeViaTransport(old.send, old.receive), null)
})

test('an answer is kept even when its confirmation cannot be sent, other errors are thrown to the caller', async () => {
  const clock = new ManualClock()
  const line = wire(clock, () => ['0200010000004d'])
  const send = (packet: Uint8Array): boolean => {
    if (packet[0] === 5) throw new Error('gone')
    return line.send(packet)
  }
  assert.equal(await manager({ clock }).requestIdViaTransport(send, line.receive), 77)
  const failing = (): never => assert.fail('no route')
  await assert.rejects(manager({ clock }).requestIdViaTransport(failing, line.receive), /no route/)
})

test('a receive function that returns immediately does not cause a busy loop', async () => {
  const clock = new ManualClock()
  let pauses = 0
  const sleep = async (ms: number): Promise<void> => {
    pauses++
    clock.advance(ms)
  }
  assert.equal(
    await manager({ clock, sleep }).requestTimeViaTransport(
      () => true,
      () => null,
      1,
    ),
    null,
  )
  assert.ok(pauses > 50 && pauses < 200)
})

test('random bytes never throw and are always answered within the envelope', () => {
  let state = 99
  const random = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % n
  }
  const m = manager({ allocator: allocator() })
  for (let k = 0; k < 20_000; k++) {
    const raw = Uint8Array.from({ length: random(24) }, () => random(256))
    if (raw.length > 0 && k % 2 === 0) raw[0] = random(17)
    const { type, result } = m.classifyAndDispatch(raw, k % 3 ? ADDR : null)
    assert.ok(['DATA', 'CTRL', 'UNKNOWN', 'ERROR'].includes(type) && typeof result === 'object')
  }
})
