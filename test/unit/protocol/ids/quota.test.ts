// The quotas before the allocator (X38, X39), through the service that answers requests: how much unknown senders can take,
// what is returned, and that honest devices are still served.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OsError } from '../../../../src/lib/errors'
import { networkOf } from '../../../../src/protocol/address'
import { parseNackReason } from '../../../../src/protocol/control'
import { HandshakeManager } from '../../../../src/protocol/handshake/manager'
import { FileIdStore } from '../../../../src/protocol/ids/id-store'
import type { SharedIdSource } from '../../../../src/protocol/ids/service'
import { COMMAND } from '../../../../src/wire/commands'
import { ManualClock } from '../../../lib/manual'
import { MemFiles } from '../../log/memfiles'
import { server } from './quota-world'

test('pool requests of one address take 64 ids once, and all addresses together a limited share', () => {
  const { pool, quotas, allocator, clock, id } = server()
  const first = pool(256, '10.0.0.1:5')
  assert.equal((first as number[]).length, 64)
  for (let k = 0; k < 700; k++) pool(256, `10.0.0.1:${1000 + k}`)
  assert.equal(allocator.stats().total_allocated, 64, 'whatever the port')
  for (let k = 0; k < 3000; k++) {
    pool(256, `10.1.${k >> 8}.${k & 255}:5`)
    clock.advance(20)
  }
  assert.equal(quotas.report().unproved_ids, 8192)
  assert.ok(quotas.report().over_quota > 2000)
  assert.equal(typeof id({ device_id: 'honest' }, '10.9.9.9:5'), 'number', 'a device without an id is served')
})

test('a caller within this program has no quota: it gets what it requests, as often as it does', () => {
  const { quotas } = server()
  for (let round = 1; round <= 2; round++) assert.equal(quotas.allocatePool(200, {}).length, 200)
  assert.deepEqual(quotas.report().unproved_ids, 0)
})

test('a request may contain 4,096 bytes of metadata, a pool request 512: they are stored', () => {
  const { ask } = server()
  const meta = (bytes: number): Buffer => Buffer.from(JSON.stringify({ k: 'x'.repeat(bytes - 8) }))
  const command = (bytes: number): number =>
    ask(Buffer.concat([Buffer.from([COMMAND.ID_REQUEST, 0, bytes & 255]), meta(bytes)]), `10.0.${bytes & 255}.1:5`)![0]!
  assert.deepEqual([command(4096), command(4097)], [COMMAND.ID_ASSIGN, COMMAND.HANDSHAKE_NACK])
  const pool = (bytes: number): number =>
    ask(
      Buffer.concat([Buffer.from([COMMAND.ID_POOL_REQ, 0, bytes & 255, 0, 2]), meta(bytes)]),
      `10.1.${bytes & 255}.1:5`,
    )![0]!
  assert.deepEqual([pool(512), pool(513)], [COMMAND.ID_POOL_RES, COMMAND.HANDSHAKE_NACK])
})

test('ids of a database arrive later; a request gets the reason when there are none, a pool request does not', async () => {
  const [first, full] = [new OsError('ID_POOL_EXHAUSTED', 'none is left'), new Error('the line is cut')]
  const refusals: Error[] = [first, full, first]
  const allocator = {
    request: async () => Promise.reject(refusals.shift()),
    acknowledged: () => undefined,
    touch: () => undefined,
  } as unknown as SharedIdSource
  const manager = new HandshakeManager({}, { clock: new ManualClock(), allocator })
  const reason = async (...bytes: number[]): Promise<unknown> => {
    const { later, response } = manager.classifyAndDispatch(Buffer.from([...bytes, 0x7b, 0x7d]), '10.0.0.1:5')
    assert.equal(response, null)
    return parseNackReason((await later) as Uint8Array)
  }
  assert.equal(await reason(COMMAND.ID_REQUEST, 0, 1), 'ID_POOL_EXHAUSTED')
  assert.equal(await reason(COMMAND.ID_REQUEST, 0, 2), 'ID_ALLOC_FAILED')
  assert.equal(await reason(COMMAND.ID_POOL_REQ, 0, 3, 0, 4), 'POOL_ALLOC_FAILED')
})

