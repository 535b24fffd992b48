// The upstream of a newcomer: with none configured, the gateway starts `os-node serve` as a second process on the
// loopback, with a data directory of its own, and forwards to it over the same UDP and the same delivery exchange as to
// any other upstream. When that process ends it is started again after a pause; when the gateway ends, however it ends,
// the pipe between them closes and the process stops.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { Backoff } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import { realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'

export interface LoopbackOptions {
  script: string
  dataDir: string
  packetPort: number
  webPort: number
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

  start(): void {
    if (this.#stopped || this.#child) return
    const { script, packetPort, webPort, clock, logger } = this.#options
    const config = join(this.dataDir, 'Config.json')
    if (!realFiles.exists(config)) {
      realFiles.mkdir(this.dataDir)
      const own = { RESOURCES: { service_plugins: { web_user: { host: '127.0.0.1', port: webPort } } } }
      atomicWrite(config, `${JSON.stringify(own, null, 2)}\n`)
    }
    const args = [script, 'serve', '--config', config, '--data-dir', this.dataDir]
    args.push('--host', '127.0.0.1', '--port', String(packetPort), '--web-port', String(webPort))
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
