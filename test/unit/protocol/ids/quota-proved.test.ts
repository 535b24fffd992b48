// Addresses that a data packet has proved: what they may take, and that unproved ones take nothing from them (X38, X39).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FileIdStore } from '../../../../src/protocol/ids/id-store'
import { MemFiles } from '../../log/memfiles'
import { server } from './quota-world'

test('a valid data packet under a granted id from its address proves the address, for more ids and without an interval', () => {
  const { pool, quotas, clock } = server()
  const [id] = pool(64, '10.0.0.1:5') as number[]
  quotas.touch(id!, '10.0.0.2:5')
  assert.equal(quotas.report().proved_addresses, 0)
  quotas.touch(id!, '10.0.0.1:77')
  assert.deepEqual([quotas.report().proved_addresses, quotas.report().unproved_ids], [1, 0])
  for (let k = 0; k < 15; k++) assert.equal((pool(256, '10.0.0.1:5') as number[]).length, 256)
  assert.equal((pool(256, '10.0.0.1:5') as number[]).length, 4096 - 64 - 15 * 256)
  assert.equal(pool(1, '10.0.0.1:5'), 'POOL_ALLOC_FAILED')
  clock.advance(600_000)
  assert.equal((pool(256, '10.0.0.1:5') as number[]).length, 256, 'what nobody took came back')
})

test('ids taken by all unproved addresses together cost a proved address nothing', () => {
  const { pool, quotas, clock } = server()
  const [id] = pool(64, '10.0.0.1:5') as number[]
  quotas.touch(id!, '10.0.0.1:5')
  for (let k = 0; k < 200; k++) {
    pool(256, `10.1.0.${k}:5`)
    clock.advance(100)
  }
  assert.equal(quotas.report().unproved_ids, 8192)
  assert.equal(pool(1, '10.2.0.1:5'), 'POOL_ALLOC_FAILED')
  assert.equal((pool(256, '10.0.0.1:5') as number[]).length, 256)
})

test('a flood of addresses takes nothing from a proved one, and one that it evicted is proved by its next packet', () => {
  const { clock, quotas, id, pool } = server()
  const flood = (): void => {
    for (let k = 0; k < 70_000; k++) quotas.mayAnswer(`11.${k >> 16}.${(k >> 8) & 255}.${k & 255}:5`, 10)
  }
  const own = id({ device_id: 'early' }, '10.0.0.1:5') as number
  const late = id({ device_id: 'late' }, '10.0.0.2:5') as number
  assert.ok(quotas.touch(own, '10.0.0.1:5'))
  flood()
  assert.equal(quotas.report().proved_addresses, 1)
  assert.ok(quotas.touch(late, '10.0.0.2:5'))
  assert.equal(quotas.report().proved_addresses, 2)
  flood()
  for (const from of ['10.0.0.1:5', '10.0.0.2:5'])
    for (let k = 0; k < 3; k++) {
      clock.advance(1000)
      assert.equal((pool(100, from) as number[]).length, 100, 'no pause between pools, more than 64 ids')
    }
})

test('ids of an earlier start count against their address, and a packet under one proves it, unless it comes from another address', async () => {
  const files = new MemFiles()
  const open = () => server({}, new FileIdStore('/data/ids.json', files))
  const first = open()
  const ids = first.pool(64, '10.0.0.1:5') as number[]
  first.allocator.confirm(ids, true)
  const moved = first.id({ device_id: 'moves' }, '10.0.0.2:5') as number
  first.quotas.touch(moved, '10.0.0.2:5')
  await first.allocator.commit()
  // from the journal, and from the file
  open().allocator.stop()
  const { quotas, pool, allocator, clock } = open()
  await allocator.start()
  await quotas.start()
  assert.equal(pool(10, '10.0.0.1:9'), 'POOL_ALLOC_FAILED', 'all 64 are taken')
  // from another address it proves nothing, however often
  for (let k = 0; k < 3; k++) assert.ok(quotas.touch(moved, '10.6.6.6:5'))
  assert.equal(quotas.report().proved_addresses, 0)
  assert.ok(quotas.touch(ids[0]!, '10.0.0.1:9'))
  assert.equal(quotas.report().proved_addresses, 1)
  clock.advance(1000)
  assert.equal((pool(256, '10.0.0.1:9') as number[]).length, 256)
  // an ended id leaves room again: 64 + 256 of 4096
  const left = (): number => {
    let count = 0
    for (let got = pool(256, '10.0.0.1:9'); Array.isArray(got); got = pool(256, '10.0.0.1:9')) count += got.length
    return count
  }
  assert.equal(left(), 4096 - 64 - 256)
})

