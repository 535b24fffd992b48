#!/usr/bin/env node
// Runs the tests: `node test/run.mjs [--long] [--only TEXT,…] [--of SOURCE] [--node PATH] [group …]`; without a group, all of them.
// It installs the npm packages, builds, and runs every file as a separate process; short files of the group unit share one,
// a dozen at a time, unless they change their process (SHARES_NOT).
//
// `--of src/log/reader.ts` runs the tests of one source file: those named after it and those that import it (tests-of.mjs).
//
// Where a test belongs: test/<group>/**/<name>.test.ts; unit mirrors src/. A test that takes minutes is <name>.long.test.ts,
// which only `npm run test:long` (--long) runs; the group rig, whose kernels are slow processes, runs there too, or when it
// is named. A file with a line `// Long: REASON` (its own or a helper's) runs in both, in test:long with OS_NODE_LONG=1: more
// rounds of a property, a longer search (`rounds` of test/lib/random.ts). With OS_NODE_LONG=quarter, as in .ci/run, test:long
// runs a quarter of all that, and of the .long files of the rig one, chosen by the commit.
// What a test needs from the machine: a line `// Needs: cc mosquitto` in the file or in the helper that uses it; the names
// are in test/needs.mjs. As root on Debian, missing packages are installed; otherwise the file is listed as NOT RUN with the
// command that would make it run. That fails the run only with CI=true.
//
// All groups share one queue, the longest file first (test/times.json has the seconds and the processor share of files that
// take over two seconds; `--times` rewrites it). Most files wait more than they work: another one starts each time that a
// fifth of a processor was idle. A file that passes is one line; the output of a failed one is printed in full.
// A file of the rig that failed while others ran is run once more when they have ended, because the time in its kernel
// continues while the machine is busy: the second result counts, and the file is listed as UNSTEADY.
// Another form: --install only installs the Debian packages of every test.
import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { allNeeds, install, lacking, needsOf, quicNode, remedies, runsInBoth } from './needs.mjs'
import { atSource, failures } from './output.mjs'
import { testsOf } from './tests-of.mjs'
import { turnOf } from './turn.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const args = process.argv.slice(2)
const stop = (text, status) => {
  console.error(text)
  process.exit(status)
}
const flag = name => {
  const at = args.indexOf(name)
  return at >= 0 && args.splice(at, 1).length > 0
}
const take = name => {
  const at = args.indexOf(name)
  if (at < 0) return undefined
  const [, value] = args.splice(at, 2)
  return value ?? stop(`${name} needs a value`, 2)
}
const nodePath = take('--node') ?? process.execPath
const only = take('--only')
const source = take('--of')
const long = flag('--long')
const measure = flag('--times')
if (flag('--install')) {
  install(allNeeds)
  process.exit(lacking(allNeeds).some(name => name !== 'kernel') ? 1 : 0)
}

const CORES = Math.max(2, availableParallelism())
/** Files that run in parallel at most, because a container may see idle processors that it cannot use. */
const MOST = 4 * CORES
/**
 * Each group, and how many of its files run in parallel at most: a kernel of the rig has about a GB and switches processes slowly, so that more
 * than three slow each other down; a browser test has its own browser.
 */
