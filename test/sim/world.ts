// The machines of a run: one upstream (machine 0) and its gateways, some of them behind a relay, each with a disk, a clock and a process that is started,
// killed and restarted. The true state is kept next to them: every reading of a source, every record that a log has
// committed. The invariants are checked against that while the world runs.
import { Broker } from './broker'
import { addressOf, clientOf, configOf, type Edit, PORT, portOf, receivesOn, topicsOf } from './config'
import type { Memory } from './device'
import { Crash, Disk } from './disk'
import { type Dice, Engine, fnv } from './engine'
import { type Host, Net } from './net'
import type { FaultKind, Plan } from './plan'
import { type Compiled, Program } from './program'
import { Lines } from './serial'
import { Truth } from './truth'

/** A broken promise: the run ends. */
export class Broken extends Error {}

type Gateway = Awaited<ReturnType<Program['image']['Gateway']['open']>>

const BASE_WALL = 1_780_000_000_000
export const isCrash = (error: unknown): boolean => {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof Crash) return true
  return false
}

/** A medium at some time: its content, and the true state then. */
export interface Card {
  readonly files: ReadonlyMap<string, string | Uint8Array>
  readonly edit: Edit | undefined
  readonly rotted: readonly (readonly [number, number])[]
  readonly memory: Memory | undefined
}

export class Machine {
  /** as the file of its configuration is now */
  edit: Edit | undefined
  readonly host: Host
  readonly disk: Disk
  program: Program | undefined
  gateway: Gateway | undefined
  /** ms that its clock is wrong by */
  wrongBy = 0
  starts = 0
  starting = false
  /** nothing starts it before this virtual time */
  awayUntil = 0
  /** set while a start dies in one of its calls: the number of the call */
  dieInStart = 0
  /** seqs whose segment has rotted: from, and the first one after */
  readonly rotted: [number, number][] = []
  /** one action after the next event of that name */
  readonly armed = new Map<string, () => void>()
  readonly dice: Dice

  constructor(
    readonly world: World,
    readonly number: number,
  ) {
    this.host = { address: addressOf(number), up: true }
    this.dice = world.dice.fork(`machine ${number}`)
    this.disk = new Disk(this.dice.fork('disk'))
    const jitter = this.dice.fork('sync')
    this.disk.latency = () => world.plan.syncMs * (0.5 + jitter.next())
    this.disk.onCreate = path => {
      if (path.endsWith('.seg')) this.happened('segment')
    }
    world.net.add(this.host)
    this.disk.put('/data/Config.json', JSON.stringify(this.config))
  }

  get isUpstream(): boolean {
    return this.number === 0
  }
  get wall(): number {
    return BASE_WALL + this.world.engine.now + this.wrongBy
  }
  /** The file of its configuration, with the id that is in it now. */
  get config(): Record<string, unknown> {
    const file = this.disk.read('/data/Config.json')?.toString('utf8')
    const id = file ? (JSON.parse(file) as { assigned_id?: number }).assigned_id : undefined
    return configOf(this.world.plan, this.number, this.edit, id)
  }
  /** Bits of its segment changed: it may be lost, if that is named. */
  hasRotted(seq: number): boolean {
    return this.rotted.some(([from, end]) => from <= seq && seq < end)
  }
  /** Others send to it. */
  get receives(): boolean {
    return this.isUpstream || receivesOn(this.world.plan, this.number).length > 0
  }
  /** The machines that it sends to or that send to it. */
  get neighbours(): Machine[] {
    const { machines, plan } = this.world
    return machines.filter(
      ({ number }) =>
        number !== this.number &&
        ((this.number > 0 && plan.ways[this.number]!.to === number) ||
          (number > 0 && plan.ways[number]!.to === this.number)),
    )
  }
  get name(): string {
    return this.isUpstream ? 'upstream' : `gw${this.number}`
  }

  happened(name: string): void {
    const run = this.armed.get(name)
    if (!run) return
    this.armed.delete(name)
    run()
  }

  /** Ends the process; `power`: and the machine loses what was not synced. */
  die(power: boolean): void {
    const { world, program } = this
    world.note(`${this.name} dies${power ? ' with the power' : ''}`)
    program?.kill()
    if (program) world.ended(program, power)
    this.program = this.gateway = undefined
    this.starting = false
    if (power) {
      this.host.up = false
      this.disk.cut()
      this.disk.fault = null
    }
    world.truth.died(this)
    this.later()
  }

  /** The current content of its card. */
  copy(): Card {
    const { disk, edit, rotted } = this
    return { files: disk.copy(), edit, rotted: [...rotted], memory: this.world.truth.memory(this) }
  }

