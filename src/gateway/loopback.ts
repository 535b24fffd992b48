// The upstream of a newcomer: with none configured, the gateway starts `os-node serve` as a second process on the
// loopback, with a data directory of its own, and forwards to it over the same UDP and the same delivery exchange as to
// any other upstream. When that process ends it is started again after a pause; when the gateway ends, however it ends,
// the pipe between them closes and the process stops.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { Backoff } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import { realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'

const HOST = '127.0.0.1'
/** not 8080: a newcomer's 8080 is often taken */
const PACKET_PORT = 18080
const WEB_PORT = 8766

/** The port when it is free now, else null; 0 asks for any. */
const freeUdp = (port: number): Promise<number | null> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.once('error', () => resolve(null)) // taken: another one is tried
    socket.bind({ port, address: HOST, exclusive: true }, () => {
      const { port: given } = socket.address()
      socket.close(() => resolve(given))
    })
  })

const freeTcp = (port: number): Promise<number | null> =>
  new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(null)) // taken: another one is tried
    server.listen({ port, host: HOST, exclusive: true }, () => {
      const { port: given } = server.address() as AddressInfo
      server.close(() => resolve(given))
    })
  })

export interface LoopbackOptions {
  script: string
  dataDir: string
  /** device id of the second process */
  deviceId: string
  clock: Clock
  logger: Logger
}

/** Set in the environment of the second process: it stops when its standard input closes. */
export const FOLLOW_PARENT = 'OS_NODE_FOLLOW_PARENT'

export class LoopbackUpstream {
  readonly #options: LoopbackOptions
  readonly #backoff = new Backoff({ minMs: 1000, maxMs: 30_000 })
  #child: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #packetPort = PACKET_PORT
  #webPort = WEB_PORT
  /** how often it had to be started again */
  restarts = 0

  constructor(options: LoopbackOptions) {
    this.#options = options
  }

  get dataDir(): string {
    return join(this.#options.dataDir, 'upstream')
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** UDP port it receives on; known after prepare() */
  get packetPort(): number {
    return this.#packetPort
  }

  /** Chooses its ports: the usual ones, or free ones where another program has those. */
  async prepare(): Promise<void> {
    this.#packetPort = (await freeUdp(PACKET_PORT)) ?? (await freeUdp(0)) ?? PACKET_PORT
    this.#webPort = (await freeTcp(WEB_PORT)) ?? (await freeTcp(0)) ?? WEB_PORT
  }

  start(): void {
    if (this.#stopped || this.#child) return
    const { script, clock, logger } = this.#options
    const packetPort = this.#packetPort
    const webPort = this.#webPort
    const config = join(this.dataDir, 'Config.json')
    if (!realFiles.exists(config)) {
      realFiles.mkdir(this.dataDir)
      const own = {
        device_id: this.#options.deviceId,
        RESOURCES: { service_plugins: { web_user: { host: HOST, port: webPort } } },
      }
      atomicWrite(config, `${JSON.stringify(own, null, 2)}\n`)
    }
    const args = [script, 'serve', '--config', config, '--data-dir', this.dataDir]
    args.push('--host', HOST, '--port', String(packetPort), '--web-port', String(webPort))
    const child = spawn(process.execPath, args, {
      stdio: ['pipe', 'inherit', 'inherit'],
      env: { ...process.env, [FOLLOW_PARENT]: '1', OS_NODE_CONFIG: '' },
    })
    this.#child = child
    this.#backoff.up(clock.mono())
    child.stdin?.on('error', () => undefined) // a pipe to a process that ended; its exit is handled below
    child.on('error', error => logger.error(`the loopback upstream could not be started: ${error.message}`))
    child.on('exit', (code, signal) => {
      this.#child = undefined
      if (this.#stopped) return
      this.restarts++
      const pause = this.#backoff.next(clock.mono())
      logger.warn(`the loopback upstream ended (${signal ?? code}); started again in ${(pause / 1000).toFixed(1)} s`)
      this.#timer = setTimeout(() => this.start(), pause)
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    const child = this.#child
    if (!child) return
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    child.kill('SIGTERM')
    const hard = setTimeout(() => child.kill('SIGKILL'), 5000)
    await ended
    clearTimeout(hard)
  }
}
