// GPIO lines by the kernel's character devices (gpiod, version 2). A chip lists its lines; a request holds some of
// them, reads and sets them and reports their edges with the kernel's timestamps. Requests, reads and writes run on one
// thread per chip, which lives as long as the program: a chip behind I2C takes a millisecond, and may hang. Errors:
// - No such chip: NOT_FOUND. No such line: INTERNAL, details.errno EINVAL. No right: NO_ACCESS.
// - Another process has the line: PORT_BUSY.
// - The chip does not support the request (edges without an interrupt, bias): EINVAL, ENXIO, EOPNOTSUPP.
// - The chip hangs: TIMEOUT, then BUS_STUCK until its call returns.
// - The chip was unplugged: every later call is NOT_FOUND (ENODEV), and the listener of edges gets that error.

import type { BusHandle, Descriptor, GpioAddon } from './addon'
import { nativeError } from './errors'
import { native } from './index'
import { DEFAULT_DEADLINE_MS, NativeThread } from './native-thread'
import { AGAIN, READABLE } from './socket'

/** GPIO_V2_LINE_FLAG_… */
const [USED, ACTIVE_LOW, INPUT, OUTPUT] = [1, 2, 4, 8] as const
const EDGES = { rising: 16, falling: 32, both: 48 }
const DRIVES = { push_pull: 0, open_drain: 64, open_source: 128 }
const BIASES = { pull_up: 256, pull_down: 512, disabled: 1024 }

/** maximum lines of one request: their values are the bits of one number */
const MAX_LINES = 32
/** edges the kernel buffers until they are read */
const KEPT_EDGES = 1024
/** edges per read; the remaining ones wake us again, one turn of the loop later */
const BATCH = 128
const EVENT_WORDS = 12
const NAME_BYTES = 32
const TWO_32 = 4_294_967_296

type Bias = keyof typeof BIASES
export type Edge = keyof typeof EDGES
type Drive = keyof typeof DRIVES

export interface LinesOptions {
  /** offsets on the chip; index in this list = bit of values() */
  lines: readonly number[]
  direction: 'input' | 'output'
  /** input: edges to report */
  edges?: Edge
  /** left out: unchanged */
  bias?: Bias
  /** the logical value is 1 when the level is low */
  active_low?: boolean
  /** output: default push_pull */
  drive?: Drive
  /** input: shorter changes are ignored, in edges and values; 0 none */
  debounceUs?: number
  /** output: initial logical values, by index in `lines`; default 0 */
  initial?: readonly (0 | 1)[]
  /** shown as the line's consumer; truncated to 31 bytes */
  consumer: string
}

interface ChipInfo {
  /** gpiochip0 */
  name: string
  /** kind of chip: pinctrl-bcm2711 */
  label: string
  lines: number
}

export interface LineInfo {
  line: number
  /** '' if the board gives none */
  name: string
  consumer: string
  used: boolean
  direction: 'input' | 'output'
  active_low: boolean
  bias: Bias | null
  drive: Drive
  edges: Edge | null
}

const zeroEnded = (bytes: Uint8Array, at: number): string => {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + at, NAME_BYTES)
  const end = text.indexOf(0)
  return text.toString('utf8', 0, end < 0 ? NAME_BYTES : end)
}

function opened(result: Descriptor | number, call: string, what: string): Descriptor {
  if (typeof result === 'number') throw nativeError(result, call, what)
  return result
}

function checked(result: number, call: string, what: string): number {
  if (result < 0) throw nativeError(result, call, what)
  return result
}

const flagsOf = ({ direction, edges, bias, active_low, drive }: LinesOptions): number =>
  (direction === 'output' ? OUTPUT : INPUT) |
  (active_low ? ACTIVE_LOW : 0) |
  (edges ? EDGES[edges] : 0) |
  (bias ? BIASES[bias] : 0) |
  (drive ? DRIVES[drive] : 0)

function named<T extends string>(table: Readonly<Record<T, number>>, flags: number): T | null {
  const entries = Object.entries(table) as [T, number][]
  const all = entries.reduce((mask, [, bits]) => mask | bits, 0)
  return entries.find(([, bits]) => (flags & all) === bits)?.[0] ?? null
}

