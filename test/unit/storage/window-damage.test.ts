// What is counted and logged of unusable windows, over several workers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLogger } from '../../../src/lib/logger'
import type { SealedCounts } from '../../../src/storage/view'
import { WindowDamage } from '../../../src/storage/window-damage'

test('each file and each problem is logged once, and what earlier workers could not use stays counted', () => {
  const said: string[] = []
  const damage = new WindowDamage({ ...silentLogger, warn: text => said.push(text) })
  const counts = (files: string[], problem?: string): SealedCounts => ({
    ...{ upTo: 9, files: 2, bytes: 30, damaged: files.length, damaged_files: files },
    ...(problem !== undefined && { problem }),
  })
  const steps: [SealedCounts, string[]][] = [
    [counts([]), []],
    [counts(['a']), ['the SQL view cannot use a; their records are read from the log if it has them']],
    [counts(['a']), []],
    [
      counts(['a', 'b'], 'full'),
      ['the SQL view cannot use a, b; their records are read from the log if it has them', 'the SQL view: full'],
    ],
    [counts(['a', 'b'], 'full'), []],
    [counts(['a', 'b']), []],
    [counts(['a', 'b'], 'full'), ['the SQL view: full']],
    [counts(['a', 'b'], 'broken'), ['the SQL view: broken']],
  ]
  for (const [report, lines] of steps) {
    damage.look(report)
    assert.deepEqual(said.splice(0), lines)
  }
  const last = counts(['a', 'b', 'c'])
  damage.keep(last)
  assert.deepEqual(said.splice(0).length, 1)
  assert.deepEqual([last.damaged, last.damaged_files], [0, []])
  assert.deepEqual(damage.of(last), { files: 2, bytes: 30, damaged: 3, damaged_files: ['a', 'b', 'c'] })
  // the next worker starts its count at 0
  damage.look(counts(['d']))
  assert.deepEqual(said.splice(0), ['the SQL view cannot use d; their records are read from the log if it has them'])
  assert.deepEqual(damage.of(counts(['d'])).damaged_files, ['a', 'b', 'c', 'd'])
  damage.keep(counts(['d', 'e', 'f', 'g']))
  const { damaged, damaged_files, problem } = damage.of(counts(['h', 'i'], 'full'))
  assert.deepEqual([damaged, damaged_files, problem], [9, ['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'], 'full'])
})
