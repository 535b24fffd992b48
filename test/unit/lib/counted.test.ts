import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { counted } from '../../../src/lib/counted'
import { root } from '../../lib/gateway'

test('a count of one has no plural, and every other count has', () => {
  assert.deepEqual(
    [counted(0, 'record'), counted(1, 'record'), counted(2, 'more range'), counted(1, 'crash'), counted(3, 'crash')],
    ['0 records', '1 record', '2 more ranges', '1 crash', '3 crashes'],
  )
  assert.deepEqual([counted(1, 'entry'), counted(2, 'entry'), counted(2, 'day')], ['1 entry', '2 entries', '2 days'])
})

/** Counts that are always two or more, and limits. */
const PLURAL =
  /MAX_|MOST_|PACKETS\}|quality|lane\.queue\.length|typed\.length|state\.entries\.size|chosen\.length|found\.length|\(n\)|of part/

test('messages format counts with counted(), so that none says "1 records"', () => {
  const wrong: string[] = []
  for (const dir of ['src', 'drivers'])
    for (const name of readdirSync(join(root, dir), { recursive: true, encoding: 'utf8' }))
      if (/\.tsx?$/.test(name))
        for (const [hit] of readFileSync(join(root, dir, name), 'utf8').matchAll(
          /\$\{(?:[\w.#!?]*(?:\.length|\.size|[cC]ount|crashes|records|failures|pending|backlog|warnings|lost|refused)(?: \?\? 0)?)\} (?:[a-z]+ )?(?!appends\b|bits\b|is\b|was\b|has\b|bytes\b|characters\b|times\b|keys in\b)[a-z]{3,}s\b/g,
        ))
          if (!PLURAL.test(hit)) wrong.push(`${dir}/${name}: ${hit}`)
  assert.deepEqual(wrong, [])
})
