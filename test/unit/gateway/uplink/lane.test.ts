// A lane over a log whose records are only numbers: when its cursor moves.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Item, Lane } from '../../../../src/gateway/uplink/lane'

/** A log of facts with these numbers. */
function laneOver(seqs: number[], cursor = 0) {
  const reader = (from: number) => {
    let position = from
    let k = 0
    return {
      next: () => {
        while (seqs[k]! < position) k++
        const seq = seqs[k]
        if (seq === undefined) return null
        position = seq + 1
        return { seq }
      },
      get position() {
        return position
      },
    }
  }
  const lane = new Lane({ reader } as never, cursor)
  const take = (): Item => {
    const item = { seq: lane.head()!.seq, done: false } as Item
    lane.take(item)
    return item
  }
  const done = (item: Item): number => {
    item.done = true
    lane.settle()
    return lane.cursor
  }
  return { lane, take, done }
}

test('the cursor waits for the oldest item in flight', () => {
  const { lane, take, done } = laneOver([11, 12, 20], 10)
  const [a, b, c] = [take(), take(), take()]
  assert.equal(done(b), 10)
  assert.equal(done(a), 19, 'everything before 20 is done or was no fact')
  assert.equal(done(c), 20)
  assert.equal(lane.outstanding, 0)
})

test('records that are not sent are skipped, but the cursor never passes an outstanding one', () => {
  const { lane, take, done } = laneOver([1, 2, 3, 9])
  lane.pass(lane.head()!)
  assert.equal(lane.cursor, 1)
  const a = take()
  lane.pass(lane.head()!)
  assert.equal(lane.cursor, 1)
  assert.equal(done(a), 3)
  lane.skip(8)
  assert.deepEqual([lane.cursor, lane.front, lane.head()!.seq], [8, 9, 9])
})

test('after a rewind everything after the cursor is sent again, and an answer to an older item moves nothing', () => {
  const { lane, take, done } = laneOver([1, 2])
  const [a, b] = [take(), take()]
  done(a)
  lane.rewind()
  assert.equal(lane.cursor, 1)
  assert.equal(take().seq, 2)
  assert.equal(done(b), 1)
})

test('a lane of twenty thousand records always has the last two in flight', () => {
  const { lane, take, done } = laneOver(Array.from({ length: 20_000 }, (_, k) => k + 1))
  const open = [take(), take()]
  for (let seq = 3; seq <= 20_000; seq++) {
    open.push(take())
    assert.equal(done(open.shift()!), seq - 2)
  }
  assert.equal(lane.outstanding, 2)
})
