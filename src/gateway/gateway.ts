// The main job: sources → intake → log → uplinks, receivers → log, and the SQL view beside it. `run` and `serve` are the
// same gateway: the one with sources and uplinks, the other with receivers and an ID allocator.
//
// What fails: only a data directory that cannot be written, or that another gateway owns, ends the start. Everything else
// is a state: a log that cannot write is `degraded`, a link is `down` with its reason, a database answers 503.
import { join } from 'node:path'
import type { ReceiverConfig, UplinkConfig } from '../config/schema'
import type { ConfigStore } from '../config/store'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import { MissingLink } from '../links/missing'
import type { Registry } from '../links/registry'
import { Supervisor } from '../links/supervisor'
import { FlashLog, type TimeQuality } from '../log'
import { Engine } from '../pipeline/compress'
import type { UnitResolver, WireUnits } from '../pipeline/core'
import type { Fact, LinkMetadata } from '../pipeline/fact'
import { Receiver } from '../pipeline/receiver'
import { maxFullSize } from '../pipeline/sender'
import { Standardizer } from '../pipeline/standardize'
import type { WirePickers } from '../pipeline/wireunit'
import { SequenceCounter } from '../protocol/control'
import { DuplicateFilter } from '../protocol/duplicates'
import { HandshakeManager } from '../protocol/handshake/manager'
import type { IdAllocator } from '../protocol/ids/allocator'
import type { SecureServer } from '../protocol/secure/server'
import { NodeClock, type TimeStep } from '../protocol/time'
import { Database, type DatabaseStatus } from '../storage'
import { Identity } from './identity'
import { GatewayIds } from './ids'
import { Intake, qualityOf, type SubmitOptions, type Submitted } from './intake/intake'
import { addSources, type SourceEntry } from './intake/sources'
import { LatestBoard, type LatestReading } from './latest'
import { LoopbackUpstream } from './loopback'
import type { LinkParts } from './parts'
import { allowList } from './receive/allow'
import { contentHash } from './receive/content'
import { Receive } from './receive/receive'
import { Receivers } from './receive/receivers'
import { ReceiveSession } from './receive/session'
import { receivingSessions } from './sessions'
import type { GatewayStatus } from './status'
import { TimeCorrections } from './time/corrections'
import { SavedTime } from './time/saved'
import { type ClockSigns, readSigns, Vouchers } from './time/vouchers'
import { TimeWatch } from './time/watch'
import { addUplink } from './uplink/build'
import type { Uplink } from './uplink/uplink'

export interface GatewayOptions {
  config: ConfigStore
  registry: Registry
  units: WireUnits & UnitResolver
  /** the bundle: SQL worker and loopback upstream run it again */
  script: string
  version: string
  /** unix ms the program was built at: a system clock before it is not believed */
  builtAt: number
  logger: Logger
  /** sources of a machine that configures none */
  defaultSources: readonly SourceEntry[]
  role: 'run' | 'serve'
  /** `serve`: where packets are received */
  listen?: { host: string; port: number }
  clock?: Clock
  files?: Files
  /** what this machine tells of its clock; by default what can be read of it */
  clockSigns?: () => ClockSigns
}

const NO_DATABASE: DatabaseStatus = {
  state: 'closed',
  dialect: '',
  lag_records: 0,
  packets: 0,
  duplicates: 0,
  left: 0,
}

/** how long a stop waits for the upstreams */
const DRAIN_MS = 3000

/** facts read back at the start, at least */
const REMEMBERED_FACTS = 65_536

export class Gateway {
  readonly config: ConfigStore
  readonly identity: Identity
  readonly time: NodeClock
  readonly supervisor: Supervisor
  readonly intake: Intake
  readonly log: FlashLog
  readonly database: Database | null
  readonly protocol: HandshakeManager
  /** null: hands out no ids */
  readonly ids: GatewayIds | null
  readonly latest = new LatestBoard()
  readonly uplinks: Uplink[] = []
  readonly receive: Receive
  readonly receivers: Receivers
  loopback: LoopbackUpstream | null = null
  readonly #options: GatewayOptions
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #logger: Logger
  readonly #receiver: Receiver
  readonly #sessions: SecureServer
  readonly #sequence = new SequenceCounter()
  readonly #duplicates = new DuplicateFilter()
  readonly #watch: TimeWatch
  readonly #corrections = new TimeCorrections()
  readonly #pickers: WirePickers
  #stopping: Promise<void> | undefined
  #logClosed = false