const GROUPS = {
  unit: Infinity,
  interop: Infinity,
  fuzz: Infinity,
  crash: Infinity,
  net: Infinity,
  browser: 1,
  rig: Math.max(1, Math.min(3, Math.floor(totalmem() / 2 ** 30 / 2))),
  // `npm run test:image`: an emulated board keeps one processor busy; otherwise one beside the other groups
  image: process.env.OS_NODE_IMAGE === 'all' ? Math.max(1, Math.min(CORES, Math.floor(totalmem() / 2 ** 30 / 3))) : 1,
  spec: Infinity,
}
/** ms for one file, ten times what a busy machine takes; two hours for long ones requested by hand */
const { OS_NODE_IMAGE, OS_NODE_SOAK_SECONDS, OS_NODE_KILLS } = process.env
const TIMEOUT = (OS_NODE_IMAGE ?? OS_NODE_SOAK_SECONDS ?? OS_NODE_KILLS) ? 7_200_000 : long ? 2_400_000 : 600_000
/** of a file that is not in test/times.json: seconds, and the share of a processor */
const SHORT = [1, 0.8]
/** Short files in one process, because a start of Node and of the bundle takes most of their time. */
const SHARING = 12
const SHARES_NOT = /process\.(argv|env|chdir|exit|on)|globalThis|mock\.timers|no-addon|memoryUsage|gc\(/
const TIMES = join(root, 'test/times.json')

/** Needs that no package provides; with CI=true any other skip is an unintended one. */
const EXCUSED = /this machine has no (IPv6|link-local|address|\/proc)|io_uring may be enabled/

const all = readdirSync(join(root, 'test'), { recursive: true })
  .filter(file => file.endsWith('.test.ts'))
  .map(file => file.replaceAll('\\', '/'))
  .sort()
const groupOf = file => file.split('/')[0]
// a test outside the groups would never run
const stray = all.filter(file => !(groupOf(file) in GROUPS))
if (stray.length > 0) stop(`tests in no group: ${stray.join(', ')}`, 2)
const asked = args.length > 0 ? args : Object.keys(GROUPS)
const unknown = asked.filter(group => !(group in GROUPS))
if (unknown.length > 0) stop(`no test group ${unknown.join(', ')}; groups: ${Object.keys(GROUPS).join(' ')}`, 2)

const ofSource = source && (testsOf(root, source) ?? stop(`${source} is no file of src or drivers`, 2))
if (ofSource) console.log(`tests of ${source}: ${ofSource.join(' ')}`)

const ONLY_IMAGE = /^\/\/ Only: npm run test:image$/m
const isLongFile = file => file.endsWith('.long.test.ts')
const isLong = file => isLongFile(file) || (groupOf(file) === 'rig' && args.length === 0)
const isNamed = file =>
  (!only || only.split(',').some(text => file.includes(text))) && (!ofSource || ofSource.includes(file))
const named = all.filter(file => asked.includes(groupOf(file)) && isNamed(file))
const longOnes = named.filter(file => (long ? isLong(file) || runsInBoth(file) : !isLong(file)))
// a quarter: of the long files of the rig one, because each takes minutes, many of them on slow kernels
const TURN = turnOf(root)
const inTurns = long && process.env.OS_NODE_LONG === 'quarter' && !only
const rigFiles = longOnes.filter(file => inTurns && groupOf(file) === 'rig' && (isLongFile(file) || runsInBoth(file)))
const ofOthers = rigFiles.filter((_, k) => k !== TURN % rigFiles.length)
// they take an hour: listed, since files that return at once would count as passed
const ofImage =
  process.env.OS_NODE_IMAGE === 'all'
    ? []
    : longOnes.filter(file => ONLY_IMAGE.test(readFileSync(join(root, 'test', file), 'utf8')))
if (ofImage.length > 0) console.log(`not run here, but by npm run test:image: ${ofImage.join(' ')}`)
const chosen = longOnes.filter(file => !ofOthers.includes(file) && !ofImage.includes(file))
if (ofOthers.length > 0) console.log(`one long file of the rig; of other commits: ${ofOthers.join(' ')}`)
if (chosen.length === 0 && (only || source || args.length > 0)) {
  const other = named.length > 0 ? `; ${long ? 'without' : 'with'} --long there is ${named.join(' ')}` : ''
  stop(
    `no test file of ${asked.join(' ')}${only ? ` has ${only} in its name` : ''}${source ? ` is of ${source}` : ''}${other}`,
    1,
  )
}

// a second run would rebuild under the running tests of the first
const PID = join(root, '.build/test.pid')
const other = existsSync(PID) ? Number(readFileSync(PID, 'utf8')) : 0
const command = `/proc/${other}/cmdline`
if (other > 0 && existsSync(command) && readFileSync(command, 'utf8').includes('run.mjs'))
  stop(`tests run in this folder already (process ${other}); wait for them, or stop them with: kill ${other}`, 2)
mkdirSync(join(root, '.build'), { recursive: true })
writeFileSync(PID, `${process.pid}`)
// files left by tests are removed with the run; other users that tests start as must have access
const TMP = mkdtempSync(join(tmpdir(), 'os-run-'))
if (process.geteuid?.() === 0) chmodSync(TMP, 0o1777)
process.on('exit', () => {
  for (const path of [PID, TMP]) rmSync(path, { recursive: true, force: true })
})

const needs = new Map(chosen.map(file => [file, needsOf(file)]))
install([...new Set([...needs.values()].flat())])
// long tests make packages and images from dist: it must be whole before the first of them
const parts = [only ? `--tests=${only}` : '--tests', ...(long ? ['--quic'] : [])]
const build = spawnSync(process.execPath, ['build.mjs', '--install', '--quiet', ...parts], {
  cwd: root,
  stdio: 'inherit',
})
if (build.status !== 0) process.exit(build.status ?? 1)

const notRun = new Map(chosen.map(file => [file, lacking(needs.get(file))]).filter(([, lacks]) => lacks.length > 0))
const times = existsSync(TIMES) ? JSON.parse(readFileSync(TIMES, 'utf8')) : {}
/** `npm run test:image` does more in some files */
const WHOLE = ' in test:image'
const nameOf = file => (OS_NODE_IMAGE === 'all' ? `${file}${WHOLE}` : file)
const secondsOf = files => files.reduce((sum, file) => sum + (times[nameOf(file)] ?? times[file] ?? SHORT)[0], 0)
const runnable = chosen.filter(file => !notRun.has(file))
const short = runnable.filter(
  file =>
    groupOf(file) === 'unit' &&
    !times[file] &&
    !needs.get(file).includes('node24') &&
    !SHARES_NOT.test(readFileSync(join(root, 'test', file), 'utf8')),
)
const shared = short.length > 2 * SHARING && !measure ? short : []
/** The files of one process. */
const queue = [
  ...runnable.filter(file => !shared.includes(file)).map(file => [file]),
  ...Array.from({ length: Math.ceil(shared.length / SHARING) }, (_, k) => shared.slice(k * SHARING, (k + 1) * SHARING)),
].sort((a, b) => secondsOf(b) - secondsOf(a))
const total = { passed: 0, failed: 0, skipped: 0 }
const groups = new Map()
/** files that failed, and the end of their output */
const failed = []
const said = new Map()
/** files of the rig that failed while others ran; those are run once more */
const unsteady = []
const again = []
const skipped = []
const measured = {}
const running = new Map()
let starts = 0
const started = performance.now()
const seconds = (ms, digits = 1) => `${(ms / 1000).toFixed(digits)} s`

/** Also ends the processes that a file started. */
const end = (child, signal) => {
  try {
    process.kill(-child.pid, signal)
  } catch {} // it has exited
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    for (const child of running.values()) end(child, 'SIGKILL')
    process.exit(130)
  })

