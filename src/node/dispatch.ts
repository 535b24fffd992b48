// Sends packets through a transporter (specification, "dispatch"): 1 + max_retries attempts, interval_seconds apart.
// Each medium has its own lane, which preserves order; lanes never wait for each other, and a caller waits only if it
// awaits the result.
//
// Errors: no such driver (immediate); a medium that refuses (retried, then false); a driver that throws (false
// immediately); a full lane (false immediately, counted). The failed attempts of earlier packets in the lane count for
// a queued packet too, but one attempt always remains: so a dead medium delays a packet for its own time and not for
// that of all before it.
import { OsError } from '../lib/errors'
import type { Timers } from '../lib/timers'
import type { LazyTransporter } from './transporter'

export interface Retry {
  enabled: boolean
  max_retries: number
  interval_seconds: number
}

interface DispatcherDeps {
  driver(medium: string): LazyTransporter | null
  /** engine_settings.network_retry, read for each packet */
  retry(): Retry
  timers: Timers
  /** limits of the packets and bytes queued for one medium */
  maxPackets?: number
  maxBytes?: number
}

interface QueuedDispatch {
  readonly packet: Uint8Array
  tries: number
  /** failures of the lane when the packet was queued */
  readonly failures: number
  readonly done: (error: OsError | null) => void
}

interface Lane {
  readonly queue: QueuedDispatch[]
  bytes: number
  onTheWay: number
  /** packets that wait for their next attempt: no later one may pass them */
  backingOff: number
  failures: number
}

export class Dispatcher {
  /** packets refused because the queue was full */
  refused = 0
  readonly #deps: Required<DispatcherDeps>
  readonly #lanes = new Map<string, Lane>()
  /** retry delays to end at close */
  readonly #sleepers = new Set<() => void>()
  #closed = false

  constructor(deps: DispatcherDeps) {
    this.#deps = { maxPackets: 1024, maxBytes: 4 * 1024 * 1024, ...deps }
  }

  /** Resolves with null when the medium accepted the packet, else with the reason. Never rejects. */
  send(packet: Uint8Array, medium: string): Promise<OsError | null> {
    const driver = this.#deps.driver(medium)
    if (!driver) return Promise.resolve(noDriver(medium))
    const { name } = driver
    const lane = this.#lane(name)
    const { maxPackets, maxBytes, retry } = this.#deps
    const full = lane.queue.length >= maxPackets || (lane.bytes > 0 && lane.bytes + packet.length > maxBytes)
    if (full || this.#closed) {
      if (full) this.refused++
      const why = full ? `${lane.queue.length} packets wait for ${name} already` : 'the node was closed'
      return Promise.resolve(new OsError('LINK_DOWN', why))
    }
    const { enabled, max_retries } = retry()
    return new Promise(done => {
      lane.queue.push({ packet, tries: enabled ? 1 + max_retries : 1, failures: lane.failures, done })
      lane.bytes += packet.length
      this.#pump(medium, lane)
    })
  }

  /** Ends all retry delays; queued packets are refused. */
  close(): void {
    this.#closed = true
    for (const end of [...this.#sleepers]) end()
    for (const lane of this.#lanes.values()) {
      for (const { done } of lane.queue.splice(0)) done(new OsError('LINK_DOWN', 'the node was closed'))
      lane.bytes = 0
    }
  }

  #lane(name: string): Lane {
    let lane = this.#lanes.get(name)
    if (!lane) {
      lane = { queue: [], bytes: 0, onTheWay: 0, backingOff: 0, failures: 0 }
      this.#lanes.set(name, lane)
    }
    return lane
  }

  #pump(medium: string, lane: Lane): void {
    while (lane.queue.length > 0 && lane.backingOff === 0) {
      if (lane.onTheWay >= (this.#deps.driver(medium)?.window ?? 1)) return
      const next = lane.queue.shift()!
      lane.bytes -= next.packet.length
      lane.onTheWay++
      next.tries = Math.max(1, next.tries - (lane.failures - next.failures))
      void this.#carry(medium, lane, next).then(error => {
        lane.onTheWay--
        next.done(error)
        this.#pump(medium, lane)
      })
    }
  }

  async #carry(medium: string, lane: Lane, { packet, tries }: QueuedDispatch): Promise<OsError | null> {
    for (let left = tries; ; left--) {
      // read each time: the medium may be disabled or replaced meanwhile
      const driver = this.#deps.driver(medium)
      if (!driver) return noDriver(medium)
      const failure = await driver.attempt(packet)
      if (!failure) return null
      if (failure.final) return failure.error
      lane.failures++
      if (left <= 1 || this.#closed) return failure.error
      lane.backingOff++
      await this.#sleep(this.#deps.retry().interval_seconds * 1000)
      lane.backingOff--
      if (this.#closed) return failure.error
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise(resolve => {
      const end = (): void => {
        cancel()
        this.#sleepers.delete(end)
        resolve()
      }
      const cancel = this.#deps.timers.after(ms, end)
      this.#sleepers.add(end)
    })
  }
}

const noDriver = (medium: string): OsError => new OsError('NO_DRIVER', `No available driver: ${medium}`)
