// The contracts of every bus, medium and sensor. A medium transports packets, a source produces readings, a line
// transports bytes. None of them decides when to retry: it opens or throws, and reports when it is lost; the supervisor
// changes the states (decision 0045). An unplugged device, a dead server or a missing driver is a state, never an exit.
import type { GenericSchema } from 'valibot'
import type { Clock } from '../lib/clock'
import type { Logger } from '../lib/logger'
import type { Reading } from '../pipeline/fact'

/** The state that every client shows unchanged. Times are UNIX milliseconds. */
export type LinkState =
  | { readonly state: 'disabled' }
  | { readonly state: 'opening'; readonly since: number }
  | { readonly state: 'up'; readonly since: number }
  | { readonly state: 'degraded'; readonly since: number; readonly reason: string }
  | { readonly state: 'down'; readonly since: number; readonly reason: string; readonly retry_at?: number }
  /** this machine lacks it, which is no fault */
  | { readonly state: 'absent'; readonly since: number; readonly reason: string; readonly retry_at?: number }

export interface LinkCounters {
  rx: number
  tx: number
  errors: number
  /** packets the kernel dropped before we read them, if it reports them */
  dropped?: number
  /** further counters by name, for example reasons why connections were refused or closed */
  detail?: Readonly<Record<string, number>>
}

/** What the supervisor needs of anything that can be opened and lost. */
export interface Openable {
  readonly name: string
  /**
   * Opens once. Throws an OsError with an understandable reason; the supervisor retries: soon if the code is retryable
   * (LINK_DOWN, NETWORK …), every few minutes if not (NOT_FOUND, E_NO_ADDON …).
   */
  open(events: OpenableEvents): Promise<void>
  /** Closes and frees everything; safe to call twice, after a failed open, and during open (which then fails). */
  close(): Promise<void>
  readonly counters: LinkCounters
  /**
   * While it is down: calls `back` when the missing thing has returned (replugged), so that it is tried immediately,
   * not after the backoff. Called only for a change, never because it is still present. Returns the function that ends
   * the watch.
   */
  onReturn?(back: () => void): () => void
}

export interface OpenableEvents {
  /** The opened thing is lost; the supervisor closes it and retries. `wanted`: no fault, it is reopened immediately. */
  lost(reason: string, wanted?: boolean): void
  /** works, but not as it should; an empty reason means it has recovered */
  degraded(reason: string): void
  /** of a source: a reading should be taken now and not at the next interval */
  due?(): void
}

/** The origin of a packet, and the way to answer. */
export interface PacketOrigin {
  readonly medium: string
  /** in the medium's notation, for example '192.0.2.1:8080' */
  readonly address: string
  readonly rssi?: number
  readonly snr?: number
  /** sends one packet to the origin of this one; resolves false if it could not */
  reply(packet: Uint8Array): Promise<boolean>
  /**
   * Present if the medium itself acknowledges packets (MQTT QoS 1 and 2): called once per packet. True: it is on flash,
   * or need not be resent; false: it could not be stored and must be resent.
   */
  readonly settle?: (kept: boolean) => void
  /** Another receiver may get the sender's next packet (MQTT, shared subscription), and does not have the keys named here. */
  readonly shared?: boolean
  /** Present on answers of a broker. Called by the handler: the answer is acknowledged after `kept`. */
  readonly acknowledgeAfter?: (kept: Promise<unknown>) => void
}

/** `packet` is valid only during the call: copy it to keep it. */
export type PacketHandler = (packet: Uint8Array, origin: PacketOrigin) => void

/** Transports packets. Names are the specification's: UDP, TCP, QUIC, MQTT, UART, RS485, CAN, LoRa, Bluetooth, IWIP, UIP. */
export interface Medium extends Openable {
  readonly medium: string
  /** largest packet in bytes that can be sent in one piece */
  readonly maxPacket: number
  /**
   * Sends one packet to the configured peer. Resolves true when the medium accepted it, false if it could not. Several
   * may be in progress; they are sent in order.
   */
  send(packet: Uint8Array): Promise<boolean>
  /**
   * True if send() resolves true only after the peer has taken responsibility for the packet (MQTT QoS 1); such a
   * medium needs no delivery exchange. The first open may change it.
   */
  readonly acknowledges?: boolean
  /** Sends several packets in order, if one call is cheaper; resolves the number accepted, counted from the first. */
  sendBatch?(packets: readonly Uint8Array[]): Promise<number>
  /** present if sending takes time and regulations may limit it (LoRa) */
  readonly airtime?: Airtime
  /** receives packets (replies on a sending medium, all packets on a listening one) */
  onPacket(handler: PacketHandler): void
}

/** Data for senders that plan ahead on a slow shared medium. */
export interface Airtime {
  /** ms for a packet of that many bytes */
  of(bytes: number): number
  /** share of time that may be used for sending, more than 0; 1: all of it */
  readonly share: number
  /** ms until a packet of that many bytes may be sent, 0: now. Part of the budget is reserved for `urgent` packets. */
  waitMs(bytes: number, urgent: boolean): number
}

