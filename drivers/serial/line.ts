// A serial port as a Line. Users of the same port with the same settings share one opened port: all receive the same
// bytes, writes are sent one after the other, and a user can lock the port for a request and its answer.
//
// Errors: a port that is missing, not permitted or in use: see errors.ts and names.ts; settings other than those in
// use: LINK_DOWN. When one user loses the port, all lose it. While the port is missing, its name is checked four times
// a second: a replugged adapter is open again within half a second, whatever name the kernel gives it.

import { isDeepStrictEqual } from 'node:util'
import { asOsError, closedWhileOpening, OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import { systemTimers, type Timers } from '../../src/lib/timers'
import type { DriverContext, Line, OpenableEvents } from '../../src/links/contracts'
import { nodeIdentity, PortNames, type UsbIdentity } from './names'
import { OpenPort } from './port'
import { characterMs, type SerialSettings } from './serial-options'

export interface SerialContext extends DriverContext {
  /** for tests */
  timers?: Timers
  names?: Pick<PortNames, 'resolve' | 'isTaken' | 'usbOf'>
  openPort?: typeof OpenPort.open
  /** Called with every opened port before use, for settings outside termios (RS485). A throw fails the opening. */
  prepare?: (port: OpenPort) => void | Promise<void>
}

const LOOK_MS = 250
/** a baud rate with a larger deviation garbles characters */
const OFF_BY = 0.03
/** ports without a wire have no baud rate: the device end of a USB cable */
const VIRTUAL = /^\/dev\/ttyGS/
/** a port that was open for this long worked; also the wait after it hung up */
const WORKED_MS = 1000
const FRESH_MS = 3000
/** adapters of one hub reappear in any order: for this long, another adapter with our number is not taken for ours */
const OTHER_MS = 1000

/** One port that is open or opening, and its users. */
class Shared {
  readonly members = new Set<SerialLine>()
  port: OpenPort | undefined
  readonly opened: Promise<void>
  /** queue of the users that lock the port */
  readonly #turns = new SerialQueue()

  constructor(
    readonly path: string,
    readonly settings: unknown,
    open: (shared: Shared) => Promise<OpenPort>,
  ) {
    this.opened = open(this).then(port => {
      this.port = port
    })
  }

  exclusive<T>(run: () => Promise<T>): Promise<T> {
    return this.#turns.run(run)
  }

  /** Takes it out of use: the next user reopens it. */
  async end(): Promise<void> {
    if (ports.get(this.path) === this) ports.delete(this.path)
    await this.opened.catch(() => undefined) // the callers of open() get the error
    await this.port?.close()
  }
}

const ports = new Map<string, Shared>()
/** the adapter behind a name when it was last open; shared by all lines, since any of them may open it next */
const behind = new Map<string, UsbIdentity>()

export class SerialLine implements Line {
  readonly name: string
  readonly settings: SerialSettings
  readonly counters = { rx: 0, tx: 0, errors: 0, detail: { damaged_bytes: 0 } }
  readonly #context: SerialContext
  readonly #names: NonNullable<SerialContext['names']>
  readonly #timers: Timers
  #handler: (chunk: Uint8Array) => void = () => undefined
  #onDamaged: (byte: number) => void = () => undefined
  #shared: Shared | undefined
  #events: OpenableEvents | undefined
  /** the device behind the name at the last attempt */
  #tried: string | null = null
  #device: string | undefined
  /** when another adapter was first seen in place of ours */
  #otherSince: number | undefined
  /** when it was opened, and when it hung up after it had worked */
  #openedAt = 0
  #hungUpAt: number | undefined
  /** until when a new device is tried at every check */
  #freshUntil = 0

  constructor(name: string, settings: SerialSettings, context: SerialContext) {
    this.name = name
    this.settings = settings
    this.#context = context
    this.#names = context.names ?? new PortNames()
    this.#timers = context.timers ?? systemTimers
  }

  /** the device in use, for example '/dev/ttyUSB0'; undefined while it is closed */
  get device(): string | undefined {
    return this.#shared?.port?.path
  }

  /** the opened port; undefined while closed */
  get port(): OpenPort | undefined {
    return this.#shared?.port
  }

  /** Sets the only handler; a second call replaces it. */
  onData(handler: (chunk: Uint8Array) => void, damaged: (byte: number) => void = () => undefined): void {
    this.#handler = handler
    this.#onDamaged = damaged
  }

  /** Rejects with NOT_FOUND, NO_ACCESS, PORT_BUSY, CONFIG_INVALID, NO_DRIVER or LINK_DOWN. */
  async open(events: OpenableEvents): Promise<void> {
    const closed = this.close()
    this.#events = events
    await closed
    this.#tried = null
    const path = await this.#resolve()
    const usb = await this.#names.usbOf(path)
    if (this.#events !== events) throw closedWhileOpening()
    this.#tried = nodeIdentity(path)
    const shared = this.#join(path)
    this.#shared = shared
    shared.members.add(this)
    try {
      await shared.opened
    } catch (error) {
      await this.#leave(shared)
      throw error
    }
    if (this.#events !== events) {
      await this.#leave(shared)
      throw closedWhileOpening()
    }
    this.#openedAt = this.#context.clock.mono()
    this.#freshUntil = 0
    this.#remember(path, usb)
    const { baudrate } = shared.port!
    if (!VIRTUAL.test(path) && Math.abs(baudrate - this.settings.baudrate) > OFF_BY * this.settings.baudrate)
      events.degraded(`${path} runs at ${baudrate} baud, not at ${this.settings.baudrate}`)
  }

  async close(): Promise<void> {
    this.#events = undefined
    const shared = this.#shared
    this.#shared = undefined
    if (shared) await this.#leave(shared)
  }

  /** Resolves when the bytes are on the wire, as computed from the baud rate. Rejects with LINK_DOWN or TIMEOUT. */
  async write(bytes: Uint8Array): Promise<void> {
    const port = this.#shared?.port
    if (!port || !this.#events) throw new OsError('LINK_DOWN', `${this.settings.port} is not open`)
    try {
      await port.write(bytes)
      this.counters.tx += bytes.length
    } catch (error) {
      this.counters.errors++
      throw error
    }
  }

  /**
   * Runs `run` while no other user runs one on the same port: a request and its answer. Plain writes of others are not
   * held back. Rejects with LINK_DOWN while the port is closed.
   */
  exclusive<T>(run: () => Promise<T>): Promise<T> {
    const shared = this.#shared
    if (!shared) return Promise.reject(new OsError('LINK_DOWN', `${this.settings.port} is not open`))
    return shared.exclusive(run)
  }

  onReturn(back: () => void): () => void {
    let over = false
    let cancel = (): void => undefined
    const look = async (): Promise<void> => {
      const now = await this.#look()
      if (over) return
      if (now === null) this.#tried = null
      else if (now !== this.#tried || this.#mayCallAgain()) {
        if (now !== this.#tried) this.#freshUntil = this.#context.clock.mono() + FRESH_MS
        this.#hungUpAt = undefined
        back()
        return
      }
      wait()
    }
    const wait = (): void => {
      cancel = this.#timers.after(LOOK_MS, () => void look())
    }
    wait()
    return () => {
      over = true
      cancel()
    }
  }

  /**
   * True in two cases. The device still exists, and worked before it hung up: retry once, after a moment. Or the device
   * is new and could not be opened yet: drivers and udev need time.
   */
  #mayCallAgain(): boolean {
    if (this.#context.clock.mono() < this.#freshUntil) return true
    return this.#hungUpAt !== undefined && this.#context.clock.mono() - this.#hungUpAt >= WORKED_MS
  }

  #lost(reason: string): void {
    const now = this.#context.clock.mono()
    if (now - this.#openedAt >= WORKED_MS) this.#hungUpAt = now
    this.#events?.lost(reason)
  }

  /** The device the name refers to now. Throws NOT_FOUND, for a moment also when another adapter has our number. */
  async #resolve(): Promise<string> {
    const { port } = this.settings
    const before = behind.get(port)
    if (before && (await this.#names.isTaken(port, before))) {
      const now = this.#context.clock.mono()
      this.#otherSince ??= now
      if (now - this.#otherSince < OTHER_MS) throw new OsError('NOT_FOUND', `${port} is another adapter now`)
    } else this.#otherSince = undefined
    return this.#names.resolve(port, before)
  }

  /** The device node the name refers to now, null: none. */
  async #look(): Promise<string | null> {
    try {
      return nodeIdentity(await this.#resolve())
    } catch {
      return null // missing, or several matches
    }
  }

  #join(path: string): Shared {
    const { port: _, ...settings } = this.settings
    const others = ports.get(path)
    if (!others) {
      const made = new Shared(path, settings, shared => this.#open(path, shared))
      ports.set(path, made)
      return made
    }
    if (!isDeepStrictEqual(others.settings, settings)) {
      const [user] = others.members
      throw new OsError('LINK_DOWN', `${path} is open for ${user?.name ?? 'another link'} with other settings`, {
        hint: `give ${this.name} and ${user?.name ?? 'that link'} the same baudrate, parity and flow control`,
      })
    }
    return others
  }

  async #open(path: string, shared: Shared): Promise<OpenPort> {
    const port = await (this.#context.openPort ?? OpenPort.open)(
      path,
      this.settings,
      {
        data: chunk => {
          for (const member of shared.members) member.#data(chunk)
        },
        damaged: byte => {
          for (const member of shared.members) member.#damaged(byte)
        },
        lost: reason => {
          void shared.end()
          for (const member of [...shared.members]) member.#lost(reason)
        },
        stuck: reason => {
          for (const member of shared.members) member.#events?.degraded(reason)
        },
      },
      { clock: this.#context.clock, timers: this.#timers },
    )
    try {
      await this.#context.prepare?.(port)
      return port
    } catch (error) {
      await port.close()
      throw error
    }
  }

  async #leave(shared: Shared): Promise<void> {
    shared.members.delete(this)
    if (shared.members.size === 0) await shared.end()
  }

  #data(chunk: Uint8Array): void {
    this.counters.rx += chunk.length
    try {
      this.#handler(chunk)
    } catch (error) {
      this.#unhandled(error)
    }
  }

  #damaged(byte: number): void {
    this.counters.detail.damaged_bytes++
    try {
      this.#onDamaged(byte)
    } catch (error) {
      this.#unhandled(error)
    }
  }

  #unhandled(error: unknown): void {
    this.counters.errors++
    this.#context.logger.error(`handling received bytes failed: ${asOsError(error).message}`)
  }

  #remember(path: string, usb: UsbIdentity | undefined): void {
    if (this.#device !== undefined && this.#device !== path)
      this.#context.logger.info(`${this.settings.port} is now ${path}`)
    this.#device = path
    if (usb) behind.set(this.settings.port, usb)
    else behind.delete(this.settings.port)
  }
}

/** The port as a Line; see the module head. */
export const serialLine = (name: string, settings: SerialSettings, context: SerialContext): SerialLine =>
  new SerialLine(name, settings, context)

/** Transmission time of a number of bytes in milliseconds. */
export const lineMs = (settings: SerialSettings, bytes: number): number => bytes * characterMs(settings)
