// The HTTP service of a program has two forms: a running gateway has a server, which is stopped, started and moved to another
// address separately; without a gateway, the service starts one.

import type { ConfigStore } from '../../config'
import { type Clock, systemClock } from '../../lib/clock'
import { OsError } from '../../lib/errors'
import { SerialQueue } from '../../lib/serial-queue'
import type { WebService, WebState } from '../contract'
import { UserStore } from '../users'

/** The required methods of a server. One is created per address. */
export interface ServerLike {
  readonly running: boolean
  readonly port: number
  readonly url: string
  /** Throws PORT_BUSY, CONFIG_INVALID, NETWORK. */
  start(): Promise<void>
  stop(): Promise<void>
  dashboard(sections?: string): Promise<object>
}

interface GatewayWebParts {
  make(host: string, port: number): ServerLike
  /** the default host */
  readonly host: string
  readonly port: number
  readonly users: UserStore
  readonly clock?: Clock
}

/** The HTTP service of a running gateway. */
export class GatewayWeb implements WebService {
  readonly users: UserStore
  readonly #parts: GatewayWebParts
  readonly #clock: Clock
  #place: { host: string; port: number }
  #made: ServerLike | undefined
  #since = 0
  /** concurrent starts and stops run one after another */
  readonly #turns = new SerialQueue()
  #ended: (() => void)[] = []

  constructor(parts: GatewayWebParts) {
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
    this.users = parts.users
    this.#place = { host: parts.host, port: parts.port }
  }

  start(host: string | null = null, port: number | null = null): Promise<boolean> {
    return this.#turns.run(() => this.#start(host, port))
  }

  stop(): Promise<boolean> {
    return this.#turns.run(() => this.#stop())
  }

  async #start(host: string | null, port: number | null): Promise<boolean> {
    const place = { host: host ?? this.#place.host, port: port ?? this.#place.port }
    const moves =
      place.host !== this.#place.host || (place.port !== this.#place.port && place.port !== this.#server.port)
    if (this.#server.running && !moves) return false
    if (moves) {
      // the new one must listen before the old one closes: an address in use changes nothing
      const next = this.#parts.make(place.host, place.port)
      const same = this.#server.running && place.port === this.#server.port && place.port !== 0
      if (same) await this.#stop()
      await next.start().catch(async error => {
        if (same) await this.#server.start()
        throw error
      })
      if (!same) await this.#stop()
      this.#made = next
      this.#place = place
    } else await this.#server.start()
    this.#since = this.#clock.mono()
    return true
  }

  async #stop(): Promise<boolean> {
    if (!this.#server.running) return false
    await this.#server.stop()
    for (const end of this.#ended.splice(0)) end()
    return true
  }

  get #server(): ServerLike {
    return (this.#made ??= this.#parts.make(this.#place.host, this.#place.port))
  }

  state(): WebState {
    const { running, port, url } = this.#server
    const uptime_s = running ? Math.floor((this.#clock.mono() - this.#since) / 1000) : 0
    return { running, host: this.#place.host, port, url: running ? url : null, uptime_s }
  }

  ended(signal: AbortSignal): Promise<number> {
    if (!this.#server.running || signal.aborted) return Promise.resolve(0)
    return new Promise(resolve => {
      const end = (): void => {
        signal.removeEventListener('abort', end)
        resolve(0)
      }
      this.#ended.push(end)
      signal.addEventListener('abort', end)
    })
  }

  async dashboard(sections?: readonly string[]): Promise<Record<string, unknown>> {
    return { ...(await this.#server.dashboard(sections?.join(','))) }
  }
}

/** A gateway started for its HTTP service. */
interface StartedForWeb {
  readonly done: Promise<number>
  /** `url` of its page */
  readonly info?: Record<string, unknown>
}

interface LocalWebParts {
  readonly config: ConfigStore
  /** starts a gateway that ends when the signal is aborted; throws LOCKED, PORT_BUSY … */
  start(place: { host?: string; webPort?: number }, signal: AbortSignal): Promise<StartedForWeb>
  dashboard(sections?: readonly string[]): Promise<Record<string, unknown>>
}

/** The HTTP service without a running gateway: it shows a gateway, so it starts one. */
export class LocalWeb implements WebService {
  readonly users: UserStore
  readonly #parts: LocalWebParts
  #running: { gateway: StartedForWeb; stop: AbortController; since: number } | null = null

  constructor(parts: LocalWebParts) {
    this.#parts = parts
    this.users = new UserStore({ dataDir: parts.config.dataDir })
  }

  async start(host: string | null = null, port: number | null = null): Promise<boolean> {
    if (this.#running) return false
    const stop = new AbortController()
    const place = { ...(host !== null && { host }), ...(port !== null && { webPort: port }) }
    const gateway = await this.#parts.start(place, stop.signal)
    this.#running = { gateway, stop, since: systemClock.mono() }
    const over = (): void => {
      this.#running = null
    }
    gateway.done.then(over, over)
    return true
  }

  async stop(): Promise<boolean> {
    const running = this.#running
    if (!running) return false
    running.stop.abort()
    const code = await running.gateway.done
    if (code !== 0) throw new OsError('STORAGE', 'the gateway could not commit its log completely')
    return true
  }

  state(): WebState {
    const { host, port } = this.#parts.config.config.RESOURCES.service_plugins.web_user
    const running = this.#running
    if (!running) return { running: false, host, port, url: null, uptime_s: 0 }
    const { url } = running.gateway.info ?? {}
    const there = typeof url === 'string' ? new URL(url) : null
    return {
      running: true,
      host: there?.hostname ?? host,
      port: there ? Number(there.port) : port,
      url: there ? String(url) : null,
      uptime_s: Math.floor((systemClock.mono() - running.since) / 1000),
    }
  }

  async ended(signal: AbortSignal): Promise<number> {
    const running = this.#running
    if (!running) return 0
    const stop = (): void => running.stop.abort()
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    return running.gateway.done.finally(() => signal.removeEventListener('abort', stop))
  }

  /** From the files: the displayed sections and the users. */
  async dashboard(sections?: readonly string[]): Promise<Record<string, unknown>> {
    const shown = await this.#parts.dashboard(sections?.filter(name => name !== 'users'))
    return !sections || sections.includes('users') ? { ...shown, users: this.users.list() } : shown
  }
}
