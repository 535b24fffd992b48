// One opened serial port. Received bytes are passed on immediately; writes are sent in order, and a write resolves when
// its bytes are on the wire, as computed from the baud rate. The queue is here, where it is bounded and can time out,
// not in the kernel, where seconds of old frames would delay an answer.
//
// Errors: the port is unplugged or hangs up: `lost`. No byte is sent for `write_timeout_ms` (flow control, a stuck
// adapter): queued writes are refused with TIMEOUT and `stuck` is reported, until bytes are sent again. Nothing here
// blocks.
import { readSync, writeSync } from 'node:fs'
import type { Clock } from '../../src/lib/clock'
import { errno, OsError } from '../../src/lib/errors'
import type { Timers } from '../../src/lib/timers'
import type { NativeThread } from '../../src/native/native-thread'
import { TtyPort } from '../../src/native/tty'
import { lostReason, openError } from './errors'
import { type MarkedBytes, MarkReader } from './parity-marks'
import { characterMs, type SerialSettings } from './serial-options'

interface PortEvents extends MarkedBytes {
  lost(reason: string): void
  /** no bytes can be sent; '': they can again */
  stuck(reason: string): void
}

interface Write {
  readonly bytes: Uint8Array
  at: number
  done: (error?: OsError) => void
}

/** limits of the queue, in frames and bytes */
const MAX_WRITES = 128
const MAX_BYTES = 262_144
/** the kernel's buffer is filled this far ahead of the wire: a busy loop must not cause gaps in the output */
const AHEAD_MS = 20
/** reads per wake-up, so that one fast port does not starve the others */
const READS = 8

// shared read buffer of all ports: the bytes are passed on before the next read
const buffer = Buffer.allocUnsafeSlow(4096)
/** devices being opened or closed: no other opening starts meanwhile */
const openings = new Set<string>()

export class OpenPort {
  readonly path: string
  readonly #tty: TtyPort
  readonly #events: PortEvents
  readonly #bytes: MarkReader
  readonly #clock: Clock
  readonly #timers: Timers
  readonly #settings: SerialSettings
  readonly #characterMs: number
  #writes: Write[] = []
  #waiting = 0
  #cancelTimer: (() => void) | undefined
  /** when the last byte passed to the kernel will be on the wire */
  #wireFree = 0
  #progress = 0
  #stuck = false
  #letOut = false
  #isLost = false
  #closed: Promise<void> | undefined

