// What happens in a running gateway, for observers: server-sent events, plugins, `watch`. Every listener has a bounded
// queue of its own that is emptied after the work in hand, so that a slow or failing one never delays a
// reading. What fails: a queue that is full loses its oldest event (counted); a listener that throws is logged and
// heard again. Without listeners an event costs one comparison.
import { asOsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import type { LinkState } from '../links/contracts'
import type { Fact, LinkMetadata } from '../pipeline/fact'

/** A fact that went into the log just now. Look, do not change it. */
export interface FactEvent {
  readonly fact: Fact
  readonly link: LinkMetadata
}

export interface LinkEvent {
  readonly name: string
  readonly state: LinkState
  readonly before: LinkState
}

/** A packet that a receiver took, before anything is known of its content. Its bytes are valid during the call only. */
export interface PacketEvent {
  readonly packet: Uint8Array
  readonly medium: string
  /** where it came from, as the medium writes it */
  readonly address: string
}

export type SentEvent = Omit<PacketEvent, 'address'>

type Listener<T> = (event: T) => void

/** events a listener may be behind */
const LIMIT = 1024

/** Fixed places, the oldest leaves when it is full. */
class Queue<T> {
  readonly #places: (T | undefined)[]
  #first = 0
  #count = 0

  constructor(limit: number) {
    this.#places = new Array(limit)
  }

  /** false: the oldest had to leave */
  push(item: T): boolean {
    const { length } = this.#places
    this.#places[(this.#first + this.#count) % length] = item
    if (this.#count < length) {
      this.#count++
      return true
    }
    this.#first = (this.#first + 1) % length
    return false
  }

  take(): T | undefined {
    if (this.#count === 0) return undefined
    const item = this.#places[this.#first]
    this.#places[this.#first] = undefined
    this.#first = (this.#first + 1) % this.#places.length
    this.#count--
    return item
  }
}

interface Subscriber<T> {
  readonly listener: Listener<T>
  readonly queue: Queue<T>
  gone: boolean
}

interface ChannelOptions {
  logger?: Logger
  /** runs a function after the work in hand */
  defer?: (run: () => void) => void
}

/** One kind of event. */
export class EventChannel<T> {
  #subscribers: readonly Subscriber<T>[] = []
  #waiting = false
  /** events listeners were too slow for */
  dropped = 0
  readonly #logger: Logger
  readonly #defer: (run: () => void) => void

  constructor({ logger = silentLogger, defer = run => void setImmediate(run) }: ChannelOptions = {}) {
    this.#logger = logger
    this.#defer = defer
  }

  /** True where there is a listener: what is costly to make need not be made otherwise. */
  get heard(): boolean {
    return this.#subscribers.length > 0
  }

  /** Returns how to stop; events that wait are not delivered then. */
  subscribe(listener: Listener<T>, limit = LIMIT): () => void {
    const mine: Subscriber<T> = { listener, queue: new Queue(limit), gone: false }
    this.#subscribers = [...this.#subscribers, mine]
    return () => {
      mine.gone = true
      this.#subscribers = this.#subscribers.filter(other => other !== mine)
    }
  }

  emit(event: T): void {
    if (this.#subscribers.length === 0) return
    for (const { queue } of this.#subscribers) if (!queue.push(event)) this.dropped++
    if (this.#waiting) return
    this.#waiting = true
    this.#defer(() => this.#deliver())
  }

  #deliver(): void {
    this.#waiting = false
    for (const subscriber of this.#subscribers) {
      for (let event = subscriber.queue.take(); event !== undefined; event = subscriber.queue.take()) {
        if (subscriber.gone) break
        try {
          subscriber.listener(event)
        } catch (error) {
          this.#logger.error(`a listener of events failed: ${asOsError(error).message}`)
        }
      }
    }
  }
}

export class GatewayEvents {
  readonly facts: EventChannel<FactEvent>
  readonly links: EventChannel<LinkEvent>
  #received: readonly Listener<PacketEvent>[] = []
  #sent: readonly Listener<SentEvent>[] = []
  readonly #logger: Logger

  constructor(options: ChannelOptions = {}) {
    this.facts = new EventChannel(options)
    this.links = new EventChannel(options)
    this.#logger = options.logger ?? silentLogger
  }

  /** Packets as receivers take them, at once: the bytes are gone afterwards. Returns how to stop. */
  onPacket(listener: Listener<PacketEvent>): () => void {
    this.#received = [...this.#received, listener]
    return () => {
      this.#received = this.#received.filter(other => other !== listener)
    }
  }

  /** Packets as an uplink takes them, at once: the bytes are gone afterwards. Returns how to stop. */
  onSent(listener: Listener<SentEvent>): () => void {
    this.#sent = [...this.#sent, listener]
    return () => {
      this.#sent = this.#sent.filter(other => other !== listener)
    }
  }

  packet(packet: Uint8Array, { medium, address }: { readonly medium: string; readonly address: string }): void {
    if (this.#received.length > 0) this.#tell(this.#received, { packet, medium, address })
  }

  sent(packet: Uint8Array, medium: string): void {
    if (this.#sent.length > 0) this.#tell(this.#sent, { packet, medium })
  }

  #tell<T>(listeners: readonly Listener<T>[], event: T): void {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        this.#logger.error(`a listener of packets failed: ${asOsError(error).message}`)
      }
    }
  }

  /** Facts as they enter the log: own sensors and received ones. Returns how to stop. */
  onFact(listener: Listener<FactEvent>): () => void {
    return this.facts.subscribe(listener)
  }

  /** Links as they change their state. Returns how to stop. */
  onLink(listener: Listener<LinkEvent>): () => void {
    return this.links.subscribe(listener)
  }

  /** events that listeners were too slow for */
  get dropped(): number {
    return this.facts.dropped + this.links.dropped
  }
}
