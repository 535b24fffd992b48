import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Latch } from '../../../../drivers/gpio/latch'
import { prng } from '../../../lib/random'

type Level = 0 | 1

/** The readings; each step: the edges before it, and the level of the line when it was read. */
function readings(...steps: [edges: Level[], line: Level][]): Level[] {
  const latch = new Latch()
  return steps.map(([edges, line]) => {
    for (const edge of edges) latch.changed(edge, 1)
    return latch.read(line).value
  })
}

test('a pulse is reported, whether its edges arrive together, one by one, or when the line is back already', () => {
  assert.deepEqual(readings([[], 0], [[1, 0], 0], [[], 0]), [0, 1, 0])
  assert.deepEqual(readings([[], 0], [[1], 0], [[0], 0]), [0, 1, 0])
  assert.deepEqual(readings([[], 0], [[1], 1], [[0], 0]), [0, 1, 0])
  // the kernel read the level after the line was back: one edge, or two, to where it was
  assert.deepEqual(readings([[], 0], [[0], 0], [[], 0]), [0, 1, 0])
  assert.deepEqual(readings([[], 1], [[1, 1], 1], [[], 1]), [1, 0, 1])
})

test('a level ahead of its edges or behind them makes no pulse', () => {
  assert.deepEqual(readings([[], 0], [[1], 1], [[], 0], [[0], 0], [[], 0]), [0, 1, 1, 0, 0])
  assert.deepEqual(readings([[], 0], [[1], 1], [[0], 1], [[], 0]), [0, 1, 0, 0])
})

test('edges that the kernel dropped also make a pulse, and the last one gives the level', () => {
  const latch = new Latch()
  latch.read(0)
  latch.changed(0, 8)
  assert.deepEqual(
    [latch.read(0), latch.read(0)],
    [
      { value: 1, more: true },
      { value: 0, more: false },
    ],
  )
})

test('no pulse is missed, no change is invented, and the last reading has the level, however late edges arrive', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = prng(seed)
    const latch = new Latch()
    const waiting: Level[] = []
    let line: Level = 0
    let reported: Level = latch.read(line).value
    let changes = 0
    let drained = 0
    const read = (): void => {
      for (let more = true; more; ) {
        const said = latch.read(random() < 0.5 ? line : 0)
        if (said.value !== reported) changes++
        reported = said.value
        more = said.more
      }
    }
    for (let step = 0; step < 60; step++) {
      for (let k = Math.floor(random() * 4); k > 0; k--) {
        line = (1 - line) as Level
        waiting.push(line)
      }
      const [count, before] = [Math.floor(random() * (waiting.length + 1)), changes]
      for (const edge of waiting.splice(0, count)) latch.changed(edge, 1)
      drained += count
      read()
      assert.ok(changes <= drained, `seed ${seed}: ${changes} changes reported of ${drained}`)
      assert.ok(count === 0 || changes > before, `seed ${seed}: ${count} edges, no change reported`)
    }
    for (const edge of waiting.splice(0)) latch.changed(edge, 1)
    read()
    assert.equal(reported, line, `seed ${seed}`)
  }
})
