// A unit test is where its source is: test/unit/<folder of src, or drivers/…>/<name>.test.ts, where <name> is a file there, or the folder's
// own name for a test of the whole folder, alone or with `-<aspect>`. `node test/run.mjs --of FILE` runs the tests of a file: each file has some.
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
  const files = (existsSync(source) ? readdirSync(source, { withFileTypes: true }) : [])
    .filter(entry => entry.isFile() && !entry.name.startsWith('index.'))
    .map(entry => entry.name.replace(/\.\w+(\.ts)?$/, ''))
  const isOf = (text: string): boolean => files.some(one => text === one || text.startsWith(`${one}-`))
  const ofFolder = `${basename(folder)}-`
  // <folder>-<file> is a test of the file
  return isOf(name) || (`${name}-`.startsWith(ofFolder) && !isOf(name.slice(ofFolder.length)))
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
  for (const [why, ...files] of [
    ['a name that no source has', 'log/faults.test.ts', 'faults.test.ts', 'web/routes/index.test.ts'],
    ['beside the folder', 'media/udp.test.ts', 'web/routes-data.test.ts', 'gateway/receive-commit.test.ts'],
    [
      'the name of a file after that of its folder',
      'protocol/delivery/delivery-sender.test.ts',
      'media/udp/udp-batch.test.ts',
    ],
  ])
    assert.deepEqual(files.filter(mirrors), [], why)
})

test('every source file has tests, which --of finds: by its name, else by who imports it', async () => {
  const { testFinder } = await import(join(root, 'test/tests-of.mjs'))
  const testsOf = testFinder(root) as (file: string) => { named: string[]; importing: string[]; through: string[] }
  const sources = ['src', 'drivers']
    .flatMap(dir => readdirSync(join(root, dir), { recursive: true }).map(name => join(dir, String(name))))
    .filter(name => /\.(tsx?|mjs)$/.test(name) && !name.endsWith('.d.ts'))
  assert.ok(sources.length > 800, `${sources.length}`)
  const without = sources.filter(file => {
    const { named, importing } = testsOf(file)
    return named.length + importing.length === 0
  })
  assert.deepEqual(without, [])
  assert.deepEqual(testsOf('src/log/reader.ts').named, ['test/unit/log/reader.test.ts'])
  assert.deepEqual(testsOf('src/media/udp/index.ts').named.sort(), [
    'test/unit/media/udp/udp-request.test.ts',
    'test/unit/media/udp/udp.test.ts',
  ])
  const airtime = testsOf('drivers/lora/airtime-file.ts')
  assert.deepEqual([airtime.named, airtime.through], [[], []])
  assert.ok(airtime.importing.includes('test/unit/drivers/lora/duty.test.ts'), 'a test imports it')
  const { through } = testsOf('drivers/lines/feed.ts')
  assert.deepEqual(through, ['drivers/lines/line-source.ts'])
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