const infoOf = (line: number, flags: number, names: Uint8Array): LineInfo => ({
  line,
  name: zeroEnded(names, 0),
  consumer: zeroEnded(names, NAME_BYTES),
  used: (flags & USED) !== 0,
  direction: flags & OUTPUT ? 'output' : 'input',
  active_low: (flags & ACTIVE_LOW) !== 0,
  bias: named(BIASES, flags),
  drive: named(DRIVES, flags) ?? 'push_pull',
  edges: named(EDGES, flags),
})

/** An open chip. Queries hold no line and reach only the kernel, never the hardware. */
export class GpioChip {
  readonly path: string
  readonly #addon: GpioAddon
  readonly #chip: Descriptor
  readonly #names = new Uint8Array(2 * NAME_BYTES)

  /** Throws E_NO_ADDON, NOT_FOUND (no such chip), NO_ACCESS, UNSUPPORTED (not a GPIO chip). */
  static open(path: string): GpioChip {
    const { addon } = native()
    return new GpioChip(path, addon, opened(addon.openGpioChip(path), 'open', path))
  }

  private constructor(path: string, addon: GpioAddon, chip: Descriptor) {
    this.path = path
    this.#addon = addon
    this.#chip = chip
  }

  info(): ChipInfo {
    const lines = checked(this.#addon.gpioChipInfo(this.#chip, this.#names), 'chip info', this.path)
    return { name: zeroEnded(this.#names, 0), label: zeroEnded(this.#names, NAME_BYTES), lines }
  }

  line(line: number): LineInfo {
    const flags = checked(this.#addon.gpioLineInfo(this.#chip, line, this.#names), 'line info', `${this.path} ${line}`)
    return infoOf(line, flags, this.#names)
  }

  /** Safe to call twice. */
  close(): void {
    this.#addon.close(this.#chip)
  }
}

/** A batch of edges, oldest first. Valid during the call only. */
export class Edges {
  readonly words = new Uint32Array(BATCH * EVENT_WORDS)
  count = 0

  /** the kernel's monotonic clock, in nanoseconds */
  ns(k: number): number {
    const at = k * EVENT_WORDS
    return this.words[at]! + this.words[at + 1]! * TWO_32
  }
  /** true: became active */
  rising(k: number): boolean {
    return this.words[k * EVENT_WORDS + 2] === 1
  }
  /** offset on the chip */
  line(k: number): number {
    return this.words[k * EVENT_WORDS + 3]!
  }
  /** counts the edges of the complete request from 1, including those the kernel dropped; 32 bits, wraps */
  seqno(k: number): number {
    return this.words[k * EVENT_WORDS + 4]!
  }
}

export type EdgeHandler = (edges: Edges) => void

/** The threads of chips, by path. */
const threads = new Map<string, NativeThread>()

/** Requested lines. */
export class GpioLines {
  /** edges the kernel dropped because they were not read in time */
  missed = 0
  readonly #addon: GpioAddon
  readonly #bus: NativeThread
  readonly #lines: Descriptor
  readonly #what: string
  readonly #count: number
  readonly #edges = new Edges()
  #handler: EdgeHandler = () => undefined
  #lost: (error: Error) => void = () => undefined
  #released: Promise<void> | undefined
  #seqno = 0

  /**
   * Requests lines until they are closed. Rejects E_NO_ADDON, NOT_FOUND (no such chip), NO_ACCESS, PORT_BUSY (another
   * process has a line), UNSUPPORTED (not a GPIO chip, or not supported by it), INTERNAL (EINVAL: no such line),
   * TIMEOUT, BUS_STUCK.
   */
  static async request(chipPath: string, options: LinesOptions, deadlineMs = DEFAULT_DEADLINE_MS): Promise<GpioLines> {
    const { lines, debounceUs = 0, initial = [], consumer, edges } = options
    if (lines.length > MAX_LINES) throw new RangeError(`one request holds ${MAX_LINES} lines at most`)
    const label = Buffer.from(consumer, 'utf8')
      .subarray(0, NAME_BYTES - 1)
      .toString('utf8')
      .replace(/[\0\uFFFD]/g, '')
    const bus = threads.get(chipPath) ?? new NativeThread(chipPath)
    threads.set(chipPath, bus)
    const start = (addon: GpioAddon, handle: BusHandle): number =>
      addon.gpioRequest(
        handle,
        chipPath,
        Uint32Array.from(lines),
        flagsOf(options),
        debounceUs,
        Uint8Array.from(lines, (_, k) => initial[k] ?? 0),
        edges ? KEPT_EDGES : 0,
        label,
      )
    const what = `line ${lines.join(', ')}`
    let held: GpioLines | undefined
    await bus.call(start, `request of ${what}`, deadlineMs, null, null, descriptor => {
      held = new GpioLines(bus, descriptor, what, lines.length)
    })
    return held!
  }

  private constructor(bus: NativeThread, lines: Descriptor, what: string, count: number) {
    this.#addon = bus.addon
    this.#bus = bus
    this.#lines = lines
    this.#what = what
    this.#count = count
  }

  /** Logical values: bit k is the k-th requested line. Rejects NOT_FOUND when the chip was unplugged, TIMEOUT, BUS_STUCK. */
  values(deadlineMs = DEFAULT_DEADLINE_MS): Promise<number> {
    const start = (addon: GpioAddon, bus: BusHandle): number => addon.gpioRead(bus, this.#lines, this.#count)
    return this.#bus.call(start, `read of ${this.#what}`, deadlineMs)
  }

  /** Sets the output at `index` of the request to a logical value. Rejects like values(). */
  async set(index: number, value: 0 | 1, deadlineMs = DEFAULT_DEADLINE_MS): Promise<void> {
    const start = (addon: GpioAddon, bus: BusHandle): number => addon.gpioSet(bus, this.#lines, index, value)
    await this.#bus.call(start, `setting of ${this.#what}`, deadlineMs)
  }

  /** Reports edges from now on, in batches. `lost` is called once when the chip was unplugged; the lines are closed then. */
  onEdges(handler: EdgeHandler, lost: (error: Error) => void = () => undefined): void {
    this.#handler = handler
    this.#lost = lost
    checked(
      this.#addon.watch(this.#lines, READABLE, () => void this.#take()),
      'watch',
      this.#name,
    )
  }

  /** Reports the edges that are queued already, without waiting for the loop's next turn. */
  drain(): void {
    while (this.#take() === BATCH);
  }

  /** Reads and reports one batch; returns the number of edges. */
  #take(): number {
    if (this.#released) return 0
    const edges = this.#edges
    const got = this.#addon.readGpioEvents(this.#lines, edges.words)
    if (got === AGAIN) return 0
    if (got < 0) {
      void this.close()
      this.#lost(nativeError(got, 'edges', this.#name))
      return 0
    }
    edges.count = got
    this.#countMissed(edges)
    this.#handler(edges)
    return got
  }

  #countMissed(edges: Edges): void {
    for (let k = 0; k < edges.count; k++) {
      const seqno = edges.seqno(k)
      this.missed += (seqno - this.#seqno - 1) >>> 0
      this.#seqno = seqno
    }
  }

  get #name(): string {
    return `${this.#bus.path} ${this.#what}`
  }

  /** Sends a copy of the request to the other end of a connection: the lines stay requested until both are closed. Returns minus errno if it cannot. */
  pass(connection: Descriptor, byte: number): number {
    return this.#addon.passDescriptor(connection, byte, this.#lines)
  }

  /**
   * Releases the lines; the hardware decides whether outputs keep their level. Resolves when they can be requested
   * again, or when the chip hangs: they are then released as soon as its call returns. Never rejects; safe to call
   * twice.
   */
  close(): Promise<void> {
    this.#released ??= this.#release()
    return this.#released
  }

  async #release(): Promise<void> {
    const job = this.#addon.gpioRelease(this.#bus.handle, this.#lines)
    this.#addon.close(this.#lines)
    try {
      await this.#bus.finish(job, `release of ${this.#what}`, DEFAULT_DEADLINE_MS)
    } catch {
      // the thread does it when its call returns, and a request for the lines until then gets PORT_BUSY
    }
  }
}
