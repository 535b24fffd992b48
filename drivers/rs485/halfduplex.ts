// A Line on two wires: one end speaks at a time. It never begins while something comes in, waits a little after the last
// character (the other end's transmitter has to let go), and takes its own words, which many adapters hear, for what they
// are. NULs that switching a transmitter leaves on the wire are dropped.
//
// What fails: a line that is never silent (noise, a transmitter that hangs): writes are refused with TIMEOUT after
// BUSY_MS; an echo that is not what was sent (a collision): counted, and handed on, where no checksum will hold.

import type { Clock } from '../../src/lib/clock'
import { OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { Timers } from '../../src/lib/timers'
import type { Line, OpenableEvents } from '../../src/links/contracts'

interface HalfDuplexOptions {
  clock: Clock
  timers: Timers
  /** silence before this end speaks */
  turnaroundMs: number
  /** silence after which a packet that has begun is over */
  gapMs: number
  /** a packet has begun to come in and is not over */
  receiving: () => boolean
  /** 0 up to 1: where two ends may begin at once, they wait unequally long */
  jitter?: () => number
  /** called when bytes of others came */
  heard?: () => void
}

/** a line that is busy for so long is broken */
const BUSY_MS = 5000
/** a wire on which so many frames of others came where an echo had to come has none */
const UNHEARD = 8
/** frames whose echo is still waited for; where so many did not come back, there is no echo either */
const KNOWN = 256

export class HalfDuplexLine implements Line {
  readonly name: string
  /** `echoes`: frames of our own that were heard and dropped */
  readonly tally = { echoes: 0, collisions: 0, nuls: 0 }
  readonly #wire: Line
  readonly #options: HalfDuplexOptions
  #handler: (chunk: Uint8Array) => void = () => undefined
  #onDamaged: (byte: number) => void = () => undefined
  readonly #turns = new SerialQueue()
  #heardAt = Number.NEGATIVE_INFINITY
  /** what was sent and may come back, however late, and how much of the first one did */
  #expected: Uint8Array[] = []
  #matched = 0
  /** own frames that did not come back */
  #unheard = 0
  /** nothing came since the last silence: a NUL now is none of a frame */
  #silent = true

  constructor(wire: Line, options: HalfDuplexOptions) {
    this.name = wire.name
    this.#wire = wire
    this.#options = options
    wire.onData(
      chunk => this.#data(chunk),
      byte => this.#damaged(byte),
    )
  }

  get counters(): Line['counters'] {
    return this.#wire.counters
  }

  onData(handler: (chunk: Uint8Array) => void, damaged: (byte: number) => void = () => undefined): void {
    this.#handler = handler
    this.#onDamaged = damaged
  }

  open(events: OpenableEvents): Promise<void> {
    this.#expected = []
    this.#matched = this.#unheard = this.tally.echoes = 0
    return this.#wire.open(events)
  }

  close(): Promise<void> {
    return this.#wire.close()
  }

  onReturn(back: () => void): () => void {
    return this.#wire.onReturn?.(back) ?? (() => undefined)
  }

  /** Sends when the line is free; one after the other. Rejects with LINK_DOWN or TIMEOUT. */
  write(bytes: Uint8Array): Promise<void> {
    return this.#turns.run(() => this.#write(bytes))
  }

  async #write(bytes: Uint8Array): Promise<void> {
    await this.silence()
    this.#expect(bytes)
    try {
      await this.#wire.write(bytes)
    } catch (error) {
      this.#expected = []
      this.#matched = 0
      throw error
    }
  }

  /** An adapter or a busy machine may hold an echo back for long: its bytes say what it is, not the time. */
  #expect(bytes: Uint8Array): void {
    if (this.tally.echoes === 0 && this.#unheard >= UNHEARD) return
    this.#expected.push(bytes)
    if (this.#expected.length <= KNOWN) return
    this.#unheard += KNOWN
    // half of an echo, and the rest never came
    if (this.#matched > 0) this.tally.collisions++
    this.#expected = this.tally.echoes > 0 ? [bytes] : []
    this.#matched = 0
  }

  /** Resolves when the line is free to speak on. Rejects with TIMEOUT when it never is. */
  async silence(): Promise<void> {
    const { clock, timers, turnaroundMs, gapMs, receiving, jitter = () => 0 } = this.#options
    const start = clock.mono()
    let extra = 0
    for (;;) {
      const now = clock.mono()
      const needed = (receiving() ? Math.max(gapMs, turnaroundMs) : turnaroundMs) + extra
      const left = this.#heardAt + needed - now
      if (left <= 0) return
      if (now - start > BUSY_MS) throw new OsError('TIMEOUT', `the bus was busy for ${BUSY_MS / 1000} s`)
      extra = jitter() * 4 * turnaroundMs
      await new Promise<void>(resolve => {
        timers.after(Math.max(1, Math.ceil(left)), resolve)
      })
    }
  }

  /** A break before anything else is what switching a transmitter leaves; in an echo, two have spoken at once. */
  #damaged(byte: number): void {
    const now = this.#options.clock.mono()
    this.#silent ||= now - this.#heardAt >= this.#options.gapMs
    if (byte === 0 && this.#silent && this.#matched === 0) {
      this.tally.nuls++
      return
    }
    if (this.#matched > 0) {
      this.tally.collisions++
      this.#unheard++
      this.#expected.shift()
      this.#matched = 0
    }
    this.#silent = false
    this.#heardAt = now
    this.#options.heard?.()
    this.#onDamaged(byte)
  }

  #data(chunk: Uint8Array): void {
    const now = this.#options.clock.mono()
    this.#silent ||= now - this.#heardAt >= this.#options.gapMs
    const foreign = this.#withoutEcho(chunk)
    let from = 0
    while (from < foreign.length && this.#silent && foreign[from] === 0) from++
    this.tally.nuls += from
    if (from === foreign.length) return
    this.#silent = false
    this.#heardAt = now
    this.#options.heard?.()
    this.#handler(foreign.subarray(from))
  }

  /** What is not our own: the chunk itself while nothing is expected. */
  #withoutEcho(chunk: Uint8Array): Uint8Array {
    if (this.#expected.length === 0) return chunk
    const out = new Uint8Array(this.#matched + chunk.length)
    let size = 0
    /** it was no echo: what looked like one belongs to another packet */
    const give = (): void => {
      const [frame] = this.#expected
      out.set(frame!.subarray(0, this.#matched), size)
      size += this.#matched
      this.#matched = 0
    }
    for (const byte of chunk) {
      if (this.#expected[0] && byte !== this.#expected[0][this.#matched] && this.#matched > 0) {
        const later = this.#laterEcho(byte)
        if (later < 0) give()
        if (this.tally.echoes > 0) this.tally.collisions++
        this.#unheard += Math.max(1, later)
        this.#expected.splice(0, Math.max(1, later))
        if (this.tally.echoes === 0 && this.#unheard >= UNHEARD) this.#expected = []
      }
      if (byte === this.#expected[0]?.[this.#matched]) this.#match()
      else out[size++] = byte
    }
    return out.subarray(0, size)
  }

  /** Which frame sent later begins like the first one and goes on with `byte`: the first one's echo is lost then. -1: none. */
  #laterEcho(byte: number): number {
    const begun = this.#expected[0]!.subarray(0, this.#matched)
    return this.#expected.findIndex(
      (frame, k) => k > 0 && frame[begun.length] === byte && begun.every((one, at) => frame[at] === one),
    )
  }

  #match(): void {
    if (++this.#matched < this.#expected[0]!.length) return
    this.#expected.shift()
    this.#matched = 0
    this.tally.echoes++
  }
}
