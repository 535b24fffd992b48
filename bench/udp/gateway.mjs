// A gateway of the built program in a separate process, for the benches: started on a free port, queried over its socket, sampled
// for lag, processor time and memory (watch.cjs is loaded into it).
import { fork, spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const script = join(root, 'dist/os-node.js')
export const hasAddon = existsSync(join(root, `dist/native/${process.platform}-${process.arch}/os_node.node`))

/** One request to a child, or its first message; rejects when it exits instead. */
export const answer = (child, question) =>
  new Promise((resolve, reject) => {
    const ended = code => reject(new Error(`ended with ${code}`))
    child.once('exit', ended)
    child.once('message', message => {
      child.off('exit', ended)
      resolve(message)
    })
    if (question !== undefined) child.send(question)
  })

export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** share of a round that a process may wait for a processor before the round is invalid */
const WAITING = 0.1

/** ms that its main thread was ready but did not run, so far; 0 where the kernel does not report it */
function waitedMs({ pid }) {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/** Begins a round; the result says whether others had the processors meanwhile. */
export function roundOf(...children) {
  const began = performance.now()
  const before = children.map(waitedMs)
  return () => {
    const most = WAITING * (performance.now() - began)
    return children.some((child, k) => waitedMs(child) - before[k] > most)
  }
}

/** The better of two rounds: a good one, otherwise one that the machine had time for, otherwise the one with less loss. */
export function better(one, other, isGood) {
  if (!one || !other || isGood(one) !== isGood(other)) return !one || (other && isGood(other)) ? other : one
  if (one.busy !== other.busy) return one.busy ? other : one
  return other.lost < one.lost || (other.lost === one.lost && other.p99 < one.p99) ? other : one
}

export function freePort() {
  const socket = createSocket('udp4')
  return new Promise(resolve =>
    socket.bind(0, '127.0.0.1', () => {
      const { port } = socket.address()
      socket.close(() => resolve(port))
    }),
  )
}

export class Gateway {
  constructor(port, { env, sql = false }) {
    this.dir = mkdtempSync(join(tmpdir(), 'os-node-bench-udp-'))
    const config = join(this.dir, 'Config.json')
    writeFileSync(config, JSON.stringify({ storage: { sql: { enabled: sql } }, web_user: { auth_enabled: false } }))
    this.paths = ['--config', config, '--data-dir', join(this.dir, 'data')]
    const where = ['--host', '127.0.0.1', '--port', String(port), '--web-port', '0']
    this.child = fork(script, ['serve', ...this.paths, ...where], {
      execArgv: ['--require', join(root, 'bench/udp/watch.cjs'), ...(process.env.BENCH_NODE_ARGS?.split(' ') ?? [])],
      env: { ...process.env, OS_NODE_CONFIG: '', ...env },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
  }

  /** A busy machine may delay the answer of the command: tried three times, then it throws the error. */
  status() {
    let said = ''
    for (let tries = 0; tries < 3; tries++) {
      const args = [script, 'status', '--json', ...this.paths]
      const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
      const status = stdout.trim() === '' ? {} : JSON.parse(stdout)
      if (status.received) return status
      said = stderr.trim()
    }
    throw new Error(`the gateway does not answer: ${said}`)
  }

  async up() {
    for (let k = 0; ; k++) {
      try {
        if (this.status().links.udp.state === 'up') return
      } catch (error) {
        if (k > 40) throw error
      }
      await pause(100)
    }
  }

  /** the number received so far, once no more arrive */
  async settled() {
    for (let last = -1; ; ) {
      const { received, storage, links } = this.status()
      if (received.facts + storage.packets === last) return { facts: received.facts, dropped: links.udp.dropped ?? 0 }
      last = received.facts + storage.packets
      await pause(200)
    }
  }

  async stop() {
    const ended = new Promise(resolve => this.child.once('exit', resolve))
    this.child.kill('SIGTERM')
    await ended
    rmSync(this.dir, { recursive: true, force: true })
  }
}

/** A process that plays `nodes` nodes of `sensors` sensors each; ready when every one has sent its first packet. */
export async function field(port, nodes, sensors) {
  const args = [port, hasAddon ? 'addon' : 'plain', nodes, sensors].map(String)
  const child = fork(join(root, 'bench/udp/sender.cjs'), args)
  await answer(child)
  return child
}
