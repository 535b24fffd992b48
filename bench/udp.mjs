// UDP of the built program. In: a gateway (`serve`) that receives, decodes and logs what a process of its own sends at a
// pace, in steps of rising rate until something is lost; node:dgram and the addon, SQL view off and on. Out: packets per
// second of node:dgram, of the medium plain and by the addon. Rates and lag are printed, since they are of the machine;
// heap per packet and system calls per packet are gated.
import { fork, spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { benchOut } from './udp/out.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const script = join(root, 'dist/os-node.js')
const addonPath = join(root, `dist/native/${process.platform}-${process.arch}/os_node.node`)
const SECONDS = 1.5

const STEPS = {
  dgram: { rates: [20_000, 40_000, 50_000, 60_000, 80_000], env: { OS_NODE_NO_ADDON: '1' } },
  addon: { rates: [40_000, 70_000, 100_000, 120_000, 140_000, 170_000], env: {} },
  addon_sql: { rates: [15_000, 20_000, 30_000], env: {}, sql: true },
}

const answer = (child, question) =>
  new Promise((resolve, reject) => {
    const ended = code => reject(new Error(`ended with ${code}`))
    child.once('exit', ended)
    child.once('message', message => {
      child.off('exit', ended)
      resolve(message)
    })
    if (question !== undefined) child.send(question)
  })

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

function freePort() {
  const socket = createSocket('udp4')
  return new Promise(resolve =>
    socket.bind(0, '127.0.0.1', () => {
      const { port } = socket.address()
      socket.close(() => resolve(port))
    }),
  )
}

class Gateway {
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

  status() {
    const { stdout } = spawnSync(process.execPath, [script, 'status', '--json', ...this.paths], { encoding: 'utf8' })
    const status = JSON.parse(stdout)
    if (!status.received) throw new Error('the gateway does not answer')
    return status
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

  /** what came so far, once nothing more does */
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

async function receiving(how, put, problems) {
  const port = await freePort()
  const gateway = new Gateway(port, STEPS[how])
  let sender
  try {
    await gateway.up()
    sender = fork(join(root, 'bench/udp/sender.cjs'), [String(port), existsSync(addonPath) ? 'addon' : 'plain'])
    await answer(sender)
    // a program just started is slow: what is lost while it warms up is not counted
    await answer(sender, { rate: 20_000, seconds: SECONDS })
    let before = await gateway.settled()
    let best = 0
    for (const rate of STEPS[how].rates) {
      await answer(gateway.child, 'reset')
      const { count, seconds } = await answer(sender, { rate, seconds: SECONDS })
      await pause(100)
      const { p50, p99, max, cpu_s, rss_mb } = await answer(gateway.child, 'get')
      const after = await gateway.settled()
      const lost = count - (after.facts - before.facts)
      const dropped = after.dropped - before.dropped
      before = after
      const real = Math.round(count / seconds)
      console.log(
        `udp/in/${how}: ${real}/s lost ${lost} (kernel ${dropped}) of ${count}, lag p50 ${p50} p99 ${p99} max ${max} ms, ` +
          `${((cpu_s / count) * 1e6).toFixed(1)} µs/packet, RSS ${rss_mb} MB`,
      )
      if (lost > 0) break
      best = real
      put(`udp/in/${how}/lag_p99_ms`, p99)
    }
    put(`udp/in/${how}`, best)
    if (before.facts === 0) problems.push(`udp/in/${how}: nothing was received`)
  } finally {
    sender?.kill()
    await gateway.stop()
  }
}

/** `put(key, value)` takes every figure, `gate(key, value, budget)` those that must not be over */
export async function benchUdp(put, gate, problems) {
  const addon = existsSync(addonPath)
  await benchOut(put, gate, addon)
  for (const how of Object.keys(STEPS)) if (how === 'dgram' || addon) await receiving(how, put, problems)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const print = (key, value) => console.log(key.padEnd(46), String(value).padStart(10))
  await benchUdp(print, print, [])
}
