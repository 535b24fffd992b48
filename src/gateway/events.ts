// Events of a running gateway, for observers: server-sent events, plugins, `watch`. Every listener has its own bounded queue,
// which is emptied after the current work, so that a slow or failing listener never delays a reading. Without listeners an
// event costs one comparison.
// Errors: a full queue drops its oldest event (counted). A listener that throws is logged and stays subscribed.
import { asOsError } from '../lib/errors'
import { type Logger, silentLogger } from '../lib/logger'
import type { LinkState } from '../links/contracts'
import type { Fact, LinkMetadata } from '../pipeline/fact'

/** A fact that was just logged. Read only. */
export interface FactEvent {
  readonly fact: Fact
  readonly link: LinkMetadata
}

export interface LinkEvent {
  readonly name: string
  readonly state: LinkState
  readonly before: LinkState
}

/** A packet that a receiver accepted, before it is decoded. Its bytes are only valid during the call. */
export interface PacketEvent {
  readonly packet: Uint8Array
  readonly medium: string
  /** address of the sender, as the medium writes it */
  readonly address: string
}

export type SentEvent = Omit<PacketEvent, 'address'>

type Listener<T> = (event: T) => void

/** queued events per listener */
const LIMIT = 1024

interface Subscriber<T> {
  readonly listener: Listener<T>
  readonly limit: number
  readonly queue: T[]
  gone: boolean
}

interface ChannelOptions {
  logger?: Logger
  /** runs a function after the current work */
  defer?: (run: () => void) => void
  /** for messages */
  what?: string
}

/** One kind of event. */
export class EventChannel<T> {
  #subscribers: readonly Subscriber<T>[] = []
  #waiting = false
  /** events dropped because listeners were too slow */
  dropped = 0
  readonly #logger: Logger
  readonly #defer: (run: () => void) => void
  readonly #what: string

  constructor({
    logger = silentLogger,
    defer = run => void setImmediate(run),
    what = 'an event listener',
  }: ChannelOptions = {}) {
    this.#logger = logger
    this.#defer = defer
    this.#what = what
  }

  /** True if there is a listener. Callers use it to skip expensive event data. */
  get hasListeners(): boolean {
    return this.#subscribers.length > 0
  }

  /** Returns a function that unsubscribes; queued events are dropped then. */
  subscribe(listener: Listener<T>, limit = LIMIT): () => void {
    const mine: Subscriber<T> = { listener, limit, queue: [], gone: false }
    this.#subscribers = [...this.#subscribers, mine]
    return () => {
      mine.gone = true
      this.#subscribers = this.#subscribers.filter(other => other !== mine)
    }
  }

  emit(event: T): void {
    if (this.#subscribers.length === 0) return
    for (const { queue, limit } of this.#subscribers) {
      if (queue.push(event) <= limit) continue
      queue.shift()
      this.dropped++
    }
    if (this.#waiting) return
    this.#waiting = true
    this.#defer(() => this.#deliver())
  }

  #deliver(): void {
    this.#waiting = false
    for (const subscriber of this.#subscribers) {
      for (let event = subscriber.queue.shift(); event !== undefined; event = subscriber.queue.shift()) {
        if (subscriber.gone) break
        try {
          subscriber.listener(event)
        } catch (error) {
          this.#logger.error(`${this.#what} failed: ${asOsError(error).message}`)
        }
      }
    }
  }
}

export class GatewayEvents {
  readonly facts: EventChannel<FactEvent>
  readonly links: EventChannel<LinkEvent>
  readonly #received: EventChannel<PacketEvent>
  readonly #sent: EventChannel<SentEvent>

  constructor(options: ChannelOptions = {}) {
    this.facts = new EventChannel(options)
    this.links = new EventChannel(options)
    // immediately, since the bytes are only valid during the call
    const atOnce = { ...options, defer: (run: () => void): void => run(), what: 'a packet listener' }
    this.#received = new EventChannel(atOnce)
    this.#sent = new EventChannel(atOnce)
  }

  /** Packets when receivers accept them; the bytes are only valid during the call. Returns a function that unsubscribes. */
  onPacket(listener: Listener<PacketEvent>): () => void {
    return this.#received.subscribe(listener)
  }

  /** The same for packets when an uplink accepts them. */
  onSent(listener: Listener<SentEvent>): () => void {
    return this.#sent.subscribe(listener)
  }

  packet(packet: Uint8Array, { medium, address }: { readonly medium: string; readonly address: string }): void {
    if (this.#received.hasListeners) this.#received.emit({ packet, medium, address })
  }

  sent(packet: Uint8Array, medium: string): void {
    if (this.#sent.hasListeners) this.#sent.emit({ packet, medium })
  }

  /** Facts when they are logged, from own sensors and received. Returns a function that unsubscribes. */
  onFact(listener: Listener<FactEvent>): () => void {
    return this.facts.subscribe(listener)
  }

  /** State changes of links. Returns a function that unsubscribes. */
  onLink(listener: Listener<LinkEvent>): () => void {
    return this.links.subscribe(listener)
  }

  /** events dropped because listeners were too slow */
  get dropped(): number {
    return this.facts.dropped + this.links.dropped
  }
}
