// A gateway's uplinks and one upstream behind several media in memory, with a clock moved by hand. Each medium can be cut, can
// lose packets, refuse them or be slow, and records its packets. The gateway's end can be killed and restarted.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigStore, type UplinkConfig } from '../../src/config'
import type { GatewayCores } from '../../src/cores'
import type { PoolWish } from '../../src/gateway/ids'
import { Receive } from '../../src/gateway/receive/receive'
import { ReceiveSession } from '../../src/gateway/receive/receiver-session'
import { Uplinks } from '../../src/gateway/uplink/uplinks'
import { OsError } from '../../src/lib/errors'
import { realFiles } from '../../src/lib/files'
import { type Logger, silentLogger } from '../../src/lib/logger'
import type { Medium, OpenableEvents, PacketHandler } from '../../src/links/contracts'
import { Registry } from '../../src/links/registry'
import { Supervisor } from '../../src/links/supervisor'
import type { Fact } from '../../src/pipeline/fact'
import { Receiver } from '../../src/pipeline/receiver'
import { WirePickers } from '../../src/pipeline/wireunit'
import { SequenceCounter } from '../../src/protocol/control'
import { DuplicateFilter } from '../../src/protocol/duplicates'
import { HandshakeManager } from '../../src/protocol/handshake/manager'
import { SecureServer } from '../../src/protocol/secure/server'
import { SecureSessions } from '../../src/protocol/secure/sessions'
import { NodeClock } from '../../src/protocol/time'
import { resolve } from '../../src/units/canonical'
import { wireUnits } from '../../src/units/wire'
import { ManualClock, ManualTimers } from './manual'
import { MemLog } from './memlog'

export const units = { ...wireUnits(), resolve }

/** One medium to the upstream; `acknowledges` as MQTT QoS 1 does. */
export class Road implements Medium {
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  /** a black hole: sent packets are lost, without any error */
  cut = false
  /** cannot be opened */
  dead = false
  /** send() resolves false */
  refuses = false
  delayMs = 5
  lose: (packet: Uint8Array, up: boolean) => boolean = () => false
  /** sizes of all packets sent, and when */
  readonly sent: { bytes: number; at: number }[] = []
  opens = 0
  #handler: PacketHandler = () => undefined
  #events: OpenableEvents | undefined

  constructor(
    readonly name: string,
    readonly medium: string,
    readonly maxPacket: number,
    readonly world: UplinkWorld,
    readonly acknowledges?: boolean,
  ) {}