  /** Its card is replaced: by an older copy, or by a new one with nothing on it but the configuration. */
  insert(card?: Card): void {
    this.die(true)
    if (card) this.edit = card.edit
    this.disk.restore(
      card?.files ??
        new Map([['/data/Config.json', JSON.stringify(configOf(this.world.plan, this.number, this.edit))]]),
    )
    this.rotted.splice(0, Number.POSITIVE_INFINITY, ...((card?.rotted ?? []) as [number, number][]))
    this.world.truth.inserted(this, card?.memory)
  }

  /** Restarts after a while, as the service manager does. */
  later(ms = this.world.plan.awayMs): void {
    this.awayUntil = Math.max(this.awayUntil, this.world.engine.now + ms)
    this.world.engine.after(this.awayUntil - this.world.engine.now, () => {
      if (!this.program && this.world.engine.now >= this.awayUntil) this.start()
    })
  }

  start(): void {
    const { world } = this
    this.starts++
    this.starting = true
    this.host.up = true
    world.note(`${this.name} starts`)
    const { engine, net, lines } = world
    const program = new Program(
      {
        engine,
        net,
        lines,
        disk: this.disk,
        host: this.host,
        wall: () => this.wall,
        tuning: this.isUpstream
          ? {
              ...world.plan.tuning,
              maxBytes: world.plan.upstreamBytes || undefined!,
              windowPackets: world.plan.windowPackets,
            }
          : {
              ...world.plan.tuning,
              settled: seq => world.truth.settled(this, seq),
              refused: seq => world.truth.refused(this, seq),
              taken: record => world.truth.taken(this, record),
            },
        note: line => world.note(line),
        apart: world.apart,
        noteRoundabout: what => world.around(`${this.name} reached around the world: ${what}`),
      },
      world.compiled,
      this.dice.fork(`start ${this.starts}`),
    )
    this.program = program
    program.onDeath = power => this.die(power)
    if (this.dieInStart > 0) program.dieIn(this.dieInStart, this.dice.chance(0.5))
    this.dieInStart = 0
    this.#started(program).catch(error => {
      if (program.dead || isCrash(error)) return
      world.broken(`${this.name} does not start: ${error instanceof Error ? error.stack : error}`)
    })
  }

  async #started(program: Program): Promise<void> {
    const { world } = this
    const { image } = program
    const silent = (): void => undefined
    const logger = image.createLogger({
      level: 'info',
      write: world.said ? line => world.said!(`${this.name} ${line}`) : silent,
    })
    const config = image.ConfigStore.load({
      path: '/data/Config.json',
      dataDir: '/data',
      env: {},
      cwd: '/data',
      // their options cost time at each start
      ...(world.plan.ways.some(({ media }) => media.join() !== 'UDP') && {
        fragments: image.mediaFragments({ UART: image.uartOptions }),
      }),
      logger,
    })
    const gateway = await image.Gateway.open({
      config,
      registry: new image.Registry({
        media: image.media as never,
        sources: {
          counter: async () => ({
            type: 'counter',
            create: (name, { interval_ms: ms }) => world.source(this, name, ms as number),
          }),
        },
      }),
      units: { ...image.wireUnits(), resolve: image.resolve },
      script: '/os-node.js',
      version: '1.0.0',
      builtAt: BASE_WALL - 1e9,
      logger,
      defaultSources: [],
      role: this.isUpstream ? 'serve' : 'run',
      ...(world.rscore && {
        cores: new image.GatewayCores(logger, { uplinks: 'rscore', receivers: 'rscore' }, 1),
      }),
      ...(this.isUpstream && { listen: { host: '0.0.0.0', port: PORT } }),
      clockSigns: () =>
        this.isUpstream || world.plan.vouched ? { kernel: { synced: true, offset_us: 0, maxerror_us: 0 } } : {},
    })
    if (program.dead) return
    this.gateway = gateway
    world.truth.opened(this, gateway)
    await gateway.start()
    if (program.dead) return
    this.starting = false
    world.note(`${this.name} is up`)
    this.happened('up')
  }

  /** The file of the configuration changes, and a running gateway reads it. */
  reload(edit: Edit): void {
    this.edit = edit
    this.disk.put('/data/Config.json', JSON.stringify(this.config))
    const now = (): void => {
      this.world.note(`${this.name} reads its configuration again`)
      const { gateway, program } = this
      const reload = (): void =>
        void gateway?.reload().catch(error => {
          // a disk that refuses reads; the end of the faults retries
          if (!isCrash(error)) this.world.note(`${this.name} refuses: ${error}`)
        })
      // the same event may concern other machines
      this.world.engine.after(0, reload, program)
    }
    if (this.starting) this.armed.set('up', now)
    else now()
  }

  /** A clean stop, and a start later. */
  stop(): void {
    const { gateway, program, world } = this
    if (!gateway || !program || this.starting) return
    world.note(`${this.name} stops`)
    this.starting = true
    const gone = (): void => {
      if (program.dead) return
      program.kill()
      world.ended(program, false)
      this.program = this.gateway = undefined
      this.starting = false
      world.truth.died(this)
      this.happened('stopped')
      this.later()
    }
    const stop = (): void =>
      void gateway.stop().then(gone, error => {
        // a log that the disk refuses to the end
        if (!isCrash(error)) gone()
      })
    world.engine.after(0, stop, program)
  }
}

