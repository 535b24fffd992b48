// The default upstream: if none is configured, the gateway starts `os-node serve` as a second process on the loopback
// interface, with its own data directory, and forwards to it over the same UDP and delivery exchange as to any other
// upstream. If that process ends, it is restarted after a delay. When the gateway ends, in whatever way, the pipe between
// them closes and the process stops.
//
// Its ports are the default two if they are free, else two free ones. A second gateway on the machine must get its own
// upstream, even if both start simultaneously: until the second process listens, and while it is restarted, the gateway holds
// an abstract socket name per port. The kernel gives such a name to one process only and frees it when that process ends. The
// admin token of the gateway also opens the page of the upstream.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { UplinkConfig } from '../config/schema'
import { atomicWrite } from '../lib/atomic'
import { Backoff } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import { within } from '../lib/deadline'
import { asOsError, errno } from '../lib/errors'
import { realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import { sleep, systemTimers } from '../lib/timers'
import { buildPing } from '../protocol/control'

interface LocalUpstreamOptions {
  script: string
  dataDir: string
  /** device id of the second process */
  deviceId: string
  clock: Clock
  logger: Logger
}

/** Set in the environment of the second process: it stops when its standard input closes. */
const FOLLOW_PARENT = 'OS_NODE_FOLLOW_PARENT'

/** The default ports of the local upstream: packets and page. */
const DEFAULT_PORT = 18080
const DEFAULT_WEB_PORT = 8766

/** how long to wait for the default ports: after a kill -9 the last upstream needs a moment to end */
const PORT_WAIT_MS = 1000
const PORT_STEP_MS = 100

/** Binds a port of 127.0.0.1 briefly; 0 binds any. Returns its number, or null if it is in use. */
type Probe = (port: number) => Promise<number | null>

const udpFree: Probe = port =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.once('error', () => resolve(null))
    socket.bind(port, '127.0.0.1', () => {
      const { port: got } = socket.address()
      socket.close(() => resolve(got))
    })
  })

const tcpFree: Probe = port =>
  new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(null))
    server.listen(port, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : null))
    })
  })

/** A port that other gateways do not use until it is released. */
interface HeldPort {
  readonly port: number
  letGo(): void
}

/** Takes the name of a port (an abstract socket); null: another gateway has it. */
const holdName = (port: number): Promise<HeldPort | null> =>
  new Promise(resolve => {
    const server: Server = createServer(socket => socket.destroy())
    const held = { port, letGo: () => void server.close() }
    // a system without abstract sockets: no name is held, and the probe alone decides
    server.once('error', error => resolve(errno(error) === 'EADDRINUSE' ? null : { port, letGo: () => undefined }))
    server.listen(`\0os-node-loopback-${port}`, () => resolve(held))
    server.unref()
  })

/** The port (0: any free one), if it is free and no other gateway is about to use it. */
async function hold(probe: Probe, wanted: number): Promise<HeldPort | null> {
  const port = wanted === 0 ? await probe(0) : wanted
  const held = port === null ? null : await holdName(port)
  if (!held || wanted === 0 || (await probe(port!)) !== null) return held
  held.letGo()
  return null
}

/** The preferred port if it becomes free in time, else any free one. */
async function freePort(probe: Probe, preferred: number, waitMs: number): Promise<HeldPort> {
  for (let waited = 0; ; waited += PORT_STEP_MS) {
    const held = await hold(probe, waited > waitMs ? 0 : preferred)
    if (held) return held
    // no free port: try the preferred one, and the second process reports the error
    if (waited > waitMs + PORT_WAIT_MS) return { port: preferred, letGo: () => undefined }
    await sleep(systemTimers, PORT_STEP_MS)
  }
}

/** The process of the local upstream. */
export class LocalUpstreamProcess {
  packetPort = DEFAULT_PORT
  webPort = DEFAULT_WEB_PORT
  readonly #options: LocalUpstreamOptions
  readonly #backoff = new Backoff({ minMs: 1000, maxMs: 30_000 })
  #child: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #held: HeldPort[] = []
  /** number of restarts */
  restarts = 0

  constructor(options: LocalUpstreamOptions) {
    this.#options = options
  }

