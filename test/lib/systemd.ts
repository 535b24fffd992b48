// Replaces systemd: receives what a service sends to NOTIFY_SOCKET (sd_notify), with the time of each message.
import { READABLE } from '../../src/native/socket'
import { until } from './gateway'
import { unixDatagramSocket } from './unix-socket'

export interface Heard {
  readonly fields: Readonly<Record<string, string>>
  /** CLOCK_MONOTONIC in µs */
  readonly at: number
}

const SLOTS = 16
const SLOT_BYTES = 2048

export const monotonicUs = (): number => Number(process.hrtime.bigint() / 1000n)

export class FakeSystemd {
  readonly heard: Heard[] = []
  readonly #socket
  readonly #slab = new Uint8Array(SLOTS * SLOT_BYTES)
  readonly #lengths = new Uint32Array(SLOTS)

  /** `path`: of a socket to create, or an @abstract name. */
  constructor(readonly path: string) {
    this.#socket = unixDatagramSocket(path)
    this.#socket.watch(READABLE, () => this.#read())
  }

  close(): void {
    this.#socket.close()
  }

  #read(): void {
    for (let got = SLOTS; got === SLOTS; ) {
      got = this.#socket.receive(this.#slab, this.#lengths, null)
      for (let k = 0; k < got; k++) {
        const text = Buffer.from(this.#slab.subarray(k * SLOT_BYTES, k * SLOT_BYTES + this.#lengths[k]!)).toString()
        const fields = Object.fromEntries(text.split('\n').map(line => line.split(/=(.*)/s) as [string, string]))
        this.heard.push({ fields, at: monotonicUs() })
      }
    }
  }

  /** Messages that have this field. */
  with(field: string): Heard[] {
    return this.heard.filter(({ fields }) => field in fields)
  }

  /** Waits for the n-th message (from 1) with this field. */
  next(field: string, n = 1, ms = 120_000): Promise<Heard> {
    return until(`${field} number ${n}`, () => this.with(field)[n - 1], ms)
  }

  /** NOTIFY_SOCKET and `more` for the child that `start` creates synchronously. */
  env<T>(start: () => T, more: Record<string, string> = {}): T {
    const env = { NOTIFY_SOCKET: this.path, ...more }
    Object.assign(process.env, env)
    try {
      return start()
    } finally {
      for (const name of Object.keys(env)) delete process.env[name]
    }
  }
}
