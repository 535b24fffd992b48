// Turns advertisements into the newest values of a source's channels. Errors:
// - The adapter is lost: the source is opened again.
// - A device is not heard: its values become too old; presence reads 0.
// - An advertisement cannot be used: it is counted, and a test of the source shows it.
// - An advertisement is replayed: it is counted as refused.
import type { Clock } from '../../src/lib/clock'
import type { Timers } from '../../src/lib/timers'
import type { OpenableEvents } from '../../src/links/contracts'
import type { Feed, Take } from '../kit/latest-source'
import type { Adapter, AdapterUser } from './adapter'
import type { Decoder, Emit } from './codec'
import type { Report } from './radio'

interface Heard {
  readonly value: number | null
  readonly raw: string
}

interface FeedOptions {
  adapter: Adapter
  /** null: any device that the decoder accepts */
  address: string | null
  /** made anew at every opening, because its state belongs to one opening */
  decoder: () => Decoder
  /** the channel at each index */
  keys: readonly string[]
  awayMs: number
  silenceMs: number
  clock: Clock
  timers: Timers
}

/** limits the memory for a device that keeps sending new names */
const MOST_KEYS = 64

export class AdvertisementFeed implements Feed {
  /** every value of the device since the opening, by channel, with values that no channel uses */
  readonly heard = new Map<string, Heard>()
  /** why the last advertisement could not be used; '' if it could */
  refusal = ''
  readonly #tally = { frames: 0, refused: 0 }
  readonly #options: FeedOptions
  readonly #index: ReadonlyMap<string, number>
  #decoder: Decoder | undefined
  #take: Take = () => undefined
  #user: AdapterUser | undefined
  #unlisten: () => void = () => undefined
  #cancelAway: () => void = () => undefined
  #onHeard: () => void = () => undefined
  #raw = ''
  readonly #emit: Emit = (key, value) => this.#publish(key, value)

  constructor(options: FeedOptions) {
    this.#options = options
    this.#index = new Map(options.keys.map((key, k) => [key, k]))
  }

  get detail(): Readonly<Record<string, number>> {
    return { ...this.#tally, ...this.#options.adapter.detail }
  }

  /** Calls `heard` at every advertisement of the device, for a test that waits for one. */
  onHeard(heard: () => void): void {
    this.#onHeard = heard
  }

  async open(events: OpenableEvents, take: Take): Promise<void> {
    const { adapter, address, decoder, silenceMs } = this.#options
    const user: AdapterUser = { lost: reason => events.lost(reason), degraded: () => undefined }
    this.#user = user
    this.#take = take
    this.#decoder = decoder()
    this.heard.clear()
    this.refusal = ''
    await adapter.join(user, { silenceMs })
    if (this.#user !== user) return adapter.leave(user)
    this.#unlisten = adapter.listen(address, report => this.#report(report))
    this.#waitAway()
  }

  async close(): Promise<void> {
    const user = this.#user
    this.#user = undefined
    this.#unlisten()
    this.#cancelAway()
    if (user) await this.#options.adapter.leave(user)
  }

  raw(index: number): string {
    return this.heard.get(this.#options.keys[index]!)?.raw ?? ''
  }

  #report({ data, address, rssi }: Report): void {
    this.#raw = ''
    this.#current = data
    const verdict = this.#decoder!.decode(data, address, rssi, this.#options.clock.mono(), this.#emit)
    if (verdict === null) return
    this.refusal = verdict
    if (verdict === '') this.#tally.frames++
    else this.#tally.refused++
    if (rssi !== null) this.#publish('rssi', rssi)
    this.#publish('presence', 1)
    this.#waitAway()
    this.#onHeard()
  }

  #current: Uint8Array = new Uint8Array()

  #publish(key: string, value: number | null): void {
    if (this.heard.size < MOST_KEYS || this.heard.has(key)) {
      if (this.#raw === '') this.#raw = Buffer.from(this.#current).toString('hex')
      this.heard.set(key, { value, raw: this.#raw })
    }
    const index = this.#index.get(key)
    if (index !== undefined) this.#take(index, value)
  }

  /** Repeats that the device is away, so that this value does not become too old. */
  #waitAway(): void {
    const { awayMs, timers } = this.#options
    if (!this.#index.has('presence')) return
    this.#cancelAway()
    this.#cancelAway = timers.after(awayMs, () => {
      this.#raw = ''
      this.#current = new Uint8Array()
      this.#publish('presence', 0)
      this.#waitAway()
    })
  }
}
