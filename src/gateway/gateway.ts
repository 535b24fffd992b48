// The main job: sources → intake → log → uplinks, receivers → log, and the SQL view of the log. `run` and `serve` are the
// same gateway: `run` has sources and uplinks, `serve` has receivers and an ID allocator.
//
// Errors: the start fails only if another gateway owns the data directory or the directory cannot be used. Everything else is
// a state: a log that cannot write is `degraded`, a link is `down` with its reason, a database answers 503.
import { join } from 'node:path'
import type { ConfigStore } from '../config/config-store'
import type { ReceiverConfig } from '../config/schema'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import type { Logger } from '../lib/logger'
import { masked } from '../lib/secrets'
import { yieldToLoop } from '../lib/yield'
import { type LinkReport, Supervisor } from '../links/supervisor'
import { FlashLog } from '../log'
import { logSettings } from '../log/log-options'
import { Engine } from '../pipeline/compress'
import type { Fact, LinkMetadata } from '../pipeline/fact'
import { Receiver } from '../pipeline/receiver'
import { maxFullSize } from '../pipeline/sender'
import { Standardizer } from '../pipeline/standardize'
import type { WirePickers } from '../pipeline/wireunit'
import { SequenceCounter } from '../protocol/control'
import { DuplicateFilter } from '../protocol/duplicates'
import { HandshakeManager } from '../protocol/handshake/manager'
import type { DeviceRole } from '../protocol/handshake/roles'
import { readable } from '../protocol/secure/readable'
import type { SecureServer } from '../protocol/secure/server'
import type { NodeClock } from '../protocol/time'
import { type Database, gatewayDatabase } from '../storage'
import { GatewayEvents } from './events'
import type { GatewayOptions } from './gateway-options'
import { applyAll, NOTHING_APPLIED } from './guard/apply'
import { checkLinks, refuseOpenPage } from './guard/check-links'
import { Guard } from './guard/guard'
import { Reloader, type ReloadReport } from './guard/reload'
import type { GuardLevel } from './guard/resources'
import { statusLine } from './guard/status-line'
import { works } from './guard/trial-health'
import { Identity } from './identity'
import { type DeviceIds, idsFor } from './ids'
import { Intake, type SubmitOptions, type Submitted } from './intake/intake'
import { Sources } from './intake/sources'
import { LatestBoard, type LatestReading } from './latest'
import type { LinkDeps } from './link-deps'
import { LocalUpstream } from './local-upstream'
import { allowList } from './receive/allow-list'
import { contentHash } from './receive/content-hash'
import { latestTime, newDevicesOf } from './receive/new-devices'
import { Receive } from './receive/receive'
import { ReceiveSession } from './receive/receiver-session'
import { Receivers } from './receive/receivers'
import { statusOf } from './report'
import { restoreMemory } from './restore'
import { receivingSessions } from './sessions'
import { Restored } from './start-from-backup'
import type { GatewayStatus } from './status'
import { stopGateway } from './stop'
import { TimeKeeper } from './time/gateway-time'
import { alarmCheck } from './uplink/alarms'
import { Uplinks } from './uplink/uplinks'

export type { GatewayOptions }

export class Gateway {
  readonly config: ConfigStore
  /** the role at the start: a change takes effect at the next start */
  readonly deviceRole: DeviceRole
  readonly identity: Identity
  readonly time: NodeClock
  readonly supervisor: Supervisor
  readonly intake: Intake
  readonly log: FlashLog
  readonly database: Database | null
  readonly protocol: HandshakeManager
  /** null: this gateway assigns no ids */
  readonly ids: DeviceIds | null
  readonly latest = new LatestBoard(() => latestTime(this.time, this.config))
  readonly events: GatewayEvents
  readonly uplinks: Uplinks
  readonly receive: Receive
  readonly receivers: Receivers
  readonly sources: Sources
  #built = (): void => undefined
  /** settles after the configured links are created; a command that names a link waits for it */
  readonly built = new Promise<void>(resolve => {
    this.#built = resolve
  })
  readonly guard: Guard
  readonly localUpstream: LocalUpstream
  readonly #options: GatewayOptions
  readonly #clock: Clock
  readonly #startedAt: number
  readonly #logger: Logger
  readonly #receiver: Receiver
  readonly #sessions: SecureServer
  // on a radio channel or a bus every node receives every answer, so the numbers start at a random place
  readonly #sequence = SequenceCounter.anywhere()
  readonly #duplicates = new DuplicateFilter()
  readonly #keeper: TimeKeeper
  readonly #restored: Restored
  readonly #pickers: WirePickers
  #allowed: (address: string) => boolean
  #reloader: Reloader | undefined
  #stopping: Promise<void> | undefined

