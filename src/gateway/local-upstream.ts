// The upstream of a newcomer: with none configured, the gateway starts `os-node serve` as a second process on the
// loopback, with a data directory of its own, and forwards to it over the same UDP and the same delivery exchange as to
// any other upstream. When that process ends it is started again after a pause; when the gateway ends, however it ends,
// the pipe between them closes and the process stops.
//
// Its ports are the usual two when they are free, else two free ones: a second gateway on the machine gets an upstream of
// its own, never the first one's, also when both start in the same moment: until the second process listens, and while it
// is started again, the gateway holds a name for each port, which the kernel gives to one process only and takes back when
// that ends. The admin token of the gateway opens the page of the upstream too.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { UplinkConfig } from '../config/schema'
import { atomicWrite } from '../lib/atomic'
import { Backoff } from '../lib/backoff'
import type { Clock } from '../lib/clock'
import { asOsError, errno } from '../lib/errors'
import { realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import { buildPing } from '../protocol/control'

interface LoopbackOptions {
  script: string
  dataDir: string
  /** device id of the second process */
  deviceId: string
  clock: Clock
  logger: Logger
}

/** Set in the environment of the second process: it stops when its standard input closes. */
const FOLLOW_PARENT = 'OS_NODE_FOLLOW_PARENT'

/** The usual ports of the loopback upstream: packets and page. */
const LOOPBACK_PORT = 18080
const LOOPBACK_WEB_PORT = 8766

/** how long the usual ports are waited for: after a kill -9 the last upstream needs a moment to end */
const PORT_WAIT_MS = 1000
const PORT_STEP_MS = 100

/** Binds a port of 127.0.0.1 for a moment; 0 asks for any. Returns its number, or null when it is taken. */
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

/** A port that other gateways leave alone until it is let go. */
interface HeldPort {
  readonly port: number
  letGo(): void
}

/** Takes the name of a port (a socket in the abstract name space); null: another gateway has it. */
const holdName = (port: number): Promise<HeldPort | null> =>
  new Promise(resolve => {
    const server: Server = createServer(socket => socket.destroy())
    const held = { port, letGo: () => void server.close() }
    // a system without such names holds none, and the port is as free as it looks
    server.once('error', error => resolve(errno(error) === 'EADDRINUSE' ? null : { port, letGo: () => undefined }))
    server.listen(`\0os-node-loopback-${port}`, () => resolve(held))
    server.unref()
  })

/** The port (0: any free one) when it is not in use and no other gateway is about to use it. */
async function hold(probe: Probe, wanted: number): Promise<HeldPort | null> {
  const port = wanted === 0 ? await probe(0) : wanted
  const held = port === null ? null : await holdName(port)
  if (!held || wanted === 0 || (await probe(port!)) !== null) return held
  held.letGo()
  return null
}

/** The preferred port when it becomes free in time, else any free one. */
async function freePort(probe: Probe, preferred: number, waitMs: number): Promise<HeldPort> {
  for (let waited = 0; ; waited += PORT_STEP_MS) {
    const held = await hold(probe, waited > waitMs ? 0 : preferred)
    if (held) return held
    // without any free port the preferred one is tried: the second process tells what is wrong with it
    if (waited > waitMs + PORT_WAIT_MS) return { port: preferred, letGo: () => undefined }
    await new Promise(resolve => setTimeout(resolve, PORT_STEP_MS))
  }
}

export class LoopbackUpstream {
  packetPort = LOOPBACK_PORT
  webPort = LOOPBACK_WEB_PORT
  readonly #options: LoopbackOptions
  readonly #backoff = new Backoff({ minMs: 1000, maxMs: 30_000 })
  #child: ChildProcess | undefined
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #held: HeldPort[] = []
  /** how often it had to be started again */
  restarts = 0

  constructor(options: LoopbackOptions) {
    this.#options = options
  }

  get dataDir(): string {
    return join(this.#options.dataDir, 'upstream')
  }

  /** Settles the ports, which are this one's until stop(); call once, before start(). */
  async choosePorts({ packets = LOOPBACK_PORT, web = LOOPBACK_WEB_PORT, waitMs = PORT_WAIT_MS } = {}): Promise<void> {
    const [forPackets, forWeb] = await Promise.all([freePort(udpFree, packets, waitMs), freePort(tcpFree, web, waitMs)])
    this.packetPort = forPackets.port
    this.webPort = forWeb.port
    this.#held = [forPackets, forWeb]
    if (this.#stopped) this.#letGo()
  }

  #letGo(): void {
    for (const held of this.#held.splice(0)) held.letGo()
  }

  /** Settles when the second process answers a PING, or after three seconds: the link then tells how it is. */
  async answering(): Promise<void> {
    const socket = createSocket('udp4')
    socket.on('error', () => undefined) // no listener yet: tried again
    await new Promise<void>(resolve => {
      const ping = setInterval(() => socket.send(buildPing(1), this.packetPort, '127.0.0.1'), 50)
      const limit = setTimeout(done, 3000)
      function done(): void {
        clearInterval(ping)
        clearTimeout(limit)
        resolve()
      }
      socket.once('message', done)
    })
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
      // stdout belongs to the command that was typed
      stdio: ['pipe', process.stderr.fd, 'inherit'],
      // Ctrl-C is for the gateway, which stops this one when it needs it no more
      detached: true,
      env: { ...process.env, [FOLLOW_PARENT]: '1', OS_NODE_CONFIG: '', OS_NODE_SAFE_MODE: '' },
    })
    this.#child = child
    this.#backoff.up(clock.mono())
    child.stdin?.on('error', () => undefined) // a pipe to a process that ended; its exit is handled below
    child.on('error', error => {
      if (child.pid !== undefined) return logger.error(`the loopback upstream: ${error.message}`)
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
    logger.warn(`the loopback upstream ${how}; started again in ${(backoffMs / 1000).toFixed(1)} s`)
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

  /** One token for both pages. Without one (auth is off) the upstream makes and prints its own. */
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
    // the end of the pipe ends it; a signal could be its second one, where a service manager signals all of a service
    child.stdin?.end()
    const hard = setTimeout(() => child.kill('SIGKILL'), 5000)
    await ended
    clearTimeout(hard)
    this.#letGo()
  }
}

/** The upstream of a machine without uplinks, started when it is needed and stopped when it is not. */
export class LocalUpstream {
  readonly #options: () => LoopbackOptions
  /** null while it does not run */
  running: LoopbackUpstream | null = null

  constructor(options: () => LoopbackOptions) {
    this.#options = options
  }

  async start(): Promise<UplinkConfig> {
    const upstream = new LoopbackUpstream(this.#options())
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
