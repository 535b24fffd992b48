// What `npm start` and the build do before anything else: an old Node is refused in one line, and only the packages of the
// bundle are fetched; a second start runs the bytecode that the first one left.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { removeDir, root, tempDir } from '../../lib/gateway'

const text = (path: string): string => readFileSync(join(root, path), 'utf8')

test('a Node below 20.19 is refused in one line by build.mjs and by the bundle, before anything else', t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const runs = (version: string, script: string) => {
    const fake = join(dir, `${version}.cjs`)
    writeFileSync(
      fake,
      `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`,
    )
    return spawnSync(process.execPath, ['-r', fake, join(root, script), '--version'], { cwd: dir, encoding: 'utf8' })
  }
  for (const version of ['20.18.3', '18.20.4', '0.10.48']) {
    for (const script of ['build.mjs', 'dist/os-node.js']) {
      const { status, stdout, stderr } = runs(version, script)
      assert.equal(status, 1, stderr)
      assert.equal(stdout, '')
      assert.match(stderr, new RegExp(`^os-node needs Node 20\\.19 or newer, and .* is ${version}\\. .*\\n$`))
    }
  }
  for (const version of ['20.19.0', '22.1.0']) assert.equal(runs(version, 'dist/os-node.js').status, 0)
})

test('an old Node reaches the check: nothing before it needs a newer version', () => {
  const { scripts } = JSON.parse(text('package.json'))
  assert.match(scripts.start, /^node build\.mjs --start && /)
  for (const file of ['build.mjs', 'src/build/node-version.cjs']) {
    const code = text(file).replace(/\/\/ .*$/gm, '')
    assert.doesNotMatch(code, /\?\?|\?\.|await|`/, file)
  }
  assert.deepEqual(text('build.mjs').match(/^import [^(].*/gm), ["import './src/build/node-version.cjs'"])
  const [hashbang, first] = text('dist/os-node.js').split('\n')
  assert.match(hashbang!, /^#!/)
  assert.match(first!, /^'use strict';\(function\(\)\{var \w+=process\.versions\.node/)
  const bundle = text('dist/os-node.js')
  const [start, end] = [bundle.indexOf('\n/*\n'), bundle.lastIndexOf('*/')]
  const read = bundle.slice(0, start) + bundle.slice(end)
  assert.doesNotMatch(read, /=>|\bconst\b|\bclass\b|\?\.\w/, 'what Node reads is in old words')
  assert.ok(end - start > 1_000_000, 'and the program is behind it in a comment')
  assert.equal(bundle.indexOf('*/', start), end, 'which nothing in the program ends')
})

test('a start stores bytecode next to the bundle; the next one runs it, only where no other user can write it', t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const script = join(dir, 'os-node.js')
  copyFileSync(join(root, 'dist/os-node.js'), script)
  const caches = () => readdirSync(dir).filter(name => name.endsWith('.cache'))
  const version = () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, 'version'], { cwd: dir, encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, `${JSON.parse(text('package.json')).version}\n`, ''])
  }
  version()
  assert.match(caches().join(), /^os-node\.\d+\.cache$/)
  const cache = join(dir, caches()[0]!)
  const rewritten = (what: string, change: () => void) => {
    change()
    lutimesSync(cache, 1, 1)
    version()
    assert.notEqual(lstatSync(cache).mtimeMs, 1000, what)
    assert.ok(lstatSync(cache).isFile() && (lstatSync(cache).mode & 0o777) === 0o644, what)
    assert.ok(statSync(cache).size > 100_000, what)
  }
  lutimesSync(cache, 1, 1)
  version()
  assert.equal(statSync(cache).mtimeMs, 1000, 'a sound cache stays')
  rewritten('a cut cache', () => truncateSync(cache, 500_000))
  rewritten('a flipped byte', () => {
    const bytes = readFileSync(cache)
    bytes[500_000]! ^= 1
    writeFileSync(cache, bytes)
  })
  rewritten('a cache that everybody can write', () => chmodSync(cache, 0o666))
  rewritten('a link', () => {
    renameSync(cache, join(dir, 'elsewhere'))
    symlinkSync(join(dir, 'elsewhere'), cache)
  })
  // the folder of a service, which cannot write beside the bundle
  const folder = join(dir, 'state')
  mkdirSync(folder)
  rmSync(cache)
  const withFolder = () =>
    spawnSync(process.execPath, [script, 'version'], { cwd: dir, env: { ...process.env, OS_NODE_BYTECODE: folder } })
  assert.equal(withFolder().status, 0)
  assert.deepEqual([readdirSync(folder), caches()], [[basename(cache)], []])
  lutimesSync(join(folder, basename(cache)), 1, 1)
  assert.equal(withFolder().status, 0)
  assert.equal(statSync(join(folder, basename(cache))).mtimeMs, 1000, 'a sound cache stays')
  version()
  // another program: one byte of its text is changed
  rewritten('the cache of another build', () => {
    const bundle = readFileSync(script, 'latin1')
    writeFileSync(script, bundle.replace('is not a configuration key', 'is not a configuration kez'), 'latin1')
  })
  // a started gateway stores the bytecode of its start, which a command does not replace
  const before = statSync(cache).size
  const main = (verb: string, atExit: string) => `
    process.argv.splice(1, 2, ${JSON.stringify(script)}, '${verb}', '--help')
    process.once('exit', () => { ${atExit} })
    require('node:module').runMain()`
  const gateway = main('serve', "process.emit('osNodeStarted')")
  const started = spawnSync(process.execPath, ['-e', gateway], { cwd: dir, encoding: 'utf8' })
  assert.deepEqual([started.status, started.stderr], [0, ''])
  assert.ok(statSync(cache).size > before, 'more functions ran until then')
  lutimesSync(cache, 1, 1)
  version()
  spawnSync(process.execPath, ['-e', gateway], { cwd: dir, encoding: 'utf8' })
  assert.equal(statSync(cache).mtimeMs, 1000, 'it stays')
  // however many objects live, a gateway's new ones get no more memory, also once it has had a worker
  const newSpaceMb = (verb: string): number => {
    const code = `
      const kept = []
      while (kept.length < 2_000_000) kept.push({})
      const space = require('node:v8').getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')
      console.log('\\n' + space.space_size / 1048576)`
    const worker = "; new (require('node:worker_threads').Worker)('', { eval: true })"
    const { stdout } = spawnSync(process.execPath, ['-e', main(verb, code) + worker], { cwd: dir, encoding: 'utf8' })
    return Number(stdout.trim().split('\n').at(-1))
  }
  const [small, large] = [newSpaceMb('serve'), newSpaceMb('version')]
  assert.ok(small <= 8 && large >= 2 * small, `${small} MB in a gateway, ${large} MB in a command`)
  // what the launcher leaves behind does not keep its text, which is that of the whole bundle
  const largeBytes = `
    process.emit('osNodeStarted')
    gc()
    const space = require('node:v8').getHeapSpaceStatistics().find(({ space_name }) => space_name === 'large_object_space')
    console.log('\\n' + space.space_used_size)`
  const options = ['--no-compilation-cache', '--expose-gc', '-e', main('serve', largeBytes)]
  const { stdout: kept } = spawnSync(process.execPath, options, { cwd: dir, encoding: 'utf8' })
  const bytes = Number(kept.trim().split('\n').at(-1))
  assert.ok(bytes < statSync(script).size, `${bytes} bytes in large objects`)
  // a folder in its place cannot be replaced: the program runs as without a cache
  rmSync(cache)
  mkdirSync(cache)
  version()
})

test('npm start builds only what changed, and does not disturb a running gateway', async t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const parts = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.types.json', 'board', 'drivers/native']
  for (const part of [...parts, 'build.mjs', 'src/build', 'src/services/dependencies', 'src/services/test-plugin'])
    cpSync(join(root, part), join(dir, part), { recursive: true })
  for (const part of ['.build', 'node_modules', 'test']) mkdirSync(join(dir, part))
  const lock = createHash('sha256').update(text('package-lock.json')).digest('hex')
  writeFileSync(join(dir, 'node_modules/.os-node-lock'), lock)
  const { begin, FRESH, inputs, isMade, publish } = await import(join(root, 'src/build/dist-folder.mjs'))
  const build = (files: Record<string, string>): void => {
    const made = inputs(dir)
    begin(dir)
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(join(dir, FRESH, name, '..'), { recursive: true })
      writeFileSync(join(dir, FRESH, name), content)
    }
    publish(dir, made)
  }
  const dist = () => readdirSync(join(dir, 'dist'), { recursive: true }).map(String).sort()
  build({ 'os-node.js': 'one', 'native/linux-x64/os_node.node': 'addon', 'types/old.d.ts': '' })
  const loaded = openSync(join(dir, 'dist/native/linux-x64/os_node.node'), 'r')
  const start = () => spawnSync(process.execPath, ['build.mjs', '--start'], { cwd: dir, encoding: 'utf8' })
  assert.deepEqual([start().status, start().stderr], [0, 'dist is of these sources\n'])
  assert.equal(readFileSync(join(dir, 'dist/os-node.js'), 'utf8'), 'one')
  // a failed build leaves the existing files
  writeFileSync(join(dir, 'src/build/deb.mjs'), text('src/build/deb.mjs').replace('The Debian', 'Two Debian'))
  assert.equal(isMade(dir, inputs(dir)), false, 'a source has changed')
  assert.notEqual(start().status, 0, 'here is no esbuild')
  assert.deepEqual(
    dist().filter(name => /\./.test(name)),
    ['native/linux-x64/os_node.node', 'os-node.js', 'types/old.d.ts'],
  )
  // an image and a package, made before
  const artefacts = ['os-node-rpi-4-0.1.0.img.xz', 'os-node-rpi-4-0.1.0.sbom.cdx.json', 'os-node_0.1.0_arm64.deb']
  for (const name of artefacts) writeFileSync(join(dir, 'dist', name), '')
  build({ 'os-node.js': 'two', 'native/linux-x64/os_node.node': 'other' })
  const kept = [...artefacts.slice(0, 2), 'os-node.js', artefacts[2]]
  assert.deepEqual(dist(), ['native', 'native/linux-x64', 'native/linux-x64/os_node.node', ...kept])
  assert.equal(readFileSync(loaded, 'utf8'), 'addon', 'who has a file open keeps it')
  closeSync(loaded)
  assert.equal(isMade(dir, inputs(dir)), true)
  process.env.SOURCE_DATE_EPOCH = '1'
  assert.equal(isMade(dir, inputs(dir)), false, 'another time is to be in it')
  delete process.env.SOURCE_DATE_EPOCH
  rmSync(join(dir, 'dist/os-node.js'))
  assert.equal(isMade(dir, inputs(dir)), false, 'what came out is gone')
})

test('an uncaught error of the bundle without its map prints no minified line; one of user code is printed by Node', t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  copyFileSync(join(root, 'dist/os-node.js'), join(dir, 'os-node.js'))
  const run = (program: string) => {
    writeFileSync(join(dir, 'program.js'), `const { Node } = require('./os-node.js')\n${program}`)
    return spawnSync(process.execPath, ['program.js'], { cwd: dir, encoding: 'utf8' })
  }
  const mistake = run(`new Node().transmit('x')`)
  assert.equal(mistake.status, 1)
  assert.match(mistake.stderr, /^OsError \[BAD_ARGUMENT\]|BAD_ARGUMENT/m)
  assert.ok(Math.max(...mistake.stderr.split('\n').map(line => line.length)) < 400, mistake.stderr)
  assert.match(run(`throw new Error('of the user')`).stderr, /program\.js:2\nthrow new Error\('of the user'\)/)
  const caught = run(`process.on('uncaughtException', ({ code }) => console.log(code)); new Node().transmit('x')`)
  assert.deepEqual([caught.status, caught.stdout], [0, 'BAD_ARGUMENT\n'])
})

test('the library reads the cache of the command line and writes none', t => {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  copyFileSync(join(root, 'dist/os-node.js'), join(dir, 'os-node.js'))
  const program = `import { Node } from './os-node.js'; import all from './os-node.js'; console.log(Node === all.Node)`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: dir,
    encoding: 'utf8',
  })
  assert.equal(stdout, 'true\n', stderr)
  assert.deepEqual(readdirSync(dir), ['os-node.js'])
})

test('npm start fetches the packages of the bundle and no others', () => {
  const listed = text('src/build/install.mjs').match(/const PARTS = \[([^\]]*)\]/)![1]!
  const parts = [...listed.matchAll(/'([^']+)'/g)].map(match => match[1]!)
  const { devDependencies, dependencies } = JSON.parse(text('package.json'))
  assert.equal(dependencies, undefined, 'who installs the package gets the bundle and no packages')
  const used = new Set(['esbuild', 'node-api-headers'])
  const files = ['src', 'drivers'].flatMap(dir =>
    readdirSync(join(root, dir), { recursive: true }).map(file => join(dir, String(file))),
  )
  for (const file of files.filter(name => /\.(tsx?|mjs)$/.test(name) && !name.endsWith('generate.mjs')))
    for (const [, name] of text(file).matchAll(/(?:from|import\(|node_modules\/)\s*'?((?:@[a-z-]+\/)?[a-z][\w.-]*)/g))
      if (name! in devDependencies) used.add(name!)
  const typesOnly = Object.keys(devDependencies).filter(name => name.startsWith('@types/') || name === 'typescript')
  assert.deepEqual(parts, [...used].filter(name => !typesOnly.includes(name)).sort())
})

test('what builds fetches its packages first, and no page has a user run npm ci, which compiles a peer of the tests', () => {
  const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<string, string> }
  for (const name of ['start', 'build', 'prepack', 'deb', 'image', 'bench'])
    assert.match(scripts[name]!, /^node build\.mjs .*--(install|start)/, name)
  assert.match(text('src/build/release.mjs'), /'build\.mjs'\), '--install', '--release'/)
  const pages = ['README.md', ...readdirSync(join(root, 'docs')).map(name => `docs/${name}`)]
  for (const page of pages.filter(name => name.endsWith('.md')))
    assert.doesNotMatch(text(page), /npm (ci|install)\b/, page)
})
