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
import type { Registry } from '../links/registry'
import { Supervisor } from '../links/supervisor'
import { FlashLog } from '../log'
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
import { NodeClock } from '../protocol/time'
import { Database, type DatabaseStatus } from '../storage'
import { Identity } from './identity'
import { GatewayIds } from './ids'
import { Intake, type SubmitOptions, type Submitted } from './intake/intake'
import { addSources, type SourceEntry } from './intake/sources'
import { LatestBoard, type LatestReading } from './latest'
import { LoopbackUpstream } from './loopback'
import type { LinkParts } from './parts'
import { allowList } from './receive/allow'
import { contentHash } from './receive/content'
import { Receive } from './receive/receive'
import { Receivers } from './receive/receivers'
import { ReceiveSession } from './receive/session'
import { Replay } from './receive/templates'
import { receivingSessions } from './sessions'
import type { GatewayStatus } from './status'
import { alarmCheck } from './uplink/alarms'
import { Uplinks } from './uplink/uplinks'

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
  readonly uplinks: Uplinks
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
  readonly #pickers: WirePickers
  #stopping: Promise<void> | undefined

  /** Opens log and database and builds everything; start() opens the links. Throws DATA_DIR, STORAGE. */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const { config, logger, clock = systemClock, files = realFiles } = options
    const settings = config.config.gateway.log
    const log = await FlashLog.open({
      dir: join(config.dataDir, 'log'),
      files,
      clock,
      logger: logger.child('log'),
      maxBytes: settings.max_bytes,
      maxAgeS: settings.max_age_s,
      commitIntervalMs: settings.commit_interval_ms,
      ackCommitMs: settings.ack_commit_ms,
      commitBytes: settings.commit_bytes,
      whenFull: settings.when_full,
      isAlarm: alarmCheck(config.config.gateway.alarm_statuses),
    })
    return new Gateway(options, log, clock, files)
  }

  private constructor(options: GatewayOptions, log: FlashLog, clock: Clock, files: Files) {
    const { config, units, logger } = options
    this.#options = options
    this.#logger = logger
    this.#clock = clock
    this.#startedAt = clock.mono()
    this.config = config
    this.log = log
    this.identity = new Identity(config, logger, files)
    const security = config.config.security_settings
    this.time = new NodeClock(clock, {
      buildMs: options.builtAt,
      thresholdSeconds: security.time_sync_threshold,
      maxStepSeconds: security.max_time_step_seconds,
      onStep: ({ offsetMs, movedMs }) => {
        if (movedMs === 0) return
        logger.info(`time set by the upstream: ${movedMs} ms, now ${offsetMs} ms off the system clock`)
        log.appendClock({ trueWallMs: this.time.now(), offsetMs, source: 'upstream' })
      },
    })
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
      maxPacket: () => this.uplinks.maxPacket,
      sizeOf: fact => maxFullSize(engine, this.identity.assignedId, fact),
      onFact: fact => this.latest.note(fact, { medium: 'local' }),
    })
    this.uplinks = new Uplinks({
      ...this.#links,
      log,
      identity: this.identity,
      time: this.time,
      units,
      files,
      nextSeq: () => this.#sequence.next(),
      ids: this.ids,
      standIn: { start: () => this.#startLoopback(), stop: () => this.#stopLoopback() },
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
    this.ids?.start()
    this.database?.connect().catch(error => this.#logger.error(`database: ${asOsError(error).message}`))
    const { role, defaultSources } = this.#options
    const { sources } = this.config.config.gateway
    await this.receivers.apply(this.listening)
    if (role === 'run') {
      await this.uplinks.apply(this.config.config.gateway.uplinks)
      await addSources(this.#links, sources ?? defaultSources, this.intake)
    }
    this.log.onCommit(() => {
      this.#sessions.sessions.save()
      this.uplinks.pump()
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
    const uplinks = this.uplinks.status()
    const moved = this.receive.addresses.several()
    return {
      version: this.#options.version,
      role: this.#options.role,
      uptime_s: Math.round((this.#clock.mono() - this.#startedAt) / 1000),
      identity: { device_id: this.identity.deviceId, assigned_id: this.identity.assignedId },
      time: { quality: this.time.quality, offset_ms: this.time.offsetMs },
      links: Object.fromEntries(
        Object.entries(links).map(([name, link]) => {
          const { delivery } = uplinks[name] ?? {}
          return [name, { ...link, delivery: delivery === 'acked' ? 'acked' : 'best_effort' }]
        }),
      ),
      log,
      uplinks,
      forwarding: this.uplinks.forwarding(),
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

  /** What a restart must not forget: the last time each device was stamped with, and what came lately and was acknowledged. */
  #remember(): void {
    // counted in facts: after a crash the numbers go on in the next range, far behind the last record
    const from = this.log.startOfLast(REMEMBERED_FACTS)
    const reader = this.log.reader(from, { kinds: ['fact'], committedOnly: false })
    const replay = this.log.cleanStop ? null : new Replay(this.log, this.#receiver, this.receive.frames)
    for (let record = reader.next(); record; record = reader.next()) {
      const fact = record.fact!
      if (record.medium === 'local') this.time.noteStamp(fact.id, fact.tRaw)
      else {
        this.#duplicates.restore(fact.aid, fact.tRaw, contentHash(fact, this.#pickers))
        this.#receiver.remember(fact)
        replay?.take(record)
        this.time.noteStamp(fact.aid, fact.tRaw)
      }
    }
  }

  /** Ends the sources, and gives what is left a moment to reach the upstreams that answer; the rest goes at the next start. */
  async #drain(): Promise<void> {
    const sources = Object.entries(this.supervisor.links()).filter(([, link]) => link.kind === 'source')
    await Promise.all(sources.map(([name]) => this.supervisor.disable(name)))
    await this.log.flush()
    const end = this.#clock.mono() + DRAIN_MS
    this.uplinks.pump()
    while (this.uplinks.draining && this.#clock.mono() < end) await new Promise(resolve => setTimeout(resolve, 20))
  }

  async #stop(): Promise<void> {
    await this.#drain()
    await this.supervisor.stop()
    this.uplinks.stop()
    // after the links: an upstream that goes first looks like a fault
    await this.loopback?.stop()
    this.#receiver.save()
    this.#sessions.sessions.save(true)
    this.ids?.stop()
    await this.log.close()
    await this.database?.close()
  }

  get #links(): LinkParts {
    const { registry } = this.#options
    return {
      config: this.config,
      clock: this.#clock,
      logger: this.#logger,
      registry,
      supervisor: this.supervisor,
      identity: this.identity,
      trueNow: () => this.time.now(),
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

  async #stopLoopback(): Promise<void> {
    await this.loopback?.stop()
    this.loopback = null
  }
}
