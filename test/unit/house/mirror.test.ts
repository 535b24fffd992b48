// A unit test is where its source is: test/unit/<folder of src, or drivers/…>/<name>.test.ts, where <name> is a file or folder
// there, or the folder's own name, alone or with `-<aspect>`. So the test of a file is found without a search.
// And a file has a length that can be read: at most 400 lines.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
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

test('no source and no test has more than 400 lines', () => {
  const files = ['src', 'drivers', 'test']
    .flatMap(dir => readdirSync(join(root, dir), { recursive: true }).map(name => `${dir}/${String(name)}`))
    .filter(name => /\.(tsx?|mjs|c|h|css)$/.test(name))
  assert.ok(files.length > 1000, `${files.length}`)
  const long = [...files, 'build.mjs']
    .map(name => ({ name, lines: readFileSync(join(root, name), 'utf8').split('\n').length - 1 }))
    .filter(({ lines }) => lines > 400)
  assert.deepEqual(long, [], 'move a coherent part to a file of its own')
})
