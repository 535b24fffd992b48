// A Line on two wires: only one end may send at a time. It never starts sending during a reception, waits a little
// after the last character (the other end must release the bus), and recognizes the echo of its own frames, which many
// adapters receive. NULs from switching a transmitter are dropped.
//
// Errors: a line that is never silent (noise, a stuck transmitter): writes are refused with TIMEOUT after BUSY_MS. An
// echo that differs from what was sent (a collision): it is counted and passed on; the checksum then fails.

import type { Clock } from '../../src/lib/clock'
import { OsError } from '../../src/lib/errors'
import { SerialQueue } from '../../src/lib/serial-queue'
import type { Timers } from '../../src/lib/timers'
import type { Line, OpenableEvents } from '../../src/links/contracts'

interface HalfDuplexOptions {
  clock: Clock
  timers: Timers
  /** silence before this end sends */
  turnaroundMs: number
  /** silence that ends a packet in progress */
  gapMs: number
  /** a packet is being received */
  receiving: () => boolean
  /** 0 up to 1: random delay, for two ends that may start simultaneously */
  jitter?: () => number
  /** called when bytes from other stations were received */
  heard?: () => void
}

/** a line that is busy for this long is broken */
const BUSY_MS = 5000
/** after this many foreign frames in place of an expected echo, the wire has no echo */
const UNHEARD = 8
/** frames whose echo is awaited; after this many without echo, there is none either */
const KNOWN = 256

export class HalfDuplexLine implements Line {
  readonly name: string
  /** `echoes`: own frames that were received and dropped */
  readonly tally = { echoes: 0, collisions: 0, nuls: 0 }
  readonly #wire: Line
  readonly #options: HalfDuplexOptions
  #handler: (chunk: Uint8Array) => void = () => undefined
  #onDamaged: (byte: number) => void = () => undefined
  readonly #turns = new SerialQueue()
  #heardAt = Number.NEGATIVE_INFINITY
  /** sent frames whose echo may still arrive, and the number of matched bytes of the first one */
  #expected: Uint8Array[] = []
  #matched = 0
  /** own frames in a row without an echo */
  #unheard = 0
  /** nothing was received since the last silence: a NUL now is not part of a frame */
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

  /** Sends when the line is free, one write after the other. Rejects with LINK_DOWN or TIMEOUT. */
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

  /** An adapter or a busy machine can delay an echo for long: it is recognized by its bytes, not by time. */
  #expect(bytes: Uint8Array): void {
    if (this.tally.echoes === 0 && this.#unheard >= UNHEARD) return
    this.#expected.push(bytes)
    if (this.#expected.length <= KNOWN) return
    this.#unheard += KNOWN
    // half of an echo, and the remaining bytes never arrived
    if (this.#matched > 0) this.tally.collisions++
    this.#expected = this.tally.echoes > 0 ? [bytes] : []
    this.#matched = 0
  }

  /** Resolves when the line is free to send on. Rejects with TIMEOUT if it stays busy. */
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

  /** A break at the start comes from switching a transmitter; within an echo, two stations have sent simultaneously. */
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

  /** The bytes that are no echo: the chunk itself while no echo is expected. */
  #withoutEcho(chunk: Uint8Array): Uint8Array {
    if (this.#expected.length === 0) return chunk
    const out = new Uint8Array(this.#matched + chunk.length)
    let size = 0
    /** it was no echo: the matched bytes belong to another packet */
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

  /**
   * Index of a later frame that begins with the bytes matched so far and continues with `byte`: the first one's echo is
   * lost then. -1: none.
   */
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
