// The packed tarball in an empty folder: the example of docs/library.md runs unchanged, its types compile without
// skipLibCheck, and an error that the caller does not catch shows no line of minified code.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { removeDir, root, tempDir } from '../../lib/gateway'

const run = (cwd: string, command: string, ...args: string[]) => {
  const ran = spawnSync(command, args, { cwd, encoding: 'utf8' })
  return { status: ran.status, stdout: ran.stdout, said: ran.stdout + ran.stderr }
}

test('example, types and errors of the packed tarball work in an empty folder', t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  // the types are checked here too, so the bundle is the complete one
  const [{ filename }] = JSON.parse(
    run(root, 'npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', dir).stdout,
  )
  const empty = join(dir, 'empty')
  mkdirSync(empty)
  const install = ['install', '--omit=optional', '--offline', '--no-audit', '--no-fund', join(dir, filename)]
  const installed = run(empty, 'npm', ...install)
  assert.equal(installed.status, 0, installed.said)

  const section = readFileSync(join(root, 'docs/library.md'), 'utf8').split('# The library')[1]!
  const example = section
    .split('\n')
    .slice(
      1,
      section.split('\n').findIndex((line, k) => k > 2 && /^\S/.test(line)),
    )
    .map(line => line.replace(/^ {4}/, ''))
    .join('\n')
  writeFileSync(join(empty, 'example.mjs'), example)
  const ran = run(empty, process.execPath, 'example.mjs')
  assert.equal(ran.status, 0, ran.said)
  assert.match(ran.stdout, /FULL_PACKET/)
  assert.match(ran.stdout, /s1_v: 294\.65/)
  assert.match(ran.stdout, /packets: \[\]/)
  assert.match(JSON.parse(readFileSync(join(empty, 'Config.json'), 'utf8')).device_id, /-[0-9a-f]{4}$/)

  writeFileSync(
    join(empty, 'example.mts'),
    `${example.replaceAll('.lastError.', '.lastError!.').replaceAll('.dbManager.', '.dbManager!.')}\nexport {}\n`,
  )
  const types = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--target', 'es2022', '--module', 'nodenext']
  const tsc = [join(root, 'node_modules/typescript/bin/tsc'), ...types]
  // only @types/node: types of other packages used by the source are not installed for a user
  mkdirSync(join(empty, 'node_modules/@types'), { recursive: true })
  for (const name of ['@types/node', 'undici-types'])
    cpSync(join(root, 'node_modules', name), join(empty, 'node_modules', name), { recursive: true })
  tsc.push('--types', 'node', 'example.mts')
  const checked = run(empty, process.execPath, ...tsc)
  assert.equal(checked.status, 0, checked.said)

  const mistakes = {
    "new Node('no.json')": /no\.json: no such file/,
    "new Node('Config.json').transmit('x')": /Node\.transmit: sensors must be a list, not "x"/,
    "new IdAllocator('.', 1, 5)": /new IdAllocator: options must be an object, not "\."/,
    // a defect: internal code throws on its input
    "new Node('Config.json', { clock: {} }).transmit([['T1', 'OK', 1, 'Cel']])": /TypeError: .*is not a function/,
  }
  for (const [mistake, message] of Object.entries(mistakes)) {
    writeFileSync(join(empty, 'mistake.mjs'), `import { IdAllocator, Node } from 'os-node'\n${mistake}\n`)
    const { status, said } = run(empty, process.execPath, 'mistake.mjs')
    assert.equal(status, 1, mistake)
    assert.match(said, message)
    assert.match(said, /src\/[a-z/-]+\.ts:\d+/, 'the stack names the sources')
    for (const line of said.split('\n')) assert.ok(line.length < 300, `minified code: ${line.slice(0, 300)}`)
  }
})