/** lines of t.diagnostic(), without the counts of the reporter */
const FIGURES = /^\s*ℹ ((?!(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ).*)$/gm

function ended(files, output, how, ms, beside) {
  const count = name =>
    [...output.matchAll(new RegExp(`^ℹ ${name} (\\d+)$`, 'gm'))].reduce((sum, m) => sum + Number(m[1]), 0)
  const passed = count('pass')
  const bad = count('fail') + count('cancelled')
  const skips = [...output.matchAll(/^\s*﹣ (.*)$/gm)].map(m => m[1].replace(/ \([\d.]+ms\)/, ''))
  const empty =
    files.length > 1 ? files.find(file => !output.includes(`▶ ${file}\n`)) : passed + bad + skips.length === 0
  const reason = how ?? (empty ? `${files.length > 1 ? empty : 'it'} ran no test` : '')
  const ok = bad === 0 && !reason
  const file = files.join(' ')
  if (!ok) said.set(file, failures(atSource(output)))
  if (!ok && beside && groupOf(file) === 'rig') {
    again.push(files)
    unsteady.push(file)
    console.log(`✖ ${file} (${seconds(ms)}), runs once more, alone\n${atSource(output)}`)
    return
  }
  const group = groups.get(groupOf(file)) ?? { files: 0, passed: 0, failed: 0, skipped: 0, ms: 0 }
  groups.set(groupOf(file), group)
  group.files += files.length
  group.ms += ms
  for (const sum of [group, total]) {
    sum.passed += passed
    sum.failed += ok ? 0 : Math.max(bad, 1)
    sum.skipped += skips.length
  }
  for (const skip of skips) skipped.push(`${file}: ${skip}`)
  if (ok) {
    console.log(`✔ ${file} (${passed} tests${skips.length > 0 ? `, ${skips.length} skipped` : ''}, ${seconds(ms)})`)
    // figures that the tests of it measured
    if (long) for (const [, figure] of output.matchAll(FIGURES)) console.log(`  ${figure}`)
    return
  }
  const bent = files.filter(name => files.length === 1 || output.includes(`✖ ${name} `) || name === empty)
  failed.push(...(bent.length > 0 ? bent : files))
  console.log(`✖ ${file} (${seconds(ms)})\n${atSource(output)}`)
  if (reason) console.log(`✖ ${file}: ${reason}`)
  for (const name of bent.length > 0 ? bent : files)
    console.log(
      `✖ end of ${name}; alone: node test/run.mjs ${long ? '--long ' : ''}${groupOf(name)} --only ${name.replace(/^.*?\//, '')}`,
    )
}

/** The script that runs these files. */
function scriptOf(files) {
  const built = file => join('.build/test', file.replace(/\.ts$/, '.js'))
  if (files.length === 1) return built(files[0])
  const script = join('.build/test', `${files[0].replace(/\.test\.ts$/, '')}.together.cjs`)
  const tests = files.map(
    file => `describe(${JSON.stringify(file)}, () => { require(${JSON.stringify(join(root, built(file)))}) })`,
  )
  writeFileSync(join(root, script), `const { describe } = require('node:test')\n${tests.join('\n')}\n`)
  return script
}

function start(files, next) {
  const [file] = files
  const script = scriptOf(files)
  const node = needs.get(file).includes('node24') ? quicNode(nodePath) : nodePath
  const line = [node, '--test-reporter=spec', script]
  // the shell that waited for the file knows the processor time of all its processes
  if (measure) line.unshift('bash', '-c', 'TIMEFORMAT="cpu %U %S"; time "$@"', '-')
  const at = performance.now()
  const child = spawn(line[0], line.slice(1), {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      TMPDIR: TMP,
      OS_NODE_TEST_ROOT: root,
      NO_COLOR: '1',
      ...(long ? { OS_NODE_LONG: process.env.OS_NODE_LONG ?? '1', OS_NODE_TURN: `${TURN}` } : {}),
      ...(needs.get(file).includes('quicnode') ? { OS_NODE_QUIC_NODE: quicNode(nodePath) } : {}),
    },
    detached: true,
  })
  const others = running.size > 0
  const mine = ++starts
  running.set(file, child)
  let late = false
  const timer = setTimeout(() => {
    late = true
    end(child, 'SIGKILL')
  }, TIMEOUT)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8')
    stream.on('data', text => {
      output += text
    })
  }
  child.once('error', error => {
    output += `${error.message}\n`
  })
  child.once('close', (code, signal) => {
    clearTimeout(timer)
    running.delete(file)
    const ms = performance.now() - at
    const cpu = /^cpu ([\d.]+) ([\d.]+)$/m.exec(output)
    if (cpu)
      measured[nameOf(file)] =
        ms > 2000 ? [ms / 1000, Math.min(1, (1000 * (Number(cpu[1]) + Number(cpu[2]))) / ms)] : undefined
    const how = late ? `killed after ${seconds(TIMEOUT, 0)}` : code === 0 ? undefined : `ended with ${code ?? signal}`
    ended(files, output, how, ms, others || starts > mine)
    next()
  })
}

