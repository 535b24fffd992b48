// Real processes of the built file, for tests: a gateway or an upstream in its own folder.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { realFiles } from '../../src/lib/files'
import { exportFacts } from '../../src/log'
import { askControl } from './control'

export const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()
export const script = join(root, 'dist/os-node.js')

export const tempDir = (): string => mkdtempSync(join(tmpdir(), 'os-node-test-'))
/** The upstream of a killed gateway may still be stopping, and writes until the end. */
export function removeDir(dir: string): void {
  for (let tries = 40; ; tries--) {
    try {
      rmSync(dir, { recursive: true, force: true })
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY' || tries === 0) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 250)
    }
  }
}

export const sleep = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))

const { fetch: keeping } = globalThis
/** Uses no keep-alive: while a command runs synchronously a closed connection is not noticed, and the next request fails. */
globalThis.fetch = (where, init) => {
  const headers = new Headers(init?.headers)
  headers.set('Connection', 'close')
  return keeping(where, { ...init, headers })
}

/** The rig is a machine with one slow, shared processor, so its time limits are longer. */
const PATIENCE_MS = process.env.OS_NODE_IN_RIG ? 180_000 : 120_000
/** The maximum interval between two checks: in the rig every check is several times slower. */
const PAUSE_MS = process.env.OS_NODE_IN_RIG ? 200 : 50

/** An error of the test or its tools, which waiting cannot fix. `fetch failed` is a TypeError too, but with a cause. */
const isFinal = (error: unknown): boolean =>
  error instanceof ReferenceError ||
  (error instanceof TypeError && error.cause === undefined) ||
  String((error as NodeJS.ErrnoException | undefined)?.syscall).startsWith('spawn')

/**
 * Calls `ask` immediately and then every 50 ms (200 in the rig), or `most` ms, until its answer is truthy, and returns that answer. Throws
 * after `ms` with the last answer or error, and immediately for an error that waiting cannot fix.
 */
export async function until<T>(
  what: string,
  ask: () => T | Promise<T>,
  ms = PATIENCE_MS,
  most = PAUSE_MS,
): Promise<NonNullable<T>> {
  const end = performance.now() + ms // tests set the clock
  let last = ''
  let cause: unknown
  for (let pause = 1; ; pause = Math.min(most, 2 * pause)) {
    try {
      const answer = await ask()
      if (answer) return answer
      last = String(answer)
      cause = undefined
    } catch (error) {
      if (isFinal(error)) throw new Error(`${what}: ${String(error)}`, { cause: error })
      last = String(error)
      cause = error
    }
    if (performance.now() > end) throw new Error(`${what}: not within ${ms} ms; last: ${last}`, { cause })
    await sleep(pause)
  }
}

// Test files run in parallel, and another process may take a free port before it is used. So each process reserves a block of
// ports, by listening on the first one; the blocks are below the kernel's ephemeral ports.
const FIRST_PORT = 20_480
const BLOCK = 32

const listening = (port: number): Promise<Server | null> =>
  new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(null))
    server.listen(port, '127.0.0.1', () => resolve(server.unref()))
  })

async function isFreeTcp(port: number): Promise<boolean> {
  const server = await listening(port)
  if (server) await new Promise(resolve => server.close(resolve))
  return server !== null
}

const isFreeUdp = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.once('error', () => resolve(false))
    socket.bind(port, '127.0.0.1', () => socket.close(() => resolve(true)))
  })

/** unused ports of our block */
let ports: number[] = []
let claimed: Promise<void> | undefined

async function claim(): Promise<void> {
  const lowest = Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s/)[0])
  const blocks = Math.floor(((lowest > FIRST_PORT + 64 * BLOCK ? lowest : 32_768) - FIRST_PORT) / BLOCK)
  for (let tries = 0; tries < 1000; tries++) {
    const first = FIRST_PORT + BLOCK * Math.floor(Math.random() * blocks)
    if (!(await listening(first))) continue
    ports = Array.from({ length: BLOCK - 1 }, (_, k) => first + 1 + k)
    return
  }
  throw new Error('no block of ports is free')
}

