// Bytes of heap that a packet costs a complete gateway on each of its paths: in from UDP, TCP and MQTT and from a source to the log, and out of the
// log over them to an upstream that acknowledges. The young generation is so large that no collection happens between the two samples; both are taken
// in the gateway's own process, and nothing is queried meanwhile. With `--profile` the same paths of a gateway with V8's memory as it is delivered, and
// where its main thread's time goes instead of bytes.
import { fork, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect, createServer } from 'node:net'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ask, backlog, Fleet, freeTcp, freeUdp, until } from './fleet.mjs'
import { modbusServer } from './latency.mjs'
import { printShares, shares } from './profile.mjs'
import { answer, field, pause } from './udp/gateway.mjs'

const require = createRequire(import.meta.url)
const root = fileURLToPath(new URL('..', import.meta.url))
const script = join(root, 'dist/os-node.js')
const MOSQUITTO = '/usr/sbin/mosquitto'
/** V8 collects the whole heap once more some time after a start */
const YOUNG = ['--expose-gc', '--min-semi-space-size=128', '--max-semi-space-size=128', '--no-memory-reducer']
const PACKETS = 5000
const RATE = 4000
/** concurrent packets over a medium of the library: a connection queues 64 */
const TURN = 32
const SENSORS = 4
/** a source continues while the heap settles */
const POLLS = 500
const MEDIA = { transport_status: { tcp: true }, application_status: { mqtt: true } }
/**
 * Other work of a gateway during the transfer is spread over the packets; the fewer arrive at a time, the more each
 * costs.
 */
const BUDGETS = {
  'in/udp': 4000,
  'in/tcp': 24_000,
  'in/mqtt': 16_000,
  'in/source': 40_000,
  'out/udp': 6000,
  'out/udp/rscore': 6000,
  'out/tcp': 6000,
  'out/mqtt': 20_000,
}
/** times as many packets for a profile */
const PROFILED = 8
/** a collection may fall into a measurement */
const TRIES = 3
/** until everything is on flash and the work after a commit is done */
const REST_MS = 3000

