// The allocator's state against a simple model of it: thousands of random steps, all of its answers compared.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { yieldToLoop } from '../../../../src/lib/yield'
import { IdRange } from '../../../../src/protocol/ids/range'
import { type IdRecord, IdState } from '../../../../src/protocol/ids/state'
import { prng } from '../../../lib/random'

/** whole numbers below `below` */
function generator(seed: number): (below: number) => number {
  const next = prng(seed)
  return below => Math.floor(next() * below)
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

const put = (state: IdState, id: number, made: IdRecord): void => state.apply({ set: id, record: made })

test('ids, keys and records are found as in a map, however they are added and removed', () => {
  for (let seed = 1; seed <= 5; seed++) {
    const random = generator(seed)
    const state = new IdState()
    const model = new Map<number, IdRecord>()
    for (let step = 0; step < 6000; step++) {
      const id = 1 + random(700) * (random(2) === 0 ? 1 : 6_000_001)
      if (random(3) === 0) {
        state.apply({ free: id })
        model.delete(id)
      } else {
        const key = random(4) === 0 ? '' : `device:${id}:ä`
        const made = record(key, random(1000), JSON.stringify({ n: 'x'.repeat(random(300)) }))
        put(state, id, made)
        model.set(id, made)
      }
    }
    assert.equal(state.entries.size, model.size)
    for (const [id, made] of model) {
      assert.deepEqual({ ...state.entries.get(id)! }, { ...made, id, addr: undefined, granted_to: undefined, noted: 2 })
      if (made.device_key !== '') assert.equal(state.byKey(made.device_key)?.id, id)
    }
    assert.equal(state.byKey('device:none'), undefined)
    for (const id of model.keys()) state.apply({ free: id })
    assert.equal(state.bytes, 0, 'what is freed counts no memory')
  }
})

test('a key that moves to another id belongs only to the newest, and removing the old id does not remove it', () => {
  const state = new IdState()
  put(state, 1, record('k', 10))
  put(state, 2, record('k', 10))
  state.apply({ free: 1 })
  assert.equal(state.byKey('k')?.id, 2)
  put(state, 2, record('other', 10))
  assert.equal(state.byKey('k'), undefined)
})

test('leases are returned in the order of their ends, prolonged, shortened or removed', () => {
  const random = generator(9)
  const state = new IdState()
  const ends = new Map<number, number>()
  for (let id = 1; id <= 500; id++) put(state, id, record('', 0))
  for (let step = 0; step < 5000; step++) {
    const id = 1 + random(500)
    const end = random(10) === 0 ? 0 : 1 + random(100_000)
    state.setLease(state.entries.get(id)!, end)
    ends.set(id, end)
  }
  for (let now = 0; now <= 100_000; now += 500) {
    for (let entry = state.firstEnded(now); entry; entry = state.firstEnded(now)) {
      const { id } = entry
      assert.ok(ends.get(id)! > 0 && ends.get(id)! <= now, `${id} ends at ${ends.get(id)}, not at ${now}`)
      assert.ok(ends.get(id)! > now - 500, `${id} came late`)
      state.apply({ free: id })
      ends.delete(id)
    }
  }
  assert.ok([...ends.values()].every(end => end === 0))
})

test('an address counts as memory, and a text that is not Latin-1 counts twice', () => {
  const state = new IdState()
  put(state, 1, record('key', 10))
  const before = state.bytes
  const entry = state.entries.get(1)!
  state.heard(entry, 5, 20, '[2001:db8:1111:2222:3333:4444:5555:6666]:65535')
  assert.equal(state.bytes, before + 46)
  state.heard(entry, 6, 20, '10.0.0.1:5')
  assert.equal(state.bytes, before + 10)
  assert.equal(state.cost('', '日'.repeat(100)) - state.cost('', ''), 200)
  assert.equal(state.cost('', 'é'.repeat(100)) - state.cost('', ''), 100)
})

test('the list of freed ids keeps the lowest, without duplicates and without ids in use', () => {
  const random = generator(4)
  for (const most of [3, 100, 5000]) {
    const state = new IdState({ maxReleased: most, nextCandidate: 4000 })
    const listed = new Set<number>()
    for (let step = 0; step < 4000; step++) {
      const id = 1 + random(3000)
      if (random(5) < 3) {
        state.release(id)
        listed.add(id)
        if (listed.size > most) listed.delete(Math.max(...listed))
      } else {
        state.forget(id)
        listed.delete(id)
      }
      assert.equal(state.lowestReleased, listed.size === 0 ? undefined : Math.min(...listed))
    }
    assert.deepEqual(
      state.released,
      [...listed].sort((a, b) => a - b),
    )
    put(state, 3500, record('', 0))
    state.release(3500)
    assert.ok(!state.released.includes(3500))
  }
})

test('ids in no list are found when the range is exhausted, a limited part of the range at a time', () => {
  const range = new IdRange(1, 400_000)
  const state = new IdState({ nextCandidate: 400_001 })
  for (let id = 1; id <= 400_000; id++) if (id !== 300_000) put(state, id, record('', 0))
  assert.equal(range.left(state, 0), 1)
  assert.equal(range.next(state, 0), null, 'not in the first part')
  assert.equal(range.next(state, 0), 300_000)
  put(state, 300_000, record('', 0))
  assert.equal(range.next(state, 0), null)
  assert.equal(range.left(state, 0), 0)
  state.apply({ free: 7, back: true })
  while (range.next(state, 0) === null);
  state.damaged = true
  for (let k = 0; k < 3; k++)
    assert.equal(range.next(state, 0), null, 'after damage an id in no list may have an owner')
  assert.equal(range.left(state, 0), 0, 'nor does it count as free')
})

test('a lease prolonged after its end was seen ends at its new end', () => {
  const state = new IdState()
  for (const id of [1, 2]) put(state, id, record('', 10 * id))
  assert.equal(state.firstEnded(30)?.id, 1)
  state.apply({ free: 1 })
  state.setLease(state.entries.get(2)!, 100)
  assert.equal(state.firstEnded(99), undefined)
  assert.equal(state.firstEnded(100)?.id, 2)
})

test('lost changes may have assigned one id each; the highest id is the last of them', () => {
  const state = new IdState({ nextCandidate: 10 })
  state.lose(5)
  assert.deepEqual([state.next_candidate, state.damaged], [15, true])
  state.lose(0xffff_ffff)
  assert.equal(state.next_candidate, 0xffff_ffff)
})

test('a clock that jumps moves every lease with it, none of them before the first second', () => {
  const state = new IdState()
  for (const [id, end] of [
    [1, 100],
    [2, 0],
    [3, 5000],
  ] as const)
    put(state, id, record('', end))
  state.moveLeases(-4000)
  assert.deepEqual(
    [1, 2, 3].map(id => state.entries.get(id)!.lease_expires_at),
    [1, 0, 1000],
  )
})

test('after a restore only active ids with a running lease keep their device, and no id known as free is assigned', () => {
  const state = new IdState()
  const lease = (id: number, end: number, more: Partial<IdRecord> = {}): void =>
    put(state, id, { ...record('', end), state: 'active', ...more })
  lease(1, 50)
  lease(2, 51)
  lease(3, 0)
  lease(4, 51, { state: 'offline' })
  lease(5, 51)
  state.apply({ free: 5 })
  const next = state.next_candidate
  state.restored(50)
  assert.deepEqual([...state.entries.keys()], [2, 3])
  assert.deepEqual(state.released, [])
  assert.ok(state.next_candidate > next, `${state.next_candidate}`)
})

test('ids are counted by the address they were granted to: only those that count, a few thousand between two turns', async () => {
  const state = new IdState()
  for (let id = 1; id <= 9000; id++)
    put(state, id, { ...record('', 10), ...(id > 10 && { granted_to: `10.0.0.${id % 3}` }) })
  let turns = 0
  let done = false
  const beside = (async () => {
    for (; !done; turns++) await yieldToLoop()
  })()
  const counted = await state.countGranted(id => id > 3000)
  done = true
  await beside
  assert.deepEqual([...counted].sort(), [
    ['10.0.0.0', 2000],
    ['10.0.0.1', 2000],
    ['10.0.0.2', 2000],
  ])
  assert.ok(turns >= 2 && turns < 30, `${turns} turns`)
})
