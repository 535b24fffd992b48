// The allocator's memory against a plain model of it: thousands of random steps, all four columns of truth compared.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memorySpill, ReleasedIds } from '../../../../src/protocol/ids/released'
import { type IdRecord, IdTable } from '../../../../src/protocol/ids/table'
import { TextArena } from '../../../../src/protocol/ids/textarena'

function prng(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const record = (key: string, lease: number, meta = '{}', addr?: string): IdRecord => ({
  meta,
  ts: 1,
  last_seen: 2,
  lease_expires_at: lease,
  device_key: key,
  state: lease % 2 === 0 ? 'active' : 'offline',
  offline_since: lease % 2 === 0 ? 0 : 5,
  ...(addr !== undefined && { addr }),
})

test('ids, keys and records are found like in a map, however they come and go', () => {
  for (let seed = 1; seed <= 5; seed++) {
    const random = prng(seed)
    const table = new IdTable()
    const model = new Map<number, IdRecord>()
    for (let step = 0; step < 6000; step++) {
      const id = 1 + random(700) * (random(2) === 0 ? 1 : 6_000_001)
      if (random(3) === 0) assert.equal(table.remove(id), model.delete(id))
      else {
        // a key is never on two ids: the newest takes it
        const key = random(4) === 0 ? '' : `device:${id}:ä`
        const made = record(key, random(1000), JSON.stringify({ n: 'x'.repeat(random(300)) }))
        table.put(id, made)
        model.set(id, made)
      }
    }
    assert.equal(table.size, model.size)
    for (const [id, made] of model) {
      assert.deepEqual(table.record(table.find(id)), made)
      if (made.device_key !== '') assert.equal(table.idOf(table.findKey(made.device_key)), id)
    }
    for (let id = 1; id <= 701; id++) assert.equal(table.has(id), model.has(id))
    assert.equal(table.findKey('device:none'), -1)
  }
})

test('a key that moves to another id names only the newest, and removing the old id does not take it', () => {
  const table = new IdTable()
  table.put(1, record('k', 10))
  table.put(2, record('k', 10))
  table.remove(1)
  assert.equal(table.idOf(table.findKey('k')), 2)
  table.put(2, record('other', 10))
  assert.equal(table.findKey('k'), -1)
})

test('leases come up in the order of their ends, prolonged, shortened or ended for good', () => {
  const random = prng(9)
  const table = new IdTable()
  const ends = new Map<number, number>()
  for (let id = 1; id <= 500; id++) table.put(id, record('', 0))
  for (let step = 0; step < 5000; step++) {
    const id = 1 + random(500)
    const end = random(10) === 0 ? 0 : 1 + random(100_000)
    table.setLease(table.find(id), end)
    ends.set(id, end)
  }
  for (let now = 0; now <= 100_000; now += 500) {
    for (let slot = table.firstEnded(now); slot >= 0; slot = table.firstEnded(now)) {
      const id = table.idOf(slot)
      assert.ok(ends.get(id)! > 0 && ends.get(id)! <= now, `${id} ends at ${ends.get(id)}, not at ${now}`)
      assert.ok(ends.get(id)! > now - 500, `${id} came late`)
      table.remove(id)
      ends.delete(id)
    }
  }
  assert.ok([...ends.values()].every(end => end === 0))
})

test('an address comes and changes in place; long texts too', () => {
  const arena = new TextArena()
  const meta = JSON.stringify({ text: 'y'.repeat(200_000) })
  let small = arena.put('key', '{"a":1}', '')
  const large = arena.put('large', meta, '')
  const handle = small
  small = arena.setAddr(small, '255.255.255.255:65535')
  assert.equal(small, handle, 'room was kept for it')
  small = arena.setAddr(small, '[2001:db8:1111:2222:3333:4444:5555:6666]:65535')
  const largeNow = arena.setAddr(large, '10.0.0.1:5')
  assert.deepEqual([arena.key(small), arena.meta(small)], ['key', '{"a":1}'])
  assert.equal(arena.addr(small), '[2001:db8:1111:2222:3333:4444:5555:6666]:65535')
  assert.deepEqual([arena.key(largeNow), arena.meta(largeNow), arena.addr(largeNow)], ['large', meta, '10.0.0.1:5'])
  arena.free(largeNow)
  assert.equal(arena.put('k', meta, '') >>> 16, largeNow >>> 16, 'the freed block is used again')
})

test('released ids: the smallest first, all of them once, with a hundred or three in memory', () => {
  for (const limit of [3, 100, 5000]) {
    const random = prng(limit)
    const inUse = new Set<number>()
    const released = new ReleasedIds(limit, memorySpill(), id => inUse.has(id))
    const model = new Set<number>()
    for (let step = 0; step < 4000; step++) {
      if (random(5) < 3) {
        const id = 1 + random(3000)
        if (model.has(id)) continue
        inUse.delete(id)
        model.add(id)
        released.add(id)
      } else {
        const id = released.lowest()
        assert.equal(id, model.size === 0 ? null : Math.min(...model))
        if (id === null) continue
        inUse.add(id)
        model.delete(id)
        released.remove(id)
      }
      assert.equal(released.size, model.size)
      assert.ok(released.inMemory().length <= limit)
      if (step % 500 === 0) {
        released.flush()
        released.compact()
      }
      if (step % 900 === 0) released.settle()
    }
  }
})
