// The contracts every bus, medium and sensor of the project keeps. A medium carries whole packets, a source produces
// readings, a line carries bytes. None of them decides when to retry: it opens or throws, and says when it is lost; the
// supervisor moves the states (D7). Unplugging, a dead server or a missing driver is a state, never an exit.
import type { GenericSchema } from 'valibot'
import type { Clock } from '../lib/clock'
import type { Logger } from '../lib/logger'
import type { Reading } from '../pipeline/fact'

/** The one state every face renders as it is. Times are UNIX milliseconds. */
export type LinkState =
  | { readonly state: 'disabled' }
  | { readonly state: 'opening'; readonly since: number }
  | { readonly state: 'up'; readonly since: number }
  | { readonly state: 'degraded'; readonly since: number; readonly reason: string }
  | { readonly state: 'down'; readonly since: number; readonly reason: string; readonly retry_at?: number }
  /** this machine does not have it and need not: no fault */
  | { readonly state: 'absent'; readonly since: number; readonly reason: string; readonly retry_at?: number }

export interface LinkCounters {
  rx: number
  tx: number
  errors: number
  /** packets the kernel threw away before we saw them, where it says so */
  dropped?: number
  /** what else this thing counts, by name: why connections were refused or closed, for example */
  detail?: Readonly<Record<string, number>>
}

/** What the supervisor needs of anything that can be opened and lost. */
export interface Openable {
  readonly name: string
  /**
   * Opens once. Throws (an OsError with a reason a person understands) when it cannot; the supervisor retries: soon when
   * the code is retryable (LINK_DOWN, NETWORK …), every few minutes when it is not (NOT_FOUND, E_NO_ADDON …).
   */
  open(events: OpenableEvents): Promise<void>
  /** Closes and frees everything; safe to call twice, when open failed, and while open runs (which then fails). */
  close(): Promise<void>
  readonly counters: LinkCounters
  /**
   * While it is down: tells when the thing that was missing has come (a plug is back in), so that it is tried at once and
   * not at the end of a pause. Called for a change only, never because it is still there. Returns what ends the watch.
   */
  onReturn?(back: () => void): () => void
}

export interface OpenableEvents {
  /** The opened thing is lost; the supervisor closes it and retries. `wanted`: no fault, it opens anew at once. */
  lost(reason: string, wanted?: boolean): void
  /** works, but not as it should; an empty reason means well again */
  degraded(reason: string): void
  /** of a source: something happened that is to be read now and not at the next turn */
  due?(): void
}

/** Where a packet came from, and the way back. */
export interface PacketOrigin {
  readonly medium: string
  /** as the medium writes it, for example '192.0.2.1:8080' */
  readonly address: string
  readonly rssi?: number
  readonly snr?: number
  /** sends one packet back to where this one came from; resolves false when it could not */
  reply(packet: Uint8Array): Promise<boolean>
  /**
   * Present where the medium itself acknowledges what it received (MQTT QoS 1 and 2): called once per packet. True: it
   * is on flash, or need not come again; false: it could not be kept and is to come again.
   */
  readonly settle?: (kept: boolean) => void
}

/** `packet` is only valid during the call: copy what must live longer. */
export type PacketHandler = (packet: Uint8Array, origin: PacketOrigin) => void

/** Carries packets. Names are the specification's: UDP, TCP, QUIC, MQTT, UART, RS485, CAN, LoRa, Bluetooth, IWIP, UIP. */
export interface Medium extends Openable {
  readonly medium: string
  /** largest packet in bytes that goes through in one piece */
  readonly maxPacket: number
  /**
   * Sends one packet to the configured peer. Resolves true when the medium took it, false when it could not. Several may be
   * on their way at once; they leave in order.
   */
  send(packet: Uint8Array): Promise<boolean>
  /**
   * True where send() resolves true only once the peer has taken the packet over for good (MQTT QoS 1 and 2); such a medium
   * needs no delivery exchange. Called only after the first open.
   */
  readonly acknowledges?: boolean
  /** Sends several packets at once, in order, where that is cheaper; resolves how many of the first ones were taken. */
  sendBatch?(packets: readonly Uint8Array[]): Promise<number>
  /** present where sending takes its time and the law may bound it (LoRa) */
  readonly airtime?: Airtime
  /** receives packets (replies on a sending medium, everything on a listening one) */
  onPacket(handler: PacketHandler): void
}

/** What senders over a slow shared medium plan with. */
export interface Airtime {
  /** ms that a packet of so many bytes takes */
  of(bytes: number): number
  /** share of all time that may be used for sending, more than 0; 1: all of it */
  readonly share: number
  /** ms until a packet of so many bytes may go, 0: now. Some of the budget is kept for what is `urgent`. */
  waitMs(bytes: number, urgent: boolean): number
}