  private constructor(
    path: string,
    tty: TtyPort,
    settings: SerialSettings,
    events: PortEvents,
    parts: { clock: Clock; timers: Timers },
  ) {
    this.path = path
    this.#tty = tty
    this.#settings = settings
    this.#events = events
    this.#bytes = new MarkReader(events)
    this.#clock = parts.clock
    this.#timers = parts.timers
    this.#characterMs = characterMs(settings)
    tty.watch(() => this.#readable())
  }

  /**
   * Opens with an exclusive lock. Rejects with NO_ACCESS, PORT_BUSY, CONFIG_INVALID, LINK_DOWN, E_NO_ADDON; TIMEOUT
   * when the driver does not answer, and BUS_STUCK until it does.
   */
  static async open(
    path: string,
    settings: SerialSettings,
    events: PortEvents,
    parts: { clock: Clock; timers: Timers },
  ): Promise<OpenPort> {
    if (openings.has(path)) throw new OsError('LINK_DOWN', `${path} is still being opened or closed`)
    openings.add(path)
    try {
      const tty = await TtyPort.open(path, settings)
      try {
        return new OpenPort(path, tty, settings, events, parts)
      } catch (error) {
        await tty.close()
        throw error
      }
    } catch (error) {
      throw openError(error, path)
    } finally {
      openings.delete(path)
    }
  }

  /** the actual bits per second of the driver */
  get baudrate(): number {
    return this.#tty.baudrate
  }

  /** For further calls to the driver (RS485). */
  get bus(): NativeThread {
    return this.#tty.bus
  }

  /** Computed milliseconds until the last byte passed to the kernel is on the wire. */
  get wireFreeMs(): number {
    return Math.max(0, this.#wireFree - this.#clock.mono())
  }

  /**
   * Sends. Resolves when the bytes are on the wire, as computed from the baud rate; they must not change until then.
   * Rejects with LINK_DOWN or TIMEOUT, and immediately when the queue is full.
   */
  write(bytes: Uint8Array): Promise<void> {
    if (this.#closed) return Promise.reject(new OsError('LINK_DOWN', `${this.path} is closed`))
    if (this.#writes.length >= MAX_WRITES || this.#waiting + bytes.length > MAX_BYTES)
      return Promise.reject(new OsError('TIMEOUT', `${this.path} accepts no more bytes now`))
    return new Promise((resolve, reject) => {
      this.#writes.push({ bytes, at: 0, done: error => (error ? reject(error) : resolve()) })
      this.#waiting += bytes.length
      if (this.#writes.length === 1) {
        this.#progress = this.#clock.mono()
        this.#push()
      }
    })
  }

  /**
   * Refuses queued writes and closes; bytes in the kernel are discarded. Safe to call twice, never rejects. It waits
   * one second for a driver that does not return; until it does, the port cannot be reopened.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #close(): Promise<void> {
    this.#tty.unwatch()
    this.#cancelTimer?.()
    // all writes are in the kernel, which discards its bytes at closing
    this.#letOut = this.#writes.length === 0 && this.#wireFree > 0
    this.#refuse(new OsError('LINK_DOWN', `${this.path} was closed`))
    openings.add(this.path)
    return this.#sentOut()
      .then(() => this.#tty.close())
      .finally(() => openings.delete(this.path))
  }

  /** Waits until the last bytes are on the wire: their computed time, and a little more. */
  #sentOut(): Promise<void> {
    if (!this.#letOut || this.#isLost) return Promise.resolve()
    return new Promise(resolve => {
      this.#timers.after(Math.min(100, Math.ceil(this.wireFreeMs) + AHEAD_MS), resolve)
    })
  }

  #readable(): void {
    for (let turn = 0; turn < READS && !this.#closed; turn++) {
      const got = this.#read()
      if (got > 0) this.#bytes.push(buffer.subarray(0, got))
      if (got < buffer.length) break
    }
  }

  /** Bytes read into the buffer; 0 also when the port is lost. */
  #read(): number {
    try {
      const got = readSync(this.#tty.fd, buffer, 0, buffer.length, null)
      // a terminal reads 0 bytes only after it has hung up
      if (got === 0) this.#lose(null)
      return got
    } catch (error) {
      if (errno(error) !== 'EAGAIN' && errno(error) !== 'EINTR') this.#lose(error)
      return 0
    }
  }

  /** Passes bytes to the kernel as fast as the wire sends them; a timer calls it again while writes are queued. */
  #push(): void {
    this.#cancelTimer = undefined
    const delayMs = this.#advance()
    if (delayMs !== null) this.#cancelTimer = this.#timers.after(Math.max(1, Math.ceil(delayMs)), () => this.#push())
  }

  /** Milliseconds until the next call, null: nothing is queued. */
  #advance(): number | null {
    for (;;) {
      const write = this.#writes[0]
      if (!write || this.#closed) return null
      const now = this.#clock.mono()
      if (this.#wireFree - now > AHEAD_MS) return this.#wireFree - now - AHEAD_MS / 2
      if (write.at === write.bytes.length) {
        this.#writes.shift()
        this.#waiting -= write.bytes.length
        write.done()
        continue
      }
      const taken = this.#write(write)
      if (taken < 0) return null
      if (taken > 0) this.#took(taken, now)
      else if (now - Math.max(this.#progress, this.#wireFree) < this.#settings.write_timeout_ms)
        return Math.max(2, Math.min(50, 64 * this.#characterMs))
      else {
        this.#giveUp()
        return null
      }
    }
  }

  #took(bytes: number, now: number): void {
    this.#progress = now
    this.#wireFree = Math.max(now, this.#wireFree) + bytes * this.#characterMs
    if (!this.#stuck) return
    this.#stuck = false
    this.#events.stuck('')
  }

  /** Number of bytes accepted, 0: none now, -1: the port is lost. */
  #write(write: Write): number {
    try {
      const taken = writeSync(this.#tty.fd, write.bytes, write.at)
      write.at += taken
      return taken
    } catch (error) {
      if (errno(error) === 'EAGAIN' || errno(error) === 'EINTR') return 0
      this.#lose(error)
      return -1
    }
  }

  #giveUp(): void {
    const { flow, write_timeout_ms } = this.#settings
    const why = flow === 'none' ? 'the adapter accepts no bytes' : `the peer holds the line (flow: ${flow})`
    const reason = `${this.path}: no byte was sent for ${write_timeout_ms / 1000} s, ${why}`
    this.#stuck = true
    this.#refuse(new OsError('TIMEOUT', reason))
    this.#events.stuck(reason)
  }

  #refuse(error: OsError): void {
    const writes = this.#writes
    this.#writes = []
    this.#waiting = 0
    for (const { done } of writes) done(error)
  }

  #lose(error: unknown): void {
    if (this.#closed) return
    this.#isLost = true
    void this.close()
    this.#events.lost(lostReason(error, this.path))
  }
}
