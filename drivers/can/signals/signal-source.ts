// The source type `can`: signals of a DBC file, received on one CAN interface; the newest value of each is sampled at
// the interval. One source is one fixed group. The file is read when the link is opened, so a corrected file takes
// effect at the next opening.
//
// Errors: a missing file, or one without any chosen signal (CONFIG_INVALID, NOT_FOUND with the reason); the interface
// (see feed.ts); a signal not received for `max_age_ms` (ERROR).
import { asOsError, closedWhileOpening, errno, OsError } from '../../../src/lib/errors'
import { type Files, realFiles } from '../../../src/lib/files'
import { inTurns } from '../../../src/lib/slices'
import { systemTimers, type Timers } from '../../../src/lib/timers'
import type {
  DriverContext,
  LinkCounters,
  OpenableEvents,
  RawReading,
  Sensor,
  Source,
  SourceDriver,
  SourceReading,
} from '../../../src/links/contracts'
import { checkOptions } from '../../../src/links/driver-options'
import { LatestSource } from '../../kit/latest-source'
import { matcher } from '../../kit/match'
import { CanBus } from '../bus'
import { parsingDbc } from './dbc'
import { CanFeed, type CanPorts, type FrameCounts, kernelPorts } from './feed'
import { plan, type SignalPlan } from './plan'
import { type CanSourceOptions, canSourceOptions } from './signal-options'
import { dbcText } from './tokens'

/** the largest DBC files, of complete vehicles, have a few megabytes */
const MAX_FILE = 16 << 20

export interface CanSourceParts {
  files?: Pick<Files, 'read' | 'size'>
  /** the kernel */
  ports?: CanPorts
  timers?: Timers
}

export class CanSource implements Source {
  readonly type = 'can'
  readonly intervalMs: number
  readonly #options: CanSourceOptions
  readonly #context: DriverContext
  readonly #parts: Required<CanSourceParts>
  readonly #bus: CanBus
  readonly #tally = { rx: 0, tx: 0, errors: 0 }
  readonly #detail: FrameCounts = { frames: 0, short: 0, incomplete: 0, mixed: 0, dropped: 0, receive_buffer: 0 }
  #inner: LatestSource | undefined
  #feed: CanFeed | undefined
  /** the plan read for `sensors`, until the source is opened */
  #planned: Promise<SignalPlan> | undefined
  /** counts openings and closings, to detect that a slow opening was overtaken */
  #run = 0

  constructor(
    readonly name: string,
    options: CanSourceOptions,
    context: DriverContext,
    { files = realFiles, ports = kernelPorts, timers = systemTimers }: CanSourceParts = {},
  ) {
    this.intervalMs = options.interval_ms
    this.#options = options
    this.#context = context
    this.#parts = { files, ports, timers }
    this.#bus = new CanBus(options.interface, timers, ports)
  }

  /** from the DBC file; while it cannot be read, those that the options name */
  get sensors(): Promise<readonly Sensor[]> {
    this.#planned = this.#plan()
    return this.#planned.then(
      ({ channels }) => channels,
      () => this.#named(),
    )
  }

  #named(): Sensor[] {
    const { channels, match = null } = this.#options
    const chosen = match === null ? [() => true] : [match].flat().map(matcher)
    return Object.entries(channels).flatMap(([key, { id, unit = '1' }]) =>
      id !== undefined && chosen.some(matches => matches(key)) ? [{ id, unit }] : [],
    )
  }

  /** `detail`: the counters of CanBus and CanFeed. */
  get counters(): LinkCounters {
    const { dropped, ...detail } = this.#detail
    return { ...this.#tally, ...(dropped > 0 && { dropped }), detail: { ...this.#bus.detail, ...detail } }
  }

  async open(events: OpenableEvents): Promise<void> {
    const { clock, logger } = this.#context
    const { ports, timers } = this.#parts
    const { interface: name, max_age_ms, check_range, fd, source_address, receive_buffer_bytes } = this.#options
    const run = ++this.#run
    const planned = this.#planned ?? this.#plan()
    this.#planned = undefined
    const chosen = await planned
    if (run !== this.#run) throw closedWhileOpening()
    for (const warning of chosen.warnings) logger.warn(warning)
    this.#feed = new CanFeed({
      interface: name,
      plan: chosen,
      fd,
      checkRange: check_range,
      sourceAddress: source_address,
      maxAgeMs: max_age_ms,
      receiveBuffer: receive_buffer_bytes,
      clock,
      ports,
      bus: this.#bus,
      detail: this.#detail,
    })
    const { type, intervalMs } = this
    const { channels } = chosen
    const latest = { type, intervalMs, maxAgeMs: max_age_ms, channels, clock, timers }
    this.#inner = new LatestSource(this.name, latest, this.#feed)
    await this.#inner.open(events)
  }

  async close(): Promise<void> {
    this.#run++
    this.#count()
    const inner = this.#inner
    this.#inner = undefined
    this.#feed = undefined
    await inner?.close()
  }

  onReturn(back: () => void): () => void {
    return this.#bus.onReturn(back)
  }

  async read(): Promise<readonly SourceReading[]> {
    const inner = this.#opened()
    this.#feed?.check()
    const readings = await inner.read()
    this.#count()
    return readings
  }

  whyNot(id: string): string | undefined {
    return this.#inner?.whyNot(id)
  }

  readRaw(): Promise<readonly RawReading[]> {
    return this.#opened().readRaw()
  }

  #opened(): LatestSource {
    if (!this.#inner) throw new OsError('LINK_DOWN', `${this.name} is not open`)
    return this.#inner
  }

  async #plan(): Promise<SignalPlan> {
    const { dbc } = this.#options
    return plan(this.name, await inTurns(parsingDbc(dbcText(this.#read(dbc)))), this.#options)
  }

  #read(path: string): Uint8Array {
    const { files } = this.#parts
    try {
      const size = files.size(path)
      if (size <= MAX_FILE) return files.read(path)
      throw new OsError('CONFIG_INVALID', `the DBC file ${path} has ${size} bytes, ${MAX_FILE} at most`)
    } catch (cause) {
      if (cause instanceof OsError) throw cause
      const why = errno(cause) === 'ENOENT' ? 'is not there' : `cannot be read: ${asOsError(cause).message}`
      throw new OsError('NOT_FOUND', `the DBC file ${path} ${why}`, { cause, hint: 'set dbc to its full path' })
    }
  }

  /** Adds the counters of this opening's feed to the totals. */
  #count(): void {
    if (!this.#inner) return
    const { counters } = this.#inner
    this.#tally.rx += counters.rx
    this.#tally.errors += counters.errors
    counters.rx = 0
    counters.errors = 0
  }
}

export const canSource: SourceDriver<CanSourceOptions> = {
  type: 'can',
  schema: canSourceOptions,
  create: (name, raw, context) => new CanSource(name, checkOptions(canSourceOptions, raw, name), context),
}