  async open(events: OpenableEvents): Promise<void> {
    if (this.dead) throw new OsError('LINK_DOWN', `${this.name} is dead`)
    this.opens++
    this.#events = events
  }
  async close(): Promise<void> {
    this.#events = undefined
  }
  onPacket(handler: PacketHandler): void {
    this.#handler = handler
  }
  /** An answer of the upstream, whenever. */
  answer(packet: Uint8Array): void {
    this.#handler(packet, { medium: this.medium, address: 'up', reply: async () => false })
  }
  /** unplugged, and it reports that */
  unplug(): void {
    this.dead = true
    this.#events?.lost('unplugged')
  }
  async send(packet: Uint8Array): Promise<boolean> {
    const { timers, clock } = this.world
    if (!this.#events || this.refuses) return false
    if (packet.length > this.maxPacket) throw new Error(`${packet.length} bytes over ${this.name}`)
    this.sent.push({ bytes: packet.length, at: clock.mono() })
    const copy = packet.slice()
    const events = this.#events
    if (!this.acknowledges) {
      if (!this.cut && !this.lose(copy, true)) timers.after(this.delayMs, () => this.#arrived(copy, events))
      return true
    }
    return new Promise(resolve =>
      timers.after(this.delayMs, () => {
        if (this.cut || events !== this.#events || this.lose(copy, true)) return resolve(false)
        this.#arrived(copy, events)
        resolve(true)
      }),
    )
  }
  #arrived(packet: Uint8Array, events: OpenableEvents): void {
    this.world.receive.packet(packet, {
      medium: this.medium,
      address: `10.0.0.${this.name.length}:${this.name}`,
      reply: async answer => {
        const copy = answer.slice()
        if (!this.cut && !this.lose(copy, false))
          this.world.timers.after(this.delayMs, () => {
            if (this.#events === events) this.answer(copy)
          })
        return true
      },
    })
  }
}

const noting = (said: string[], scope = ''): Logger => ({
  ...silentLogger,
  info: text => said.push(`${scope}${text}`),
  warn: text => said.push(`${scope}warning: ${text}`),
  error: text => said.push(`${scope}error: ${text}`),
  child: name => noting(said, `${scope}${name}: `),
})

export interface RoadSpec {
  name: string
  medium?: string
  maxPacket?: number
  acknowledges?: boolean
  /** replaces the path: a medium that delivers its packets to `receive` itself */
  build?: () => Medium
  /** more keys of its entry in gateway.uplinks */
  entry?: Record<string, unknown>
}

export class UplinkWorld {
  readonly clock = new ManualClock()
  readonly timers = new ManualTimers(this.clock)
  readonly dir = mkdtempSync(join(tmpdir(), 'os-node-uplinks-'))
  readonly log = new MemLog()
  readonly got = new MemLog()
  readonly roads = new Map<string, Road>()
  readonly config: ConfigStore
  receive!: Receive
  uplinks!: Uplinks
  time!: NodeClock
  supervisor!: Supervisor
  localUpstreams = 0
  /** log lines of the gateway's uplinks */
  readonly said: string[] = []
  /** ids that the gateway requests for its nodes */
  wish: PoolWish | null = null
  #fact = 0
  readonly #specs = new Map<string, RoadSpec>()

  constructor(
    settings: Record<string, unknown> = {},
    /** false: no time source confirms the gateway's clock before its upstream does */
    readonly vouched = true,
    /** of the gateway and its upstream */
    readonly cores?: GatewayCores,
  ) {
    writeFileSync(
      join(this.dir, 'Config.json'),
      JSON.stringify({
        device_id: 'GW',
        assigned_id: 5,
        data_dir: this.dir,
        gateway: settings,
        RESOURCES: {
          transport_status: { udp: true, tcp: true },
          application_status: { mqtt: true },
          physical_status: { lora: true },
        },
      }),
    )
    this.config = ConfigStore.load({ env: {}, cwd: this.dir, logger: silentLogger })
    this.startServer()
    this.startGateway()
  }

  /** The configured list; media are created when their entry is built. */
  apply(...specs: RoadSpec[]): ReturnType<Uplinks['apply']> {
    for (const spec of specs) this.#specs.set(spec.name, spec)
    return this.uplinks.apply(
      specs.map(
        ({ name, medium = 'UDP', entry = {} }) =>
          ({
            name,
            medium,
            host: 'up',
            batch_window_ms: 0,
            rate_packets_s: 0,
            rate_bytes_s: 0,
            server: 'the one upstream',
            ...entry,
          }) as UplinkConfig,
      ),
    )
  }

  road(name: string): Road {
    return this.roads.get(name)!
  }

  startServer(): void {
    const { clock } = this
    const sessions = new SecureSessions({ now: () => Math.floor(clock.wall() / 1000), mono: () => clock.mono() })
    const server = new SecureServer({ sessions, clock, serverTime: () => clock.wall() / 1000, requireSecure: false })
    const receiver = new Receiver({ units, clock, inboundKey: aid => server.keys(aid) })
    this.receive = new Receive({
      log: this.got.asLog,
      receiver,
      duplicates: new DuplicateFilter(),
      pickers: new WirePickers(units, 4),
      protocol: new HandshakeManager({}, { clock, strict: {} }),
      time: new NodeClock(clock),
      logger: silentLogger,
      ackCommitMs: 100,
      cores: this.cores,
      session: new ReceiveSession(server),
      onFact: () => undefined,
    })
  }

  startGateway(): void {
    const { clock, timers, config } = this
    const sequence = new SequenceCounter()
    this.supervisor = new Supervisor({ clock, timers, backoff: { random: () => 0.5 } })
    const registry = new Registry({
      media: Object.fromEntries(
        ['udp', 'tcp', 'mqtt', 'lora'].map(key => [
          key,
          async () => ({
            medium: key.toUpperCase(),
            create: (name: string) => {
              const { maxPacket = 1400, acknowledges, build } = this.#specs.get(name) ?? {}
              if (build) return build()
              const old = this.roads.get(name)
              const road = new Road(name, key.toUpperCase(), maxPacket, this, acknowledges)
              if (old) Object.assign(road, { cut: old.cut, dead: old.dead, delayMs: old.delayMs, lose: old.lose })
              this.roads.set(name, road)
              return road
            },
          }),
        ]),
      ),
    })
    this.time = new NodeClock(clock, this.vouched ? {} : { timeSource: null })
    this.uplinks = new Uplinks({
      config,
      clock,
      trueNow: () => clock.wall(),
      timers,
      logger: noting(this.said),
      registry,
      supervisor: this.supervisor,
      log: this.log.asLog,
      identity: { assigned: true, assignedId: 5, deviceId: 'GW' } as never,
      time: this.time,
      units,
      cores: this.cores,
      files: realFiles,
      nextSeq: () => sequence.next(),
      ids: { wanted: () => this.wish?.wanted() ?? 0, granted: async ids => this.wish?.granted(ids) },
      localUpstream: {
        start: async () => {
          this.localUpstreams++
          return { name: 'loopback', medium: 'UDP', host: 'here' } as UplinkConfig
        },
        stop: async () => {
          this.localUpstreams--
        },
      },
    })
  }

  /** Kills it, without keeping what is not in the log. */
  async kill(): Promise<void> {
    for (const uplink of this.uplinks.list) uplink.link({ state: 'disabled' })
    this.uplinks.stop = () => undefined
    await this.supervisor.stop()
    this.startGateway()
  }

  async run(ms: number, step = 10): Promise<void> {
    for (let t = 0; t < ms; t += step) await this.timers.advance(Math.min(step, ms - t))
  }

  /** One more fact into the log; of a relayed device if an AID is passed. `more` sensors take 20 bytes each. */
  fact(aid?: number, status = 'OK', more = 0): Fact {
    const n = ++this.#fact
    const fact: Fact = {
      id: aid === undefined ? 'GW' : `NODE${aid}`,
      state: 'ONLINE',
      tRaw: this.clock.wall() + (n % 1000) / 1000,
      aid: aid ?? 5,
      sensors: [
        { id: 'T1', status, unit: 'K', value: 280 + (n % 4096) / 4 },
        { id: 'T2', status: 'OK', unit: 'K', value: 280 + (n % 7) },
      ],
    }
    fact.tRaw = 1_710_000_000_000 + n
    if (more > 0) {
      const wide = Array.from({ length: more }, (_, k) => ({
        id: `WIDE${k}12345`,
        status: 'OK',
        unit: 'K',
        value: k + n,
      }))
      Object.assign(fact, { id: `WIDE${aid}`, sensors: wide })
    }
    this.log.appendFact(fact, { medium: aid === undefined ? 'local' : 'UDP' })
    this.uplinks.pump()
    return fact
  }

  /** The upstream's content, as `device time values`, sorted; duplicates stay in it. */
  get arrived(): string[] {
    return this.got.facts.map(line).sort()
  }
  get logged(): string[] {
    return this.log.facts.map(line).sort()
  }

  async end(): Promise<void> {
    this.uplinks.stop()
    await this.supervisor.stop()
    rmSync(this.dir, { recursive: true, force: true })
  }
}

const line = ({ id, tRaw, sensors }: Fact): string =>
  `${id} ${tRaw} ${sensors.map(s => `${s.status}${s.value}`).join()}`
