// What `npm start` and the build do before anything else: an old Node is refused in one line, and only the packages that are
// in the bundle are fetched.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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

test('an old Node gets as far as the check: nothing before it needs a newer one', () => {
  const { scripts } = JSON.parse(text('package.json'))
  assert.match(scripts.start, /^node build\.mjs --start && /)
  for (const file of ['build.mjs', 'src/build/node-version.cjs']) {
    const code = text(file).replace(/^\/\/.*$/gm, '')
    assert.doesNotMatch(code, /\?\?|\?\.|await|`/, file)
  }
  assert.deepEqual(text('build.mjs').match(/^import [^(].*/gm), ["import './src/build/node-version.cjs'"])
  const [hashbang, first] = text('dist/os-node.js').split('\n')
  assert.match(hashbang!, /^#!/)
  assert.match(first!, /^'use strict';\(function\(\)\{var version=process\.versions\.node/)
})

test('npm start fetches what the bundle is made of, and no package more', () => {
  const listed = text('src/build/install.mjs').match(/const PARTS = \[([^\]]*)\]/)![1]!
  const parts = [...listed.matchAll(/'([^']+)'/g)].map(match => match[1]!)
  const { devDependencies, dependencies } = JSON.parse(text('package.json'))
  assert.equal(dependencies, undefined, 'who installs the package gets the bundle and no packages')
  // @serialport/bindings-cpp comes with serialport
  const used = new Set(['esbuild', 'node-api-headers', 'serialport'])
  const files = ['src', 'drivers'].flatMap(dir =>
    readdirSync(join(root, dir), { recursive: true }).map(file => join(dir, String(file))),
  )
  for (const file of files.filter(name => /\.(tsx?|mjs)$/.test(name) && !name.endsWith('generate.mjs')))
    for (const [, name] of text(file).matchAll(/(?:from|import\(|node_modules\/)\s*'?((?:@[a-z-]+\/)?[a-z][\w.-]*)/g))
      if (name! in devDependencies) used.add(name!)
  const typesOnly = Object.keys(devDependencies).filter(name => name.startsWith('@types/') || name === 'typescript')
  assert.deepEqual(parts, [...used].filter(name => !typesOnly.includes(name)).sort())
})
