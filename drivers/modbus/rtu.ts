// Modbus RTU on a Line: one request at a time, with silence around each (2.5.1.1 of the serial line's specification).
// The answer is searched among other bytes on the line (noise when the direction changes, an echo of the request, late
// answers of other slaves).
//
// Errors: no answer in time (NO_REPLY); an answer with a wrong CRC or a damaged byte (BAD_REPLY, immediately if the
// damage is detected, else at the time-out if any bytes arrived); the line is lost (LINK_DOWN). Memory: one buffer of
// two frames.
import type { Clock } from '../../src/lib/clock'
import { within } from '../../src/lib/deadline'
import { OsError } from '../../src/lib/errors'
import { sleep, systemTimers, type Timers } from '../../src/lib/timers'
import type { Line, OpenableEvents } from '../../src/links/contracts'
import { findRtu, frameRtu } from './codec'
import { badReply, type ModbusTransport, noReply } from './transport'

interface RtuOptions {
  baudrate: number
  /** duration of one character on the wire */
  characterMs: number
  clock: Clock
  timers?: Timers
  /** keeps other users of the line out during a request and its answer */
  exclusive?: <T>(run: () => Promise<T>) => Promise<T>
  /** additional silence before a request, beyond the standard's, for slow transceivers */
  minSilenceMs?: number
}

const ROOM = 512

interface PendingExchange {
  unit: number
  request: Uint8Array
  resolve: (answer: Uint8Array) => void
  reject: (error: OsError) => void
}

export class RtuTransport implements ModbusTransport {
  readonly confuses = true
  readonly #line: Line
  readonly #exclusive: <T>(run: () => Promise<T>) => Promise<T>
  readonly #clock: Clock
  readonly #timers: Timers
  readonly #silenceMs: number
  readonly #characterMs: number
  readonly #buffer = new Uint8Array(ROOM)
  #length = 0
  /** bytes with a parity or framing error, of any sender */
  damagedBytes = 0
  #isDamaged = false
  /** monotonic time of the last byte received or sent */
  #active = Number.NEGATIVE_INFINITY
  #waiting: PendingExchange | undefined

  constructor(line: Line, options: RtuOptions) {
    const { baudrate, characterMs, clock, timers = systemTimers, minSilenceMs = 0 } = options
    this.#line = line
    this.#exclusive = options.exclusive ?? (run => run())
    this.#clock = clock
    this.#timers = timers
    this.#characterMs = characterMs
    // 3.5 characters; above 19200 baud a fixed 1.75 ms
    this.#silenceMs = Math.max(minSilenceMs, Math.ceil(baudrate > 19_200 ? 1.75 : 3.5 * this.#characterMs))
    line.onData(
      chunk => this.#take(chunk),
      () => this.#damaged(),
    )
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.#line.open({
      lost: reason => {
        this.#waiting?.reject(new OsError('LINK_DOWN', reason))
        events.lost(reason)
      },
      degraded: reason => events.degraded(reason),
    })
  }

  close(): Promise<void> {
    this.#waiting?.reject(new OsError('LINK_DOWN', 'the port was closed'))
    return this.#line.close()
  }

  onReturn(back: () => void): () => void {
    return this.#line.onReturn?.(back) ?? (() => undefined)
  }

  exchange(unit: number, request: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    return this.#exclusive(() => this.#ask(unit, request, timeoutMs))
  }

  async #ask(unit: number, request: Uint8Array, timeoutMs: number): Promise<Uint8Array> {
    await this.#silence(timeoutMs)
    const frame = frameRtu(unit, request)
    this.#length = 0
    this.#isDamaged = false
    // the slave's time limit begins when the last character has been sent
    const limitMs = timeoutMs + Math.ceil(frame.length * this.#characterMs)
    const answered = new Promise<Uint8Array>((resolve, reject) => {
      this.#waiting = { unit, request, resolve, reject }
      this.#line.write(frame).catch(reject)
    })
    try {
      return await within(this.#timers, limitMs, answered, () => {
        throw this.#length > 0 || this.#isDamaged ? badReply(unit) : noReply(unit)
      })
    } finally {
      this.#waiting = undefined
      this.#active = this.#clock.mono()
    }
  }

  /** Waits until the line has been silent long enough; fails after `timeoutMs` if it never is. */
  async #silence(timeoutMs: number): Promise<void> {
    const end = this.#clock.mono() + timeoutMs
    for (;;) {
      const now = this.#clock.mono()
      const delayMs = Math.min(this.#active + this.#silenceMs, end) - now
      if (!(delayMs > 0)) return
      await sleep(this.#timers, Math.ceil(delayMs))
    }
  }

  /** Drops a partial answer; a complete one may still follow the noise of a switched transmitter. */
  #damaged(): void {
    this.damagedBytes++
    this.#active = this.#clock.mono()
    this.#length = 0
    this.#isDamaged = true
  }

  /** Runs once per chunk; a chunk without a pending request is dropped. */
  #take(chunk: Uint8Array): void {
    this.#active = this.#clock.mono()
    const waiting = this.#waiting
    if (!waiting) return
    for (let from = 0; from < chunk.length; ) {
      if (this.#length === ROOM) {
        // noise: the newer half may still contain the start of the answer
        this.#buffer.copyWithin(0, ROOM / 2)
        this.#length = ROOM / 2
      }
      const part = chunk.subarray(from, from + ROOM - this.#length)
      this.#buffer.set(part, this.#length)
      this.#length += part.length
      from += part.length
      const found = findRtu(this.#buffer, this.#length, waiting.unit, waiting.request)
      if (found === undefined) continue
      if (found === 'damaged') waiting.reject(badReply(waiting.unit))
      else waiting.resolve(this.#buffer.slice(found.start, found.end))
      return
    }
  }
}
