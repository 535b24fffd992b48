// Mutation testing: `npm run mutants -- [--room ROOM] [--seed N] [--count N] [--only FILE:LINE]`.
// Draws random faults in the source of each room, builds a copy of the project once with all of them inactive, and runs each test file without a
// fault to learn which faults would make a difference in it. Then one fault at a time: the test files that import the changed file or belong to
// its room, only those where the fault makes a difference, the fastest first. A fault is noticed when a test fails or its file runs into the time
// limit. Prints each survivor with its line and the share noticed per room.
// Faults that change no behaviour are listed with a reason in test/mutants.json and do not count.
// Errors: a test file that fails without any fault is left out, and named; the status is 1 then, or if the build fails.
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, normalize, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { faultsIn, withSwitches } from './lib/faults.mjs'
import { lacking, needsOf, quicNode } from './needs.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const copy = join(root, '.build/mutants')

/** Rooms whose folder is not src/NAME; any other name is a folder of src or drivers. */
const ROOMS = {
  delivery: 'src/protocol/delivery',
  ids: 'src/protocol/ids',
  uplink: 'src/gateway/uplink',
  receive: 'src/gateway/receive',
  drivers: 'drivers',
}
const TEN = ['wire', 'pipeline', 'log', 'delivery', 'ids', 'uplink', 'receive', 'storage', 'web', 'drivers']

const { values: options } = parseArgs({
  options: {
    room: { type: 'string' },
    seed: { type: 'string' },
    count: { type: 'string' },
    only: { type: 'string' },
    help: { type: 'boolean' },
  },
})
if (options.help) {
  console.log(`npm run mutants -- [--room ROOM] [--seed N] [--count N] [--only FILE:LINE]

  --room   ${TEN.join(' ')}, or a folder of src/ or drivers/, several by commas; without it all ten
  --seed   the same seed draws the same faults of the same source (default: the date, YYYYMMDD)
  --count  faults per room (default 40); without --room: faults in all (default 20)
  --only   try every fault of this line instead of drawing
`)
  process.exit(0)
}
const whole = (name, fallback) => {
  const value = options[name] === undefined ? fallback : Number(options[name])
  if (Number.isSafeInteger(value) && value >= 0) return value
  console.error(`--${name} takes a whole number, not ${options[name]}`)
  process.exit(2)
}
const seed = whole('seed', Number(new Date().toISOString().slice(0, 10).replaceAll('-', '')))
const count = whole('count', options.room || options.only ? 40 : process.env.OS_NODE_LONG === 'quarter' ? 5 : 20)

/** mulberry32: a small generator with a seed */
let state = seed | 0
function random() {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}
function shuffle(list) {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[list[i], list[j]] = [list[j], list[i]]
  }
  return list
}

const walk = (dir, test) =>
  readdirSync(join(root, dir), { recursive: true })
    .map(name => join(dir, name))
    .filter(name => test.test(name))
    .sort()

function folderOf(room) {
  const folder = ROOMS[room] ?? [`src/${room}`, `drivers/${room}`].find(dir => existsSync(join(root, dir)))
  if (folder) return folder
  console.error(`no room ${room}; rooms: ${TEN.join(' ')}, or a folder of src/ or drivers/`)
  process.exit(2)
}
const sourcesOf = room =>
  walk(folderOf(room), /\.ts$/).filter(f => !/\.generated\.ts$|\.d\.ts$|^src\/web\/page\//.test(f))

// --- drawing ---------------------------------------------------------------------------------------------------------

const texts = new Map()
const textOf = file => {
  if (!texts.has(file)) texts.set(file, readFileSync(join(root, file), 'utf8'))
  return texts.get(file)
}
const excused = JSON.parse(readFileSync(join(root, 'test/mutants.json'), 'utf8'))

function describe(file, fault, room) {
  const text = textOf(file)
  const at = fault.start ?? fault.at
  const line = text.slice(0, at).split('\n').length
  const was = fault.with === undefined ? '' : text.slice(fault.start, fault.end).replace(/\s+/g, ' ')
  const source = text.split('\n')[line - 1].trim()
  const change = fault.with === undefined ? fault.kind : `${was} → ${fault.with.replace(/\s+/g, ' ')}`
  return { ...fault, file, room, line, source, change }
}

/** `count` faults of the rooms, spread evenly over all places of a fault; those that are excused are not drawn. */
function draw(rooms) {
  const isExcused = f => excused.some(e => e.file === f.file && e.source === f.source && e.change === f.change)
  const drawn = []
  for (const [room, wanted] of rooms) {
    const all = sourcesOf(room).flatMap(file => faultsIn(textOf(file)).map(fault => describe(file, fault, room)))
    const places = options.only ? all.filter(f => `${f.file}:${f.line}` === options.only) : all
    drawn.push(...shuffle(places.filter(f => !isExcused(f))).slice(0, options.only ? undefined : wanted))
  }
  drawn.forEach((fault, i) => {
    fault.id = i + 1
  })
  return drawn
}

// --- which tests reach a file ----------------------------------------------------------------------------------------

/** Files that a file runs without importing them: the SQL workers are separate bundles. */
const RUNS = { 'src/storage/program.ts': ['./worker', './server/worker'] }
const importsOf = file =>
  [
    ...[textOf(file), ...(RUNS[file] ?? []).map(to => `import '${to}'`)]
      .join(' ')
      .matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g),
  ]
    .map(([, to]) => normalize(join(dirname(file), to)))
    .flatMap(to =>
      [`${to}.ts`, `${to}.tsx`, `${to}/index.ts`, to].filter(f => /\.ts$/.test(f) && existsSync(join(root, f))),
    )

