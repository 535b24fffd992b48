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

/** A ring of fixed size; drops the oldest item when full. */
class Queue<T> {
  readonly #places: (T | undefined)[]
  #first = 0
  #count = 0

  constructor(limit: number) {
    this.#places = new Array(limit)
  }

  /** false: the oldest item was dropped */
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
  /** runs a function after the current work */
  defer?: (run: () => void) => void
}

/** One kind of event. */
export class EventChannel<T> {
  #subscribers: readonly Subscriber<T>[] = []
  #waiting = false
  /** events dropped because listeners were too slow */
  dropped = 0
  readonly #logger: Logger
  readonly #defer: (run: () => void) => void

  constructor({ logger = silentLogger, defer = run => void setImmediate(run) }: ChannelOptions = {}) {
    this.#logger = logger
    this.#defer = defer
  }

  /** True if there is a listener. Callers use it to skip expensive event data. */
  get hasListeners(): boolean {
    return this.#subscribers.length > 0
  }

  /** Returns a function that unsubscribes; queued events are dropped then. */
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
          this.#logger.error(`an event listener failed: ${asOsError(error).message}`)
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

  /**
   * Packets when receivers accept them, delivered synchronously: the bytes are only valid during the call. Returns a function
   * that unsubscribes.
   */
  onPacket(listener: Listener<PacketEvent>): () => void {
    this.#received = [...this.#received, listener]
    return () => {
      this.#received = this.#received.filter(other => other !== listener)
    }
  }

  /**
   * Packets when an uplink accepts them, delivered synchronously: the bytes are only valid during the call. Returns a
   * function that unsubscribes.
   */
  onSent(listener: Listener<SentEvent>): () => void {
    this.#sent = [...this.#sent, listener]
    return () => {
      this.#sent = this.#sent.filter(other => other !== listener)
    }
  }

  packet(packet: Uint8Array, { medium, address }: { readonly medium: string; readonly address: string }): void {
    if (this.#received.length > 0) this.#notify(this.#received, { packet, medium, address })
  }

  sent(packet: Uint8Array, medium: string): void {
    if (this.#sent.length > 0) this.#notify(this.#sent, { packet, medium })
  }

  #notify<T>(listeners: readonly Listener<T>[], event: T): void {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        this.#logger.error(`a packet listener failed: ${asOsError(error).message}`)
      }
    }
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