export class World {
  readonly engine = new Engine()
  readonly net: Net
  readonly machines: Machine[]
  readonly broker: Broker
  /** undefined: there are none */
  readonly lines: Lines | undefined
  readonly truth: Truth
  /** calls of what the world does not have */
  readonly roundabouts = new Set<string>()
  /** faults may come */
  faulty = true
  /** sources give readings */
  measuring = true
  /** ms by which clocks have been wrong */
  readonly wrong = { least: 0, most: 0 }
  /** of the faults */
  readonly kinds: ReadonlySet<FaultKind>
  failure: string | undefined
  hash = 0x811c9dc5
  trace: ((line: string) => void) | undefined
  said: ((line: string) => void) | undefined
  /** uplinks and receivers use the native core */
  rscore = false

  constructor(
    readonly plan: Plan,
    readonly compiled: Compiled,
    readonly dice: Dice,
    /** each start of a process evaluates a text of its own */
    readonly apart: boolean,
  ) {
    this.kinds = new Set(plan.faults.map(({ kind }) => kind))
    this.net = new Net(this.engine, dice.fork('net'))
    Object.assign(this.net.weather, plan.weather)
    this.net.samePorts = plan.samePorts
    this.broker = new Broker(this.engine, this.net, dice.fork('broker'))
    this.broker.doubles = plan.weather.double
    // the upstream is started before its gateways
    for (let k = 0; k <= plan.gateways; k++)
      if (receivesOn(plan, k).includes('MQTT')) this.broker.session(clientOf(k), `${topicsOf(k)}/+/up`, plan.mqtt.qos)
    this.net.onPacket = (from, to, bytes, fate) => this.note(`${from}>${to} ${fate} ${bytes.toString('latin1')}`)
    this.engine.onThrow = error => {
      if (!isCrash(error)) this.broken(`an exception ends a process: ${error instanceof Error ? error.stack : error}`)
    }
    this.truth = new Truth(this)
    this.machines = Array.from({ length: plan.gateways + 1 }, (_, k) => new Machine(this, k))
    this.lines = plan.line && new Lines(this.engine, this.net, dice.fork('lines'))
    if (this.lines) this.lines.noise = plan.noise
    for (const [from, { to, media }] of plan.ways.entries())
      if (media.includes('UART'))
        this.lines!.lay([this.machines[from]!.host, portOf(from, from)], [this.machines[to]!.host, portOf(to, from)])
  }

  /** A process is gone, or the power of its machine. */
  ended(program: Program, power: boolean): void {
    this.net.streams.ended(program, power)
    this.lines?.ended(program, power)
  }

  get upstream(): Machine {
    return this.machines[0]!
  }

  /** One line of the trace: the same seed has the same lines. */
  note(line: string): void {
    const text = `${this.engine.now.toFixed(3)} ${line}`
    this.hash = fnv(text, this.hash)
    this.trace?.(text.replace(/[^ -~]/g, c => `%${c.charCodeAt(0).toString(16)}`))
  }

  broken(text: string): void {
    if (this.failure !== undefined) return
    this.failure = text
    this.note(`BROKEN ${text}`)
  }

  /** A program called what the world does not have. */
  around(text: string): void {
    this.roundabouts.add(text)
    this.broken(text)
  }

  /** A source whose values identify the reading. */
  source(machine: Machine, name: string, intervalMs: number) {
    const { truth } = this
    return {
      name,
      type: 'counter',
      intervalMs,
      counters: { rx: 0, tx: 0, errors: 0 },
      open: async () => {
        if (!this.measuring) throw new Error('the measuring is over')
      },
      close: async () => undefined,
      read: async () => {
        if (!this.measuring) throw new Error('the measuring is over')
        return truth.reading(machine)
      },
    }
  }
}
