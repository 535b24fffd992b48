#!/usr/bin/env node
// Runs the test groups: `node test/run.mjs [--node PATH] [--only TEXT] [group …]`. Without a group: every group that
// exists and that this machine can run; what could not run is printed with its reason, and with CI=true fails the run.
// A group is a folder of test/ with *.test.ts files. It installs and builds first.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const args = process.argv.slice(2)
const take = name => {
  const at = args.indexOf(name)
  if (at < 0) return undefined
  const [, value] = args.splice(at, 2)
  if (value !== undefined) return value
  console.error(`${name} needs a value`)
  process.exit(2)
}
const nodePath = take('--node') ?? process.execPath
const only = take('--only')

/** What a group needs of the machine; a text says why it cannot run here. */
const NEEDS = {
  unit: () => '',
  interop: () => '',
  fuzz: () => '',
  crash: () => (process.platform === 'linux' ? '' : 'needs Linux'),
  net: () => '',
  browser: () => (existsSync('/usr/bin/chromium') ? '' : 'needs Chromium: apt-get install chromium'),
  rig: () => spawnSync(join(root, 'test/rig/run'), ['--check'], { encoding: 'utf8' }).stderr?.trim() ?? 'needs bash',
  image: () => (process.platform === 'linux' ? '' : 'needs Linux'),
  spec: () => '',
}

const cores = Math.max(2, availableParallelism())
/** Files that run side by side: those of interop wait more than they work. */
const SIDE_BY_SIDE = { interop: 2 * cores }
/** ms for one file, ten times what a busy machine takes; the rig's runner ends one that hangs, and the hour with every bus takes its time */
const TIMEOUT = { rig: 900_000 }

/** What a machine lacks that no package would mend; with CI=true any other skip is one nobody saw. */
const EXCUSED = new RegExp(
  `# SKIP this machine has no (IPv6|link-local|address|/proc${process.arch === 'x64' ? '' : '|QUIC build'})`,
)

const tests = dir =>
  existsSync(join(root, 'test', dir))
    ? readdirSync(join(root, 'test', dir), { recursive: true }).filter(f => f.endsWith('.test.ts'))
    : []

const files = group =>
  tests(group)
    .filter(f => !only || f.includes(only))
    .map(f => join('.build/test', group, f.replace(/\.ts$/, '.js')))
    .sort()

const asked = args.length > 0 ? args : Object.keys(NEEDS)
const unknown = asked.filter(g => !(g in NEEDS))
if (unknown.length > 0) {
  console.error(`no test group ${unknown.join(', ')}; groups: ${Object.keys(NEEDS).join(' ')}`)
  process.exit(2)
}
// a test outside the groups would never run, and nobody would notice
const stray = tests('.').filter(f => !(f.split(/[\\/]/)[0] in NEEDS))
if (stray.length > 0) {
  console.error(`tests in no group: ${stray.join(', ')}`)
  process.exit(2)
}
if (only && asked.every(group => files(group).length === 0)) {
  console.error(`no test file of ${asked.join(' ')} has ${only} in its name`)
  process.exit(1)
}
const build = spawnSync(process.execPath, ['build.mjs', '--install', only ? `--tests=${only}` : '--tests'], {
  cwd: root,
  stdio: 'inherit',
})
if (build.status !== 0) process.exit(build.status ?? 1)

let failed = false
for (const group of asked) {
  const list = files(group)
  if (list.length === 0) {
    if (args.length > 0) {
      console.error(`${group}: no such tests yet`)
      failed = true
    }
    continue
  }
  const lacks = NEEDS[group]()
  if (lacks) {
    console.error(`${group}: NOT RUN: ${lacks}`)
    if (process.env.CI || args.length > 0) failed = true
    continue
  }
  console.log(`# group ${group}: ${list.length} files on ${nodePath}`)
  const tap = join(root, '.build', `${group}.tap`)
  rmSync(tap, { force: true })
  const reporters = ['--test-reporter=spec', '--test-reporter-destination=stdout']
  reporters.push('--test-reporter=tap', `--test-reporter-destination=${tap}`)
  const flags = ['--test', '--enable-source-maps', `--test-timeout=${TIMEOUT[group] ?? 600_000}`]
  flags.push(`--test-concurrency=${SIDE_BY_SIDE[group] ?? cores}`)
  const run = spawnSync(nodePath, [...flags, ...reporters, ...list], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, OS_NODE_TEST_ROOT: root },
  })
  if (run.status !== 0) failed = true
  if (!existsSync(tap)) {
    console.error(`${group}: NOT RUN: ${run.error?.message ?? 'the test runner wrote no result'}`)
    failed = true
    continue
  }
  const skipped = readFileSync(tap, 'utf8')
    .split('\n')
    .filter(line => / # (SKIP|TODO)/.test(line))
  for (const line of skipped) console.error(`${group}: SKIPPED: ${line.trim()}`)
  if (process.env.CI && skipped.some(line => !EXCUSED.test(line))) failed = true
}
process.exit(failed ? 1 : 0)