const reached = new Map()
function reachOf(test) {
  if (reached.has(test)) return reached.get(test)
  const seen = new Set()
  const queue = [test]
  while (queue.length > 0)
    for (const to of importsOf(queue.pop()))
      if (!seen.has(to)) {
        seen.add(to)
        queue.push(to)
      }
  reached.set(test, seen)
  return seen
}

/** Without the tests that count bytes of memory: the switches take some. */
const unitTests = walk('test/unit', /\.test\.ts$/).filter(test => !/(heap|memory)\.test\.ts$/.test(test))
/** With real servers; those of a file's own room run, last, where this machine has what they need. */
const netTests = walk('test/net', /(?<!\.long)\.test\.ts$/).filter(
  test => lacking(needsOf(relative('test', test))).length === 0,
)

/**
 * Test files for a source file with their rank, 0 first: the one with its name, direct importers (those of the room before others),
 * then those of the room that reach it.
 */
function testsFor(file) {
  const parts = file.split('/')
  const home = parts[0] === 'drivers' ? 'test/unit/drivers' : `test/unit/${parts[1]}`
  const inner = parts[0] === 'drivers' ? parts[1] : parts[2]
  const near = parts[0] === 'drivers' || parts.length > 3 ? `${home}/${inner}` : home
  const twin = file.replace(/^src\//, '').replace(/\.ts$/, '.test.ts')
  const rank = test => {
    if (test === `test/unit/${twin}`) return 0
    const direct = importsOf(test).includes(file)
    if (!direct && !reachOf(test).has(file)) return undefined
    if (test.startsWith(home)) return direct ? 1 : test.startsWith(near) ? 3 : 4
    return direct ? 2 : undefined
  }
  const withServers = netTests.filter(test => test.startsWith(`test/net/${parts[1]}/`) && reachOf(test).has(file))
  return [
    ...unitTests.map(test => ({ test, rank: rank(test) })).filter(t => t.rank !== undefined),
    ...withServers.map(test => ({ test, rank: 5 })),
  ]
}

// --- running ---------------------------------------------------------------------------------------------------------

/** Per test file: ms it needs without a fault (Infinity for one that fails) and the ids that make a difference in it. */
const baseline = new Map()
const failFast = join(root, 'test/lib/fail-fast.mjs')

const runTest = (test, id, limit, reached) =>
  new Promise(resolve => {
    const began = performance.now()
    const script = join(copy, '.build', test.replace(/\.ts$/, '.js'))
    const env = { ...process.env, OS_NODE_TEST_ROOT: copy, OS_NODE_MUTANT: `${id}` }
    if (reached) env.OS_NODE_REACHED = reached
    const node = needsOf(relative('test', test)).includes('node24') ? quicNode(process.execPath) : process.execPath
    const child = spawn(node ?? process.execPath, [`--test-reporter=${failFast}`, script], {
      cwd: copy,
      env,
      stdio: 'ignore',
      detached: true,
    })
    const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), limit)
    child.on('close', code => {
      clearTimeout(timer)
      try {
        process.kill(-child.pid, 'SIGKILL') // leftovers of the test
      } catch (error) {
        if (error.code !== 'ESRCH') throw error
      }
      resolve({ passed: code === 0, ms: performance.now() - began })
    })
  })

