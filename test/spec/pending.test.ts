// pending.json contains only what is not built yet, and its effect on the rows is correct.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configTables } from './config/tables'
import { libraryTables } from './library/tables'
import { excusedBy, judge, pending } from './rows'
import { parameters } from './signature'

test('every entry of pending.json belongs to one row', () => {
  const known = new Set(excusedBy([...libraryTables, ...configTables]))
  assert.deepEqual(
    pending.filter(entry => !known.has(entry)),
    [],
  )
  assert.equal(new Set(pending).size, pending.length)
})

test('a row that fails fails the test; a pending one must fail', async () => {
  const works = { name: 'works', observe: () => undefined }
  const lacks = { name: 'lacks', observe: () => assert.fail('it is not there') }
  const late = { name: 'late', pending: 'group', observe: async () => assert.fail('not yet') }
  await judge(works, [])
  await assert.rejects(judge(lacks, []), /not there/)
  await judge(lacks, ['lacks'])
  await judge(late, ['group'])
  await assert.rejects(judge(late, ['late']), /not yet/)
  await assert.rejects(judge(works, ['works']), /works: take "works" out of test\/spec\/pending.json/)
})

test('parameters are read from the text of a function', () => {
  const noted = (
    _a: number,
    _b = 1_000,
    _c: { x: string[] } = { x: ['a,b', ')'] },
    _d: string | null = null,
  ): void => {}
  assert.deepEqual(parameters(noted), ['_a', '_b = 1000', "_c = { x: ['a,b', ')'] }", '_d = null'])
})