test('one pool a minute, and its ids are returned after ten minutes, to be assigned last', () => {
  const { pool, clock, allocator, quotas, id } = server({ endId: 100 })
  const got = pool(8, '10.0.0.1:5') as number[]
  assert.deepEqual(got, [1, 2, 3, 4, 5, 6, 7, 8])
  assert.equal(pool(8, '10.0.0.1:6'), 'POOL_ALLOC_FAILED')
  clock.advance(60_000)
  assert.deepEqual((pool(8, '10.0.0.1:6') as number[]).at(-1), 16)
  clock.advance(540_000 - 1000)
  allocator.reclaimSome()
  assert.equal(allocator.stats().total_allocated, 16, 'not before')
  clock.advance(1000)
  assert.equal(allocator.stats().total_allocated, 16)
  assert.equal(id({ device_id: 'a' }, '10.0.0.2:1'), 17, 'the first eight are free and not handed out yet')
  assert.equal(quotas.report().taken_back, 8)
  clock.advance(60_000)
  for (let k = 18; k <= 100; k++) assert.equal(id({ device_id: `b${k}` }, `10.0.1.${k}:1`), k)
  assert.equal(id({ device_id: 'last' }, '10.0.2.1:1'), 1, 'when everything else is used up')
  assert.equal(quotas.report().taken_back, 16)
})

test('an acknowledged grant is kept for 30 days and counts against its address', () => {
  const { ask, poolRequest, ack, pool, clock, allocator, quotas } = server()
  const answer = ask(poolRequest(60), '10.0.0.1:5')!
  ack(answer, '10.0.0.2:5')
  assert.equal(quotas.report().offered, 60, 'an ACK of another address is none')
  ack(answer, '10.0.0.1:99')
  assert.equal(quotas.report().offered, 0)
  clock.advance(29 * 86_400_000)
  assert.equal((pool(8, '10.0.0.1:5') as number[]).length, 4)
  assert.equal(allocator.stats().total_allocated, 64)
  clock.advance(86_400_000 + 1000)
  allocator.reclaimSome()
  assert.equal(allocator.stats().total_allocated, 0)
})

test('single ids share the quota; known devices keep theirs at any quota, a resend counts once', () => {
  const { id, ask, request, quotas, allocator, clock } = server()
  for (let k = 0; k < 64; k++) {
    assert.equal(id({ device_id: `d${k}` }, '10.0.0.1:5'), k + 1)
    clock.advance(10)
  }
  assert.equal(id({ device_id: 'one more' }, '10.0.0.1:5'), 'ID_QUOTA')
  assert.equal(id({ device_id: 'd3' }, '10.0.0.1:5'), 4)
  const again = request({})
  const answers = [ask(again, '10.0.0.9:5'), ask(again, '10.0.0.9:5')]
  assert.deepEqual(answers[0], answers[1])
  assert.equal(allocator.stats().total_allocated, 65)
  assert.equal(quotas.report().unproved_ids, 65)
})

test('the first id of an address has its own share among all unproved ones: 32,768, of which 16,384 are for more', () => {
  const { quotas, pool } = server()
  const one = (name: string, address: string): boolean => {
    try {
      quotas.allocateId({ device_id: name }, { address, seq: 1 })
      return true
    } catch (error) {
      assert.match(String(error), /no more ids for now: (16384|16385|32768) unproved ids/)
      return false
    }
  }
  let n = 0
  for (; n < 63; n++) assert.equal(one(`almost ${n}`, '10.8.0.1'), true)
  for (let k = 0; n < 16_384; k++)
    for (let i = 0; i < 64 && n < 16_384; i++, n++) assert.equal(one(`${k} ${i}`, `10.1.${k >> 8}.${k & 255}`), true)
  assert.equal(quotas.report().unproved_ids, 16_384)
  assert.equal(one('its last', '10.8.0.1'), false, 'what refuses it is the share of all')
  assert.equal(one('first', '10.3.0.1'), true)
  assert.equal(one('second', '10.3.0.1'), false, 'more than one')
  for (let k = 1; k < 16_384; k++) assert.equal(one(`f ${k}`, `10.${4 + (k >> 14)}.${(k >> 8) & 63}.${k & 255}`), true)
  assert.equal(quotas.report().unproved_ids, 32_768)
  assert.equal(one('last', '10.9.0.1'), false)
  assert.equal(pool(1, '10.9.0.1:5'), 'POOL_ALLOC_FAILED')
  assert.equal(one('first', '10.3.0.1'), true, 'a device that has one keeps it')
  assert.equal(quotas.report().over_quota, 4)
})

