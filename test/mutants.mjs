// Mutation testing: `npm run mutants -- [--room ROOM] [--seed N] [--count N] [--only FILE:LINE]`. Draws random faults in the source of each room,
// builds a copy of the project once with all of them switched off, and runs the unit tests against one fault at a time:
// first the test files that import the changed file, then those of its room that reach it. A fault is noticed when a test
// file fails or runs into its time limit. Prints each survivor with its line and the share noticed per room.
// Faults that change no behaviour are listed with a reason in test/mutants.json and do not count.
// Errors: a test file that fails without any fault is left out, and named; the status is 1 then, or where the build fails.
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { parse } from '@babel/parser'

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

  --room   one of ${TEN.join(' ')}, or a folder of src/ or drivers/; without it all ten
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
const count = whole('count', options.room || options.only ? 40 : 20)

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

// --- the faults of one file ------------------------------------------------------------------------------------------

const SWAP = { '===': '!==', '!==': '===', '<': '>=', '>=': '<', '>': '<=', '<=': '>' }
const EDGE = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' }
const TYPES_ONLY = /^(typeAnnotation|typeParameters|typeArguments|returnType|superTypeParameters|implements|id)$/

/**
 * Every fault of the text, as `{kind, start, end, with}` for an expression that becomes another, or `{kind, at, insert(id)}`
 * for text put in front of a statement.
 */
function faultsIn(text) {
  const ast = parse(text, { sourceType: 'module', plugins: ['typescript'] })
  const faults = []
  const cut = node => text.slice(node.start, node.end)
  const become = (kind, node, to, statement) =>
    faults.push({ kind, start: node.start, end: node.end, with: to, statement: statement?.start === node.start })
  const visit = (node, parent, statement) => {
    if (!node || typeof node.type !== 'string') return
    if (node.type.startsWith('TS') && !/^TS(As|NonNull|Satisfies)Expression$/.test(node.type)) return
    if (node.declare) return
    if (node.type === 'ExpressionStatement') statement = node
    switch (node.type) {
      case 'BinaryExpression': {
        const [left, right] = [cut(node.left), cut(node.right)]
        if (SWAP[node.operator]) become('comparison', node, `${left} ${SWAP[node.operator]} ${right}`, statement)
        if (EDGE[node.operator]) become('boundary', node, `${left} ${EDGE[node.operator]} ${right}`, statement)
        break
      }
      case 'LogicalExpression':
        if (node.operator !== '??') {
          const other = node.operator === '&&' ? '||' : '&&'
          become('condition', node, `(${cut(node.left)}) ${other} (${cut(node.right)})`, statement)
        }
        break
      case 'IfStatement':
      case 'ConditionalExpression':
        become('condition', node.test, 'true')
        become('condition', node.test, 'false')
        break
      case 'NumericLiteral':
        if (!(parent.key === node && !parent.computed)) become('constant', node, `${node.value + 1}`, statement)
        break
      case 'BigIntLiteral':
        become('constant', node, `${BigInt(node.value) + 1n}n`, statement)
        break
      case 'BooleanLiteral':
        become('constant', node, `${!node.value}`, statement)
        break
      case 'AwaitExpression':
        become('removed await', node, cut(node.argument), statement)
        break
      case 'ExpressionStatement':
        if (/^(Call|Assignment|Update|Await|OptionalCall)Expression$/.test(node.expression.type))
          faults.push({
            kind: 'removed statement',
            at: node.start,
            end: node.end,
            insert: id => `if (__mutant !== ${id}) `,
          })
        break
      case 'ThrowStatement':
        faults.push({
          kind: 'swallowed error',
          at: node.start,
          end: node.end,
          insert: id => `if (__mutant !== ${id}) `,
        })
        break
      case 'BlockStatement':
        if (/Function|Method/.test(parent.type) && parent.kind !== 'constructor' && node.body.length > 0)
          faults.push({
            kind: 'early return',
            at: node.start + 1,
            end: node.start + 1,
            insert: id => ` if (__mutant === ${id}) return; `,
          })
        break
    }
    for (const [key, child] of Object.entries(node)) {
      if (TYPES_ONLY.test(key) || key === 'loc') continue
      if (Array.isArray(child)) for (const one of child) visit(one, node, statement)
      else visit(child, node, statement)
    }
  }
  visit(ast.program, ast, undefined)
  return faults
}