test('proved addresses together leave a reserve: no pool beyond half of the range, no second id beyond three quarters, a first one always', () => {
  const { id, pool, quotas, allocator } = server({ maxBytes: 200_000 })
  const at = (n: number): string => `10.0.${n >> 8}.${n & 255}:5`
  let n = 0
  let first = 0
  do {
    n++
    const got = id({ device_id: `gw ${n}` }, at(n)) as number
    if (n === 1) first = got
    quotas.touch(got, at(n))
    assert.ok(n < 200, 'there is an end')
  } while (typeof pool(64, at(n)) !== 'string')
  assert.ok(allocator.fullness >= 0.5 && allocator.fullness < 0.6, String(allocator.fullness))
  assert.equal(pool(1, at(1)), 'POOL_ALLOC_FAILED', 'a proved one neither')
  for (let k = 0; typeof id({ device_id: `more ${k}` }, at(1)) === 'number'; k++) assert.ok(k < 2000, 'there is an end')
  assert.ok(allocator.fullness >= 0.75 && allocator.fullness < 0.76, String(allocator.fullness))
  assert.equal(id({ device_id: 'gw 1' }, at(1)), first, 'known devices keep theirs')
  assert.equal(typeof id({ device_id: 'honest' }, at(9999)), 'number')
  assert.ok(quotas.counters.over_quota >= 3)
})

test('a proved address takes no quota of the unproved ones', () => {
  const { clock, quotas, id, pool } = server()
  const own = id({ device_id: 'proved' }, '10.0.0.1:5') as number
  assert.ok(quotas.touch(own, '10.0.0.1:5'))
  assert.equal((pool(64, '10.0.0.2:5') as number[]).length, 64)
  for (let k = 1; k < 65_536; k++) quotas.mayAnswer(`11.0.${k >> 8}.${k & 255}:5`, 10)
  assert.ok(quotas.mayAnswer('10.0.0.1:5', 10))
  clock.advance(61_000)
  assert.equal(pool(1, '10.0.0.2:5'), 'POOL_ALLOC_FAILED', 'its 64 ids are not forgotten')
})

test('answers to unproved addresses are limited to 64 KiB/s in total, and a share of it each; proved ones are still answered', () => {
  const { ask, request, quotas, clock, id } = server()
  const known = id({ device_id: 'known' }, '10.0.0.7:5') as number
  quotas.touch(known, '10.0.0.7:5')
  const flood = (from: (k: number) => string): number => {
    let bytes = 0
    for (let k = 0; k < 20_000; k++) bytes += ask(request({ device_id: 'x' }), from(k))?.length ?? 0
    return bytes
  }
  const one = flood(() => '10.0.0.1:5')
  assert.ok(one > 1000 && one <= 4096, `${one} bytes to one`)
  const all = flood(k => `10.3.${k >> 8}.${k & 255}:5`)
  assert.ok(all > 20_000 && all <= 65_536, `${all} bytes to all`)
  assert.ok(quotas.report().unanswered > 30_000)
  assert.equal(id({ device_id: 'known' }, '10.0.0.7:5'), known)
  clock.advance(1000)
  assert.equal(typeof id({ device_id: 'next' }, '10.0.0.8:5'), 'number')
})