test('an ACK confirms an offer with its number from its address, once and for ten minutes, and no id that belonged to a device before', () => {
  const { quotas, allocator, clock } = server()
  const confirmed: unknown[] = []
  const confirm = allocator.confirm.bind(allocator)
  allocator.confirm = (ids, pool) => {
    confirmed.push([[...ids], pool])
    confirm(ids, pool)
  }
  const asker = (seq: number, address = '10.0.0.1:5') => ({ address, seq })
  const id = quotas.allocateId({ device_id: 'a' }, asker(1))
  quotas.acknowledged(2, '10.0.0.1:5')
  quotas.acknowledged(1, '10.0.0.2:5')
  assert.deepEqual(confirmed, [])
  quotas.acknowledged(1, '10.0.0.1:9')
  quotas.acknowledged(1, '10.0.0.1:5')
  assert.deepEqual(confirmed, [[[id], false]])
  assert.equal(quotas.allocateId({ device_id: 'a' }, asker(3)), id)
  quotas.acknowledged(3, '10.0.0.1:5')
  assert.equal(confirmed.length, 1, 'it had the id already')
  const ids = quotas.allocatePool(3, {}, asker(4))
  quotas.acknowledged(4, '10.0.0.1:5')
  assert.deepEqual(confirmed[1], [ids, true])
  // offers end with the next one that is made
  quotas.allocateId({ device_id: 'b' }, asker(5))
  clock.advance(599_999)
  quotas.allocateId({ device_id: 'c' }, asker(6))
  quotas.acknowledged(5, '10.0.0.1:5')
  assert.equal(confirmed.length, 3)
  clock.advance(600_000)
  quotas.allocateId({ device_id: 'd' }, asker(7))
  quotas.acknowledged(6, '10.0.0.1:5')
  assert.equal(confirmed.length, 3)
})

test('a device key used from two networks within a minute is counted each time, and warned about once', () => {
  const { quotas, lines, clock } = server()
  const id = quotas.allocateId({ device_id: 'a' }, { address: '10.0.0.1:5', seq: 1 })
  const heard = (from: string, afterMs: number): number => {
    clock.advance(afterMs)
    quotas.touch(id, from)
    return quotas.report().shared
  }
  assert.deepEqual([heard('10.0.0.1:6', 1), heard('10.0.0.2:5', 60_000), heard('10.0.0.1:5', 59_999)], [0, 0, 1])
  assert.deepEqual([heard('10.0.0.1:5', 1), heard('10.0.0.2:5', 1), heard('10.0.0.2:6', 1)], [1, 2, 2])
  assert.equal(lines.filter(line => line.includes('give each device its own name')).length, 1)
})

test('offers survive a restart as offers', async () => {
  const files = new MemFiles()
  const open = () => server({}, new FileIdStore('/data/ids.json', files))
  const before = open()
  before.pool(8, '10.0.0.1:5')
  await before.allocator.commit()
  for (const clean of [false, true]) {
    const after = open()
    assert.equal(after.allocator.isOffered(8), true)
    assert.equal(after.quotas.report().offered, 8)
    if (clean) after.allocator.stop()
  }
  const later = open()
  later.clock.advance(600_000)
  later.allocator.reclaimSome()
  assert.deepEqual([later.allocator.stats().total_allocated, later.allocator.stats().total_released], [0, 8])
  assert.equal(later.id({ device_id: 'a' }, '10.0.0.2:1'), 9)
})