  get dataDir(): string {
    return join(this.#options.dataDir, 'upstream')
  }

  /** Chooses the ports and holds them until stop(); call once, before start(). */
  async choosePorts({ packets = DEFAULT_PORT, web = DEFAULT_WEB_PORT, waitMs = PORT_WAIT_MS } = {}): Promise<void> {
    const [forPackets, forWeb] = await Promise.all([freePort(udpFree, packets, waitMs), freePort(tcpFree, web, waitMs)])
    this.packetPort = forPackets.port
    this.webPort = forWeb.port
    this.#held = [forPackets, forWeb]
    if (this.#stopped) this.#letGo()
  }

  #letGo(): void {
    for (const held of this.#held.splice(0)) held.letGo()
  }

  /** Settles when the second process answers a PING, or after three seconds; then the link reports its state. */
  async answering(): Promise<void> {
    const socket = createSocket('udp4')
    socket.on('error', () => undefined) // no listener yet: retried
    const ping = setInterval(() => socket.send(buildPing(1), this.packetPort, '127.0.0.1'), 50)
    await within(systemTimers, 3000, new Promise(resolve => socket.once('message', resolve)), () => undefined)
    clearInterval(ping)
    socket.close()
  }

  start(): void {
    if (this.#stopped || this.#child) return
    const { script, clock, logger } = this.#options
    const { packetPort, webPort } = this
    const config = join(this.dataDir, 'Config.json')
    try {
      this.#prepare(config)
    } catch (error) {
      this.#again(`could not be prepared: ${asOsError(error).message}`)
      return
    }
    const args = [script, 'serve', '--config', config, '--data-dir', this.dataDir]
    args.push('--host', '127.0.0.1', '--port', String(packetPort), '--web-port', String(webPort))
    const child = spawn(process.execPath, args, {
      // stdout belongs to the command of the user
      stdio: ['pipe', process.stderr.fd, 'inherit'],
      // Ctrl-C must reach only the gateway, which stops this process itself
      detached: true,
      env: { ...process.env, [FOLLOW_PARENT]: '1', OS_NODE_CONFIG: '', OS_NODE_SAFE_MODE: '' },
    })
    this.#child = child
    this.#backoff.up(clock.mono())
    child.stdin?.on('error', () => undefined) // the pipe to a process that has ended; its exit is handled below
    child.on('error', error => {
      if (child.pid !== undefined) return logger.error(`the local upstream: ${error.message}`)
      this.#child = undefined
      this.#again(`could not be started: ${error.message}`)
    })
    child.on('exit', (code, signal) => {
      this.#child = undefined
      if (!this.#stopped) this.restarts++
      this.#again(`ended (${signal ?? code})`)
    })
  }

  #again(how: string): void {
    if (this.#stopped) return
    const { clock, logger } = this.#options
    const backoffMs = this.#backoff.next(clock.mono())
    logger.warn(`the local upstream ${how}; next start in ${(backoffMs / 1000).toFixed(1)} s`)
    this.#timer = setTimeout(() => this.start(), backoffMs)
  }

  #prepare(config: string): void {
    if (!realFiles.exists(config)) {
      realFiles.mkdir(this.dataDir)
      const own = {
        device_id: this.#options.deviceId,
        RESOURCES: { service_plugins: { web_user: { host: '127.0.0.1', port: this.webPort } } },
      }
      atomicWrite(config, `${JSON.stringify(own, null, 2)}\n`)
    }
    this.#shareToken()
  }

  /**
   * Shares the admin token with the upstream's page. Without a token (auth is off) the upstream generates and prints its own.
   */
  #shareToken(): void {
    const from = join(this.#options.dataDir, 'token.json')
    if (!realFiles.exists(from)) return
    atomicWrite(join(this.dataDir, 'token.json'), realFiles.read(from).toString('utf8'))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    const child = this.#child
    if (!child) return this.#letGo()
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    // closing the pipe stops it; a signal could be its second one if a service manager signals all processes of a service
    child.stdin?.end()
    const hard = setTimeout(() => child.kill('SIGKILL'), 5000)
    await ended
    clearTimeout(hard)
    this.#letGo()
  }
}

/** Starts and stops the upstream of a machine without configured uplinks. */
export class LocalUpstream {
  readonly #options: () => LocalUpstreamOptions
  /** null while it does not run */
  running: LocalUpstreamProcess | null = null

  constructor(options: () => LocalUpstreamOptions) {
    this.#options = options
  }

  async start(): Promise<UplinkConfig> {
    const upstream = new LocalUpstreamProcess(this.#options())
    this.running = upstream
    await upstream.choosePorts()
    upstream.start()
    await upstream.answering()
    return { name: 'loopback', medium: 'UDP', host: '127.0.0.1', port: upstream.packetPort } as UplinkConfig
  }

  async stop(): Promise<void> {
    await this.running?.stop()
    this.running = null
  }
}
