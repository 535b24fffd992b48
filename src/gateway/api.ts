// The one interface to a running gateway. CLI, HTTP, terminal UI, plugins and display each use the members they need and
// access nothing else of the gateway. Members are called once per request or event and are cheap unless they return a
// promise.
import type { OutputsControl } from '../links/hardware'
import type { LinkReport } from '../links/supervisor'
import type { TransportView } from '../links/transport-view'
import type { FlashLog } from '../log'
import type { Fact, LinkMetadata, Reading } from '../pipeline/fact'
import type { DatabaseStatus, HistoryQuery, PacketQuery, SensorQuery } from '../storage'
import type { FactEvent, LinkEvent, PacketEvent, SentEvent } from './events'
import type { Gateway } from './gateway'
import type { SafeModeReport } from './guard/crashes'
import type { ReloadReport } from './guard/reload'
import type { SubmitOptions, Submitted } from './intake/intake'
import type { SourceItem, SourceTest } from './intake/test-source'
import { type LatestReading, latestOf } from './latest'
import type { GatewayStatus } from './status'
import { type DispatchNode, type TransmitOutcome, type TransmitRequest, transmitThrough } from './transmit'

/** Switches media and shows them; TransportControl of the node room. */
export interface TransportApi {
  view(): TransportView
  /** Throws BAD_REQUEST `unknown medium`, CONFIG_WRITE, and STARTING or LINK_DOWN as reload() does. */
  toggle(medium: string, enabled: boolean): Promise<{ name: string; enabled: boolean }>
  reload(medium: string): Promise<{ name: string; reloaded: boolean }>
}

/** The configured sources. test() reads a source once, outside its schedule. */
export interface SourcesApi {
  list(): Promise<readonly SourceItem[]>
  /** Throws NOT_FOUND, LINK_DOWN with the reason, TIMEOUT. */
  test(name: string): Promise<SourceTest>
}

/**
 * The data queries; each returns the body of its route (specification "Data query endpoints"). They throw OsError
 * DB_NOT_CONFIGURED, DB_STARTING or DB_UNAVAILABLE; any other error becomes DB_UNAVAILABLE.
 */
export interface Queries {
  queryDevices(limit: number, offset: number): Promise<object>
  queryPackets(query: PacketQuery): Promise<object>
  /** null if there is no such packet */
  queryPacket(uuid: string): Promise<object | null>
  querySensors(query: SensorQuery): Promise<object>
  queryHistory(query: HistoryQuery): Promise<object>
}

/** The SQL view. counted(): its status with the number of rows. */
export interface DatabaseApi extends Queries {
  counted(): Promise<DatabaseStatus>
}

/** What the start message says about a gateway. */
export interface GatewaySummary {
  readonly deviceId: string
  /** null: no id yet */
  readonly assignedId: number | null
  readonly uplinks: readonly { readonly name: string; readonly medium: string }[]
  /** null: none runs */
  readonly localUpstream: { readonly webPort: number; readonly dataDir: string } | null
}

