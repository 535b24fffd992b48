// Node: the library facade of the specification ("Node operations", "Node attributes"). It encodes, sends and decodes,
// and stores only its templates and identity; with a log, it writes there what it transmits. A running gateway uses one.
//
// Errors: transmit throws when the node has no id or every reading was refused; dispatch returns false with the reason
// in `lastError`; ensureId returns false, ensureTime and dispatchWithReply null. A received packet never throws.
import { join, resolve } from 'node:path'
import type { Fragment } from '../config'
import { ConfigStore } from '../config/config-store'
import { ensureDeviceId } from '../config/device'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, type OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import { systemTimers } from '../lib/timers'
import type { Registry } from '../links/registry'
import type { Engine } from '../pipeline/compress'
import type { Core, RejectedRow } from '../pipeline/core'
import type { Reading } from '../pipeline/fact'
import type { Fusion } from '../pipeline/fuse'
import type { DecodedPacket } from '../pipeline/received'
import { Standardizer } from '../pipeline/standardize'
import { type DispatchResult, HandshakeManager } from '../protocol/handshake/manager'
import { IdAllocator } from '../protocol/ids/allocator'
import { LeaseMetricsFile } from '../protocol/ids/metricsfile'
import { readable } from '../protocol/secure/readable'
import type { DatabaseManager } from '../storage'
import { NodeBatches, senderId } from './batches'
import { Dispatcher, type Retry } from './dispatch'
import { NodeReceiver } from './receive'
import { NodeRequests } from './requests'
import { NodeSecurity } from './secure'
import type { ServiceManagerLike } from './services'
import { NodeTime } from './time'
import { NodeTransmitter } from './transmitter'
import { serverOf, type Transporter, TransporterManager } from './transporters'
import type {
  BatchItem,
  BatchMetrics,
  CoreSettings,
  DispatchPath,
  NodeLog,
  TransmitOptions,
  TransmitResult,
  UdpRequest,
} from './types'

export interface NodeParts {
  registry: Registry
  request: UdpRequest
  createCore: (settings: CoreSettings) => Core
  /** configuration keys of media and plugins */
  fragments: () => readonly Fragment[]
  /** the service manager of a node without one */
  services: (node: NodeBase) => ServiceManagerLike
  /** its database manager, null if the configuration has none; `log`: the log to which the node writes */
  database: (node: NodeBase, log: NodeLog | undefined) => DatabaseManager | null
}

export interface NodeOptions extends Partial<NodeParts> {
  /** an opened configuration instead of a path */
  config?: ConfigStore
  clock?: Clock
  logger?: Logger
  log?: NodeLog
  /** left out: its own, stored in data/id_allocation.json next to the configuration; null: assigns no ids */
  idAllocator?: IdAllocator | null
  /** file of peers' secure sessions; left out: as configured; null: sessions stay in memory */
  secureStorePath?: string | null
  serviceManager?: ServiceManagerLike
  /** left out: one over the log of the node, or over the files of its data directory */
  dbManager?: DatabaseManager | null
}

const NOW: TransmitOptions = Object.freeze({})

export class NodeBase {
  readonly store: ConfigStore
  readonly standardizer: Standardizer
  readonly protocol: HandshakeManager
  readonly idAllocator: IdAllocator | null
  readonly transporterManager: TransporterManager
  readonly serviceManager: ServiceManagerLike
  /** not connected before its connect(); null when storage.sql is off */
  readonly dbManager: DatabaseManager | null
  /** the secure sessions: `client` for packets this node sends, `server` for packets it receives */
  readonly security: NodeSecurity
  readonly #core: Core
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #receiver: NodeReceiver
  readonly #requests: NodeRequests
  readonly #dispatcher: Dispatcher
  readonly #transmitter: NodeTransmitter
  readonly #batches: NodeBatches
  readonly #ownsAllocator: boolean
  readonly #unlisten: () => void
  #dispatchPath: DispatchPath = 'none'

