// Node: the library facade of the specification ("Node operations", "Node attributes"). It encodes, sends and decodes, and
// keeps nothing but its templates and its identity; given a log, it writes there what it transmits. A running gateway uses
// one for its own requests.
//
// What fails: transmit throws when the node has no id or every reading was refused; dispatch answers false and leaves the
// reason in `lastError`; ensureId answers false, ensureTime and dispatchWithReply null. A received packet never throws.
import { dirname } from 'node:path'
import { ConfigStore } from '../config/store'
import { type Clock, systemClock } from '../lib/clock'
import { asOsError, OsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import type { Registry } from '../links/registry'
import type { FlashLog } from '../log'
import type { Engine } from '../pipeline/compress'
import type { Core, RejectedRow } from '../pipeline/core'
import { strategyName, toMillis } from '../pipeline/core'
import type { Reading } from '../pipeline/fact'
import type { DecodedPacket, Fusion } from '../pipeline/fuse'
import { Standardizer } from '../pipeline/standardize'
import { IdAllocator } from '../protocol/allocator'
import { type DispatchResult, HandshakeManager } from '../protocol/handshake'
import { askOverUdp, type RequestLoop } from './ask'
import { EmptyServiceManager, type ServiceManager } from './services'
import { type Transporter, TransporterManager } from './transporters'

export type TransmitResult = readonly [
  binary_packet: Buffer,
  assigned_id: number,
  strategy: 'FULL_PACKET' | 'DIFF_PACKET',
]

/** 4294967295 means that no server has given an id yet. */
export const UNASSIGNED_ID = 4294967295

export interface TransmitOptions {
  /** UNIX seconds; from 1e11 on milliseconds. Left out: now, in milliseconds on the wire (D18) */
  t?: number
  /** sends a zero time, which the receiver replaces by its own */
  no_timestamp?: boolean
}

export interface BatchItem extends TransmitOptions {
  sensors: readonly Reading[]
  device_id?: string
  device_status?: string
}

/** One request and its reply over UDP, handed in by main: node stands on the same floor as the media. */
export type UdpRequest = (
  host: string,
  port: number,
  packet: Uint8Array,
  timeoutMs: number,
  accept?: (reply: Uint8Array) => boolean,
  onFailure?: (error: OsError) => void,
) => Promise<Uint8Array | null>

/** Where a node writes what it transmits. */
export type NodeLog = Pick<FlashLog, 'appendFact'>

export interface NodeParts {
  registry: Registry
  request: UdpRequest
  createCore: (settings: CoreSettings) => Core
}

export interface CoreSettings {
  store: ConfigStore
  clock: Clock
}

export interface NodeOptions extends Partial<NodeParts> {
  /** an opened configuration instead of a path */
  config?: ConfigStore
  clock?: Clock
  logger?: Logger
  log?: NodeLog
  /** left out: one of its own, kept in data/id_allocation.json beside the configuration; null: hands out no ids */
  idAllocator?: IdAllocator | null
  serviceManager?: ServiceManager
  dbManager?: unknown
}

export class NodeBase {
  readonly store: ConfigStore
  readonly standardizer: Standardizer
  readonly protocol: HandshakeManager
  readonly idAllocator: IdAllocator | null
  readonly transporterManager: TransporterManager
  readonly serviceManager: ServiceManager
  readonly dbManager: unknown
  /** why the last dispatch or request failed */
  lastError: OsError | null = null
  readonly #core: Core
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #log: NodeLog | undefined
  readonly #request: UdpRequest
  readonly #fullSent = new Set<number>()
  readonly #ownsAllocator: boolean
  #serverTime: { seconds: number; at: number } | null = null

  constructor(configPath: string | null, parts: NodeParts, options: NodeOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#logger = options.logger ?? silentLogger
    this.#log = options.log
    this.store = options.config ?? ConfigStore.load(configPath === null ? {} : { path: configPath })
    this.#request = options.request ?? parts.request
    this.standardizer = new Standardizer('', {
      clock: this.#clock,
      settings: {
        precision: this.store.get<number>('engine_settings.precision'),
        unit_dialect: this.store.get<string>('engine_settings.unit_dialect'),
      },
    })
    this.#core = (options.createCore ?? parts.createCore)({ store: this.store, clock: this.#clock })
    this.#ownsAllocator = options.idAllocator === undefined
    this.idAllocator =
      options.idAllocator === undefined
        ? new IdAllocator({ baseDir: this.baseDir, leasePolicy: this.store.get('security_settings.id_lease') })
        : options.idAllocator
    this.protocol = new HandshakeManager(
      {
        targetSyncCount: 3,
        expireSeconds: this.store.get('security_settings.secure_session_expire_seconds') as number,
      },
      {
        clock: this.#clock,
        allocator: this.idAllocator,
        requireOpenRequest: true,
        strict: {},
        timeSyncThreshold: this.store.get<number>('security_settings.time_sync_threshold'),
        role: this.store.get('Node_Setting.device_role'),
        parser: { decompress: raw => this.fusion.decompress(raw) },
      },
    )
    this.transporterManager = new TransporterManager({
      config: this.store,
      registry: options.registry ?? parts.registry,
      clock: this.#clock,
      logger: this.#logger,
    })
    this.serviceManager = options.serviceManager ?? new EmptyServiceManager()
    this.dbManager = options.dbManager ?? null
  }

  /** The loaded Config.json, defaults filled in. */
  get config(): Record<string, unknown> {
    return this.store.config as Record<string, unknown>
  }
  get configPath(): string {
    return this.store.path
  }
  get baseDir(): string {
    return dirname(this.store.path)
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
  /** rows the last transmit left out, and why (D3) */
  get lastRejected(): readonly RejectedRow[] {
    return this.#core.lastRejected
  }
  // The attributes under the specification's own names too, for who writes by its table.
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
  get service_manager(): ServiceManager {
    return this.serviceManager
  }
  get db_manager(): unknown {
    return this.dbManager
  }

  /** Every enabled medium with a driver, by the specification's spelling (X32). */
  get activeTransporters(): Record<string, Transporter> {
    return this.transporterManager.active()
  }

  /**
   * Standardize, compress, fuse (specification, "transmit"). Throws NO_ASSIGNED_ID, ALL_READINGS_REFUSED, BAD_ID, BAD_TIME.
   */
  transmit(
    sensors: readonly Reading[],
    deviceId: string | null = null,
    deviceStatus = 'ONLINE',
    options: TransmitOptions = {},
  ): TransmitResult {
    const device = deviceId ?? this.deviceId
    const aid = this.assignedId
    if (!Number.isInteger(aid) || aid <= 0 || aid >= UNASSIGNED_ID)
      throw new OsError(
        'NO_ASSIGNED_ID',
        `[transmit] Device '${device}' has no assigned physical ID. Call ensure_id() first.`,
      )
    const tMs = this.#time(options)
    const strategy = this.protocol.getStrategy(aid, this.#fullSent.has(aid))
    const packet = this.#core.transmitFast(
      sensors,
      device,
      deviceStatus,
      tMs,
      aid,
      strategy === 'FULL_PACKET' ? 'FULL' : 'DIFF',
    )
    this.protocol.commitSuccess(aid)
    const name = strategyName(packet[0]!)
    if (name === 'FULL_PACKET') this.#fullSent.add(aid)
    if (this.#log) {
      const fact = this.standardizer.standardizeToFact(device, deviceStatus, sensors, { t_raw: tMs }, aid)
      this.#log.appendFact(fact, { medium: 'local' })
    }
    return [packet, aid, name]
  }

  /** The same as transmit on this core. */
  transmitFast(
    sensors: readonly Reading[] = [],
    deviceId: string | null = null,
    deviceStatus = 'ONLINE',
    options: TransmitOptions = {},
  ): TransmitResult {
    return this.transmit(sensors, deviceId, deviceStatus, options)
  }

  /** transmitFast for each item; what an item does not say is taken from `common`. */
  transmitBatch(items: readonly BatchItem[] | null, common: Partial<BatchItem> = {}): TransmitResult[] {
    return (items ?? []).map(item => {
      const { sensors, device_id, device_status, ...rest } = { ...common, ...item }
      return this.transmitFast(sensors, device_id ?? null, device_status ?? 'ONLINE', rest)
    })
  }

  /** null on this core: it has no batch queue (D12). */
  getLastBatchMetrics(): { count: number; stage_timing_ms: Record<string, number> } | null {
    return null
  }

  /**
   * Sends a packet through a medium; text goes as UTF-8. Makes 1 + network_retry.max_retries attempts. False when it could
   * not be sent; `lastError` says why.
   */
  async dispatch(packet: Uint8Array | string, medium: string | null = null): Promise<boolean> {
    const zeroCopy = this.store.get<boolean>('engine_settings.zero_copy_transport')
    const bytes = typeof packet === 'string' ? Buffer.from(packet, 'utf8') : zeroCopy ? packet : packet.slice()
    const name = medium ?? (this.store.get('Node_Setting.default_medium') as string)
    const driver = this.transporterManager.getDriver(name)
    if (!driver) {
      this.lastError = new OsError('NO_DRIVER', `No available driver: ${name}`)
      this.#logger.error(this.lastError.message)
      return false
    }
    const retry = this.store.get('engine_settings.network_retry') as {
      enabled: boolean
      max_retries: number
      interval_seconds: number
    }
    const attempts = retry.enabled ? 1 + retry.max_retries : 1
    for (let attempt = 1; attempt <= attempts; attempt++) {
      if (await driver.send(bytes)) return true
      if (attempt < attempts) await new Promise(resolve => setTimeout(resolve, retry.interval_seconds * 1000))
    }
    this.lastError = driver.lastError ?? new OsError('NETWORK', `${driver.name} did not take the packet`)
    return false
  }

  /** Sends over UDP and waits for one reply, which also goes through the protocol; null when none came. */
  async dispatchWithReply(
    packet: Uint8Array,
    serverIp: string | null = null,
    serverPort: number | null = null,
    timeout = 3.0,
  ): Promise<Uint8Array | null> {
    const { host, port } = this.#server(serverIp, serverPort)
    try {
      const reply = await this.#request(host, port, packet, timeout * 1000, undefined, error => {
        this.lastError = error
      })
      if (reply) this.protocol.classifyAndDispatch(reply, `${host}:${port}`)
      return reply
    } catch (error) {
      this.lastError = asOsError(error, 'NETWORK')
      return null
    }
  }

  /** Binary packet → fact dict with `__packet_meta__`; an error result has `error`. */
  receive(rawBytes: Uint8Array): DecodedPacket {
    return this.fusion.decompress(rawBytes)
  }

  /** Routes a packet by its command byte; the envelope of PROTOCOL §7. */
  receiveViaProtocol(rawBytes: Uint8Array, addr: string | null = null): DispatchResult {
    return this.protocol.classifyAndDispatch(rawBytes, addr)
  }

  /** A packet of another source as a FULL frame with its AID, TID and TS (X15). Throws RELAY_UNDECODABLE. */
  relay(packet: Uint8Array): Buffer {
    return this.fusion.relay(packet)
  }

  /** Asks a server for a device id over UDP and keeps it in Config.json. True when there is one. `timeout` in seconds. */
  async ensureId(
    serverIp: string,
    serverPort: number,
    deviceMeta: Record<string, unknown> | null = null,
    timeout = 5.0,
  ): Promise<boolean> {
    const present = this.assignedId
    if (present > 0 && present < UNASSIGNED_ID) return true
    const meta = { device_id: this.deviceId, ...deviceMeta }
    const aid = await this.#ask(serverIp, serverPort, timeout * 1000, (send, recv) =>
      this.protocol.requestIdViaTransport(send, recv, meta, timeout),
    )
    if (aid === null) return false
    this.store.set('assigned_id', aid)
    return true
  }

  /** Asks a server for its time; UNIX seconds, or null. `timeout` in seconds. Never sets the system's clock. */
  async ensureTime(
    serverIp: string | null = null,
    serverPort: number | null = null,
    timeout = 3.0,
  ): Promise<number | null> {
    const { host, port } = this.#server(serverIp, serverPort)
    const seconds = await this.#ask(host, port, timeout * 1000, (send, recv) =>
      this.protocol.requestTimeViaTransport(send, recv, timeout),
    )
    if (seconds !== null) {
      this.protocol.noteServerTime(seconds)
      this.#serverTime = { seconds, at: this.#clock.mono() }
    }
    return seconds
  }

  /** Closes the media that dispatch opened and keeps the templates. */
  async close(): Promise<void> {
    await this.transporterManager.close()
    this.fusion.stop()
    if (this.#ownsAllocator) this.idAllocator?.stop()
  }

  #server(host: string | null, port: number | null): { host: string; port: number } {
    return {
      host: host ?? ((this.store.get('Client_Core.server_host') as string) || '127.0.0.1'),
      port: port ?? ((this.store.get('Client_Core.server_port') as number) || 8080),
    }
  }

  async #ask<T>(host: string, port: number, timeoutMs: number, loop: RequestLoop<T>): Promise<T | null> {
    this.lastError = null
    const fail = (error: OsError): void => {
      this.lastError = error
    }
    const answer = await askOverUdp(this.#request, { host, port, timeoutMs }, fail, loop)
    if (answer === null) this.lastError ??= new OsError('NO_REPLY', `${host}:${port} did not answer`)
    return answer
  }

  /** D18: what goes on the wire, in ms. */
  #time({ t, no_timestamp }: TransmitOptions): number {
    if (no_timestamp) return 0
    if (t === undefined) return this.#clock.wall()
    if (typeof t !== 'number' || !Number.isFinite(t) || t < 0)
      throw new OsError('BAD_TIME', `t is ${String(t)}, not a UNIX time`)
    if (t >= (this.store.get('security_settings.time_sync_threshold') as number)) return toMillis(t)
    // a device that has no clock yet: the last server time, else this machine's, in whole seconds
    const server = this.#serverTime
    const seconds = server ? server.seconds + (this.#clock.mono() - server.at) / 1000 : this.#clock.wall() / 1000
    return Math.floor(seconds) * 1000
  }
}
