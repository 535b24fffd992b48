// `npm ci` in a clean clone: with a C compiler it builds the addon, without one it also succeeds and says so. Real npm,
// with the project's own scripts; only the one package that this needs, so that it takes seconds.
// Needs: cc
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { removeDir, root, tempDir } from '../../lib/gateway'

const json = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8'))
const onPath = (tool: string): string =>
  spawnSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).stdout.trim()

/** A clone with one package in its lock. */
function clone(t: TestContext): string {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  const NEEDED = 'node-api-headers'
  const manifest = json('package.json')
  const lock = json('package-lock.json')
  const devDependencies = { [NEEDED]: manifest.devDependencies[NEEDED] }
  const less = { ...manifest, devDependencies, optionalDependencies: {}, overrides: {} }
  const packages = {
    '': { ...lock.packages[''], devDependencies, optionalDependencies: {} },
    [`node_modules/${NEEDED}`]: lock.packages[`node_modules/${NEEDED}`],
  }
  writeFileSync(join(dir, 'package.json'), JSON.stringify(less))
  writeFileSync(join(dir, 'package-lock.json'), JSON.stringify({ ...lock, packages }))
  // what the build is made of
  const parts = ['drivers/native', 'src/build', 'src/services/dependencies', 'src/services/test-plugin']
  for (const part of ['build.mjs', ...parts]) cpSync(join(root, part), join(dir, part), { recursive: true })
  return dir
}

/** npm ci in `dir`; `path`: where programs are searched. */
function npmCi(dir: string, env: NodeJS.ProcessEnv = {}) {
  const ran = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--foreground-scripts'], {
    cwd: dir,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })
  const file = join(dir, 'dist/native', `linux-${process.arch}`, 'os_node.node')
  return { status: ran.status, said: ran.stdout + ran.stderr, built: existsSync(file), file }
}

/** A folder with links to these programs and no others. */
function programs(t: TestContext, ...names: string[]): string {
  const dir = tempDir()
  t.after(() => removeDir(dir))
  mkdirSync(join(dir, 'bin'))
  for (const name of names) symlinkSync(onPath(name), join(dir, 'bin', name))
  return join(dir, 'bin')
}

test('npm ci builds the addon where a C compiler is installed', {
  skip: onPath('cc') ? false : 'this machine has no C compiler',
}, t => {
  const { status, said, built, file } = npmCi(clone(t))
  assert.equal(status, 0, said)
  assert.ok(built, said)
  const loaded = spawnSync(process.execPath, ['-e', `process.dlopen({ exports: {} }, ${JSON.stringify(file)})`])
  assert.equal(loaded.status, 0, String(loaded.stderr))
})

test('npm ci succeeds without a compiler, and says what is missing and how to get it', t => {
  const path = programs(t, 'sh', 'env', 'node', 'npm')
  const { status, said, built } = npmCi(clone(t), { PATH: path, NODE: undefined, CC: undefined })
  assert.equal(status, 0, said)
  assert.equal(built, false)
  assert.match(
    said,
    /no addon for .*linux-\w+ \(no C compiler cc: apt-get install gcc libc6-dev\).*; everything else works there without it/,
  )
})

test('a compiler without the headers of the C library counts as none', t => {
  const path = programs(t, 'sh', 'env', 'node', 'npm')
  // prints its version, but finds no file to include
  const fake = '#!/bin/sh\n[ "$1" = --version ] && echo "cc 1" && exit 0\necho "stdio.h: No such file" >&2\nexit 1\n'
  writeFileSync(join(path, 'cc'), fake, { mode: 0o755 })
  const { status, said, built } = npmCi(clone(t), { PATH: path, NODE: undefined, CC: undefined })
  assert.equal(status, 0, said)
  assert.equal(built, false)
  assert.match(said, /linux-\w+ \(cc finds no C headers: apt-get install libc6-dev\).*; everything else works/)
})

test('C code that does not compile is an error if the compiler works', {
  skip: onPath('cc') ? false : 'this machine has no C compiler',
}, t => {
  const dir = clone(t)
  writeFileSync(join(dir, 'drivers/native/broken.c'), 'int broken(void) { return nothing; }\n')
  const { status, said } = npmCi(dir)
  assert.notEqual(status, 0)
  assert.match(said, /E_ADDON: .*could not compile/)
})
