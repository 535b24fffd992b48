// A unit test is where its source is: test/unit/<folder of src, or drivers/…>/<name>.test.ts, where <name> is a file or folder
// there, or the folder's own name, alone or with `-<aspect>`. So the test of a file is found without a search.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** Whether a test of this name, below test/unit, has a source file that it tests. */
function mirrors(file: string): boolean {
  const folder = dirname(file)
  const source = join(root, folder.startsWith('drivers') ? folder : join('src', folder))
  const name = basename(file).replace(/(\.long)?\.test\.ts$/, '')
  const sources = existsSync(source) ? readdirSync(source).map(entry => entry.replace(/\.\w+(\.ts)?$/, '')) : []
  return [...sources, basename(folder)].some(one => name === one || name.startsWith(`${one}-`))
}

test('every unit test is where its source is, and has its name', () => {
  const tests = readdirSync(join(root, 'test/unit'), { recursive: true })
    .map(String)
    .filter(file => file.endsWith('.test.ts') && !file.startsWith('house/'))
  assert.ok(tests.length > 200, `${tests.length}`)
  assert.deepEqual(
    tests.filter(file => !mirrors(file)),
    [],
  )
  assert.ok(!mirrors('log/faults.test.ts') && !mirrors('faults.test.ts'), 'a name that no source has')
})
