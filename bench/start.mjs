// A gateway with its defaults (nothing configured; `serve`, idle `run` with its sources): the time until /health answers, compared with Node's own
// start (`node -e 0`, alternating with it), and its memory: idle, in a minute of traffic with queries to the SQL view, and with every medium enabled.
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ask } from './fleet.mjs'
import { answer, field, freePort, pause } from './udp/gateway.mjs'

const script = fileURLToPath(new URL('../dist/os-node.js', import.meta.url))
const ROUNDS = 15
/** times `node -e 0` */
const START_TIMES = 2
const MEMORY_MB = { default: 100, traffic: 160, every_medium: 120 }
const MEMORY_MARK = { default: '≤ 70', traffic: '≤ 110' }
const WAKEUPS_PER_S = 14
/** by then it has released the memory of the start */
const REST_MS = 15_000
const IDLE_MS = 60_000
/** unit of the times in /proc/PID/stat */
const TICK_MS = 10
/** packets of six readings, enough for two windows of the SQL view; a view without queries rests */
const TRAFFIC = { nodes: 50, rate: 1200, seconds: 60 }
const QUERY_MS = 1000
const WINDOW_PACKETS = 32_768

function freeTcpPort() {
  const server = createServer()
  return new Promise(resolve =>
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    }),
  )
}

/** True when the first bytes of an answer to GET /health say 200. */
function healthy(port) {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'),
    )
    socket.once('data', bytes => resolve(bytes.toString('latin1').startsWith('HTTP/1.1 200')))
    socket.once('error', () => resolve(false))
  })
}

/**
 * Starts `serve`, or `role`, in `dir` and resolves with the ms until /health answered, its ports, and a function to end
 * it.
 */
async function start(dir, config = {}, role = 'serve') {
  const [port, webPort] = [await freePort(), await freeTcpPort()]
  const path = join(dir, 'Config.json')
  writeFileSync(path, JSON.stringify(config))
  const args = [role, '--config', path, '--data-dir', join(dir, 'data'), '--host', '127.0.0.1']
  if (role === 'serve') args.push('--port', String(port))
  const began = performance.now()
  const child = spawn(process.execPath, [script, ...args, '--web-port', String(webPort)], {
    stdio: 'ignore',
    env: { ...process.env, OS_NODE_CONFIG: '' },
  })
  const ended = new Promise(resolve => child.once('exit', resolve))
  while (!(await healthy(webPort))) {
    if (child.exitCode !== null) throw new Error(`serve ended with ${child.exitCode}`)
    await pause(1)
  }
  const ms = performance.now() - began
  const stop = () => {
    child.kill('SIGTERM')
    return ended
  }
  return { child, ms, port, webPort, dataDir: join(dir, 'data'), stop }
}

function nothing() {
  const began = performance.now()
  const child = spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' })
  return new Promise(resolve => child.once('exit', () => resolve(performance.now() - began)))
}

const rssMb = ({ pid }) =>
  Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024)

async function inTurns(put, mark) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-start-'))
  const [zero, serve] = [[], []]
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      const without = await nothing()
      const gateway = await start(dir)
      await pause(300)
      await gateway.stop()
      // the first one creates identity and token and fills the caches of the disk
      if (round === 0) put('start/first_ms', Math.round(gateway.ms))
      else {
        zero.push(without)
        serve.push(gateway.ms)
      }
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
  // the best of each: other load on the machine only ever adds time
  const [least, ours] = [Math.min(...zero), Math.min(...serve)]
  put('start/node_ms', Math.round(least))
  put('start/health_ms', Math.round(ours))
  mark('start/health_times', Math.round((ours / least) * 100) / 100, `≤ ${START_TIMES}`)
}

const number = (text, key) => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(text)[1])

/** CPU ms of a process, and how often its threads went to sleep. */
export function usage(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  let wakes = 0
  for (const id of readdirSync(`/proc/${pid}/task`))
    wakes += number(readFileSync(`/proc/${pid}/task/${id}/status`, 'utf8'), 'voluntary_ctxt_switches')
  return { at: performance.now(), cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS, wakes }
}

/** The gateway with its seven default sources, idle, without its local upstream, which is a separate process. */
async function idle({ gate, mark }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-idle-'))
  const gateway = await start(dir, {}, 'run')
  try {
    await pause(REST_MS)
    const before = usage(gateway.child.pid)
    await pause(IDLE_MS)
    const after = usage(gateway.child.pid)
    const ms = after.at - before.at
    mark('idle/cpu_percent', Math.round(((after.cpuMs - before.cpuMs) / ms) * 10_000) / 100, '≤ 0.3')
    mark('idle/rss_mb', rssMb(gateway.child), '≤ 70')
    gate('idle/wakeups_per_s', Math.round(((after.wakes - before.wakes) / ms) * 10_000) / 10, WAKEUPS_PER_S)
  } finally {
    await gateway.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

async function memory(key, config, gate) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-memory-'))
  const gateway = await start(dir, config)
  try {
    await pause(REST_MS)
    gate(`memory/${key}/rss_mb`, rssMb(gateway.child), MEMORY_MB[key], MEMORY_MARK[key])
  } finally {
    await gateway.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

/** One query for packets and one for a sensor's history, as the page makes them. Throws where one is refused. */
async function query(webPort) {
  for (const path of ['packets?limit=50', 'history?device_id=node-0&sensor_id=t0']) {
    const said = await fetch(`http://127.0.0.1:${webPort}/api/data/${path}`)
    if (!said.ok) throw new Error(`/api/data/${path}: ${said.status} ${await said.text()}`)
    await said.arrayBuffer()
  }
}

/** The largest RSS with the SQL view up, under traffic with a query each second. */
async function traffic({ gate, problems }) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-memory-'))
  const gateway = await start(dir, { web_user: { auth_enabled: false } })
  const { nodes, rate, seconds } = TRAFFIC
  let [sender, most, packets] = [undefined, 0, 0]
  try {
    sender = await field(gateway.port, nodes, 6)
    let sent = false
    const sending = answer(sender, { rate, count: rate * seconds }).finally(() => {
      sent = true
    })
    while (!sent) {
      await query(gateway.webPort)
      const { storage } = await ask(gateway.dataDir, 'status')
      if (storage.state === 'up') most = Math.max(most, rssMb(gateway.child))
      packets = storage.packets
      await pause(QUERY_MS)
    }
    await sending
    if (packets <= WINDOW_PACKETS) problems.push(`memory/traffic: ${packets} packets came, less than a window`)
    gate('memory/traffic/rss_mb', most || Number.NaN, MEMORY_MB.traffic, MEMORY_MARK.traffic)
  } finally {
    sender?.kill()
    await gateway.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

const every = names => Object.fromEntries(names.map(name => [name, true]))
const EVERY_MEDIUM = {
  RESOURCES: {
    application_status: every(['mqtt']),
    transport_status: every(['udp', 'tcp', 'quic', 'iwip', 'uip']),
    physical_status: every(['uart', 'rs485', 'can', 'lora', 'bluetooth']),
  },
}

/** `put(key, value)` records every figure, `gate` those with a budget, `mark` those with a target. */
export async function benchStart({ put, gate, mark, problems, wanted }) {
  if (wanted('start/')) await inTurns(put, mark)
  if (wanted('idle/')) await idle({ gate, mark })
  if (wanted('memory/default')) await memory('default', {}, gate)
  if (wanted('memory/traffic')) await traffic({ gate, problems })
  if (wanted('memory/every_medium')) await memory('every_medium', EVERY_MEDIUM, gate)
}
