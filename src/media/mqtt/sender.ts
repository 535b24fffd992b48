// Publishes packets to a broker and receives answers from it (decision 0021). At QoS 1 a packet counts as sent when the
// broker has acknowledged it. Packets without acknowledgement when the connection breaks resolve false and are resent
// from the log: nothing is stored here. Answers sent meanwhile are stored by the broker: one of them may refuse a packet that
// it had acknowledged. The node's own state is retained too, with a last will. While this node has no id it publishes as
// `new-<install>`; when it gets its id it reconnects.
//
// Errors: no broker, a refusal, a connection that ends (open throws, or `lost`); a broker that refuses a packet or the
// subscription to answers (`degraded` with its reason); too many pending packets, or one too large (false, counted).
import { closedWhileOpening, OsError } from '../../lib/errors'
import { yieldToLoop } from '../../lib/yield'
import type { Medium, OpenableEvents, PacketOrigin } from '../../links/contracts'
import { PacketReceiver } from '../../links/deliver'
import { type BrokerParts, brokerAddress, connectSession, partyOf } from './broker'
import type { MqttConnection, Qos } from './connection'
import type { MqttOptions } from './mqtt-options'
import { COMPAT_UP, topicOf } from './topics'

/** packets that wait for space in the window; more are refused */
const MAX_WAITING = 8192
/** overhead of an MQTT 5 PUBLISH besides topic and packet: header, length, packet id, no properties */
const PUBLISH_OVERHEAD = 10

const ONLINE = Buffer.from('{"state":"online"}')
const OFFLINE = '{"state":"offline"}'

/**
 * At most 1: a packet without acknowledgement is sent again from the log, and the upstream discards duplicates. With QoS 2 a session
 * would hold packet ids of an earlier run, and the broker would take new packets for those.
 */
const sendingQos = ({ qos }: MqttOptions): Qos => Math.min(qos, 1) as Qos

interface QueuedPublish {
  readonly packet: Uint8Array
  readonly done: (taken: boolean) => void
}

export class MqttSender extends PacketReceiver implements Medium {
  readonly medium = 'MQTT'
  readonly counters = { rx: 0, tx: 0, errors: 0 }
  readonly #parts: BrokerParts
  #connection: MqttConnection | undefined
  #opening: symbol | undefined
  #topic = ''
  #qos: Qos
  #window = 1
  #maxPacket: number
  #inFlight = 0
  #waiting: QueuedPublish[] = []
  /** set: sends no more packets, because it reconnects */
  #leave: (() => void) | undefined
  #state: string | null = null
  #events: OpenableEvents | undefined
  /** what the acknowledgement of the answer being received waits for */
  #kept: Promise<unknown> | undefined
  #complaint = ''
  #forget: () => void = () => undefined

  constructor(parts: BrokerParts) {
    super()
    this.#parts = parts
    this.#qos = sendingQos(parts.options)
    this.#maxPacket = parts.options.max_packet
  }

  get name(): string {
    return this.#parts.name
  }

  get maxPacket(): number {
    return this.#maxPacket
  }

  /** At QoS 1 the broker acknowledges; the broker's highest QoS is known after the first open. */
  get acknowledges(): boolean {
    return this.#qos > 0
  }

