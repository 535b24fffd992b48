// The source type `can`: signals of a DBC file, heard at one CAN interface, the newest value of each sampled at the interval.
// One source is one fixed group. The file is read when the link is opened, so a corrected one counts at the next opening.
//
// What fails: no file or one that describes nothing chosen (CONFIG_INVALID, NOT_FOUND with the reason), the interface (see
// feed.ts), a signal that is not heard for `max_age_ms` (ERROR).
import { asOsError, errno, OsError } from '../../../src/lib/errors'
import { type Files, realFiles } from '../../../src/lib/files'
import type {
  DriverContext,
  OpenableEvents,
  RawReading,
  Source,
  SourceDriver,
  SourceReading,
} from '../../../src/links/contracts'
import { checkOptions } from '../../../src/links/options'
import { LatestSource } from '../../kit/latest'
import { parseDbc } from './dbc'
import { type CanBus, CanFeed, nativeBus } from './feed'
import { type CanSourceOptions, canSourceOptions } from './options'
import { type Plan, plan } from './plan'
import { dbcText } from './tokens'

/** the largest DBC files, of whole vehicles, have some megabytes */
const MAX_FILE = 16 << 20

export interface CanSourceParts {
  files?: Pick<Files, 'read' | 'size'>
  bus?: CanBus
}

export class CanSource implements Source {
  readonly type = 'can'
  readonly intervalMs: number
  readonly counters = { rx: 0, tx: 0, errors: 0, detail: { frames: 0, short: 0, incomplete: 0, mixed: 0 } }
  readonly #options: CanSourceOptions
  readonly #context: DriverContext
  readonly #parts: Required<CanSourceParts>
  #inner: LatestSource | undefined

  constructor(
    readonly name: string,
    options: CanSourceOptions,
    context: DriverContext,
    { files = realFiles, bus = nativeBus }: CanSourceParts = {},
  ) {
    this.intervalMs = options.interval_ms
    this.#options = options
    this.#context = context
    this.#parts = { files, bus }
  }

  async open(events: OpenableEvents): Promise<void> {
    const { clock, logger } = this.#context
    const { interface: name, max_age_ms, check_range, fd, source_address } = this.#options
    const chosen = this.#plan()
    for (const warning of chosen.warnings) logger.warn(warning)
    const feed = new CanFeed({
      interface: name,
      plan: chosen,
      fd,
      checkRange: check_range,
      sourceAddress: source_address,
      maxAgeMs: max_age_ms,
      clock,
      bus: this.#parts.bus,
      detail: this.counters.detail,
    })
    const { type, intervalMs } = this
    const { channels } = chosen
    this.#inner = new LatestSource(this.name, { type, intervalMs, maxAgeMs: max_age_ms, channels, clock }, feed)
    await this.#inner.open(events)
  }

  async close(): Promise<void> {
    this.#count()
    const inner = this.#inner
    this.#inner = undefined
    await inner?.close()
  }

  async read(): Promise<readonly SourceReading[]> {
    const readings = await this.#opened().read()
    this.#count()
    return readings
  }

  readRaw(): Promise<readonly RawReading[]> {
    return this.#opened().readRaw()
  }

  #opened(): LatestSource {
    if (!this.#inner) throw new OsError('LINK_DOWN', `${this.name} is not open`)
    return this.#inner
  }

  #plan(): Plan {
    const { dbc } = this.#options
    return plan(this.name, parseDbc(dbcText(this.#read(dbc))), this.#options)
  }

  #read(path: string): Uint8Array {
    const { files } = this.#parts
    try {
      const size = files.size(path)
      if (size <= MAX_FILE) return files.read(path)
      throw new OsError('CONFIG_INVALID', `the DBC file ${path} has ${size} bytes, ${MAX_FILE} can be`)
    } catch (cause) {
      if (cause instanceof OsError) throw cause
      const why = errno(cause) === 'ENOENT' ? 'is not there' : `cannot be read: ${asOsError(cause).message}`
      throw new OsError('NOT_FOUND', `the DBC file ${path} ${why}`, { cause, hint: 'give its whole path as dbc' })
    }
  }

  /** Takes over what the group of this opening has counted. */
  #count(): void {
    if (!this.#inner) return
    const { counters } = this.#inner
    this.counters.rx += counters.rx
    this.counters.errors += counters.errors
    counters.rx = 0
    counters.errors = 0
  }
}

export const canSource: SourceDriver<CanSourceOptions> = {
  type: 'can',
  schema: canSourceOptions,
  create: (name, raw, context) => new CanSource(name, checkOptions(canSourceOptions, raw, name), context),
}
