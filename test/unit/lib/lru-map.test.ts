import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LruMap } from '../../../src/lib/lru-map'

test('beyond the limit the entry that was set longest ago is evicted; setting one again makes it the newest', () => {
  const map = new LruMap<string, number>(3)
  map.set('a', 1).set('b', 2).set('c', 3)
  assert.deepEqual(
    [...map],
    [
      ['a', 1],
      ['b', 2],
      ['c', 3],
    ],
  )
  map.set('a', 4).set('d', 5)
  assert.deepEqual(
    [...map],
    [
      ['c', 3],
      ['a', 4],
      ['d', 5],
    ],
  )
  assert.equal(map.get('b'), undefined)
  assert.equal(map.size, 3)
})

test('an evicted entry is reported with its value, one that is set again or deleted is not', () => {
  const gone: [string, number][] = []
  const map = new LruMap<string, number>(2, (...entry) => gone.push(entry))
  map.set('a', 1).set('b', 2).set('a', 3)
  map.delete('b')
  assert.deepEqual(gone, [])
  map.set('c', 4).set('d', 5)
  assert.deepEqual([gone, [...map.keys()]], [[['a', 3]], ['c', 'd']])
})

test('the oldest entry that may be evicted is; beyond the limit without one, the map grows', () => {
  const map = new LruMap<string, number>(2, undefined, value => value > 1)
  map.set('a', 1).set('b', 2).set('c', 3)
  assert.deepEqual([...map.keys()], ['a', 'c'])
  map.set('d', 1).set('e', 1)
  assert.deepEqual([...map.keys()], ['a', 'd', 'e'], 'none may be evicted')
  map.set('f', 2)
  assert.deepEqual([...map.keys()], ['a', 'd', 'e'], 'only the new one may')
})
