// Two ends of a byte stream in memory, like a serial cable: bytes arrive after a delay, in chunks of any size; writes may be
// lost or changed; a cut cable fails at both ends. Time is that of the timers passed in.
import { OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { Line, OpenableEvents } from '../../src/links/contracts'

export interface LinePairOptions {
  timers: Timers
  delayMs?: number
  /** bytes per chunk; default: each write is one */
  chunk?: () => number
  /** changes a write: other bytes, or null if it is lost. `from` is 'a' or 'b'. */
  carry?: (bytes: Uint8Array, from: 'a' | 'b') => Uint8Array | null
}

export class LineEnd implements Line {
  readonly counters = { rx: 0, tx: 0, errors: 0, detail: { damaged_bytes: 0 } }
  other!: LineEnd
  events: OpenableEvents | undefined
  #handler: (chunk: Uint8Array) => void = () => undefined
  #damaged: (byte: number) => void = () => undefined

  constructor(
    readonly name: string,
    readonly side: 'a' | 'b',
    readonly pair: LinePair,
  ) {}

  async open(events: OpenableEvents): Promise<void> {
    if (this.pair.isCut) throw new OsError('LINK_DOWN', 'no carrier')
    this.events = events
  }

  async close(): Promise<void> {
    this.events = undefined
  }

  onData(handler: (chunk: Uint8Array) => void, damaged: (byte: number) => void = () => undefined): void {
    this.#handler = handler
    this.#damaged = damaged
  }

  /** A byte arrives with a wrong parity or stop bit; 0: a break. */
  damage(byte: number): void {
    this.counters.detail.damaged_bytes++
    this.#damaged(byte)
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (!this.events || this.pair.isCut) throw new OsError('LINK_DOWN', 'no carrier')
    this.counters.tx += bytes.length
    const { timers, delayMs = 0, carry } = this.pair.options
    const copy = carry ? carry(bytes.slice(), this.side) : bytes.slice()
    if (copy) timers.after(delayMs, () => this.other.arrive(copy))
  }

  arrive(bytes: Uint8Array): void {
    if (!this.events || this.pair.isCut) return
    this.counters.rx += bytes.length
    const { chunk } = this.pair.options
    for (let at = 0; at < bytes.length; ) {
      const size = Math.max(1, chunk?.() ?? bytes.length)
      this.#handler(bytes.subarray(at, at + size))
      at += size
    }
  }
}

export class LinePair {
  readonly a: LineEnd
  readonly b: LineEnd
  isCut = false

  constructor(readonly options: LinePairOptions) {
    this.a = new LineEnd('ttyA', 'a', this)
    this.b = new LineEnd('ttyB', 'b', this)
    this.a.other = this.b
    this.b.other = this.a
  }

  /** Cuts the cable: both ends fail, and cannot be opened until it is repaired. */
  cut(): void {
    this.isCut = true
    for (const end of [this.a, this.b]) end.events?.lost('no carrier')
  }

  mend(): void {
    this.isCut = false
  }
}
