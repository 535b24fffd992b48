import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { generateAtoms } from '../../../src/units/generate.mjs'

test('the committed atom table is the output of --generate', () => {
  const path = join(process.env.OS_NODE_TEST_ROOT ?? '.', 'src/units/atoms.generated.json')
  assert.equal(readFileSync(path, 'utf8'), generateAtoms())
})
