// What a command is given. main fills it in: locally with a Node and the files, in a running gateway with the gateway itself.
// Commands are written against these interfaces only, so CLI, HTTP and terminal UI run the same ones.
import type { ConfigStore } from '../config'
import type { SectionReader } from '../display'
import type { LinkProblem } from '../gateway/guard/check-links'
import type { SafeModeReport } from '../gateway/guard/crashes'
import type { ReloadReport } from '../gateway/guard/reload'
import type { SourceItem, SourceTest } from '../gateway/intake/test-source'
import type { GatewayStatus, LogStatus } from '../gateway/status'
import type { Logger } from '../lib/logger'
import type { Hardware, OutputItem, OutputsControl } from '../links/hardware'
import type { TransportView } from '../links/transport-view'
import type { Reading } from '../pipeline/fact'
import type { Plugins } from '../services'

export type Via = 'gateway' | 'local'

export interface RejectedRow {
  readonly row: number
  readonly code: string
  readonly error: string
}

/** The part of the library's Node that commands use. */
export interface NodeLike {
  readonly assigned_id: number | null
  readonly device_id: string
  readonly lastRejected: readonly RejectedRow[]
  /** why the last request had no answer */
  readonly lastError?: { message: string; code: string; hint: string } | null
  readonly fusion: { decompress(bytes: Uint8Array): Record<string, unknown> }
  transmit(
    sensors: readonly Reading[],
    options?: { device_id?: string; device_status?: string },
  ): readonly [packet: Uint8Array, assigned_id: number, strategy: string]
  /** medium null or absent: Node_Setting.default_medium. Throws NO_DRIVER. */
  dispatch(packet: Uint8Array, medium?: string | null): Promise<boolean>
  /** timeouts in seconds */
  ensureId(host: string, port: number, deviceMeta?: unknown, timeout?: number): Promise<boolean>
  ensureTime(host?: string | null, port?: number | null, timeout?: number): Promise<number | null>
}

export interface SubmitRequest {
  readonly sensors: readonly Reading[]
  readonly device_id?: string
  readonly device_status?: string
  readonly medium?: string
}

/** What became of readings that were handed to a running gateway. */
export interface SubmitOutcome {
  readonly packet: Uint8Array
  readonly assigned_id: number
  readonly strategy: string
  /** the packet left, or the readings are kept for delivery */
  readonly sent: boolean
  readonly delivery?: 'acknowledged' | 'sent' | 'kept'
  readonly reason?: string
  readonly dispatch_path: 'driver' | 'ffi' | 'none'
  readonly rejected: readonly RejectedRow[]
}

export interface GatewayLike {
  status(): GatewayStatus
  /** the state of the SQL view with what is stored counted; empty when storage.sql is off */
  database?(): Promise<Record<string, unknown>>
  submit(request: SubmitRequest): Promise<SubmitOutcome>
  /** reads Config.json again; throws CONFIG_SYNTAX, CONFIG_INVALID */
  reload(): Promise<ReloadReport>
  /** false: that AID has no session */
  forgetSession(aid: number): boolean
}

/** Switches media and shows them; see TransportControl. */
export interface TransportLike {
  view(): TransportView
  /** Throws BAD_REQUEST for a medium nobody knows. */
  toggle(medium: string, enabled: boolean): Promise<{ name: string; enabled: boolean }>
  reload(medium: string): Promise<{ name: string; reloaded: boolean }>
}

/** What is read here; see test-source.ts of the gateway's intake. */
export interface SourcesLike {
  list(): Promise<readonly SourceItem[]>
  /** Throws NOT_FOUND, LINK_DOWN with the reason, TIMEOUT. */
  test(name: string): Promise<SourceTest>
}

/** The terminal UI, live; each returns the exit code when it is left. Throws USAGE without a terminal. */
export interface TerminalUiLike {
  /** `interval` in seconds; undefined: as configured */
  runInteractive(interval: number | undefined, sections: readonly string[] | null): Promise<number>
  runBios(interval: number | undefined, section: string | null): Promise<number>
}

export interface LogVerification {
  ok: boolean
  records: number
  first_seq: number
  last_seq: number
  damaged: number
  lost: number
}

export interface LogAccess {
  /** first and last numbers, without reading every record */
  summary(): Promise<LogStatus>
  /** reads and checks every record */
  verify(): Promise<LogVerification>
  /** records from `from` on as `{boot, seq, t_raw, …fact}`, oldest first */
  export(from: number): AsyncIterable<Record<string, unknown>>
}

export interface StartOverrides {
  host?: string
  port?: number
  webPort?: number
  /** the page is for the network: on all addresses, always encrypted */
  lan?: boolean
}

export interface StartedGateway {
  /** settles with the exit code when the gateway has stopped and committed */
  readonly done: Promise<number>
  /** what it does and where to look, for `--json` */
  readonly info?: Record<string, unknown>
  /** the same for people, the admin token once included */
  readonly banner?: string
  /** ends it as Ctrl-C does */
  stop?(): void
  submit?: GatewayLike['submit']
}

export interface CommandContext {
  readonly version: string
  readonly config: ConfigStore
  readonly logger: Logger
  readonly via: Via
  /** aborted by Ctrl-C, by a client that left, by a time cap */
  readonly signal: AbortSignal
  /** keys of the configuration that may be written, with all below them; absent: every key */
  writable?(): readonly string[]
  /** absent outside a running gateway */
  readonly gateway?: GatewayLike
  /** where the page runs; else the configuration says where it would be */
  webUrl?(): string | undefined
  readonly log: LogAccess
  node(): Promise<NodeLike>
  transport(): TransportLike
  sources(): Promise<SourcesLike>
  /** What is wrong with the links of the configuration; absent inside a running gateway, whose links say it themselves. */
  linkProblems?(): Promise<readonly LinkProblem[]>
  /** pins, lines and buses of this machine */
  hardware(): Promise<Hardware>
  /** absent outside a running gateway: an output is held by whoever runs */
  readonly outputs?: OutputsControl
  /** Sets the outputs of the configuration as after a crash, none where the service says that it stopped in order; absent inside a gateway. */
  safeOutputs?(): Promise<readonly OutputItem[]>
  /** the sections of display providers */
  display(): Promise<SectionReader>
  /** absent inside a running gateway: the terminal is where the person is */
  terminalUi?(): Promise<TerminalUiLike>
  /** the plugins of the gateway, or without one those of this process */
  plugins(): Promise<Plugins>
  /** What safe mode there is (R25); `leave`: ends it first. */
  safeMode(leave: boolean): Promise<SafeModeReport>
  /** Runs until `signal` aborts. Throws LOCKED, PORT_BUSY, DATA_DIR … when it cannot start. */
  startGateway(role: 'run' | 'serve', overrides: StartOverrides): Promise<StartedGateway>
  /** opens a link in the browser of whoever typed the command; false when there is none */
  openUrl?(url: string): Promise<boolean>
  /** makes an admin token, stores its hash in `<data>/token.json`, returns the token */
  newToken(): Promise<string>
  /** prints one document at once, for commands that go on working: text for people, JSON with --json */
  print(value: Record<string, unknown>, text: string): void
  close?(): Promise<void>
}
