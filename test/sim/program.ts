// One process of the simulated world: the image, run with its own globals and modules, or the one that all processes share (shared.ts). Its
// clock, timers, random numbers, disk and sockets are those of its machine; everything else is refused and recorded, because a real call would
// never return in virtual time. A killed process is marked dead: its timers and packets vanish, and its disk throws.
import * as realCrypto from 'node:crypto'
import * as realNet from 'node:net'
import * as realOs from 'node:os'
import { compileFunction } from 'node:vm'
import * as realZlib from 'node:zlib'
import { SimAddon } from './addon'
import { Crash, type Disk } from './disk'
import { asOwner, type Dice, type Engine, microtask, type Owner, running } from './engine'
import { globalsOf, only, PURE, type Refuse, refusing, SHADOWED } from './globals'
import type * as Image from './image'
import type { Host, Net } from './net'
import type { Lines } from './serial'
import { type Process, sharedGlobals } from './shared'
import { SimThread } from './thread'

export type GatewayImage = typeof Image
type Fact = Parameters<Awaited<ReturnType<GatewayImage['Gateway']['open']>>['log']['appendFact']>[0]

const OWN = ['require', 'module', 'exports', 'SIM', '__dirname']
const PARAMETERS = [...OWN, ...SHADOWED.filter(name => !OWN.includes(name))]
/** modules of Node that only compute */
const PURE_MODULES = new Set(['path', 'util', 'buffer', 'events', 'string_decoder', 'url', 'stream', 'assert'])

/** The compiled texts: a call evaluates one, for a start of a process, of its SQL worker, or for all processes. */
export interface Compiled {
  gateway(...parameters: unknown[]): void
  /** the same text as another function, so that V8 optimizes the shared one for one set of classes */
  apart(...parameters: unknown[]): void
  worker(...parameters: unknown[]): void
  /** SQLite, a WebAssembly.Module */
  readonly sqlite: object
  /** the gateway's text that all processes share, evaluated by the first of them */
  shared?: GatewayImage
}

export function compile(text: string): Compiled {
  // which are missing in the types of Node
  const { Module: Wasm } = (globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => object } })
    .WebAssembly
  const parts = JSON.parse(text) as { gateway: string; worker: string; wasm: string }
  const compiled = (name: 'gateway' | 'worker') =>
    compileFunction(parts[name], PARAMETERS, { filename: `os-node-simulated-${name}.js` }) as Compiled['worker']
  return {
    gateway: compiled('gateway'),
    apart: compiled('gateway'),
    worker: compiled('worker'),
    sqlite: new Wasm(Buffer.from(parts.wasm, 'base64')),
  }
}

/** Sizes that the image reads from here, so that rare situations are frequent. */
export interface Tuning {
  segmentBytes?: number
  leastSegment?: number
  maxBytes?: number
  reserve?: number
  bufferBytes?: number
  windowPackets?: number
  /** the upstream, or a broker, has the record of this number: this process does not send it again */
  settled?: (seq: number) => void
  /** the upstream refused the record, which a broker had acknowledged: it is sent again */
  refused?: (seq: number) => void
  /** an uplink takes the record, with its time corrected */
  taken?: (record: { seq: number; fact: Fact }) => void
}

export interface MachineParts {
  readonly engine: Engine
  readonly disk: Disk
  readonly net: Net
  /** undefined: no machine has one, and no program the native addon */
  readonly lines: Lines | undefined
  readonly host: Host
  /** UNIX ms of the machine's clock */
  wall(): number
  readonly tuning: Tuning
  readonly note: (line: string) => void
  readonly noteRoundabout: (what: string) => void
  /** each start evaluates a text of its own */
  readonly apart: boolean
}

export class Program implements Process {
  dead = false
  frozenUntil = 0
  /** calls of its interfaces so far */
  calls = 0
  /** the call in which it dies */
  dieAt = Number.POSITIVE_INFINITY
  onDeath: (power: boolean) => void = () => undefined
  /** it dies with a power cut */
  diesWithPower = false
  readonly image: GatewayImage
  readonly globals: ReadonlyMap<string, unknown>
  /** of its SQL view; the last one is running */
  readonly threads: SimThread[] = []
  readonly #compiled: Compiled
  readonly #parts: MachineParts
  readonly #started: number
  readonly #dice: Dice
  readonly #refuse: Refuse
  readonly #addon: SimAddon | undefined

