// The context of a command. main provides it: locally with a Node and the files, in a running gateway with the gateway
// itself. Commands use only these interfaces, so that CLI, HTTP and terminal UI run the same commands.
import type { ConfigStore } from '../config'
import type { SectionReader } from '../display'
import type { GatewayApi, SourcesApi, TransportApi } from '../gateway/api'
import type { LinkProblem } from '../gateway/guard/check-links'
import type { SafeModeReport } from '../gateway/guard/crashes'
import type { LogStatus } from '../gateway/status'
import type { Logger } from '../lib/logger'
import type { Hardware, OutputItem } from '../links/hardware'
import type { Selection, VerifyResult } from '../log/verify'
import type { NodeBase } from '../node/node'
import type { Plugins } from '../services'

export type Via = 'gateway' | 'local'

/** The part of the library's Node that commands use. */
export type CommandNode = Pick<
  NodeBase,
  'assignedId' | 'lastRejected' | 'lastError' | 'receive' | 'transmit' | 'dispatch' | 'ensureId' | 'ensureTime'
>

/** The live terminal UI; each function returns the exit code. Throws USAGE without a terminal. */
export interface TerminalUiLike {
  /** `interval` in seconds; undefined: as configured */
  runInteractive(interval: number | undefined, sections: readonly string[] | null): Promise<number>
  runBios(interval: number | undefined, section: string | null): Promise<number>
}

/** Cancellation and progress of long work. */
export interface Watch {
  /** aborted by Ctrl-C, by a client that disconnected, or by a time limit */
  readonly signal: AbortSignal
  /** bytes of the log read so far, and the total; absent if no progress is shown */
  progress?(done: number, total: number): void
}

/** From the files of a log that no gateway has open, what only a running one knows is absent. */
export type LogSummary = Pick<
  LogStatus,
  'records' | 'first_seq' | 'last_seq' | 'committed_seq' | 'bytes' | 'lost' | 'bytes_written_today'
> &
  Partial<LogStatus>

export type LogVerified = Pick<
  VerifyResult,
  'ok' | 'records' | 'first_seq' | 'last_seq' | 'damaged' | 'lost' | 'pieces' | 'gaps'
>

export interface LogAccess {
  /** first and last numbers, without reading every record */
  summary(): Promise<LogSummary>
  /** reads and checks every record; counts only those of the selection. Throws TIMEOUT when it is stopped. */
  verify(selection: Selection, watch: Watch): Promise<LogVerified>
  /** records from `from` on as `{boot, seq, t_raw, …fact}`, oldest first */
  export(from: number, watch: Watch): AsyncIterable<Record<string, unknown>>
}

export interface StartOverrides {
  host?: string
  port?: number
  webPort?: number
  /** opens the page to the network: on all addresses, always encrypted */
  lan?: boolean
}

export interface StartedGateway {
  /** resolves with the exit code when the gateway has stopped and committed */
  readonly done: Promise<number>
  /** what the gateway does and where its page is, for `--json` */
  readonly info?: Record<string, unknown>
  /** the same for people, with the admin token at the first start */
  readonly banner?: string
  /** ends it like Ctrl-C */
  stop?(): void
  transmit?: GatewayApi['transmit']
}

/** The parts of a running gateway that commands use; the running process owns the outputs. */
type CommandGateway = Pick<GatewayApi, 'status' | 'database' | 'outputs' | 'transmit' | 'reload' | 'forgetSession'>

export interface CommandContext extends Watch {
  readonly version: string
  readonly config: ConfigStore
  readonly logger: Logger
  readonly via: Via
  /** prefixes of the configuration keys that may be written; absent: every key */
  writable?(): readonly string[]
  /** absent outside a running gateway */
  readonly gateway?: CommandGateway
  /** URL of the page; absent: the configured address is used */
  webUrl?(): string | undefined
  readonly log: LogAccess
  node(): Promise<CommandNode>
  transport(): TransportApi
  sources(): Promise<SourcesApi>
  /** Problems of the configured links; absent in a running gateway, whose links report them. */
  linkProblems?(): Promise<readonly LinkProblem[]>
  /** pins, lines and buses of this machine */
  hardware(): Promise<Hardware>
  /** Sets the outputs of the configuration as after a crash, none if the service reports a normal stop; absent in a gateway. */
  safeOutputs?(): Promise<readonly OutputItem[]>
  /** the sections of display providers */
  display(): Promise<SectionReader>
  /** absent in a running gateway: the terminal is on the client's side */
  terminalUi?(): Promise<TerminalUiLike>
  /** the plugins of the gateway, or without one those of this process */
  plugins(): Promise<Plugins>
  /** The state of safe mode (R25); `leave`: ends it first. */
  safeMode(leave: boolean): Promise<SafeModeReport>
  /** Runs until `signal` aborts. Throws LOCKED, PORT_BUSY, DATA_DIR … when it cannot start. */
  startGateway(role: 'run' | 'serve', overrides: StartOverrides): Promise<StartedGateway>
  /** opens a link in the browser of the user at the terminal; false if there is no browser */
  openUrl?(url: string): Promise<boolean>
  /** makes an admin token, stores its hash in `<data>/token.json`, returns the token */
  newToken(): Promise<string>
  /** prints one document immediately, for commands that keep running: text for people, JSON with --json */
  print(value: Record<string, unknown>, text: string): void
  close?(): Promise<void>
}
