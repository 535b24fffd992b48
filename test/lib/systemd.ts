// Replaces systemd: receives what a service sends to NOTIFY_SOCKET (sd_notify), with the time of each message.
import { until } from './gateway'
import { UnixDatagramSocket } from './unix-socket'

export interface Heard {
  readonly fields: Readonly<Record<string, string>>
  /** CLOCK_MONOTONIC in µs */
  readonly at: number
}

export const monotonicUs = (): number => Number(process.hrtime.bigint() / 1000n)

export class FakeSystemd {
  readonly heard: Heard[] = []
  #socket: UnixDatagramSocket | undefined

  private constructor(readonly path: string) {}

  /** `path`: of a socket to create, or an @abstract name. */
  static async start(path: string): Promise<FakeSystemd> {
    const systemd = new FakeSystemd(path)
    systemd.#socket = await UnixDatagramSocket.bind(path, (bytes, at) => {
      const lines = bytes.toString().split('\n')
      systemd.heard.push({ fields: Object.fromEntries(lines.map(line => line.split(/=(.*)/s))), at })
    })
    return systemd
  }

  close(): void {
    this.#socket?.close()
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
