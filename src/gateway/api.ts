// The one view of a running gateway: CLI, HTTP, terminal UI, plugins and display use it, each the members it needs, and reach
// nothing else of the gateway. Members are called once per request or event and are cheap unless they return a promise.
import type { ConfigStore } from '../config'
import type { OutputsControl } from '../links/hardware'
import type { LinkReport } from '../links/supervisor'
import type { TransportView } from '../links/transport-view'
import type { Fact, LinkMetadata, Reading } from '../pipeline/fact'
import type { Database } from '../storage'
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
  /** Throws BAD_REQUEST `unknown medium`, CONFIG_WRITE; as reload(), of a gateway STARTING and LINK_DOWN. */
  toggle(medium: string, enabled: boolean): Promise<{ name: string; enabled: boolean }>
  reload(medium: string): Promise<{ name: string; reloaded: boolean }>
}

/** The configured sources, each readable once beside its schedule. */
export interface SourcesApi {
  list(): Promise<readonly SourceItem[]>
  /** Throws NOT_FOUND, LINK_DOWN with the reason, TIMEOUT. */
  test(name: string): Promise<SourceTest>
}

export interface GatewayApi {
  readonly config: ConfigStore
  /** the SQL view; null while storage.sql is not enabled */
  readonly database: Database | null
  readonly transport: TransportApi
  /** what can be set through the sources */
  readonly outputs: OutputsControl
  /** settles once the configured links are made */
  sources(): Promise<SourcesApi>
  status(): GatewayStatus
  /** the links as the supervisor has them, without secrets; for parts that need no whole status */
  links(): Readonly<Record<string, LinkReport>>
  /** the newest readings of each device and medium */
  latest(): readonly LatestReading[]
  /** Throws STARTING before the gateway takes changes, LINK_DOWN once it stops. */
  ready(): void
  /** Reads Config.json again. Throws CONFIG_SYNTAX, CONFIG_INVALID, STARTING, LINK_DOWN. */
  reload(): Promise<ReloadReport>
  /** What safe mode there is (R25); `leave`: ends it first, throws STARTING. */
  safeMode(leave: boolean): Promise<SafeModeReport>
  /** Readings into the log and upstream. Throws ALL_READINGS_REFUSED, BAD_ID. */
  submit(readings: readonly Reading[], options?: SubmitOptions): Submitted
  /** The same, and how the uplink sent them; see transmit.ts. */
  transmit(request: TransmitRequest): Promise<TransmitOutcome>
  /** A data packet in plain form, deciphered by the sessions of this gateway; null when no key fits. */
  readable(packet: Uint8Array): Uint8Array | null
  /** false: that AID has no session */
  forgetSession(aid: number): boolean
  /** Every fact that is logged: own and received. As all below, returns how to stop. */
  onFact(listener: (event: FactEvent) => void): () => void
  /** the same as the newest reading of its device */
  onReading(listener: (reading: LatestReading) => void): () => void
  /** every packet that a receiver took; its bytes are only valid during the call */
  onPacket(listener: (event: PacketEvent) => void): () => void
  /** every packet that an uplink takes, own ones and those passed on; its bytes are only valid during the call */
  onSent(listener: (event: SentEvent) => void): () => void
  /** every change of a link's state */
  onLink(listener: (event: LinkEvent) => void): () => void
}

/** `node` sends what a command names a medium for that no uplink uses. */
export const gatewayApi = (gateway: Gateway, node: DispatchNode, transport: TransportApi): GatewayApi => {
  const { config, database, events, guard, identity } = gateway
  // own facts are stamped with the id of their time; shown is the one of now
  const readingOf = ({ fact, link }: { fact: Fact; link: LinkMetadata }): LatestReading =>
    link.medium === 'local' ? { ...latestOf(fact, link), source_aid: identity.assignedId } : latestOf(fact, link)
  return {
    config,
    database,
    // what changes Config.json waits until the gateway follows it
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
    links: () => gateway.links(),
    latest: () => gateway.latestReadings(),
    ready: () => void gateway.ready(),
    reload: () => gateway.reload(),
    safeMode: async leave => {
      if (leave) await gateway.leaveSafeMode()
      return guard.safeModeReport()
    },
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
