// Recovery after an outage: a gateway with a backlog in its log finds its upstream again (UDP with the delivery exchange, two
// real processes on this machine). Facts a second until the upstream has everything, and how long a reading made meanwhile
// takes to leave. The backlog is written with the library before the gateway starts; its disk and ours are the same.
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const FACTS = 50_000
const LIMIT_MS = 180_000
/** facts made meanwhile that may still be on their way at the end */
const LIVE = 20
const AID = 4711

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

const freeUdp = () =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.bind(0, '127.0.0.1', () => {
      const { port } = socket.address()
      socket.close(() => resolve(port))
    })
  })
const freeTcp = () =>
  new Promise(resolve => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

/** One command over the socket of a gateway at work. */
function ask(dataDir, command, options = {}) {
  return new Promise((resolve, reject) => {
    const socket = createConnection(join(dataDir, 'os-node.sock'))
    let text = ''
    socket.on('data', chunk => {
      text += chunk
      for (const line of text.split('\n').slice(0, -1)) {
        const answer = JSON.parse(line)
        if (answer.working) continue
        socket.destroy()
        if (answer.ok) resolve(answer.result)
        else reject(new Error(JSON.stringify(answer.error)))
        return
      }
    })
    socket.on('error', reject)
    socket.write(`${JSON.stringify({ id: 1, command, options })}\n`)
  })
}

async function until(what, check) {
  for (const end = Date.now() + LIMIT_MS; Date.now() < end; await sleep(50)) {
    const answer = await check().catch(() => null)
    if (answer) return answer
  }
  throw new Error(`${what}: not within ${LIMIT_MS / 1000} s`)
}

/** `put(key, value)` takes every figure. */
export async function benchRecovery({ FlashLog }, script, put) {
  const dir = mkdtempSync(join(tmpdir(), 'os-node-bench-recovery-'))
  const children = []
  const start = async (name, verb, config, ...args) => {
    const home = join(dir, name)
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'Config.json'), JSON.stringify({ storage: { sql: { enabled: false } }, ...config }))
    const child = spawn(
      process.execPath,
      [script, verb, '--config', join(home, 'Config.json'), '--data-dir', join(home, 'data'), ...args],
      { stdio: 'ignore', env: { ...process.env, OS_NODE_CONFIG: '' } },
    )
    children.push(child)
    return join(home, 'data')
  }
  try {
    const packets = await freeUdp()
    const log = await FlashLog.open({ dir: join(dir, 'gw', 'data', 'log'), maxBytes: 268_435_456 })
    for (let k = 0; k < FACTS; k++) {
      const sensors = [0, 1, 2, 3].map(i => ({
        id: `s${i}`,
        status: 'OK',
        unit: 'K',
        value: 280 + ((k * 7 + i) % 997) / 10,
      }))
      log.appendFact(
        { id: 'GW', state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid: AID, sensors },
        { medium: 'local' },
        'synced',
      )
      if (k % 2000 === 0) await log.flush()
    }
    await log.close()
    const serverWeb = String(await freeTcp())
    const server = await start(
      'up',
      'serve',
      {},
      '--host',
      '127.0.0.1',
      '--port',
      String(packets),
      '--web-port',
      serverWeb,
    )
    await until('the upstream answers', () => ask(server, 'status'))
    const gateway = await start(
      'gw',
      'run',
      {
        device_id: 'GW',
        assigned_id: AID,
        gateway: { sources: [], uplinks: [{ name: 'up', medium: 'UDP', host: '127.0.0.1', port: packets }] },
      },
      '--port',
      String(await freeTcp()),
    )
    const began = await until('the first facts arrive', async () => {
      const { uplinks } = await ask(gateway, 'status')
      return uplinks.up.acked > 0 && { at: performance.now(), acked: uplinks.up.acked }
    })
    const waits = []
    let acked = began.acked
    for (;;) {
      const before = performance.now()
      await ask(gateway, 'transmit', { sensors: JSON.stringify([['live', 'OK', waits.length, 'K']]) })
      waits.push(performance.now() - before)
      const { uplinks } = await ask(gateway, 'status')
      acked = uplinks.up.acked
      // a few of our own are always on their way
      if (uplinks.up.backlog <= LIVE) break
      if (performance.now() - began.at > LIMIT_MS) throw new Error(`${uplinks.up.backlog} facts are left`)
    }
    const seconds = (performance.now() - began.at) / 1000
    waits.sort((a, b) => a - b)
    const received = await until('every fact arrives', async () => {
      const { received } = await ask(server, 'status')
      return received.facts >= FACTS && received
    })
    put('recovery/facts_per_s', Math.round((acked - began.acked) / seconds))
    put('recovery/seconds', Math.round(seconds * 10) / 10)
    put('recovery/live_ms/p50', Math.round(waits[waits.length >> 1]))
    put('recovery/live_ms/max', Math.round(waits.at(-1)))
    put('recovery/sent_twice', received.duplicates)
  } finally {
    for (const child of children) child.kill('SIGKILL')
    await sleep(100)
    rmSync(dir, { recursive: true, force: true })
  }
}