  /** Opens log and database and builds everything; start() opens the links. Throws DATA_DIR, STORAGE. */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const { config, logger, clock = systemClock, files = realFiles } = options
    const keeper = await TimeKeeper.open({ ...options, clock, files })
    const log = await FlashLog.open({
      dir: join(config.dataDir, 'log'),
      ...{ files, clock: keeper.time.quiet, logger: logger.child('log') },
      ...new Restored(config.dataDir, files, logger).log,
      ...logSettings(config.config.gateway.log),
      isAlarm: alarmCheck(config.config.gateway.alarm_statuses),
    })
    return new Gateway(options, log, keeper, clock, files)
  }

  private constructor(options: GatewayOptions, log: FlashLog, keeper: TimeKeeper, clock: Clock, files: Files) {
    const { config, units, logger } = options
    this.#options = options
    this.#logger = logger
    this.#clock = clock
    this.#startedAt = clock.mono()
    this.config = config
    this.deviceRole = config.config.Node_Setting.device_role
    this.log = log
    this.identity = new Identity(config, logger, files, options.unkept?.add)
    this.#keeper = keeper
    this.time = keeper.time
    keeper.begin(log, () => this.uplinks.pump())
    const { precision, unit_dialect: dialect } = config.config.engine_settings
    const engine = new Engine(null, { precision, units, unitDialect: dialect, clock })
    this.#pickers = engine.pickers
    const dataDir = config.dataDir
    this.#restored = new Restored(dataDir, files, logger)
    this.ids = idsFor(options.role, {
      ...{ config, files, clock, restored: this.#restored.is },
      logger: logger.child('ids'),
      now: () => Math.floor(this.time.now() / 1000),
      database: () => this.database,
    })
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
      latest: () => latestTime(this.time, config),
    })
    this.protocol = new HandshakeManager(
      {},
      {
        clock: this.time,
        allocator: this.ids?.quotas ?? null,
        sequence: this.#sequence,
        requireOpenRequest: true,
        strict: {},
      },
    )
    this.database = gatewayDatabase(config, { log, clock, logger: logger.child('db') })
    this.supervisor = new Supervisor({ clock, logger, backoff: { maxMs: config.config.gateway.retry_max_s * 1000 } })
    this.events = new GatewayEvents({ logger })
    this.supervisor.onChange((name, state, before) => this.events.links.emit({ name, state, before }))
    this.intake = new Intake({
      ...{ log, time: this.time, identity: this.identity },
      standardizer: new Standardizer('', { clock, settings: { precision, unit_dialect: dialect } }),
      maxPacket: () => this.uplinks.maxPacket,
      sizeOf: fact => maxFullSize(engine, this.identity.assignedId, fact),
      onFact: fact => this.#noted(fact, { medium: 'local' }),
    })
    this.sources = new Sources(this.#links, this.intake, log, ids => this.latest.drop(ids))
    this.#allowed = allowList(config.config.receiver.allow, logger)
    this.localUpstream = new LocalUpstream(() => ({
      ...{ script: options.script, clock, logger: logger.child('loopback') },
      ...{ dataDir, deviceId: `${this.identity.deviceId}-upstream` },
    }))
    this.uplinks = new Uplinks({
      correct: keeper.corrections.correct,
      timeKept: () => keeper.kept,
      ...this.#links,
      ...{ log, units, files, identity: this.identity, time: this.time, cores: options.cores },
      nextSeq: () => this.#sequence.next(),
      ids: this.ids,
      localUpstream: this.localUpstream,
    })
    this.uplinks.watchers.every = (packet, medium) => this.events.sent(packet, medium)
    this.receive = new Receive({
      log,
      ...{ receiver: this.#receiver, duplicates: this.#duplicates },
      pickers: this.#pickers,
      ...{ protocol: this.protocol, time: this.time, logger: logger.child('receive'), cores: options.cores },
      ackCommitMs: config.config.gateway.log.ack_commit_ms,
      session: new ReceiveSession(this.#sessions),
      allowed: address => this.#allowed(address),
      newDevices: newDevicesOf(config, clock, aid => this.#receiver.knows(aid) || this.ids?.has(aid) === true),
      onPacket: (packet, origin) => {
        this.uplinks.heard(origin.address)
        this.events.packet(packet, origin)
      },
      onFact: (fact: Fact, link: LinkMetadata) => {
        this.#noted(fact, link)
        this.ids?.heard(fact.aid, link.address ?? null)
      },
      onAlive: (aid, address) => this.ids?.heard(aid, address),
    })
    this.receivers = new Receivers(this.#links, this.receive)
    this.guard = new Guard({
      ...options.supervision,
      ...{ config, clock, logger: logger.child('guard') },
      // the same steps as for a reading, without a source (decision 0046)
      pass: async () => {
        this.intake.token()
        await this.uplinks.token()
      },
      ...{ line: () => statusLine(this.status()), works: () => works(this.status()) },
      level: (level, reason) => this.#ease(level, reason),
    })
  }

  /** Opens database, sources, uplinks and receivers. Settles after one attempt to open each link. */
  async start(): Promise<void> {
    this.#takeSettings()
    restoreMemory(this.log, {
      time: this.time,
      corrections: this.#keeper.corrections,
      ...{ receiver: this.#receiver, frames: this.receive.frames, templates: !this.#restored.is },
      local: fact => void (fact.id === this.identity.deviceId && this.sources.remember(fact)),
      packet: (fact, link) => {
        this.#duplicates.restore(fact.aid, fact.tRaw, contentHash(fact, this.#pickers))
        if (link && !link.future) this.latest.note(fact, link)
      },
    })
    this.#keeper.start()
    if (this.guard.safeMode) {
      this.#logger.error(`SAFE MODE: ${this.guard.safeMode}; links and the SQL view stay off`)
      this.#database(db => db.pause(`kept off by safe mode: ${this.guard.safeMode}`))
    } else this.#database(db => db.connect())
    // after connect(), since shared ids are in the database. It runs in parallel with the start, never rejects, and status
    // reports the result
    void this.#restored.begin(this.log, this.ids)
    // watches for writes from here on; a change is applied after the links are created
    this.#reloader = new Reloader(this.config, this.#logger.child('reload'), {
      after: this.built,
      check: next => {
        refuseOpenPage(next, this.#options.pageHost)
        return checkLinks(this.config.config, next, this.#options.registry)
      },
      links: () => this.#applyLinks(),
      settings: () => this.#takeSettings(),
    })
    await this.#applyLinks().finally(this.#built)
    this.log.onCommit(() => {
      this.#sessions.sessions.save()
      this.uplinks.pump()
    })
    await this.supervisor.tried()
    if (this.#stopping) return // the gateway stops: start nothing more
    this.guard.started()
    await yieldToLoop()
  }

  /** The reloader. Throws STARTING before start(), LINK_DOWN while the gateway stops. */
  ready(): Reloader {
    if (this.#stopping) throw new OsError('LINK_DOWN', 'the gateway is stopping')
    if (!this.#reloader) throw new OsError('STARTING', 'the gateway is starting')
    return this.#reloader
  }

  /**
   * Reads Config.json again and applies the changes. The log and unchanged links stay open (R27). Throws CONFIG_SYNTAX or
   * CONFIG_INVALID, and changes nothing then; STARTING, LINK_DOWN.
   */
  reload(): Promise<ReloadReport> {
    return this.guard.reloading(async () => this.ready().reload())
  }

  /** Opens what safe mode keeps closed, and resets the crash count. Does nothing outside of safe mode. */
  async leaveSafeMode(): Promise<void> {
    if (!this.guard.safeMode) return
    const reloader = this.ready()
    this.guard.leaveSafeMode()
    this.#logger.info('safe mode was left')
    this.#database(db => db.resume())
    await reloader.apply()
  }

  /** The configured receivers; the address of `serve` is the first, unless a receiver is named `udp`. */
  get listening(): ReceiverConfig[] {
    const { receivers } = this.config.config.gateway
    const listen = receivers.some(({ name }) => name === 'udp') ? undefined : this.#options.listen
    return listen ? [{ name: 'udp', medium: 'UDP', ...listen }, ...receivers] : receivers
  }

  /** Stops the sources first, then drains and commits. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop())
  }

  /** The only entry for readings into a running gateway. */
  submit(readings: Parameters<Intake['submit']>[0], options: SubmitOptions = {}): Submitted {
    return this.intake.submit(readings, options)
  }

  /** Decrypts a packet with the keys of its sender here or those of the uplinks; null if no key fits. */
  readable(packet: Uint8Array): Uint8Array | null {
    return readable(packet, aid => [...this.#sessions.keys(aid), ...this.uplinks.keys(aid)])
  }

  latestReadings(): LatestReading[] {
    const own = this.identity.assignedId
    return this.latest.list().map(group => (group.medium === 'local' ? { ...group, source_aid: own } : group))
  }

  /** `os-node status --json`. */
  status(): GatewayStatus {
    const uptimeS = Math.round((this.#clock.mono() - this.#startedAt) / 1000)
    const needsRestart = this.#reloader?.needsRestart() ?? []
    // reasons and errors of drivers and other machines may contain an address with its password
    return masked(statusOf(this, { ...this.#options, uptimeS, needsRestart, time: this.#keeper.status() }))
  }

  /** State, reason and hint of each link, without secrets. */
  links(): Readonly<Record<string, LinkReport>> {
    return masked(this.supervisor.links())
  }

  async #stop(): Promise<void> {
    const { sessions } = this.#sessions
    const parts = { ...this, receiver: this.#receiver, sessions, keeper: this.#keeper, reloader: this.#reloader }
    const committed = await stopGateway(parts, this.#clock, this.#logger)
    this.#options.supervision?.crashes?.stopped(this.guard.safeMode !== undefined)
    if (!committed) throw new OsError('STORAGE', 'the log could not be committed completely')
  }

  /** A fact was logged: reports it to the uplinks, the user interfaces and the observers. */
  #noted(fact: Fact, link: LinkMetadata): void {
    this.uplinks.appended()
    if (!link.future) this.latest.note(fact, link)
    if (this.events.facts.hasListeners) this.events.facts.emit({ fact, link })
  }

  #database(run: (database: Database) => Promise<void>): void {
    if (this.database) run(this.database).catch(error => this.#logger.error(`database: ${asOsError(error).message}`))
  }

  /** The resource guard requests less work, or allows more again. */
  #ease(level: GuardLevel, reason: string): void {
    this.#takeSettings()
    if (this.guard.safeMode) return
    this.#database(db => (level === 'tight' ? db.pause(`paused: ${reason}`) : db.resume()))
  }

  /** Applies settings that need no link. */
  #takeSettings(): void {
    const { receiver, gateway } = this.config.config
    this.#allowed = allowList(receiver.allow, this.#logger)
    const quiet = this.guard.level !== 'normal' && gateway.log_level !== 'error'
    this.#logger.setLevel(quiet ? 'warn' : gateway.log_level)
    this.guard.settings()
  }

  /** Creates the configured links; unchanged links stay open. An rx_only node opens no uplink. */
  async #applyLinks(): Promise<ReloadReport['links']> {
    const { role, defaultSources } = this.#options
    const { uplinks, sources } = this.config.config.gateway
    const nothing = { receivers: NOTHING_APPLIED, uplinks: NOTHING_APPLIED, sources: NOTHING_APPLIED }
    if (this.guard.safeMode) return nothing
    const builders: Parameters<typeof applyAll>[0] = {
      receivers: { builder: this.receivers, list: this.listening },
      // `serve` has no sources or uplinks: an empty list of uplinks would start the local upstream
      ...(role === 'run' && this.deviceRole !== 'rx_only' && { uplinks: { builder: this.uplinks, list: uplinks } }),
      ...(role === 'run' && { sources: { builder: this.sources, list: sources ?? defaultSources } }),
    }
    return { ...nothing, ...(await applyAll(builders)) }
  }

  get #links(): LinkDeps {
    return {
      config: this.config,
      clock: this.#clock,
      logger: this.#logger,
      registry: this.#options.registry,
      supervisor: this.supervisor,
      identity: this.identity,
      trueNow: () => this.time.now(),
    }
  }
}