  async open(events: OpenableEvents): Promise<void> {
    await this.close()
    const opening = Symbol('opening')
    this.#opening = opening
    const { options, identity } = this.#parts
    const { topics, compat, max_in_flight, session_expiry_s, client_id } = options
    const qos = sendingQos(options)
    const party = partyOf(identity)
    const up = compat ? COMPAT_UP : topicOf(topics.up, party)
    const down = compat ? null : topicOf(topics.down, party)
    // a node without an id has no topic for its state
    const state = compat || topics.state === '' || identity.aid === null ? null : topicOf(topics.state, party)
    if (up === null) throw new OsError('CONFIG_INVALID', `topics.up of ${this.name} cannot be filled`)
    const connection = await connectSession(this.#parts, {
      clientId: client_id ?? `os-node-${party.aid}${identity.aid === null ? '' : `-${party.install}`}`,
      clean: session_expiry_s === 0,
      sessionExpiryS: session_expiry_s,
      ...(state && { will: { topic: state, payload: OFFLINE } }),
      onMessage: (topic, payload, settle) => {
        this.#kept = undefined
        if (topic === down) this.#received(payload)
        settle?.(this.#kept)
      },
      onLost: reason => {
        this.#broken()
        events.lost(reason)
      },
    })
    const closed = this.#opening !== opening
    // an id assigned meanwhile has other topics
    if (closed || partyOf(identity).aid !== party.aid) {
      await connection.close()
      if (closed) throw closedWhileOpening()
      return this.open(events)
    }
    this.#connection = connection
    this.#events = events
    this.#complaint = ''
    this.#topic = up
    this.#state = state
    this.#qos = Math.min(qos, connection.maximumQos) as Qos
    this.#window = Math.min(max_in_flight, connection.receiveMaximum)
    const room = connection.maximumPacketSize - Buffer.byteLength(up) - PUBLISH_OVERHEAD
    this.#maxPacket = Math.max(64, Math.min(options.max_packet, room))
    // an empty message removes the retained state of the previous id
    this.#forget = identity.onAssigned(aid =>
      this.#afterAll(connection, () => events.lost(`reconnecting with the new id ${aid}`, true)),
    )
    if (down)
      connection
        .subscribe(down, qos)
        .catch(error => this.#opening === opening && this.#complain(`no answers: ${error.message}`))
    if (state) void connection.publish(state, ONLINE, this.#qos, true)
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#opening = undefined
    const state = this.#state
    this.#broken()
    if (!connection) return
    if (state) void connection.publish(state, Buffer.from(OFFLINE), 0, true)
    await connection.close()
  }

  send(packet: Uint8Array): Promise<boolean> {
    if (!this.#connection || packet.length > this.#maxPacket || this.#waiting.length >= MAX_WAITING) {
      this.counters.errors++
      return Promise.resolve(false)
    }
    return new Promise(done => {
      this.#waiting.push({ packet, done })
      this.#pump()
    })
  }

  /** Passes packets to the connection while the window has space. */
  #pump(): void {
    const connection = this.#connection
    if (!connection || this.#leave) return
    let n = 0
    for (; n < this.#waiting.length && this.#inFlight < this.#window; n++) {
      const { packet, done } = this.#waiting[n]!
      this.#inFlight++
      void connection.publish(this.#topic, packet, this.#qos).then(refusal => {
        if (refusal === null) this.counters.tx++
        else this.counters.errors++
        done(refusal === null)
        if (this.#connection !== connection) return
        this.#inFlight--
        this.#complain(refusal === null ? '' : refusal)
        if (this.#leave && this.#inFlight === 0) this.#leave()
        else this.#pump()
      })
    }
    if (n > 0) this.#waiting.splice(0, n)
  }

  /** Calls `leave` once all pending packets are answered, including those sent in this turn; queued ones are resent later. */
  #afterAll(connection: MqttConnection, leave: () => void): void {
    void yieldToLoop().then(() => {
      if (this.#connection !== connection) return
      this.#leave = leave
      if (this.#inFlight === 0) leave()
    })
  }

  #received(packet: Uint8Array): void {
    this.counters.rx++
    this.handler(packet, this.#origin)
  }

  readonly #origin: PacketOrigin = (() => {
    const sender = this
    return {
      medium: 'MQTT',
      get address() {
        return brokerAddress(sender.#parts)
      },
      reply: (packet: Uint8Array) => sender.send(packet),
      acknowledgeAfter: (kept: Promise<unknown>) => {
        sender.#kept = kept
      },
    }
  })()

  #complain(reason: string): void {
    if (reason === this.#complaint) return
    this.#complaint = reason
    this.#events?.degraded(reason)
  }

  /** The connection has ended: queued packets were not sent. */
  #broken(): void {
    this.#forget()
    this.#forget = () => undefined
    this.#connection = undefined
    this.#events = undefined
    this.#state = null
    this.#inFlight = 0
    const waiting = this.#waiting
    this.#waiting = []
    if (!this.#leave) this.counters.errors += waiting.length
    this.#leave = undefined
    for (const { done } of waiting) done(false)
  }
}