function start(flags, dir, config, verb, ...where) {
  mkdirSync(dir, { recursive: true })
  const path = join(dir, 'Config.json')
  const common = { storage: { sql: { enabled: false } }, web_user: { auth_enabled: false }, RESOURCES: MEDIA }
  writeFileSync(path, JSON.stringify({ ...common, ...config }))
  const dataDir = join(dir, 'data')
  const child = fork(script, [verb, '--config', path, '--data-dir', dataDir, ...where], {
    execArgv: [...flags, '--require', join(root, 'bench/udp/watch.cjs')],
    env: { ...process.env, OS_NODE_CONFIG: '' },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  return { child, dataDir }
}

/** Frames of one node, all values changing. */
function* frames() {
  const { UplinkEncoder, ucumUnits: units } = require(script)
  const uplink = new UplinkEncoder({ aid: 0x20000, units, diffBase: 'last', fullEvery: 0, fullIntervalS: 0 })
  for (let k = 0; ; k++) {
    const sensors = ['K', 'Pa', 'A', '%'].map((unit, n) => ({
      id: `t${n}`,
      status: 'OK',
      unit,
      value: 293.15 + ((k * 7919) % 1e5) / 1e4 + n,
    }))
    yield Buffer.from(
      uplink.encode({ id: 'node', state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid: 0x20000, sensors }).bytes,
    )
  }
}

/** A cores.json of this build and machine (src/cores/choice.ts) in which the native core is the faster one for uplinks. */
function rscoreChosen() {
  const { component, timestamp } = JSON.parse(readFileSync(join(root, 'dist/sbom.cdx.json'), 'utf8')).metadata
  const build = `${component.version} ${Date.parse(timestamp)}`
  const key = `${build} ${process.version} ${process.arch} ${cpus()[0]?.model ?? ''}`
  const measured = { uplinks: { pycore: 2, rscore: 1 }, receivers: { pycore: 1, rscore: 1 } }
  return JSON.stringify({ key, measured })
}

/** Sends frames over a medium of the library, at a rate. */
async function paced(medium, source, count) {
  for (let k = 0; k < count; k += TURN) {
    const turn = []
    for (let n = 0; n < TURN && k + n < count; n++) turn.push(medium.send(source.next().value))
    await Promise.all(turn)
    await pause((1000 * TURN) / RATE)
  }
}

/** Forwards every connection to that port of this machine. */
const handOn = (from, to) =>
  createServer(socket => {
    const other = connect(to, '127.0.0.1')
    for (const [one, end] of [
      [socket, other],
      [other, socket],
    ])
      one.on('error', () => end.destroy()).pipe(end)
  }).listen(from, '127.0.0.1')

function stopped(child) {
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill('SIGTERM')
  return ended
}

/** `{FlashLog, mediaTable}` of the built library; `profiled`: profiles and no bytes. */
export async function benchHeap({ FlashLog, mediaTable }, { gate, problems, starts }, profiled) {
  const flags = profiled ? [] : YOUNG
  const packetsOf = count => (profiled ? PROFILED * count : count)
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-heap-'))
  const fleet = new Fleet(script, dir)
  const quiet = () => undefined
  const logger = { debug: quiet, info: quiet, warn: quiet, error: quiet, child: () => logger }
  const clock = { mono: () => performance.now(), wall: () => Date.now() }
  const events = { lost: reason => console.error(`heap: ${reason}`), degraded: quiet }
  const ended = []

  /**
   * Lets `pass` transfer the packets, and takes the growth of the heap; `came` returns how many arrived. False if a collection happened meanwhile
   * and the caller has `more` tries.
   */
  async function measureOnce(path, child, pass, came, more, packets = packetsOf(PACKETS)) {
    await pause(REST_MS)
    if (profiled) return printProfile(path, child, pass)
    const began = await came()
    const before = await answer(child, 'heap')
    await pass()
    await pause(REST_MS)
    const after = await answer(child, 'heap')
    const count = (await came()) - began
    if (count < packets) problems.push(`gateway/heap: ${count} of ${packets} packets came over ${path}`)
    if (after.collections > before.collections && more) return false
    if (after.collections > before.collections) problems.push(`gateway/heap: a collection fell into ${path}`)
    gate(`gateway/heap_bytes_per_packet/${path}`, Math.round((after.used - before.used) / count), BUDGETS[path])
    return true
  }

  async function printProfile(path, child, pass) {
    await answer(child, 'profile')
    await pass()
    await pause(REST_MS)
    console.log(`\n${path}:`)
    printShares(shares(await answer(child, 'profile'), readFileSync(`${script}.map`, 'utf8')))
    return true
  }

  async function measure(path, child, pass, came, packets) {
    for (let k = 1; !(await measureOnce(path, child, pass, came, k < TRIES, packets)); k++);
  }

  const factsOf = dataDir => async () => (await ask(dataDir, 'status')).received.facts

  async function receiving(path, receiver, connect) {
    const where = ['--host', '127.0.0.1', '--port', String(await freeUdp()), '--web-port', '0']
    const config = receiver ? { gateway: { receivers: [{ name: 'in', ...receiver }] } } : {}
    const { child, dataDir } = start(flags, join(dir, path.replace('/', '-')), config, 'serve', ...where)
    try {
      await until('it listens', async () =>
        Object.values((await ask(dataDir, 'status')).links).every(({ state }) => state === 'up'),
      )
      const { pass, close } = await connect(Number(where[3]))
      // memory allocated with the first packets does not count
      await pass(2000)
      await measure(path, child, () => pass(packetsOf(PACKETS)), factsOf(dataDir))
      await close()
    } finally {
      child.kill('SIGKILL')
    }
  }

  /** A source of as many registers as a packet has readings, polled at full speed; a poll counts as a packet. */
  async function polling() {
    let polls = 0
    const modbus = await modbusServer(() => polls++)
    const registers = Array.from({ length: SENSORS }, (_, k) => ({ id: `r${k}`, address: k, unit: 'V' }))
    const where = { type: 'modbus_tcp', host: '127.0.0.1', port: modbus.address().port }
    const sources = [{ name: 'plc', ...where, interval_ms: 2, registers }]
    const config = { device_id: 'GW', assigned_id: 4711, gateway: { sources, uplinks: [] } }
    const { child } = start(flags, join(dir, 'in-source'), config, 'run', '--port', String(await freeTcp()))
    const pass = count => {
      const end = polls + count
      return until('the source is polled', async () => polls >= end)
    }
    try {
      await pass(2000)
      await measure(
        'in/source',
        child,
        () => pass(packetsOf(POLLS)),
        async () => polls,
        packetsOf(POLLS),
      )
    } finally {
      // its local upstream ends with it
      await stopped(child)
      modbus.close()
    }
  }

  const over = (driver, options) => async () => {
    const identity = { aid: 0x20000, installId: 'bench0000020', onAssigned: () => () => undefined }
    const medium = (await driver()).create('bench', options, { clock, logger, identity })
    await medium.open(events)
    const source = frames()
    return { pass: count => paced(medium, source, count), close: () => medium.close() }
  }

  const overUdp = async port => {
    const sender = await field(port, 16, SENSORS)
    return { pass: count => answer(sender, { rate: RATE, count }), close: () => sender.kill() }
  }

  /**
   * `portOf` gives a port for the uplink; `receiverOf(port)`: the options of the upstream's receiver, besides its own UDP; `listening(port)` runs
   * once it does; `core`: the text of its cores.json.
   */
  async function sending(medium, portOf, receiverOf, listening = () => undefined, core = undefined) {
    for (let k = 1; !(await sendingOnce(k, medium, await portOf(), receiverOf, listening, core)); k++);
  }

  /** Try `k`: a gateway and an upstream of their own. */
  async function sendingOnce(k, medium, port, receiverOf, listening, core) {
    const path = `out/${medium.toLowerCase()}${core ? '/rscore' : ''}`
    const name = `${path.replaceAll('/', '-')}-${k}`
    const home = join(dir, name)
    const receiver = receiverOf?.(port)
    await backlog(FlashLog, join(home, 'data', 'log'), packetsOf(PACKETS), 'GW', 4711)
    const gateway = { sources: [], uplinks: [{ name: 'up', medium, host: '127.0.0.1', port }] }
    const config = { device_id: 'GW', assigned_id: 4711, gateway }
    if (core) writeFileSync(join(home, 'data', 'cores.json'), core)
    const { child, dataDir } = start(flags, home, config, 'run', '--port', String(await freeTcp()))
    let upstream
    try {
      const pass = async () => {
        const udp = receiver ? await freeUdp() : port
        const where = ['--host', '127.0.0.1', '--port', String(udp), '--web-port', String(await freeTcp())]
        const receivers = receiver ? [{ name: 'in', medium, ...receiver }] : []
        upstream = fleet.start(`end-${name}`, 'serve', { RESOURCES: MEDIA, gateway: { receivers } }, ...where)
        await until('the upstream listens', async () => {
          const { links } = await ask(upstream, 'status')
          return Object.values(links).every(({ state }) => state === 'up')
        })
        await listening(port)
        await until('every fact arrives', async () => (await factsOf(upstream)()) >= packetsOf(PACKETS))
      }
      const came = async () => (upstream ? factsOf(upstream)() : 0)
      if (!(await measureOnce(path, child, pass, came, k < TRIES))) return false
      if (core && (await ask(dataDir, 'status')).core.uplinks !== 'rscore')
        problems.push(`gateway/heap: ${path} did not use rscore`)
      return true
    } finally {
      child.kill('SIGKILL')
    }
  }

  const wanted = path => starts(`gateway/heap_bytes_per_packet/${path}`)
  try {
    if (wanted('in/udp')) await receiving('in/udp', undefined, overUdp)
    if (wanted('in/tcp')) {
      const port = await freeTcp()
      const receiver = { medium: 'TCP', listen_host: '127.0.0.1', port }
      await receiving('in/tcp', receiver, over(mediaTable.TCP, { host: '127.0.0.1', port }))
    }
    if (wanted('in/source')) await polling()
    if (wanted('out/udp')) {
      await sending('UDP', freeUdp)
      await sending('UDP', freeUdp, undefined, undefined, rscoreChosen())
    }
    if (wanted('out/tcp')) await sending('TCP', freeTcp, port => ({ listen_host: '127.0.0.1', port }))
    if (!['in/mqtt', 'out/mqtt'].some(wanted)) return
    if (existsSync(MOSQUITTO)) {
      const port = await freeTcp()
      const conf = join(dir, 'mosquitto.conf')
      writeFileSync(conf, `listener ${port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nlog_type none\n`)
      const broker = spawn(MOSQUITTO, ['-c', conf], { stdio: 'ignore' })
      ended.push(() => broker.kill())
      await pause(1000)
      const where = { host: '127.0.0.1', port }
      if (wanted('in/mqtt')) await receiving('in/mqtt', { medium: 'MQTT', ...where }, over(mediaTable.MQTT, where))
      // the broker drops packets while there is no subscriber: the gateway finds it only later
      const front = from => {
        const server = handOn(from, port)
        ended.push(() => server.close())
      }
      if (wanted('out/mqtt')) await sending('MQTT', freeTcp, () => where, front)
    } else
      console.log('gateway/heap_bytes_per_packet/in/mqtt and out/mqtt: not measured, this machine has no mosquitto')
  } finally {
    for (const end of ended) end()
    await fleet.end()
    rmSync(dir, { recursive: true, force: true })
  }
}