  constructor(parts: MachineParts, compiled: Compiled, dice: Dice) {
    this.#parts = parts
    this.#dice = dice
    this.#started = parts.engine.now
    this.#compiled = compiled
    this.#refuse = refusing(parts.noteRoundabout)
    const { lines, host } = parts
    this.#addon = lines && new SimAddon({ lines, host, owner: this, dice: dice.fork('addon'), seam: () => this.seam() })
    const module = { exports: {} as GatewayImage }
    this.globals = this.#globals(module)
    running.owner = this
    this.image = parts.apart ? this.#evaluate('apart', this.globals, module) : (compiled.shared ??= this.#share())
  }

  #share(): GatewayImage {
    const module = { exports: {} as GatewayImage }
    const values = sharedGlobals(this.globals, PURE_MODULES, this.#compiled.sqlite)
    return this.#evaluate('gateway', values.set('module', module).set('exports', module.exports), module)
  }

  #evaluate(
    text: 'gateway' | 'apart',
    values: ReadonlyMap<string, unknown>,
    module: { exports: GatewayImage },
  ): GatewayImage {
    this.#compiled[text](...PARAMETERS.map(name => values.get(name)))
    return module.exports
  }

  /** Kills it immediately. */
  kill(): void {
    this.dead = true
  }

  /** Kills it in the middle of a call some calls from now on. */
  dieIn(calls: number, power: boolean): void {
    this.dieAt = this.calls + calls
    this.diesWithPower = power
  }

  /** Every call of disk, timers and network passes through here. */
  seam(): void {
    if (this.dead) throw new Crash('a dead process reached for the world')
    if (++this.calls < this.dieAt) return
    this.dieAt = Number.POSITIVE_INFINITY
    this.dead = true
    this.onDeath(this.diesWithPower)
    throw new Crash('the process dies in this call')
  }

  #globals(
    module: { exports: object },
    others: Record<string, unknown> = {},
    owner: Owner = this,
  ): ReadonlyMap<string, unknown> {
    const { engine, tuning } = this.#parts
    const wall = (): number => Math.floor(this.#parts.wall())
    const mono = (): number => engine.now - this.#started
    class SimDate extends Date {
      constructor(...parts: unknown[]) {
        if (parts.length === 0) super(wall())
        else super(...(parts as [number]))
      }
      static override now(): number {
        return wall()
      }
    }
    const timer = (ms: number, run: () => void, again: boolean): SimTimer => new SimTimer(engine, owner, ms, run, again)
    const set =
      (again: boolean) =>
      (run: (...a: unknown[]) => void, ms?: number, ...rest: unknown[]) => {
        // timers of Node are whole milliseconds, one at least
        if (!this.dead) this.seam()
        return timer(Math.max(1, Math.trunc(Number(ms) || 1)), () => run(...rest), again)
      }
    const clear = (handle: unknown): void => {
      if (handle instanceof SimTimer) handle.close()
    }
    const immediate = (run: (...a: unknown[]) => void, ...rest: unknown[]): SimTimer =>
      timer(0, () => run(...rest), false)
    const math = Object.create(Math, { random: { value: this.#dice.next } })
    const setTimer = set(false)
    const modules = this.#modules(setTimer, immediate)
    const require = (name: string): unknown => {
      const bare = name.replace(/^node:/, '')
      return others[bare] ?? modules(bare)
    }
    const values: Record<string, unknown> = globalsOf(this.#refuse, {
      ...{ setTimeout: setTimer, clearTimeout: clear, setInterval: set(true), clearInterval: clear },
      ...{ setImmediate: immediate, clearImmediate: clear, Date: SimDate, Math: math },
      queueMicrotask: (run: () => void) => microtask(() => asOwner(owner, run)),
      ...{ process: this.#process(mono), performance: { now: mono, timeOrigin: 0 } },
    })
    const { sqlite } = this.#compiled
    const states = new Map<string, object>()
    const stateOf = (name: string, make: () => object): object => {
      if (!states.has(name)) states.set(name, make())
      return states.get(name)!
    }
    const SIM = { ...tuning, sqlite, own: stateOf, stateOf }
    Object.assign(values, { require, module, exports: module.exports, SIM, __dirname: '/' })
    return new Map(PARAMETERS.map(name => [name, values[name]]))
  }

  /** node:worker_threads' Worker, which runs the SQL worker whatever its script is. */
  #threads(): unknown {
    const { engine } = this.#parts
    const { worker } = this.#compiled
    const { threads } = this
    const parts = {
      ...{ engine, process: this, dice: this.#dice.fork('threads') },
      run: (modules: Record<string, unknown>, owner: Owner) => {
        worker(...this.#globals({ exports: {} }, modules, owner).values())
      },
    }
    return class extends SimThread {
      constructor(_script: string, { workerData }: { workerData: object }) {
        super(parts, workerData)
        threads.push(this)
      }
    }
  }

  #process(mono: () => number): Record<string, unknown> {
    const hrtime = (): [number, number] => [Math.floor(mono() / 1000), Math.floor((mono() % 1000) * 1e6)]
    const memory = Object.assign(
      () => ({ rss: 6e7, heapTotal: 4e7, heapUsed: 3e7, external: 1e6, arrayBuffers: 1e5 }),
      {
        rss: () => 6e7,
      },
    )
    const nothing = (): void => undefined
    return {
      env: {},
      argv: ['node', 'os-node'],
      execArgv: [],
      execPath: '/usr/bin/node',
      pid: 1000,
      ppid: 1,
      platform: 'linux',
      arch: 'arm64',
      version: process.version,
      versions: process.versions,
      release: process.release,
      features: process.features,
      cwd: () => '/',
      uptime: () => mono() / 1000,
      hrtime: Object.assign(hrtime, { bigint: () => BigInt(Math.floor(mono() * 1e6)) }),
      memoryUsage: memory,
      nextTick: process.nextTick,
      geteuid: () => 0,
      getuid: () => 0,
      umask: () => 0o22,
      on: nothing,
      once: nothing,
      off: nothing,
      emitWarning: nothing,
      dlopen: (module: { exports: unknown }) => {
        module.exports = this.#addon!.exports()
      },
      stderr: { write: nothing, isTTY: false },
      stdout: { write: nothing, isTTY: false },
    }
  }

  #modules(
    setTimer: (run: () => void, ms?: number) => unknown,
    immediate: (run: () => void) => unknown,
  ): (name: string) => unknown {
    const { engine, disk, net, host, note } = this.#parts
    const random = (bytes: number): Buffer =>
      Buffer.from(Uint8Array.from({ length: bytes }, () => this.#dice.below(256)))
    const fs = disk.module({
      seam: (what, path, bytes) => {
        note(`${host.address} ${what} ${path} ${bytes}`)
        this.seam()
      },
      later: (ms, run) => void engine.after(ms, run, this),
    })
    const refused = this.#refuse
    class Resolver {
      resolve4(): Promise<never> {
        return Promise.reject(Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' }))
      }
      resolve6(): Promise<never> {
        return this.resolve4()
      }
    }
    const own: Record<string, unknown> = {
      fs: refused('fs', this.#addon ? this.#addon.files(fs) : fs),
      dgram: net.dgram(host, this),
      tty: { isatty: () => false },
      'dns/promises': { Resolver },
      'timers/promises': {
        setTimeout: (ms: number) => new Promise<void>(done => void setTimer(done, ms)),
        setImmediate: () => new Promise<void>(done => void immediate(done)),
      },
      zlib: refused('zlib', only(realZlib, ...PURE.zlib)),
      crypto: refused('crypto', {
        ...only(realCrypto, ...PURE.crypto),
        randomBytes: random,
        randomFillSync: (bytes: Uint8Array) => {
          bytes.set(random(bytes.length))
          return bytes
        },
        randomUUID: () => random(16).toString('hex'),
        randomInt: (most: number) => this.#dice.below(most),
      }),
      os: refused('os', {
        ...only(realOs, ...PURE.os),
        hostname: () => host.address.replaceAll('.', '-'),
        totalmem: () => 512 * 2 ** 20,
        freemem: () => 256 * 2 ** 20,
        networkInterfaces: () => ({}),
        homedir: () => '/root',
        tmpdir: () => '/tmp',
      }),
      net: refused('net', {
        ...net.streams.module(host, this),
        isIP: realNet.isIP,
        isIPv4: realNet.isIPv4,
        isIPv6: realNet.isIPv6,
      }),
      worker_threads: refused('worker_threads', {
        isMainThread: true,
        threadId: 0,
        parentPort: null,
        workerData: null,
        Worker: this.#threads(),
      }),
    }
    return name => {
      if (name in own) return own[name]
      if (PURE_MODULES.has(name)) return process.getBuiltinModule(name)
      return refused(name)
    }
  }
}

class SimTimer {
  #cancel: (() => void) | undefined
  readonly #arm: () => void

  constructor(engine: Engine, owner: Owner, ms: number, run: () => void, again: boolean) {
    this.#arm = () => {
      this.#cancel = engine.after(
        ms,
        () => {
          if (again) this.#arm()
          else this.#cancel = undefined
          run()
        },
        owner,
      )
    }
    if (!owner.dead) this.#arm()
  }
  close(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }
  refresh(): this {
    this.close()
    this.#arm()
    return this
  }
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
  hasRef(): boolean {
    return true
  }
}
