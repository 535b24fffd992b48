// The frame of every source that asks its device: a fixed list of channels, one sample of all of them per read. What fails:
// one channel (its place stays, ERROR, the link degraded with the reason), every channel (the same: a device that does not
// answer may come back by itself), the way to the device (sample throws: the link is lost and opened again).
import { counted } from '../../src/lib/counted'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { OpenableEvents, RawReading, Source, SourceReading } from '../../src/links/contracts'
import { distinctIds, type Sample, type ValueChannel } from './channel'

/** Where a polled source's values come from. */
export interface Probe {
  /** Throws an OsError with a reason a person understands. */
  open(events: OpenableEvents): Promise<void>
  close(): Promise<void>
  /** One sample for each channel, in their order. Throws only when the way to the device is lost. */
  sample(): Promise<readonly Sample[]>
  /** see Openable */
  onReturn?(back: () => void): () => void
  /** what else it counts, by name */
  readonly detail?: Readonly<Record<string, number>>
}

interface PolledOptions {
  type: string
  intervalMs: number
  /** a function: known once it is open */
  channels: readonly ValueChannel[] | (() => readonly ValueChannel[])
}

export class PolledSource implements Source {
  readonly type: string
  readonly intervalMs: number
  /** rx counts values read, errors the channels that had none */
  readonly counters: { rx: number; tx: number; errors: number; detail?: Readonly<Record<string, number>> }
  readonly #find: (() => readonly ValueChannel[]) | undefined
  #channels: readonly ValueChannel[]
  readonly #probe: Probe
  #events: OpenableEvents | undefined
  #newest: readonly Sample[] = []
  /** the sample that is being taken: a test and the schedule take turns */
  readonly #turns = new SerialQueue()

  /** Throws CONFIG_INVALID when two channels have one id. */
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

  /** none while only the device knows them */
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

/** The reasons of channels without a value, each once; empty when all have one. */
function whatFails(samples: readonly Sample[]): string {
  const failed = samples.filter(({ error }) => error !== undefined)
  if (failed.length === 0) return ''
  const reasons = [...new Set(failed.map(({ error }) => error))]
  const more = reasons.length > 3 ? `; ${reasons.length - 3} more` : ''
  return `${failed.length} of ${counted(samples.length, 'sensor')}: ${reasons.slice(0, 3).join('; ')}${more}`
}