/** Processor time of the machine since its start, in ms: idle, and total. */
function processorTime() {
  let idle = 0
  let all = 0
  for (const { times } of cpus()) {
    idle += times.idle
    all += times.user + times.nice + times.sys + times.irq + times.idle
  }
  return { idle, all }
}

/** Runs the queue: as many files as processors, and one more each time that a fifth of a processor was idle. */
function run(done) {
  const startable = ([file]) =>
    [...running.keys()].filter(other => groupOf(other) === groupOf(file)).length < GROUPS[groupOf(file)]
  const startNext = () => {
    const at = queue.findIndex(startable)
    if (at >= 0) start(queue.splice(at, 1)[0], next)
    return at >= 0
  }
  let before = processorTime()
  const timer = setInterval(() => {
    const now = processorTime()
    const idle = (CORES * (now.idle - before.idle)) / (now.all - before.all)
    before = now
    if (idle >= 0.2 && running.size < MOST) startNext()
  }, 500)
  const next = () => {
    while (running.size < CORES && startNext()) {}
    if (running.size > 0) return
    const alone = again.shift()
    if (alone) return start(alone, next)
    clearInterval(timer)
    done()
  }
  next()
}

function report() {
  console.log('')
  for (const [name, { files, passed, failed, skipped, ms }] of groups)
    console.log(
      `${name}: ${files} files, ${passed} passed, ${failed} failed, ${skipped} skipped, ${seconds(ms, 0)} of tests`,
    )
  for (const skip of skipped) console.log(`SKIPPED ${skip}`)
  // again, for a reader who has only the end of a long log
  for (const [file, text] of said) console.log(`\n✖ ${file} said\n${text}\n`)
  for (const file of unsteady) console.log(`UNSTEADY ${file}: failed beside others; its result is that of a run alone`)
  for (const [file, lacks] of notRun) console.log(`NOT RUN ${file}: needs ${lacks.join(', ')}`)
  if (notRun.size > 0) {
    console.log(`NOT RUN: ${notRun.size} files. To run them, as root:`)
    for (const command of remedies([...new Set([...notRun.values()].flat())])) console.log(`  ${command}`)
  }
  for (const file of failed) console.log(`FAILED ${file}`)
  if (measure) {
    const round = ([time, share]) => [Math.round(time), Math.round(share * 100) / 100]
    const lines = Object.entries({ ...times, ...measured })
      .filter(([file, time]) => time && all.includes(file.replace(WHOLE, '')))
      .sort()
      .map(([file, time]) => `  "${file}": [${(measured[file] ? round(time) : time).join(', ')}]`)
    writeFileSync(TIMES, `{\n${lines.join(',\n')}\n}\n`)
  }
  // a copy without earlier commits cannot get them
  const couldRun = [...notRun.values()].some(lacks => lacks.some(need => need !== 'history'))
  const unseen = couldRun || skipped.some(skip => !EXCUSED.test(skip))
  console.log(
    `${chosen.length - notRun.size} files on ${CORES} processors in ${seconds(performance.now() - started, 0)}`,
  )
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`)
  process.exitCode = total.failed > 0 || (process.env.CI && unseen) ? 1 : 0
}

run(report)
