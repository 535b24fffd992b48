// Shared parts of the benches of paths: a backlog written with the library, gateways in separate processes, queries over their sockets.
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { join } from 'node:path'

export const LIMIT_MS = 180_000

export const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

export const freeUdp = () =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.bind(0, '127.0.0.1', () => {
      const { port } = socket.address()
      socket.close(() => resolve(port))
    })
  })
export const freeTcp = () =>
  new Promise(resolve => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

/** One command over the socket of a running gateway. */
export function ask(dataDir, command, options = {}) {
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

export async function until(what, check) {
  for (const end = Date.now() + LIMIT_MS; Date.now() < end; await sleep(50)) {
    const answer = await check().catch(() => null)
    if (answer) return answer
  }
  throw new Error(`${what}: not within ${LIMIT_MS / 1000} s`)
}

/** Writes `count` facts of four sensors into the log of a gateway that is not started yet. */
export async function backlog(FlashLog, dir, count, device, aid) {
  const log = await FlashLog.open({ dir, maxBytes: 268_435_456 })
  for (let k = 0; k < count; k++) {
    const sensors = [0, 1, 2, 3].map(i => ({
      id: `s${i}`,
      status: 'OK',
      unit: 'K',
      value: 280 + ((k * 7 + i) % 997) / 10,
    }))
    log.appendFact(
      { id: device, state: 'ONLINE', tRaw: 1_710_000_000_000 + k, aid, sensors },
      { medium: 'local' },
      'synced',
    )
    if (k % 2000 === 0) await log.flush()
  }
  await log.close()
}

/** Gateways of one run, each with a folder below `dir`, without the SQL view. */
export class Fleet {
  #children = []

  constructor(script, dir) {
    this.script = script
    this.dir = dir
  }

  /** Starts one; returns its data directory. */
  start(name, verb, config, ...args) {
    const home = join(this.dir, name)
    mkdirSync(home, { recursive: true })
    const path = join(home, 'Config.json')
    writeFileSync(path, JSON.stringify({ storage: { sql: { enabled: false } }, ...config }))
    const child = spawn(
      process.execPath,
      [this.script, verb, '--config', path, '--data-dir', join(home, 'data'), ...args],
      { stdio: 'ignore', env: { ...process.env, OS_NODE_CONFIG: '' } },
    )
    this.#children.push(child)
    return join(home, 'data')
  }

  /** Ends them all. */
  async end() {
    for (const child of this.#children) child.kill('SIGKILL')
    await sleep(100)
  }
}