/** Runs `work` for every item of the list, two in parallel per processor: most tests wait more than they compute. */
const sideBySide = (list, work) => {
  const queue = [...list]
  const lane = async () => {
    for (let item = queue.shift(); item; item = queue.shift()) await work(item)
  }
  return Promise.all(Array.from({ length: 2 * availableParallelism() }, lane))
}

/** Runs the tests where the fault makes a difference until one notices it: the near and fast ones first. */
async function judge(fault) {
  const tests = testsFor(fault.file)
    .map(t => ({ ...t, ...baseline.get(t.test) }))
    .filter(t => t.ms < Infinity && t.reached.has(fault.id))
    .sort((a, b) => (a.rank + 1) * a.ms - (b.rank + 1) * b.ms)
  fault.ran = 0
  for (const { test, ms } of tests) {
    fault.ran++
    const { passed } = await runTest(test, fault.id, 5000 + 3 * ms)
    if (!passed) {
      fault.by = test
      return
    }
  }
}

const rooms = options.room
  ? options.room.split(',').map(room => [room, count])
  : options.only
    ? [[options.only.split('/').slice(1, -1).join('/') || 'lib', count]]
    : shuffle([...TEN]).map((room, i) => [room, Math.floor(count / 10) + (i < count % 10 ? 1 : 0)])
const faults = draw(rooms)
if (faults.length === 0) {
  console.error('no place for a fault there')
  process.exit(2)
}
console.error(`seed ${seed}: ${faults.length} faults in ${rooms.map(([r]) => r).join(' ')}; building …`)
rmSync(copy, { recursive: true, force: true })
mkdirSync(copy, { recursive: true })
const listed = spawnSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
for (const name of listed.stdout.split('\n').filter(n => n && existsSync(join(root, n))))
  cpSync(join(root, name), join(copy, name), { recursive: true, verbatimSymlinks: true })
mkdirSync(join(copy, '.build'), { recursive: true })
// hard links: the build names the packages of the bundle by their folders below the project; native parts are not compiled again
for (const name of ['node_modules', '.cache', '.build/native'].filter(name => existsSync(join(root, name))))
  spawnSync('cp', ['-al', join(root, name), dirname(join(copy, name))], { stdio: ['ignore', 2, 2] })
for (const file of new Set(faults.map(f => f.file)))
  writeFileSync(
    join(copy, file),
    withSwitches(
      textOf(file),
      faults.filter(f => f.file === file),
    ),
  )
const build = spawnSync(process.execPath, ['build.mjs', '--tests', '--no-types', '--quiet', '--any-size'], {
  cwd: copy,
  stdio: ['ignore', 2, 2],
})
if (build.status !== 0) {
  console.error('E_MUTANTS_BUILD: the copy with the faults does not build; its messages are above')
  process.exit(1)
}

await sideBySide(new Set(faults.flatMap(f => testsFor(f.file).map(t => t.test))), async test => {
  const file = join(copy, `.build/${test.replaceAll('/', '-')}.reached`)
  writeFileSync(file, '')
  const { passed, ms } = await runTest(test, 0, 180_000, file)
  const reached = new Set(readFileSync(file, 'utf8').split('\n').map(Number))
  baseline.set(test, { ms: passed ? ms : Infinity, reached })
})
let done = 0
await sideBySide(faults, async fault => {
  const began = performance.now()
  await judge(fault)
  done++
  const where = `${fault.file}:${fault.line}`
  const verdict = fault.by ? `noticed by ${fault.by}` : `SURVIVED ${fault.ran} test files`
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.error(`${done}/${faults.length} ${where} ${fault.kind}: ${fault.change} – ${verdict}, ${seconds} s`)
})

for (const fault of faults.filter(f => !f.by).sort((a, b) => (a.file < b.file ? -1 : 1)))
  console.log(
    `survived  ${fault.file}:${fault.line}  ${fault.kind}: ${fault.change} (${fault.ran} test files)\n          ${fault.source}`,
  )
let broken = false
for (const [test, { ms }] of baseline)
  if (ms === Infinity) {
    broken = true
    console.log(`left out  ${test}: it fails without any fault`)
  }
const share = list =>
  `${list.filter(f => f.by).length}/${list.length} (${Math.round((100 * list.filter(f => f.by).length) / list.length)} %)`
for (const [room] of rooms) {
  const here = faults.filter(f => f.room === room)
  if (here.length > 0) console.log(`${room.padEnd(10)} noticed ${share(here)}`)
}
console.log(`${'all'.padEnd(10)} noticed ${share(faults)}, seed ${seed}`)
rmSync(copy, { recursive: true, force: true })
process.exit(broken ? 1 : 0)