test('ids of an upstream that were offered and not accepted are assigned again, last', async () => {
  const files = new MemFiles()
  const open = () => server({ endId: 0 }, new FileIdStore('/data/pool.json', files))
  const { allocator, id, clock } = open()
  allocator.grant([5, 6, 7], 86_400)
  assert.equal(id({ device_id: 'a' }, '10.0.0.1:1'), 5)
  clock.advance(600_000)
  assert.equal(id({ device_id: 'b' }, '10.0.0.1:1'), 6)
  assert.equal(allocator.grantsLeft, 2)
  assert.equal(id({ device_id: 'c' }, '10.0.0.1:1'), 7)
  assert.equal(id({ device_id: 'd' }, '10.0.0.1:1'), 5)
  assert.equal(id({ device_id: 'e' }, '10.0.0.1:1'), 'ID_POOL_EXHAUSTED')
  clock.advance(600_000)
  allocator.reclaimSome()
  allocator.stop()
  assert.equal(open().allocator.grantsLeft, 3)
})

test('a device without a name never shares its id with one of another address; a named one keeps its id anywhere', () => {
  for (const nameless of [
    { device_id: 'UNKNOWN' },
    { device_id: ' unknown ' },
    { device_key: 'UNKNOWN' },
    { device_id: '' },
    { device_id: null, device_key: ' ' },
    { mac: '', fw: '1.0' },
    { fw: '1.0' },
    { device_meta: { fw: '1.0' } },
    {},
  ]) {
    const { id } = server()
    const one = id(nameless, '10.0.0.1:5')
    assert.notEqual(id(nameless, '10.0.0.2:5'), one, JSON.stringify(nameless))
    if (Object.keys(nameless).length > 0) assert.equal(id(nameless, '10.0.0.1:6'), one)
  }
  const { id, quotas, lines, clock } = server()
  const mine = id({ device_id: 'pump' }, '10.0.0.1:5')
  clock.advance(60_000)
  assert.equal(id({ device_id: 'pump' }, '10.0.0.2:5'), mine)
  assert.equal(quotas.report().shared, 0, 'it moved')
  for (let k = 0; k < 4; k++) {
    clock.advance(59_000)
    assert.equal(id({ device_id: 'pump' }, `10.0.0.${1 + (k & 1)}:${k}`), mine)
  }
  assert.equal(quotas.report().shared, 4)
  quotas.touch(mine as number, '10.0.0.3:5')
  assert.equal(quotas.report().shared, 5, 'data counts as well')
  assert.equal(lines.filter(line => line.includes('within a minute')).length, 1)
})

test('an IPv6 host counts by its /64, other media by their own names', () => {
  assert.equal(networkOf('[2001:db8:0:1::7]:99'), '2001:db8:0:1::/64')
  assert.equal(networkOf('2001:db8:0:1:ffff:1:2:3'), '2001:db8:0:1::/64')
  assert.equal(networkOf('::ffff:192.0.2.1'), '192.0.2.1')
  assert.equal(networkOf('::1'), '0:0:0:0::/64')
  assert.equal(networkOf('broker:1883/os/5'), 'broker:1883/os/5')
  assert.equal(networkOf('/dev/ttyS1'), '/dev/ttyS1')
})

test('while the files are read no request is answered: no id is assigned that may be taken', async () => {
  const files = new MemFiles()
  const open = () => server({}, new FileIdStore('/data/ids.json', files))
  const before = open()
  for (let k = 0; k < 2000; k++) before.allocator.allocateId({ device_id: `n${k}` })
  await before.allocator.commit()
  const after = open()
  const started = after.allocator.start()
  assert.equal(after.id({ device_id: 'stranger' }, '10.0.0.1:1'), null)
  assert.equal(after.pool(4, '10.0.0.2:1'), null)
  assert.equal(after.quotas.touch(7, '10.0.0.3:1'), false)
  assert.equal(after.quotas.isAllocated(7), false)
  assert.equal(after.allocator.reading, true, 'and nothing was read immediately for it')
  assert.equal(after.quotas.report().unanswered, 2)
  await started
  assert.equal(after.id({ device_id: 'n7' }, '10.0.0.1:1'), 8)
  assert.equal(after.id({ device_id: 'stranger' }, '10.0.0.1:1'), 2001)
  assert.equal(after.quotas.touch(7, '10.0.0.3:1'), true)
})