export interface GatewayApi {
  /** null if storage.sql is disabled */
  readonly database: DatabaseApi | null
  /** for reading; `failure`: why it cannot be written */
  readonly log: Pick<FlashLog, 'status' | 'reader' | 'bytesAfter' | 'failure'>
  readonly transport: TransportApi
  /** the outputs that sources offer, for example GPIO pins and relays */
  readonly outputs: OutputsControl
  /** settles after the configured links are created */
  sources(): Promise<SourcesApi>
  status(): GatewayStatus
  summary(): GatewaySummary
  /** the links as the supervisor sees them, without secrets; cheaper than the complete status */
  links(): Readonly<Record<string, LinkReport>>
  /** the newest readings of each device and medium */
  latest(): readonly LatestReading[]
  /** the newest values of this machine's sensors, by id */
  ownValues(): Readonly<Record<string, number | null>>
  /** Throws STARTING until the gateway accepts changes, LINK_DOWN while it stops. */
  ready(): void
  /** Reads Config.json again. Throws CONFIG_SYNTAX, CONFIG_INVALID, STARTING, LINK_DOWN. */
  reload(): Promise<ReloadReport>
  /** The state of safe mode (R25). `leave`: ends safe mode first; throws STARTING. */
  safeMode(leave: boolean): Promise<SafeModeReport>
  /** why links, SQL view and plugins stay off; undefined: no safe mode */
  safeModeReason(): string | undefined
  /** called once if safe mode is left */
  onSafeModeLeft(listener: () => void): void
  /** Logs readings and forwards them. Throws ALL_READINGS_REFUSED, BAD_ID. */
  submit(readings: readonly Reading[], options?: SubmitOptions): Submitted
  /** Like submit(), and reports how the uplink sent the readings; see transmit.ts. */
  transmit(request: TransmitRequest): Promise<TransmitOutcome>
  /** Decrypts a data packet with the sessions of this gateway; null if no key fits. */
  readable(packet: Uint8Array): Uint8Array | null
  /** false: that AID has no session */
  forgetSession(aid: number): boolean
  /** Every logged fact, own and received. This method and those below return a function that unsubscribes. */
  onFact(listener: (event: FactEvent) => void): () => void
  /** like onFact(), as the newest reading of the device */
  onReading(listener: (reading: LatestReading) => void): () => void
  /** every accepted packet of a receiver; its bytes are only valid during the call */
  onPacket(listener: (event: PacketEvent) => void): () => void
  /** every packet that an uplink accepts, own and forwarded; its bytes are only valid during the call */
  onSent(listener: (event: SentEvent) => void): () => void
  /** every state change of a link */
  onLink(listener: (event: LinkEvent) => void): () => void
}

/** `node` sends commands that name a medium which no uplink uses. */
export const gatewayApi = (gateway: Gateway, node: DispatchNode, transport: TransportApi): GatewayApi => {
  const { database, events, guard, identity, log, localUpstream: local } = gateway
  // own facts are logged with the id of that time; callers see the current id
  const readingOf = ({ fact, link }: { fact: Fact; link: LinkMetadata }): LatestReading =>
    link.medium === 'local' ? { ...latestOf(fact, link), source_aid: identity.assignedId } : latestOf(fact, link)
  return {
    database,
    log,
    // calls that change Config.json wait until the gateway has applied the change
    transport: {
      view: () => transport.view(),
      toggle: async (medium, enabled) => {
        gateway.ready()
        return transport.toggle(medium, enabled)
      },
      reload: async medium => {
        gateway.ready()
        return transport.reload(medium)
      },
    },
    outputs: gateway.sources.outputs,
    sources: () => gateway.built.then(() => gateway.sources),
    status: () => gateway.status(),
    summary: () => ({
      deviceId: identity.deviceId,
      assignedId: identity.assigned ? identity.assignedId : null,
      uplinks: gateway.uplinks.list.map(({ name, medium }) => ({ name, medium })),
      localUpstream: local.running && { webPort: local.running.webPort, dataDir: local.running.dataDir },
    }),
    links: () => gateway.links(),
    latest: () => gateway.latestReadings(),
    ownValues: () => gateway.latest.own(),
    ready: () => void gateway.ready(),
    reload: () => gateway.reload(),
    safeMode: async leave => {
      if (leave) await gateway.leaveSafeMode()
      return guard.safeModeReport()
    },
    safeModeReason: () => guard.safeMode,
    onSafeModeLeft: listener => void guard.left.then(listener),
    submit: (readings, options) => gateway.submit(readings, options),
    transmit: request => transmitThrough(gateway, node, request),
    readable: packet => gateway.readable(packet),
    forgetSession: aid => gateway.receive.session?.forget(aid) ?? false,
    onFact: listener => events.onFact(listener),
    onReading: listener => events.onFact(event => listener(readingOf(event))),
    onPacket: listener => events.onPacket(listener),
    onSent: listener => events.onSent(listener),
    onLink: listener => events.onLink(listener),
  }
}
