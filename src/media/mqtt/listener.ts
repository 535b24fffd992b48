// Packets of other nodes from a broker (decision 0021). The session outlives the connection, so that the broker stores packets
// while we are away. A packet of QoS 1 or 2 is acknowledged when its origin is settled, so that the broker resends
// packets that could not be stored. The topic identifies the sender, and answers go to the matching topic.
//
// Errors: no broker, a refusal, a connection that ends (open throws, or `lost`); a packet that could not be stored (the
// connection is closed, because only then the broker resends it); a topic that matches no template (counted, dropped).

import { asOsError, closedWhileOpening } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { LruMap } from '../../lib/lru-map'
import type { Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { PacketReceiver } from '../../links/deliver'
import type { Settle } from './acks'
import { type BrokerParts, brokerAddress, connectSession } from './broker'
import type { MqttConnection, Qos } from './connection'
import { COMPAT_FILTER, COMPAT_UP, filterOf, partyOf, senderOf, topicOf } from './topics'

/** answers in progress */
const MAX_ANSWERS = 1024
/** answers that wait for these; more are refused */
const MAX_WAITING = 65_536
/** senders whose parsed topics are cached */
const MAX_KNOWN = 4096

interface Sender {
  readonly address: string
  /** topic for answers; null: there is none */
  readonly down: string | null
}

export class MqttListener extends PacketReceiver implements Medium {
  readonly medium = 'MQTT'
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #parts: BrokerParts
  readonly #logger: Logger
  readonly #known = new LruMap<string, Sender>(MAX_KNOWN)
  #connection: MqttConnection | undefined
  /** packets of the session may come before the connection is handed over: their answers wait for it */
  #opening: Promise<MqttConnection | undefined> | undefined
  #events: OpenableEvents | undefined
  readonly #waiting: (() => void)[] = []
  #answers = 0

  constructor(parts: BrokerParts, logger: Logger) {
    super()
    this.#parts = parts
    this.#logger = logger
  }

  get name(): string {
    return this.#parts.name
  }

  get maxPacket(): number {
    return this.#parts.options.max_packet
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    this.#events = events
    const { options, identity, name } = this.#parts
    const { topics, compat, shared, qos, client_id, session_expiry_s } = options
    const filter = compat ? COMPAT_FILTER : filterOf(topics.up)
    const opening = connectSession(this.#parts, {
      // without the AID, which may change: the broker would store packets for a client that never returns
      clientId: client_id ?? `os-node-${identity.installId}-${name}`,
      clean: session_expiry_s === 0,
      sessionExpiryS: session_expiry_s,
      onMessage: (topic, payload, settle) => this.#received(topic, payload, settle),
      onLost: reason => {
        this.#connection = undefined
        this.#opening = undefined
        events.lost(reason)
      },
    })
    this.#opening = opening.catch(() => undefined)
    const connection = await opening
    if (this.#events !== events) {
      await connection.close()
      throw closedWhileOpening()
    }
    this.#connection = connection
    await connection.subscribe(shared === undefined ? filter : `$share/${shared}/${filter}`, qos)
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    this.#opening = undefined
    this.#events = undefined
    await connection?.close()
  }

  /** A listener has no single peer: always false. Answers go through the origin of a packet. */
  send(): Promise<boolean> {
    this.counters.errors++
    return Promise.resolve(false)
  }

  #received(topic: string, payload: Uint8Array, settle: Settle | null): void {
    const sender = this.#sender(topic)
    if (!sender) {
      // a subscription of an earlier configuration, which the session still has
      this.counters.errors++
      settle?.()
      return
    }
    this.counters.rx++
    const events = this.#events
    const { address, down } = sender
    const shared = this.#parts.options.shared !== undefined
    let answers: Promise<unknown> | undefined
    const origin: PacketOrigin = {
      medium: 'MQTT',
      address,
      shared,
      reply: packet => {
        const sent = this.#reply(down, packet)
        answers = Promise.all([answers, sent])
        return sent
      },
      ...(settle && {
        settle: kept => {
          if (!kept) this.#again(events)
          // if the connection breaks before the broker has its answers, the packet comes again
          else settle(answers)
        },
      }),
    }
    try {
      this.handler(payload, origin)
    } catch (error) {
      this.counters.errors++
      this.#logger.error(`handling a packet from ${address} failed: ${asOsError(error).message}`)
      // it would fail the same way forever
      settle?.()
    }
  }

  #sender(topic: string): Sender | null {
    const known = this.#known.get(topic)
    if (known) return known
    const { compat, topics } = this.#parts.options
    const broker = brokerAddress(this.#parts)
    let sender: Sender
    if (compat) {
      if (!topic.startsWith(COMPAT_UP.slice(0, COMPAT_UP.lastIndexOf('/')))) return null
      sender = { address: `${broker}/${topic}`, down: null }
    } else {
      const party = partyOf(topics.up, topic)
      if (!party) return null
      sender = { address: `${broker}/${senderOf(topics.up, topic)}`, down: topicOf(topics.down, party) }
    }
    this.#known.set(topic, sender)
    return sender
  }

  async #reply(topic: string | null, packet: Uint8Array): Promise<boolean> {
    if (topic === null || this.#waiting.length >= MAX_WAITING) {
      this.counters.errors++
      return false
    }
    const most = Math.min(MAX_ANSWERS, this.#connection?.receiveMaximum ?? MAX_ANSWERS)
    if (this.#answers >= most) await new Promise<void>(resolve => this.#waiting.push(resolve))
    else this.#answers++
    const connection = this.#connection ?? (await this.#opening)
    const sent = connection !== undefined && (await this.#publish(connection, topic, packet))
    const next = this.#waiting.shift()
    if (next) next()
    else this.#answers--
    this.counters[sent ? 'tx' : 'errors']++
    return sent
  }

  async #publish(connection: MqttConnection, topic: string, packet: Uint8Array): Promise<boolean> {
    const qos = Math.min(this.#parts.options.qos, 1, connection.maximumQos) as Qos
    return (await connection.publish(topic, packet, qos)) === null
  }

  /** A packet could not be stored: the broker resends it only to a new connection. */
  #again(events: OpenableEvents | undefined): void {
    if (events !== this.#events) return
    this.#connection?.abort()
    this.#connection = undefined
    this.#opening = undefined
    events?.lost('a packet could not be stored; it must be resent')
  }
}
