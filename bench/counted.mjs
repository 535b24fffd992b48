// Counts instead of times, which are valid on a busy machine: instructions of one encoded and one decoded packet (perf, where the processor's
// counters are readable), and the system calls of a gateway for each packet received over UDP (strace). A line says what cannot be counted here.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SIZES } from './peers.mjs'
import { answer, field, freePort, Gateway, hasAddon, pause } from './udp/gateway.mjs'

const CODEC = fileURLToPath(new URL('counted/codec.cjs', import.meta.url))
const PACKETS_PER_ROUND = 4096
/** rounds of two runs: the common part, including the start and the compiler's work, is subtracted */
const ROUNDS = [24, 88]
/** the same numbers in every run: of hashes, and of `Math.random` */
const SEEDS = ['--hash-seed=1', '--random-seed=1']
/** what runs: key, and the work of codec.cjs */
const WORK = [
  ['encode/diff/N/pycore', 'encode'],
  ['encode_batch256/diff/N/rscore', 'encode_batch256'],
  ['decode/diff/N/pycore', 'decode'],
  ['decode/diff/N/rscore', 'decode_batch256'],
]

const RECEIVERS = { dgram: { OS_NODE_NO_ADDON: '1' }, addon: {} }
/** bursts, so that a gateway slowed down by strace finds as many packets at a time as another one */
const PACKETS = 9600
const BURST = 32
const RATE = 1600
const REST_MS = 3000

/** The count printed by `perf stat -x,`; null if there is none. Two kinds of cores in a processor are two lines. */
export function instructionsOf(text) {
  let sum = null
  for (const line of text.split('\n')) {
    const [value, , event] = line.split(',')
    if (/\binstructions\b/.test(event ?? '') && /^\d+$/.test(value)) sum = (sum ?? 0) + Number(value)
  }
  return sum
}

/** The total of all calls printed by `strace -c`; null if there is no such table. */
export function systemCallsOf(text) {
  const heads = text.split('\n').find(line => line.startsWith('% time'))
  const total = text.split('\n').find(line => /\btotal$/.test(line))
  if (!heads || !total) return null
  // the column is as wide as its rule, and the column of errors after it may be empty
  const end = heads.indexOf('calls', heads.indexOf('usecs/call') + 'usecs/call'.length) + 'calls'.length
  return Number(/(\d+)$/.exec(total.slice(0, end))?.[1] ?? Number.NaN)
}

function instructions(args) {
  const { stderr, error } = spawnSync('perf', ['stat', '-x,', '-e', 'instructions:u', process.execPath, ...args], {
    encoding: 'utf8',
  })
  if (error) return { why: 'this machine has no perf' }
  const count = instructionsOf(stderr)
  return count === null ? { why: stderr.trim().split('\n').at(-1) } : { count }
}

/** `put(key, value)` records every figure. */
function benchInstructions({ put, wanted }) {
  const wantedWork = SIZES.flatMap(size =>
    WORK.map(([name, what]) => ({ key: `instructions_per_packet/${name.replace('N', size)}`, what, size })),
  ).filter(({ key }) => wanted(key))
  if (wantedWork.length === 0) return
  const { why } = instructions(['-e', '0'])
  if (why) {
    console.log(`instructions_per_packet: left out, they cannot be counted here (${why})`)
    return
  }
  for (const { key, what, size } of wantedWork) {
    const [few, many] = ROUNDS.map(rounds => instructions([...SEEDS, CODEC, what, String(size), String(rounds)]))
    if (few.why ?? many.why) throw new Error(`${key}: ${few.why ?? many.why}`)
    put(key, Math.round((many.count - few.count) / ((ROUNDS[1] - ROUNDS[0]) * PACKETS_PER_ROUND)))
  }
}

/** The calls of that process and its threads during `work`; null, and a line, where tracing is not allowed. */
async function systemCalls(pid, work) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-strace-'))
  const out = join(dir, 'calls')
  try {
    const tracer = spawn('strace', ['-c', '-f', '-o', out, '-p', String(pid)], { stdio: ['ignore', 'ignore', 'pipe'] })
    const ended = new Promise(resolve => tracer.once('exit', resolve))
    const said = await Promise.race([
      new Promise(resolve => tracer.stderr.once('data', text => resolve(text.toString().trim()))),
      ended.then(() => 'it ended at once'),
    ])
    if (!/ attached/.test(said)) return { why: said }
    await work()
    tracer.kill('SIGINT')
    await ended
    return { calls: systemCallsOf(readFileSync(out, 'utf8')) }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** `problems` lists packets that did not arrive. */
async function benchSystemCalls(how, { put, problems }) {
  const port = await freePort()
  // sampling the loop's lag is a call each ms
  const gateway = new Gateway(port, { env: { ...RECEIVERS[how], BENCH_LAG_MS: '1000' } })
  let sender
  try {
    await gateway.up()
    sender = await field(port, 16, 1)
    await answer(sender, { rate: RATE, count: PACKETS, burst: BURST })
    await pause(REST_MS)
    const before = await gateway.settled()
    const { calls, why } = await systemCalls(gateway.child.pid, async () => {
      await answer(sender, { rate: RATE, count: PACKETS, burst: BURST })
      await pause(REST_MS)
    })
    if (why) {
      console.log(`udp/in/${how}/syscalls_per_packet: left out, the gateway cannot be traced here (${why})`)
      return
    }
    const came = (await gateway.settled()).facts - before.facts
    if (came !== PACKETS) problems.push(`udp/in/${how}/syscalls_per_packet: ${came} of ${PACKETS} packets came`)
    if (!(calls > 0)) problems.push(`udp/in/${how}/syscalls_per_packet: strace printed no count`)
    else put(`udp/in/${how}/syscalls_per_packet`, Math.round((calls / PACKETS) * 1000) / 1000)
  } finally {
    sender?.kill()
    await gateway.stop()
  }
}

/** `put(key, value)` records every figure, `problems` the faults. */
export async function benchCounted({ put, problems, wanted }) {
  benchInstructions({ put, wanted })
  const ways = Object.keys(RECEIVERS).filter(
    how => (how === 'dgram' || hasAddon) && wanted(`udp/in/${how}/syscalls_per_packet`),
  )
  if (ways.length === 0) return
  if (spawnSync('strace', ['-V']).error) {
    console.log('udp/in/…/syscalls_per_packet: left out, this machine has no strace')
    return
  }
  for (const how of ways) await benchSystemCalls(how, { put, problems })
}