/** Produces readings: a fixed, ordered group of sensors with one interval. */
export interface Source extends Openable {
  readonly type: string
  readonly intervalMs: number
  /**
   * Reads every sensor of the group, in the order of the last open. A sensor that failed keeps its place with status
   * 'ERROR' and a null value. Throws only when the complete group is lost.
   */
  read(): Promise<readonly SourceReading[]>
  /** Reads once for `os-node source test NAME`, with the raw bytes of the bus. Absent: only read() exists. */
  readRaw?(): Promise<readonly RawReading[]>
  /** why a sensor has no value in the newest read; undefined if it has one */
  whyNot?(id: string): string | undefined
  /** its sensors, if they are known before opening, possibly from a file; read when a configuration is written */
  readonly sensors?: readonly Sensor[] | Promise<readonly Sensor[]>
  /** Called once, before the first opening: counters continue from the logged values, and are stored through `counts`. */
  resume?(counts: Counts): void
  /**
   * Called before this source is closed and possibly replaced (the configuration is reloaded): keeps what must not drop
   * in between. The returned function is called after the others were opened, and releases what none of them took.
   */
  handOn?(): () => Promise<void>
  /** outputs that can be set through this link, if its hardware has any */
  readonly outputs?: Outputs
}

/** Stores a source's counters over restarts: in the log. Nothing is resumed later than the start of the gateway. */
export interface Counts {
  /** the newest logged value of a sensor, in `unit`; undefined: none */
  logged(id: string, unit: string): number | undefined
  /** the newest stored count of that name; undefined: none */
  kept(name: string): number | undefined
  /** Stores a whole number; it is logged after a commit interval at the latest. May be called for every pulse. */
  keep(name: string, count: number): void
}

export interface Sensor {
  readonly id: string
  /** UCUM */
  readonly unit: string
  /** no option of its source can change the id */
  readonly fixed?: boolean
}

/** One sensor of readRaw(). */
export interface RawReading {
  readonly sensor_id: string
  /** as received from the bus: bytes in hex, or text */
  readonly raw: string
  readonly status: string
  readonly value: number | null
  /** UCUM */
  readonly unit: string
  /** why there is no value */
  readonly error?: string
}

/** Outputs of an opened link (GPIO lines, relays). Values are logical: 1 is active, whatever the level. */
export interface Outputs {
  list(): readonly { readonly name: string; readonly value: 0 | 1 | null }[]
  /** Throws NOT_FOUND (no such output) or LINK_DOWN. */
  set(name: string, value: 0 | 1): Promise<void>
}

/** `unit` is UCUM; a null value has the status 'ERROR'. */
export type SourceReading = readonly [sensor_id: string, status: string, value: number | null, unit: Reading[3]]

/** A byte stream: serial line, TCP connection, pseudo-terminal. */
export interface Line extends Openable {
  write(bytes: Uint8Array): Promise<void>
  /**
   * `chunk` is valid only during the call. `damaged` is called for a byte with an error (parity, framing, break: 0),
   * between the chunks before and after it: drop the packet that contains it. The line counts such bytes.
   */
  onData(handler: (chunk: Uint8Array) => void, damaged?: (byte: number) => void): void
}

/** The identity of this node, for media whose names contain it (MQTT topics and client ids). */
export interface NodeIdentity {
  /** null: unassigned */
  readonly aid: number | null
  /** constant for one installation, whatever its AID: letters and digits */
  readonly installId: string
  /** Called when an id was assigned. Returns the function that ends it. */
  onAssigned(listener: (aid: number) => void): () => void
}

/** Parameters of a driver's factory. */
export interface DriverContext {
  readonly clock: Clock
  readonly logger: Logger
  readonly identity?: NodeIdentity
  /**
   * the best estimate of the real time in UNIX ms, also while the system clock is unset (certificates, R22); default:
   * the clock's
   */
  readonly trueNow?: () => number
  /** where a driver may store a small file over restarts; left out: it stores nothing */
  readonly dataDir?: string
}

/**
 * A driver's declaration: loaded by name, on first use. `create` checks the options with `schema` (checkOptions), so
 * that it throws CONFIG_INVALID with the key. It opens nothing, because checking a configuration also creates its
 * sources.
 */
export interface SourceDriver<Options = unknown> {
  readonly type: string
  readonly schema?: GenericSchema<unknown, Options>
  /** it reads a part of the machine itself: if that is missing it is no fault, unless `match` names it */
  readonly ofMachine?: true
  create(name: string, options: unknown, context: DriverContext): Source
}

export interface MediumDriver<Options = unknown> {
  readonly medium: string
  readonly schema?: GenericSchema<unknown, Options>
  /**
   * Throws CONFIG_INVALID for options that are valid by `schema` but contradict each other. Called before a
   * configuration is written.
   */
  check?(options: Options): void
  create(name: string, options: unknown, context: DriverContext): Medium
}