  constructor(configPath: string | null, parts: NodeParts, options: NodeOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.store =
      options.config ??
      ConfigStore.load({
        ...(configPath !== null && { path: configPath }),
        fragments: (options.fragments ?? parts.fragments)(),
      })
    const { precision, unit_dialect } = this.store.config.engine_settings
    const { payload_switches, security_settings: settings } = this.store.config
    this.standardizer = new Standardizer('', {
      clock: this.#clock,
      settings: { precision, unit_dialect, payload_switches },
    })
    const createCore = options.createCore ?? parts.createCore
    this.#core = createCore({ store: this.store, clock: this.#clock, logger: options.logger ?? null })
    this.#ownsAllocator = options.idAllocator === undefined
    this.idAllocator =
      options.idAllocator === undefined
        ? new IdAllocator({
            baseDir: this.baseDir,
            leasePolicy: settings.id_lease,
            maxBytes: settings.id_max_bytes,
            metricsSink: new LeaseMetricsFile(join(this.store.dataDir, 'id_lease_metrics.json'), () =>
              this.store.get<number>('security_settings.id_lease.metrics_flush_seconds'),
            ).sink,
          })
        : options.idAllocator
    const { secure_session_store: store } = settings
    const sessions = store ? resolve(this.baseDir, store) : join(this.store.dataDir, 'secure_sessions.json')
    const { secureStorePath = sessions } = options
    const time = new NodeTime(this.#clock, () => this.store.get<number>('security_settings.time_sync_threshold'))
    this.security = new NodeSecurity({
      clock: this.#clock,
      expireSeconds: settings.secure_session_expire_seconds,
      timeSyncThreshold: settings.time_sync_threshold,
      requireSecure: settings.require_secure,
      storePath: secureStorePath,
      onProblem: problem => this.#logger.warn(problem),
      needFull: aid => this.#core.fusion.sendStore(aid).keyFrames(),
      trusted: addr => this.#requests.isServer(addr),
      server: this.#server(),
      serverAt: addr => this.#requests.serverAt(addr),
    })
    this.#unlisten = this.store.onChange(() => this.security.useServer(this.#server()))
    this.fusion.keys = this.security
    const role = this.store.config.Node_Setting.device_role
    this.#receiver = new NodeReceiver(this.fusion, this.security, role)
    this.protocol = new HandshakeManager(
      { targetSyncCount: 3, expireSeconds: settings.secure_session_expire_seconds, secureStorePath },
      {
        clock: this.#clock,
        allocator: this.idAllocator,
        requireOpenRequest: true,
        strict: {
          client: this.security.client,
          clientOf: this.security.clientAt,
          server: this.security.server,
          trusts: addr => this.#requests.isServer(addr),
          onRefused: (refused, addr) => this.security.onRefused(refused, addr),
        },
        timeSyncThreshold: settings.time_sync_threshold,
        role,
        deviceId: () => ensureDeviceId(this.store),
        parser: { decompress: (raw, key) => this.#receiver.decodeOnce(raw, key) },
        onServerTime: seconds => time.note(seconds),
      },
    )
    this.#transmitter = new NodeTransmitter({
      ...{ core: this.#core, standardizer: this.standardizer, security: this.security, protocol: this.protocol, time },
      log: options.log,
    })
    this.#batches = new NodeBatches(this.store.config.engine_settings, this.#core.name === 'rscore', {
      ...{ transmitter: this.#transmitter, clock: this.#clock, timers: systemTimers },
      device: () => this.deviceId,
      sender: device => senderId(this.assignedId, device),
    })
    this.#requests = new NodeRequests(this.store, options.request ?? parts.request, this.protocol, {
      role,
      outgoing: (packet, server) => this.security.outgoing(packet, this.assignedId, server),
    })
    this.transporterManager = new TransporterManager({
      config: this.store,
      registry: options.registry ?? parts.registry,
      clock: this.#clock,
      logger: this.#logger,
      onPacket: this.#requests.received,
    })
    this.#dispatcher = new Dispatcher({
      driver: medium => this.transporterManager.getDriver(medium),
      retry: () => this.store.get<Retry>('engine_settings.network_retry'),
      timers: systemTimers,
    })
    this.serviceManager = options.serviceManager ?? parts.services(this)
    this.dbManager = options.dbManager === undefined ? parts.database(this, options.log) : options.dbManager
  }

  /** The default destination of dispatch. */
  #server(): string {
    return serverOf(this.store, this.store.get('Node_Setting.default_medium') as string)
  }

  /** The loaded Config.json, defaults filled in. */
  get config(): Record<string, unknown> {
    return this.store.config as Record<string, unknown>
  }
  get configPath(): string {
    return this.store.path
  }
  get baseDir(): string {
    return this.store.baseDir
  }
  /** 4294967295 while unassigned. */
  get assignedId(): number {
    return this.store.get('assigned_id') as number
  }
  get deviceId(): string {
    return (this.store.get('device_id') as string) || 'UNKNOWN'
  }
  get engine(): Engine {
    return this.#core.engine
  }
  get fusion(): Fusion {
    return this.#core.fusion
  }
  get coreName(): Core['name'] {
    return this.#core.name
  }
  /** rows that the last transmit refused, with the reason (decision 0006) */
  get lastRejected(): readonly RejectedRow[] {
    return this.#transmitter.lastRejected
  }
  /** why the last dispatch or request failed */
  get lastError(): OsError | null {
    return this.#requests.lastError
  }
  // The attributes also have the specification's own names.
  get config_path(): string {
    return this.configPath
  }
  get base_dir(): string {
    return this.baseDir
  }
  get assigned_id(): number {
    return this.assignedId
  }
  get device_id(): string {
    return this.deviceId
  }
  get id_allocator(): IdAllocator | null {
    return this.idAllocator
  }
  get transporter_manager(): TransporterManager {
    return this.transporterManager
  }
  get active_transporters(): Record<string, Transporter> {
    return this.activeTransporters
  }
  get service_manager(): ServiceManagerLike {
    return this.serviceManager
  }
  get db_manager(): DatabaseManager | null {
    return this.dbManager
  }

  /** Every enabled medium with a driver (X32). */
  get activeTransporters(): Record<string, Transporter> {
    return this.transporterManager.active()
  }

  /** Standardize, compress, fuse. Throws NO_ASSIGNED_ID, ALL_READINGS_REFUSED, BAD_ID, BAD_TIME, SECURE_REQUIRED. */
  transmit(
    sensors: readonly Reading[],
    deviceId: string | null = null,
    deviceStatus = 'ONLINE',
    options: TransmitOptions = NOW,
  ): TransmitResult {
    const device = deviceId ?? this.deviceId
    return this.#transmitter.transmit(sensors, device, deviceStatus, options, senderId(this.assignedId, device))
  }

  /** The same as transmit. */
  transmitFast(
    sensors: readonly Reading[] = [],
    deviceId: string | null = null,
    deviceStatus = 'ONLINE',
    options: TransmitOptions = NOW,
  ): TransmitResult {
    return this.transmit(sensors, deviceId, deviceStatus, options)
  }

  /** transmitFast for each item, a list of readings or an object; missing properties are taken from `common`. */
  transmitBatch(
    batchItems: readonly (BatchItem | readonly Reading[])[] | null,
    common: Partial<BatchItem> = {},
  ): TransmitResult[] {
    return this.#batches.transmit(batchItems ?? [], common)
  }

  /** One reading, a list of them or an item as in transmitBatch → the result of transmitFast, after a batch (batches.ts). */
  async enqueue(reading: BatchItem | Reading | readonly Reading[]): Promise<TransmitResult> {
    return this.#batches.enqueue(reading)
  }

  /** Of the last batch; null if there was none, as always on the pure core (decision 0064). */
  getLastBatchMetrics(): BatchMetrics | null {
    return this.#batches.metrics
  }

  /** `driver`: dispatch passed its last packet to the driver of a medium; else `none`. */
  getLastDispatchPath(): DispatchPath {
    return this.#dispatchPath
  }

  /**
   * Sends a packet through a medium, its name in any case; text is sent as UTF-8. Makes 1 + network_retry.max_retries
   * attempts. Many calls may be pending; those of one medium keep their order. False if it could not be sent;
   * `lastError` has the reason.
   */
  async dispatch(packet: Uint8Array | string, medium: string | null = null): Promise<boolean> {
    const zeroCopy = this.store.get<boolean>('engine_settings.zero_copy_transport')
    // not slice(): a Buffer's slice shares the memory
    const bytes = zeroCopy && typeof packet !== 'string' ? packet : Buffer.from(packet)
    const name = medium ?? (this.store.get('Node_Setting.default_medium') as string)
    let error: OsError | null
    try {
      const out = this.security.outgoing(bytes, this.assignedId, serverOf(this.store, name))
      error = await this.#dispatcher.send(out, name)
    } catch (refused) {
      error = asOsError(refused)
    }
    this.#dispatchPath = error ? 'none' : 'driver'
    if (!error) return true
    this.#requests.lastError = error
    if (error.code === 'NO_DRIVER') this.#logger.error(error.message)
    return false
  }

  /** Sends over UDP and waits for one reply, which is also handled by the protocol; null if none arrived. */
  dispatchWithReply(
    packet: Uint8Array,
    serverIp: string | null = null,
    serverPort: number | null = null,
    timeout = 3.0,
  ): Promise<Uint8Array | null> {
    return this.#requests.reply(packet, serverIp, serverPort, timeout)
  }

  /** Binary packet → fact dict with `__packet_meta__`; an error result has `error`. Changes no session, sends no answer. */
  receive(rawBytes: Uint8Array): DecodedPacket {
    return this.#receiver.decode(rawBytes)
  }

  /** Routes a packet by its command byte and returns an envelope `{type, cmd, …}`. `addr`: text, or a pair of host and port. */
  receiveViaProtocol(rawBytes: Uint8Array, addr: unknown = null): DispatchResult {
    return this.protocol.classifyAndDispatch(rawBytes, addr)
  }

  /** A data packet decrypted by the secure sessions of this node; null if no key fits. */
  readable(packet: Uint8Array): Uint8Array | null {
    return readable(packet, aid => this.security.inboundKeys(aid))
  }

  /** A packet of another source as a FULL frame with its AID, TID and TS (X15). Throws RELAY_UNDECODABLE. */
  relay(packet: Uint8Array): Buffer {
    return this.#receiver.relay(packet)
  }

  /**
   * Requests an id from a server over UDP and stores it in Config.json; a node without a device id makes one first
   * (X39). True if there is an id; false with the reason in `lastError`. `timeout` in seconds.
   */
  async ensureId(
    serverIp: string,
    serverPort: number,
    deviceMeta: Record<string, unknown> | null = null,
    timeout = 5.0,
  ): Promise<boolean> {
    return this.#requests.id(serverIp, serverPort, deviceMeta, timeout)
  }

  /** Requests a server's time; UNIX seconds, or null. `timeout` in seconds. Never sets the system's clock. */
  async ensureTime(
    serverIp: string | null = null,
    serverPort: number | null = null,
    timeout = 3.0,
  ): Promise<number | null> {
    return this.#requests.time(serverIp, serverPort, timeout)
  }

  /** Closes the media that dispatch opened and stores the templates. */
  async close(): Promise<void> {
    this.#unlisten()
    this.#batches.flush()
    this.#dispatcher.close()
    await this.transporterManager.close()
    await this.dbManager?.close()
    this.fusion.stop()
    this.security.stop()
    if (this.#ownsAllocator) this.idAllocator?.stop()
  }
}
