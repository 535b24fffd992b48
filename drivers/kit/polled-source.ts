// The base of every source that polls its device: a fixed list of channels, one sample of all of them per read. Errors:
// one channel fails (its place stays, ERROR, the link is degraded with the reason); every channel fails (the same,
// since a silent device may recover); the connection fails (sample throws: the link is lost and reopened).
import { counted } from '../../src/lib/counted'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { OpenableEvents, RawReading, Source, SourceReading } from '../../src/links/contracts'
import { distinctIds, type Sample, type ValueChannel } from './channel'

/** The origin of a polled source's values. */
export interface Probe {
  /** Throws an OsError whose message a person understands. */
  open(events: OpenableEvents): Promise<void>
  close(): Promise<void>
  /** One sample for each channel, in order. Throws only when the connection to the device is lost. */
  sample(): Promise<readonly Sample[]>
  /** see Openable */
  onReturn?(back: () => void): () => void
  /** further counters by name */
  readonly detail?: Readonly<Record<string, number>>
}

interface PolledOptions {
  type: string
  intervalMs: number
  /** a function: the channels are known only after opening */
  channels: readonly ValueChannel[] | (() => readonly ValueChannel[])
}

export class PolledSource implements Source {
  readonly type: string
  readonly intervalMs: number
  /** rx counts values read, errors counts channels without one */
  readonly counters: { rx: number; tx: number; errors: number; detail?: Readonly<Record<string, number>> }
  readonly #find: (() => readonly ValueChannel[]) | undefined
  #channels: readonly ValueChannel[]
  readonly #probe: Probe
  #events: OpenableEvents | undefined
  #newest: readonly Sample[] = []
  /** serializes samples: a test and the schedule may overlap */
  readonly #turns = new SerialQueue()

  /** Throws CONFIG_INVALID when two channels have the same id. */
  constructor(
    readonly name: string,
    { type, intervalMs, channels }: PolledOptions,
    probe: Probe,
  ) {
    this.type = type
    this.intervalMs = intervalMs
    this.#find = typeof channels === 'function' ? channels : undefined
    this.#channels = typeof channels === 'function' ? [] : channels
    distinctIds(this.#channels, name)
    this.#probe = probe
    this.counters = { rx: 0, tx: 0, errors: 0, ...(probe.detail && { detail: probe.detail }) }
  }

  /** empty while only the device knows them */
  get sensors(): readonly ValueChannel[] {
    return this.#channels
  }

  async open(events: OpenableEvents): Promise<void> {
    this.#events = events
    await this.#probe.open(events)
    if (this.#find) this.#channels = this.#find()
    distinctIds(this.#channels, this.name)
  }

  async close(): Promise<void> {
    this.#events = undefined
    await this.#probe.close()
  }

  onReturn(back: () => void): () => void {
    return this.#probe.onReturn?.(back) ?? (() => undefined)
  }

  async read(): Promise<readonly SourceReading[]> {
    const samples = await this.#sample()
    this.#newest = samples
    const readings = this.#channels.map((channel, k) => channel.reading(samples[k]?.value ?? null))
    for (const [, , value] of readings) {
      if (value === null) this.counters.errors++
      else this.counters.rx++
    }
    this.#events?.degraded(whatFails(samples))
    return readings
  }

  whyNot(id: string): string | undefined {
    const at = this.#channels.findIndex(channel => channel.id === id)
    return at < 0 ? undefined : this.#channels[at]!.raw(this.#newest[at] ?? { value: null, raw: '' }).error
  }

  async readRaw(): Promise<readonly RawReading[]> {
    const samples = await this.#sample()
    return this.#channels.map((channel, k) => channel.raw(samples[k] ?? { value: null, raw: '' }))
  }

  #sample(): Promise<readonly Sample[]> {
    return this.#turns.run(() => this.#probe.sample())
  }
}

/** The reasons of channels without a value, without duplicates; empty if all have one. */
function whatFails(samples: readonly Sample[]): string {
  const failed = samples.filter(({ error }) => error !== undefined)
  if (failed.length === 0) return ''
  const reasons = [...new Set(failed.map(({ error }) => error))]
  const more = reasons.length > 3 ? `; ${reasons.length - 3} more` : ''
  return `${failed.length} of ${counted(samples.length, 'sensor')}: ${reasons.slice(0, 3).join('; ')}${more}`
}