  /** Opens log and database and builds everything; start() opens the links. Throws DATA_DIR, STORAGE. */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const { config, logger, clock = systemClock, files = realFiles } = options
    const settings = config.config.gateway.log
    const { time_sync_threshold, max_time_step_seconds } = config.config.security_settings
    // the log's own times are the node's: a board without a battery clock begins at 1970
    const time = new NodeClock(clock, {
      buildMs: options.builtAt,
      thresholdSeconds: time_sync_threshold,
      maxStepSeconds: max_time_step_seconds,
      voucher: null,
      onStep: step => {
        watch.stepped(step)
        gateway?.stepped(step)
      },
    })
    let gateway: Gateway | undefined
    const vouchers = new Vouchers(options.clockSigns ?? readSigns, () => clock.wall())
    const saved = new SavedTime(config.dataDir, files, logger.child('time'))
    const watch = new TimeWatch({ clock, time, vouchers, saved })
    watch.look()
    const log = await FlashLog.open({
      dir: join(config.dataDir, 'log'),
      files,
      clock: time.quiet,
      logger: logger.child('log'),
      maxBytes: settings.max_bytes,
      maxAgeS: settings.max_age_s,
      commitIntervalMs: settings.commit_interval_ms,
      ackCommitMs: settings.ack_commit_ms,
      commitBytes: settings.commit_bytes,
      whenFull: settings.when_full,
    })
    gateway = new Gateway(options, log, watch, time, clock, files)
    return gateway
  }

  private constructor(
    options: GatewayOptions,
    log: FlashLog,
    watch: TimeWatch,
    time: NodeClock,
    clock: Clock,
    files: Files,
  ) {
    const { config, units, logger } = options
    this.#options = options
    this.#logger = logger
    this.#clock = clock
    this.#startedAt = clock.mono()
    this.config = config
    this.log = log
    this.identity = new Identity(config, logger)
    const security = config.config.security_settings
    this.time = time
    this.#watch = watch
    log.setQuality(qualityOf(time))
    const { precision, unit_dialect: dialect } = config.config.engine_settings
    const engine = new Engine(null, { precision, units, unitDialect: dialect, clock })
    this.#pickers = engine.pickers
    const dataDir = config.dataDir
    const { receivers } = config.config.gateway
    this.ids =
      options.role === 'serve' || (receivers.length > 0 && security.id_pool.size > 0)
        ? new GatewayIds({
            config,
            files,
            logger: logger.child('ids'),
            source: options.role === 'serve' ? 'range' : 'pool',
            now: () => Math.floor(this.time.now() / 1000),
            mono: () => clock.mono(),
          })
        : null
    this.#sessions = receivingSessions({ config, time: this.time, logger, files })
    this.#receiver = new Receiver({
      units,
      dialect,
      precision,
      clock: this.time,
      registryDir: join(dataDir, 'device_registry'),
      spillDir: join(dataDir, 'device_registry', 'spill'),
      maxBytes: config.config.receiver.template_memory_bytes,
      spillBytes: config.config.receiver.template_disk_bytes,
      files,
      inboundKey: aid => this.#sessions.keys(aid),
      stamp: aid => this.time.stamp(aid),
    })
    this.protocol = new HandshakeManager(
      {},
      {
        clock: this.time,
        allocator: this.ids?.allocator ?? null,
        sequence: this.#sequence,
        requireOpenRequest: true,
        strict: {},
      },
    )
    this.database = config.config.storage.sql.enabled
      ? new Database({
          log,
          workerScript: options.script,
          clock,
          logger: logger.child('db'),
          sql: config.config.storage.sql,
        })
      : null
    this.supervisor = new Supervisor({ clock, logger })
    this.intake = new Intake({
      log,
      standardizer: new Standardizer('', { clock, settings: { precision, unit_dialect: dialect } }),
      time: this.time,
      identity: this.identity,
      maxPacket: () => this.#largestPacket(),
      sizeOf: fact => maxFullSize(engine, this.identity.assignedId, fact),
      onFact: fact => this.latest.note(fact, { medium: 'local' }),
    })
    this.receive = new Receive({
      log,
      receiver: this.#receiver,
      duplicates: this.#duplicates,
      pickers: this.#pickers,
      protocol: this.protocol,
      time: this.time,
      logger: logger.child('receive'),
      ackCommitMs: config.config.gateway.log.ack_commit_ms,
      session: new ReceiveSession(this.#sessions),
      allowed: allowList(config.config.receiver.allow, logger),
      onFact: (fact: Fact, link: LinkMetadata) => {
        this.latest.note(fact, link)
        this.ids?.heard(fact.aid, link.address ?? null)
      },
    })
    this.receivers = new Receivers(this.#links, this.receive)
  }

  /** Opens database, sources, uplinks and receivers. Settles when each link was tried once. */
  async start(): Promise<void> {
    this.#remember()
    this.#watch.start()
    this.ids?.start()
    this.database?.connect().catch(error => this.#logger.error(`database: ${asOsError(error).message}`))
    const { role, defaultSources } = this.#options
    const { sources } = this.config.config.gateway
    await this.receivers.apply(this.listening)
    if (role === 'run') {
      await this.#addUplinks()
      await addSources(this.#links, sources ?? defaultSources, this.intake)
    }
    this.log.onCommit(() => {
      this.#sessions.sessions.save()
      for (const uplink of this.uplinks) uplink.pump()
    })
    await this.supervisor.tried()
  }

  /** The receivers as configured now; what `serve` was told to listen on stays the first. */
  get listening(): ReceiverConfig[] {
    const { listen } = this.#options
    const { receivers } = this.config.config.gateway
    return listen ? [{ name: 'udp', medium: 'UDP', ...listen }, ...receivers] : receivers
  }

  /** Stops sources first, then drains and commits. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop()
    return this.#stopping
  }

  /** The only way into a running gateway for readings. */
  submit(readings: Parameters<Intake['submit']>[0], options: SubmitOptions = {}): Submitted {
    return this.intake.submit(readings, options)
  }

  get allocator(): IdAllocator | null {
    return this.ids?.allocator ?? null
  }

  latestReadings(): LatestReading[] {
    const own = this.identity.assignedId
    return this.latest.list().map(group => (group.medium === 'local' ? { ...group, source_aid: own } : group))
  }

  /** `os-node status --json`. */
  status(): GatewayStatus {
    const log = this.log.status()
    const links = this.supervisor.links()
    const moved = this.receive.addresses.several()
    return {
      version: this.#options.version,
      role: this.#options.role,
      uptime_s: Math.round((this.#clock.mono() - this.#startedAt) / 1000),
      identity: { device_id: this.identity.deviceId, assigned_id: this.identity.assignedId },
      time: this.#watch.status(),
      links: Object.fromEntries(
        Object.entries(links).map(([name, link]) => {
          const uplink = this.uplinks.find(u => u.name === name)
          return [name, { ...link, delivery: uplink?.status().delivery === 'acked' ? 'acked' : 'best_effort' }]
        }),
      ),
      log,
      uplinks: Object.fromEntries(this.uplinks.map(uplink => [uplink.name, uplink.status()])),
      storage: this.database?.status() ?? { ...NO_DATABASE },
      dropped: {
        rows: this.intake.counters.rejected_rows,
        packets: this.receive.dropped,
        records: log.lost,
      },
      intake: { ...this.intake.counters },
      received: this.receive.report(),
      ...(moved.length > 0 && { shared_ids: moved }),
      ...(this.ids && { ids: this.ids.status() }),
      ...(this.config.problem && { config_problem: this.config.problem.message }),
    }
  }

  /** The node's time moved, or somebody vouched for it: one clock record, which corrects what was stamped before (D18). */
  stepped(step: TimeStep): void {
    if (this.#logClosed) return
    const { movedMs, source, synced } = step
    const trueWallMs = this.time.now()
    const known = source === 'jump' ? 'the system clock jumped' : `time by ${source}`
    this.#logger.info(`${known}: ${movedMs} ms, now ${step.offsetMs} ms off the system clock`)
    const quality = synced ? 'synced' : 'unsynced'
    const seq = this.log.appendClock({ trueWallMs, offsetMs: movedMs, source }, quality)
    this.#corrections.note(this.log.boot, seq, movedMs, synced)
    if (synced) for (const uplink of this.uplinks) uplink.pump()
  }

  /** What a restart must not forget: the last time each device was stamped with, and what came lately and was acknowledged. */
  #remember(): void {
    // counted in facts: after a crash the numbers go on in the next range, far behind the last record
    const from = this.log.startOfLast(REMEMBERED_FACTS)
    const reader = this.log.reader(from, { kinds: ['fact', 'clock'], committedOnly: false })
    // of own devices, and of those without a clock: corrected when everything was read
    const stamped: { device: string | number; seq: number; boot: number; quality: TimeQuality; tRaw: number }[] = []
    let right = 0
    for (let record = reader.next(); record; record = reader.next()) {
      const { seq, boot, quality, clock, fact } = record
      if (quality === 'synced') right = Math.max(right, record.wallMs)
      if (clock) this.#corrections.note(boot, seq, clock.offsetMs, quality === 'synced')
      if (!fact) continue
      const local = record.medium === 'local'
      stamped.push({ device: local ? fact.id : fact.aid, seq, boot, quality, tRaw: fact.tRaw })
      if (local) continue
      this.#duplicates.restore(fact.aid, fact.tRaw, contentHash(fact, this.#pickers))
      this.#receiver.remember(fact)
    }
    this.time.noteSaved(right)
    for (const one of stamped) this.time.noteStamp(one.device, one.tRaw + this.#corrections.of(one))
  }

  /** Ends the sources, and gives what is left a moment to reach the upstreams that answer; the rest goes at the next start. */
  async #drain(): Promise<void> {
    const sources = Object.entries(this.supervisor.links()).filter(([, link]) => link.kind === 'source')
    await Promise.all(sources.map(([name]) => this.supervisor.disable(name)))
    await this.log.flush()
    const end = this.#clock.mono() + DRAIN_MS
    for (const uplink of this.uplinks) uplink.pump()
    while (this.uplinks.some(uplink => uplink.draining) && this.#clock.mono() < end)
      await new Promise(resolve => setTimeout(resolve, 20))
  }

  async #stop(): Promise<void> {
    await this.#drain()
    await this.supervisor.stop()
    for (const uplink of this.uplinks) uplink.stop()
    // after the links: an upstream that goes first looks like a fault
    await this.loopback?.stop()
    this.#receiver.save()
    this.#watch.stop()
    this.#sessions.sessions.save(true)
    this.ids?.stop()
    this.#logClosed = true
    await this.log.close()
    await this.database?.close()
  }

  #largestPacket(): number {
    return Math.min(...this.uplinks.map(uplink => uplink.maxPacket), 1200)
  }

  get #links(): LinkParts {
    const { registry } = this.#options
    return {
      config: this.config,
      clock: this.#clock,
      logger: this.#logger,
      registry,
      supervisor: this.supervisor,
      trueNow: () => this.time.now(),
    }
  }

  async #addUplinks(): Promise<void> {
    const configured = this.config.config.gateway.uplinks
    const list = configured.length > 0 ? configured : [await this.#startLoopback()]
    for (const [k, settings] of list.entries()) {
      try {
        await addUplink(
          {
            ...this.#links,
            log: this.log,
            identity: this.identity,
            time: this.time,
            correct: this.#corrections.correct,
            units: this.#options.units,
            files: this.#options.files ?? realFiles,
            nextSeq: () => this.#sequence.next(),
            // one upstream, or ids of two could be the same
            pool: k === 0 ? this.ids : null,
            changed: () => {
              for (const uplink of this.uplinks) uplink.pump()
            },
            ready: uplink => this.uplinks.push(uplink),
          },
          settings,
        )
      } catch (error) {
        this.supervisor.add(new MissingLink(settings.name, asOsError(error)))
      }
    }
  }

  async #startLoopback(): Promise<UplinkConfig> {
    this.loopback = new LoopbackUpstream({
      script: this.#options.script,
      dataDir: this.config.dataDir,
      deviceId: `${this.identity.deviceId}-upstream`,
      clock: this.#clock,
      logger: this.#logger.child('loopback'),
    })
    await this.loopback.choosePorts()
    this.loopback.start()
    await this.loopback.answering()
    return { name: 'loopback', medium: 'UDP', host: '127.0.0.1', port: this.loopback.packetPort } as UplinkConfig
  }
}
