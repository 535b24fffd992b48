// The receiving gateway of the integration run: the program's own file as `os-node serve`, in a temporary folder, on free
// loopback ports. It ends with the process that started it, in whatever way that ends.

import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { OsError } from '../program'

const START_MS = 20_000
const STOP_MS = 10_000
const STEP_MS = 50
/** while its database starts, each request waits for 5 s */
const TRIES = 10
const OUTPUT_KEPT = 2000

/** Throws TIMEOUT if the signal is aborted before or meanwhile. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise(resolve => setTimeout(resolve, ms))
  if (signal?.aborted) throw new OsError('TIMEOUT', 'stopped before the end')
}

const freeUdpPort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const socket = createSocket('udp4').once('error', reject)
    socket.bind(0, '127.0.0.1', () => {
      const { port } = socket.address()
      socket.close(() => resolve(port))
    })
  })

const freeTcpPort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })

/** The environment of a child without the variables of systemd, which are for the parent only. */
function environment(): NodeJS.ProcessEnv {
  const {
    NOTIFY_SOCKET: _n,
    WATCHDOG_USEC: _u,
    WATCHDOG_PID: _p,
    OS_NODE_CONFIG: _c,
    OS_NODE_DATA_DIR: _d,
    ...env
  } = process.env
  return { ...env, OS_NODE_FOLLOW_PARENT: '1' }
}

export class Server {
  packetPort = 0
  webPort = 0
  readonly dataDir: string
  readonly #dir: string
  readonly #script: string
  #child: ChildProcess | undefined
  #output = ''

  constructor(
    script: string,
    dir: string,
    readonly signal?: AbortSignal,
  ) {
    this.#script = script
    this.#dir = dir
    this.dataDir = join(dir, 'data')
  }

  /** Settles when its HTTP service answers. Throws TIMEOUT, or INTERNAL with its last output. */
  async start(): Promise<void> {
    ;[this.packetPort, this.webPort] = await Promise.all([freeUdpPort(), freeTcpPort()])
    mkdirSync(this.#dir, { recursive: true })
    const config = join(this.#dir, 'Config.json')
    const settings = { device_id: 'INTEGRATION', web_user: { auth_enabled: false } }
    writeFileSync(config, JSON.stringify(settings))
    const ports = ['--host', '127.0.0.1', '--port', String(this.packetPort), '--web-port', String(this.webPort)]
    const child = spawn(
      process.execPath,
      [this.#script, 'serve', '--config', config, '--data-dir', this.dataDir, ...ports],
      { stdio: ['pipe', 'pipe', 'pipe'], cwd: this.#dir, env: environment() },
    )
    this.#child = child
    const keep = (text: Buffer): void => {
      this.#output = (this.#output + text.toString()).slice(-OUTPUT_KEPT)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    child.stdin.on('error', () => undefined) // it has ended; its exit is handled below
    let failed: Error | undefined
    child.once('error', error => {
      failed = error
    })
    for (let waited = 0; ; waited += STEP_MS) {
      if (failed || child.exitCode !== null)
        throw new OsError('INTERNAL', `os-node serve ended: ${failed?.message ?? this.#output}`)
      if (await this.get('/health').then(Boolean, () => false)) return
      if (waited >= START_MS) throw new OsError('TIMEOUT', `os-node serve does not answer: ${this.#output}`)
      await sleep(STEP_MS, this.signal)
    }
  }

  /** Throws NETWORK unless it runs. */
  mustRun(): void {
    if (this.#child?.exitCode !== null) throw new OsError('NETWORK', 'the server does not run')
  }

  /** The JSON of a route; repeats the request while the database starts (503). Throws for any other status than 200. */
  async get(path: string): Promise<Record<string, unknown>> {
    for (let tries = 1; ; tries++) {
      const response = await fetch(`http://127.0.0.1:${this.webPort}${path}`, { headers: { connection: 'close' } })
      const body = (await response.json()) as Record<string, unknown>
      if (response.ok) return body
      if (response.status !== 503 || tries >= TRIES)
        throw new Error(`${path}: ${response.status} ${String(body.error)}`)
      await sleep(STEP_MS, this.signal)
    }
  }

  /** Stops it with the signal of systemd; returns its exit code. */
  async stop(): Promise<number | null> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    child.kill('SIGTERM')
    const hard = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(hard)
    return child.exitCode
  }
}