async function portThat(isFree: (port: number) => Promise<boolean>): Promise<number> {
  for (;;) {
    const port = ports.shift()
    if (port === undefined) {
      claimed ??= claim().finally(() => {
        claimed = undefined
      })
      await claimed
    } else if (await isFree(port)) return port
  }
}

/** A TCP port that no other process gets. */
export const freePort = (): Promise<number> => portThat(isFreeTcp)

/** A UDP port that no other process gets. */
export const freeUdpPort = (): Promise<number> => portThat(isFreeUdp)

export interface Ran {
  code: number
  stdout: string
  stderr: string
}

/** Runs a CLI command to completion. */
export function cli(
  args: readonly string[],
  { cwd = root, env = {}, program = script }: { cwd?: string; env?: Record<string, string>; program?: string } = {},
): Ran {
  try {
    const stdout = execFileSync(process.execPath, [program, ...args], {
      cwd,
      env: { ...process.env, OS_NODE_CONFIG: '', ...env },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 1 << 28,
      timeout: PATIENCE_MS,
    })
    return { code: 0, stdout, stderr: '' }
  } catch (error) {
    const failed = error as { status: number | null; stdout: string; stderr: string }
    return { code: failed.status ?? -1, stdout: failed.stdout, stderr: failed.stderr }
  }
}

export class Machine {
  readonly dir: string
  readonly config: string
  readonly dataDir: string
  readonly verb: 'run' | 'serve'
  /** the file to start, and the Node that runs it */
  program = script
  node = process.execPath
  output = ''
  /** how the last process ended; undefined while it runs */
  ended: { code: number | null; signal: NodeJS.Signals | null } | undefined
  readonly #prefix: readonly string[]
  #child: ChildProcess | undefined
  /** output of earlier starts */
  #before = 0

  /** `prefix` is a command prefix, for example `['ip', 'netns', 'exec', 'far']`. */
  constructor(dir: string, verb: 'run' | 'serve', config: Record<string, unknown>, prefix: readonly string[] = []) {
    this.dir = dir
    this.verb = verb
    this.#prefix = prefix
    this.config = join(dir, 'Config.json')
    this.dataDir = join(dir, 'data')
    mkdirSync(dir, { recursive: true })
    this.configure(config)
  }