/** The text with all its faults built in, each off until OS_NODE_MUTANT is its id. */
function withSwitches(text, faults) {
  const edits = []
  for (const { id, start, end, with: to, at, insert, statement } of faults) {
    if (insert) edits.push({ pos: at, rank: 1, size: end - at + 1, text: insert(id) })
    else {
      edits.push({
        pos: start,
        rank: 1,
        size: end - start,
        text: `${statement ? 'void ' : ''}(__mutant === ${id} ? (${to}) : (`,
      })
      edits.push({ pos: end, rank: 0, size: start - end, text: '))' })
    }
  }
  // closing before opening; the wider one opens first and closes last
  edits.sort((a, b) => a.pos - b.pos || a.rank - b.rank || b.size - a.size)
  let out = ''
  let from = 0
  for (const edit of edits) {
    out += text.slice(from, edit.pos) + edit.text
    from = edit.pos
  }
  // a var: modules that import each other in a circle read it before it is set
  return `var __mutant = Number(process.env.OS_NODE_MUTANT); ${out}${text.slice(from)}`
}

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

/** What a file runs without importing it: the SQL worker is bundled by itself. */
const RUNS = { 'src/storage/program.ts': './worker' }
const importsOf = file =>
  [...`${textOf(file)} import '${RUNS[file] ?? ''}'`.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)]
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

const unitTests = walk('test/unit', /\.test\.ts$/)

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
  return unitTests.map(test => ({ test, rank: rank(test) })).filter(t => t.rank !== undefined)
}

// --- running ---------------------------------------------------------------------------------------------------------

/** ms a test file needs without a fault; Infinity for one that fails */
const baseline = new Map()
const SLOW_MS = 5000

const runTest = (test, id, limit) =>
  new Promise(resolve => {
    const began = performance.now()
    const script = join(copy, '.build', test.replace(/\.ts$/, '.js'))
    const env = { ...process.env, OS_NODE_TEST_ROOT: copy, OS_NODE_MUTANT: `${id}` }
    const child = spawn(process.execPath, [script], { cwd: copy, env, stdio: 'ignore', detached: true })
    const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), limit)
    child.on('close', code => {
      clearTimeout(timer)
      try {
        process.kill(-child.pid, 'SIGKILL') // what the test left behind
      } catch (error) {
        if (error.code !== 'ESRCH') throw error
      }
      resolve({ passed: code === 0, ms: performance.now() - began })
    })
  })

/** Runs `work` for every item of the list, as many side by side as there are processors. */
const sideBySide = (list, work) => {
  const queue = [...list]
  const lane = async () => {
    for (let item = queue.shift(); item; item = queue.shift()) await work(item)
  }
  return Promise.all(Array.from({ length: availableParallelism() }, lane))
}

/** Runs the tests of one fault until one notices it: of one rank the quickest first, those that take SLOW_MS at the end. */
async function judge(fault) {
  const tests = testsFor(fault.file).map(t => ({ ...t, usual: baseline.get(t.test) }))
  const late = t => (t.usual > SLOW_MS ? 1 : 0)
  tests.sort((a, b) => late(a) - late(b) || a.rank - b.rank || a.usual - b.usual)
  fault.ran = 0
  for (const { test, usual } of tests) {
    if (usual === Infinity) continue
    fault.ran++
    const { passed } = await runTest(test, fault.id, 8000 + 3 * usual)
    if (!passed) {
      fault.by = test
      return
    }
  }
}

const rooms = options.room
  ? [[options.room, count]]
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
// hard links: the build names the packages of the bundle by their folders below the project
spawnSync('cp', ['-al', join(root, 'node_modules'), copy], { stdio: ['ignore', 2, 2] })
for (const file of new Set(faults.map(f => f.file)))
  writeFileSync(
    join(copy, file),
    withSwitches(
      textOf(file),
      faults.filter(f => f.file === file),
    ),
  )
const build = spawnSync(process.execPath, ['build.mjs', '--tests', '--no-types', '--quiet'], {
  cwd: copy,
  stdio: ['ignore', 2, 2],
})
if (build.status !== 0) {
  console.error('E_MUTANTS_BUILD: the copy with the faults does not build; its messages are above')
  process.exit(1)
}

await sideBySide(new Set(faults.flatMap(f => testsFor(f.file).map(t => t.test))), async test => {
  const { passed, ms } = await runTest(test, 0, 180_000)
  baseline.set(test, passed ? ms : Infinity)
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
  console.log(`survived  ${fault.file}:${fault.line}  ${fault.kind}: ${fault.change}\n          ${fault.source}`)
let broken = false
for (const [test, ms] of baseline)
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