/** Produces readings: a fixed, ordered group of sensors with one interval. */
export interface Source extends Openable {
  readonly type: string
  readonly intervalMs: number
  /**
   * Reads every sensor of the group, in the order of the last open. A sensor that failed keeps its place with status
   * 'ERROR' and a null value. Throws only when the whole group is lost.
   */
  read(): Promise<readonly SourceReading[]>
  /** Reads once, as `os-node source test NAME` shows it: also the bytes the bus gave. Left out: read() alone. */
  readRaw?(): Promise<readonly RawReading[]>
  /** why a sensor has no value in the newest read; undefined where it has one */
  whyNot?(id: string): string | undefined
  /** its sensors, where they are known before it is opened, also from a file; read when a configuration is written */
  readonly sensors?: readonly Sensor[] | Promise<readonly Sensor[]>
  /** Called once, before it is opened for the first time: what counts goes on from where the log has it, and is kept there. */
  resume?(counts: Counts): void
  /**
   * It is closed next and another may take its place (the configuration is read again): what must not drop in between is
   * kept. The result, called once the others were opened, lets go of what none of them took.
   */
  handOn?(): () => Promise<void>
  /** what can be set through this link, where its hardware has outputs */
  readonly outputs?: Outputs
}

/** Where a source keeps over restarts what it counts: the log. After the start of the gateway nothing is resumed any more. */
export interface Counts {
  /** the newest logged value of a sensor, in `unit`; undefined: none */
  logged(id: string, unit: string): number | undefined
  /** the newest kept count of that name; undefined: none */
  kept(name: string): number | undefined
  /** Keeps a whole number; it is in the log after a commit interval at the latest. May be called for every pulse. */
  keep(name: string, count: number): void
}

export interface Sensor {
  readonly id: string
  /** UCUM */
  readonly unit: string
  /** no option of its source gives it another id */
  readonly fixed?: boolean
}

/** One sensor of readRaw(). */
export interface RawReading {
  readonly sensor_id: string
  /** as it came from the bus: bytes in hex, or text */
  readonly raw: string
  readonly status: string
  readonly value: number | null
  /** UCUM */
  readonly unit: string
  /** why there is no value */
  readonly error?: string
}

/** Outputs of an opened link (GPIO lines, relays). A logical value: 1 is active, whatever the level. */
export interface Outputs {
  list(): readonly { readonly name: string; readonly value: 0 | 1 | null }[]
  /** Throws NOT_FOUND (no such output) or LINK_DOWN. */
  set(name: string, value: 0 | 1): Promise<void>
}

/** `unit` is UCUM; a null value comes with status 'ERROR'. */
export type SourceReading = readonly [sensor_id: string, status: string, value: number | null, unit: Reading[3]]

/** A byte stream: serial line, TCP connection, pseudo-terminal. */
export interface Line extends Openable {
  write(bytes: Uint8Array): Promise<void>
  /**
   * `chunk` is only valid during the call. `damaged` is called where a byte came that is not to be believed (parity, framing,
   * break: 0), between the chunks before and after it: what it belongs to is to be dropped. The line counts such bytes.
   */
  onData(handler: (chunk: Uint8Array) => void, damaged?: (byte: number) => void): void
}

/** Who this node is, for media that have it in names (MQTT topics and client ids). */
export interface NodeIdentity {
  /** null: unassigned */
  readonly aid: number | null
  /** stays the same for one installation, whatever its AID is: letters and digits */
  readonly installId: string
  /** Called when an id was assigned. Returns the function that ends it. */
  onAssigned(listener: (aid: number) => void): () => void
}

/** Parameters of a driver's factory. */
export interface DriverContext {
  readonly clock: Clock
  readonly logger: Logger
  readonly identity?: NodeIdentity
  /** the best guess at the real time in UNIX ms, also with an unset system clock (certificates, R22); by default the clock's */
  readonly trueNow?: () => number
  /** where a driver may keep a small file of its own over restarts; left out: it keeps nothing */
  readonly dataDir?: string
}

/**
 * A driver's declaration: loaded by name, on first use. `create` checks the options with `schema` (checkOptions), so that
 * it throws CONFIG_INVALID with the key; it opens nothing, since a configuration that is only checked makes
 * its sources too.
 */
export interface SourceDriver<Options = unknown> {
  readonly type: string
  readonly schema?: GenericSchema<unknown, Options>
  /** it reads a part of the machine itself: one that is not there is no fault, unless `match` names it */
  readonly ofMachine?: true
  create(name: string, options: unknown, context: DriverContext): Source
}

export interface MediumDriver<Options = unknown> {
  readonly medium: string
  readonly schema?: GenericSchema<unknown, Options>
  /** Throws CONFIG_INVALID for options, taken by `schema`, that do not go together; asked when a configuration is written. */
  check?(options: Options): void
  create(name: string, options: unknown, context: DriverContext): Medium
}