  configure(config: Record<string, unknown>): void {
    writeFileSync(this.config, JSON.stringify(config, null, 2))
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /**
   * Ready when its banner was printed and its web page answers; in another network namespace when its control socket answers.
   * `early`: does not wait until each link was tried once.
   */
  async start(args: readonly string[], webPort?: number, early = false): Promise<void> {
    const command = [this.node, this.program, this.verb, '--config', this.config, '--data-dir', this.dataDir, ...args]
    const [program, ...rest] = [...this.#prefix, ...command]
    const child = spawn(program!, rest, {
      cwd: this.dir,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, OS_NODE_CONFIG: '' },
    })
    this.#child = child
    this.ended = undefined
    this.#before = this.output.length
    child.once('exit', (code, signal) => {
      if (child === this.#child || this.#child === undefined) this.ended = { code, signal }
    })
    const collect = (chunk: Buffer): void => {
      this.output += chunk.toString()
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    await until(`${this.verb} answers`, async () => {
      if (child.exitCode !== null || child.signalCode !== null) return true
      // the page answers before the links are opened
      if (!early && !this.#told()) return false
      if (webPort === undefined) return askControl(this.dataDir, 'status')
      return (await fetch(`http://127.0.0.1:${webPort}/health`)).ok
    }).catch(error => {
      throw new Error(`${error.message}: ${this.output.slice(-2000)}`)
    })
    const how = child.exitCode ?? child.signalCode
    if (how !== null) throw new Error(`${this.verb} ended with ${how}: ${this.output}`)
  }

  /** True if this start has printed its banner, or its JSON. */
  #told(): boolean {
    return /^(os-node \S+ (run|serve): |\{"?)/m.test(this.output.slice(this.#before))
  }

  /** Ends the process and waits for it. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise<void>(resolve => child.once('exit', () => resolve()))
    child.kill(signal)
    if (signal === 'SIGKILL') kills.push(Date.now())
    await ended
  }

  run(...args: string[]): Ran {
    return cli([...args, '--config', this.config, '--data-dir', this.dataDir], { cwd: this.dir })
  }

  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command prints
  json(...args: string[]): any {
    const ran = this.run(...args, '--json')
    if (ran.stdout.trim() === '') throw new Error(`${args.join(' ')} printed nothing; stderr: ${ran.stderr}`)
    return JSON.parse(ran.stdout)
  }

  /** Sends a command to the running gateway over its control socket: in the rig a CLI process takes a second. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever JSON the command gives
  ask(command: string, options: Record<string, unknown> = {}): Promise<any> {
    return askControl(this.dataDir, command, options)
  }

  /** Every fact in the log of the running gateway. */
  async facts(): Promise<LoggedFact[]> {
    const facts: LoggedFact[] = []
    await askControl(this.dataDir, 'log export', { from: 1 }, row => facts.push(row as LoggedFact))
    return facts
  }

  /**
   * Every fact in the log: reads a running gateway's log through the gateway, since the newest records may not be in the
   * files yet.
   */
  logFacts(): LoggedFact[] {
    if (this.#child) {
      const { stdout, code, stderr } = this.run('log', 'export', '--from', '1')
      if (code !== 0) throw new Error(`log export: ${stderr}`)
      return stdout
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line) as LoggedFact)
    }
    return [...exportFacts(join(this.dataDir, 'log'), 1, realFiles)] as LoggedFact[]
  }

  /** `device_id t_raw` of every fact in the log. */
  logKeys(): string[] {
    return this.logFacts().map(keyOf).sort()
  }
}

/** The dict form: id, t_raw, and s1_id, s1_s, s1_u, s1_v … */
export type LoggedFact = { id: string; t_raw: number } & Record<string, unknown>

export interface LoggedSensor {
  id: string
  status: string
  unit: string
  value: number | null
}

export function sensorsOf(fact: LoggedFact): LoggedSensor[] {
  const sensors: LoggedSensor[] = []
  for (let n = 1; typeof fact[`s${n}_id`] === 'string'; n++)
    sensors.push({
      id: String(fact[`s${n}_id`]),
      status: String(fact[`s${n}_s`]),
      unit: String(fact[`s${n}_u`]),
      value: fact[`s${n}_v`] as number | null,
    })
  return sensors
}

/** UNIX ms at which a gateway of this process was killed */
export const kills: number[] = []

/** `device_id t_raw` */
export const keyOf = (fact: { id: string; t_raw: number }): string => `${fact.id} ${fact.t_raw}`

/** Every packet in the database, read page by page over HTTP. New rows shift the pages: a repeated row counts once. */
export async function databaseFacts(webPort: number, token: string, query = ''): Promise<LoggedFact[]> {
  const facts = new Map<string, LoggedFact>()
  for (let offset = 0; ; offset += 500) {
    const url = `http://127.0.0.1:${webPort}/api/data/packets?limit=500&offset=${offset}${query}`
    // 503: the view is starting, which may take long on a busy machine
    const response = await until('the database answers', async () => {
      const answer = await fetch(url, { headers: { 'X-Admin-Token': token } })
      return answer.status === 503 ? null : answer
    })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    const body = (await response.json()) as { packets: { packet_uuid: string; payload_json: LoggedFact }[] }
    for (const { packet_uuid, payload_json } of body.packets) facts.set(packet_uuid, payload_json)
    if (body.packets.length === 0) return [...facts.values()]
  }
}

/** `device_id t_raw` of every packet in the database. */
export const databaseKeys = async (webPort: number, token: string): Promise<string[]> =>
  (await databaseFacts(webPort, token)).map(keyOf).sort()
