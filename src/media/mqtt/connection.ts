// One connection to a broker, from CONNECT to its end: mqtt.js without its reconnects, retransmissions and immediate
// acknowledgements. The supervisor decides when to reconnect (R11), the log what is resent, the receiver when a packet
// is acknowledged. Errors: no route to the broker, or a refusal (open throws, with the broker's own words); a
// connection that ends (`lost`, with the broker's reason if it gave one; pending packets resolve with it). A broker
// that answers pings but leaves a packet without acknowledgement for 30 s loses the connection, because the packet would
// otherwise wait forever.
import type { Duplex } from 'node:stream'
import MqttClient, { type IClientOptions, type IPublishPacket, type Packet } from 'mqtt/lib/client'
import mqttPacket from 'mqtt-packet'
import { counted } from '../../lib/counted'
import { asOsError, OsError } from '../../lib/errors'
import { HeldAcks, type Settle } from './acks'

export type Qos = 0 | 1 | 2
type Version = 4 | 5

/** A message of the broker. `settle` is present at QoS 1 and 2: the broker gets its answer after the call. */
type MessageHandler = (topic: string, payload: Uint8Array, settle: Settle | null) => void

export interface MqttConnectOptions {
  /** a connected stream; throws NETWORK */
  openSocket: () => Promise<Duplex>
  /** tried in this order; the next only if a broker does not support the previous one */
  versions: readonly Version[]
  clientId: string
  clean: boolean
  keepaliveS: number
  sessionExpiryS: number
  username?: string
  password?: string
  /** retained, published by the broker when this connection breaks */
  will?: { topic: string; payload: string }
  /** limit of unsettled messages */
  maxUnsettled: number
  /** ms for which a packet may be the oldest without acknowledgement before the connection is closed; default 30,000 */
  acknowledgeMs?: number
  onMessage: MessageHandler
  /** called once, never before connect() has resolved */
  onLost: (reason: string) => void
}

/** A private part of mqtt.js that we need: all of its answers pass through it. */
interface Inside {
  _sendPacket(packet: Packet, done?: () => void, stored?: () => void, noStore?: boolean): void
  /** limit at which it closes a connection; mosquitto exceeds it with QoS 2 after a reconnect, and HeldAcks has its own bound */
  _receiveMaximum: number
}

/** the version of mqtt.js whose `_sendPacket` and `_receiveMaximum` this code uses */
const READ_VERSION = '5.16.0'

/**
 * Throws NO_DRIVER for another version of mqtt.js: without the patches below it acknowledges packets before they are in
 * the log.
 */
function checkClient(version: string): void {
  if (version === READ_VERSION) return
  throw new OsError('NO_DRIVER', `MQTT needs mqtt.js ${READ_VERSION}, this build has ${version}`, {
    hint: 'take a released os-node, or build it from its package-lock.json',
  })
}

/** for a broker that accepts the connection and sends nothing */
const CONNACK_MS = 10_000
const GOODBYE_MS = 1000
const ACKNOWLEDGE_MS = 30_000
/** CONNACK codes for a wrong version: 1 (3.1.1), 132 (5) */
const WRONG_VERSION = [1, 132]

// by default mqtt-packet allocates a Buffer for each 16-bit number at its first packet: 15 MB
mqttPacket.writeToStream.cacheNumbers = false

class VersionRefused extends OsError {}

/** Connects once. Throws NO_DRIVER, NETWORK, or LINK_DOWN with the broker's reason. */
export async function connectBroker(options: MqttConnectOptions): Promise<MqttConnection> {
  checkClient(MqttClient.VERSION)
  for (const [k, version] of options.versions.entries()) {
    try {
      return await MqttConnection.open(await options.openSocket(), version, options)
    } catch (error) {
      if (!(error instanceof VersionRefused) || k === options.versions.length - 1) throw error
    }
  }
  throw new OsError('LINK_DOWN', 'no version of MQTT to try')
}

export class MqttConnection {
  readonly version: Version
  /** limit of unacknowledged packets to the broker */
  receiveMaximum = 65_535
  /** largest MQTT packet the broker accepts */
  maximumPacketSize = 268_435_455
  maximumQos: Qos = 2
  readonly #client: MqttClient
  readonly #acks: HeldAcks
  readonly #options: MqttConnectOptions
  readonly #pending = new Set<(reason: string) => void>()
  #pinger: NodeJS.Timeout | undefined
  /** runs while packets wait for an acknowledgement; restarted by that of the oldest */
  #ackTimer: NodeJS.Timeout | undefined
  #reason = ''
  #ended = false
  #open = false

  static async open(socket: Duplex, version: Version, options: MqttConnectOptions): Promise<MqttConnection> {
    const connection = new MqttConnection(socket, version, options)
    await connection.#connected()
    return connection
  }

  private constructor(socket: Duplex, version: Version, options: MqttConnectOptions) {
    this.version = version
    this.#options = options
    const { clientId, clean, keepaliveS, sessionExpiryS, username, password, will, maxUnsettled } = options
    const settings: IClientOptions = {
      protocolVersion: version,
      clientId,
      clean,
      keepalive: keepaliveS,
      username,
      password,
      reconnectPeriod: 0,
      resubscribe: false,
      connectTimeout: CONNACK_MS,
      timerVariant: 'native',
      log: () => undefined,
      ...(will && { will: { topic: will.topic, payload: Buffer.from(will.payload), qos: 1, retain: true } }),
      ...(version === 5 && {
        properties: { sessionExpiryInterval: sessionExpiryS, receiveMaximum: maxUnsettled },
      }),
    }
    const client = new MqttClient(() => socket as never, settings)
    this.#client = client
    const inside = client as unknown as Inside
    inside._receiveMaximum = 65_535
    const send = inside._sendPacket.bind(client)
    this.#acks = new HeldAcks(
      answer => this.#ended || send(answer),
      // a broker of version 5 knows the limit and stops by itself; further control packets are still read then
      version === 5 ? maxUnsettled + 1 : maxUnsettled,
      paused => this.#paused(paused),
    )
    inside._sendPacket = (packet, done, stored, noStore) => {
      if (packet.cmd === 'puback' || packet.cmd === 'pubrec') this.#acks.catch(packet, done ?? (() => undefined))
      else send(packet, done, stored, noStore)
    }
    client.on('packetreceive', packet => {
      if (packet.cmd === 'publish') this.#received(packet)
    })
    client.on('disconnect', ({ reasonCode }) => {
      this.#reason = `the broker ended the connection${reasonText(reasonCode)}`
    })
    client.on('error', error => {
      this.#reason ||= error.message
    })
    client.on('close', () => this.#closed())
  }

  /**
   * Resolves when the broker has acknowledged the message (QoS 1, 2), or the socket has it (0): with null, or with the
   * reason why not. Messages are sent in the order of the calls.
   */
  publish(topic: string, payload: Uint8Array, qos: Qos, retain = false): Promise<string | null> {
    if (this.#ended) return Promise.resolve(this.#reason)
    if (this.#pending.size === 0) this.#awaitAcknowledgement()
    return new Promise(resolve => {
      this.#pending.add(resolve)
      const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
      this.#client.publish(topic, bytes, { qos, retain }, error => {
        const isOldest = this.#pending.values().next().value === resolve
        if (this.#pending.delete(resolve) && isOldest && this.#pending.size > 0) this.#ackTimer?.refresh()
        resolve(error ? error.message : null)
      })
    })
  }

  #awaitAcknowledgement(): void {
    if (this.#ackTimer) this.#ackTimer.refresh()
    else this.#ackTimer = setTimeout(() => this.#silent(), this.#options.acknowledgeMs ?? ACKNOWLEDGE_MS)
  }

  /** While reading is paused, the broker's acknowledgements are not read either. */
  #silent(): void {
    const packets = this.#pending.size
    if (packets > 0 && this.#pinger) this.#awaitAcknowledgement()
    if (packets === 0 || this.#pinger) return
    const seconds = (this.#options.acknowledgeMs ?? ACKNOWLEDGE_MS) / 1000
    this.#reason = `the broker did not acknowledge the oldest of ${counted(packets, 'packet')} for ${seconds} s`
    this.#client.stream.destroy()
  }

  /** Throws LINK_DOWN when the broker refuses. */
  async subscribe(filter: string, qos: Qos): Promise<void> {
    try {
      await this.#client.subscribeAsync(filter, { qos })
    } catch (cause) {
      const { message } = asOsError(cause)
      throw new OsError('LINK_DOWN', `the broker refuses the subscription to ${filter}: ${message}`, { cause })
    }
  }

  /** Sends DISCONNECT, so that no will is published, and resolves when the socket is closed. onLost is not called. */
  close(): Promise<void> {
    if (this.#ended) return Promise.resolve()
    const { stream } = this.#client
    return new Promise(resolve => {
      const timer = setTimeout(() => stream.destroy(), GOODBYE_MS)
      this.#client.once('close', () => {
        clearTimeout(timer)
        resolve()
      })
      this.#end('closed')
      // pending packets would delay the DISCONNECT
      this.#client.outgoing = {}
      this.#client.end(false)
    })
  }

  /** Breaks the connection immediately: the broker sends unsettled packets again. */
  abort(): void {
    this.#end('broken off')
    this.#client.stream.destroy()
  }

  async #connected(): Promise<void> {
    const client = this.#client
    const failed = await new Promise<Error | null>(resolve => {
      client.once('connect', ({ properties }) => {
        this.receiveMaximum = properties?.receiveMaximum ?? this.receiveMaximum
        this.maximumPacketSize = properties?.maximumPacketSize ?? this.maximumPacketSize
        this.maximumQos = (properties?.maximumQoS ?? this.maximumQos) as Qos
        resolve(null)
      })
      client.once('error', resolve)
      client.once('close', () =>
        resolve(new VersionRefused('LINK_DOWN', 'the broker closed the connection unanswered')),
      )
    })
    if (!failed) {
      this.#open = true
      // it may have ended while the event was queued
      if (!this.#ended) return
      throw new OsError('LINK_DOWN', this.#reason)
    }
    this.#end('not connected')
    client.stream.destroy()
    if (failed instanceof OsError) throw failed
    const code = (failed as { code?: unknown }).code
    // an answer other than CONNACK may come from a broker that could not parse our CONNECT
    if (typeof code !== 'number') throw new VersionRefused('LINK_DOWN', failed.message, { cause: failed })
    const message = `the broker refuses the connection: ${failed.message.replace(/^Connection refused: /, '')}`
    const Refused = WRONG_VERSION.includes(code) ? VersionRefused : OsError
    throw new Refused('LINK_DOWN', message, { cause: failed })
  }

  #received({ topic, payload, qos }: IPublishPacket): void {
    const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload
    this.#options.onMessage(topic, bytes, qos > 0 ? this.#acks.hold() : null)
  }

  /** While reading is paused, the answers to our pings are not read either; the broker still gets them. */
  #paused(paused: boolean): void {
    clearInterval(this.#pinger)
    this.#pinger = undefined
    if (!paused || this.#ended) return
    this.#client.reschedulePing(true)
    this.#pinger = setInterval(
      () => {
        this.#client.sendPing()
        this.#client.reschedulePing(true)
      },
      (this.#options.keepaliveS * 1000) / 3,
    )
  }

  #closed(): void {
    const reported = this.#ended || !this.#open
    this.#end(this.#reason || 'the connection to the broker was lost')
    if (!reported) this.#options.onLost(this.#reason)
  }

  #end(why: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#reason ||= why
    clearInterval(this.#pinger)
    clearTimeout(this.#ackTimer)
    const pending = [...this.#pending]
    this.#pending.clear()
    for (const settle of pending) settle(this.#reason)
  }
}

const reasonText = (code: number | undefined): string => {
  switch (code) {
    case 139:
      return ': it shuts down'
    case 141:
      return ': it received nothing from us'
    case 142:
      return ': another client has this id'
    case 149:
      return ': a packet was too large'
    case 147:
    case 150:
    case 151:
      return ': too many messages at once, or a quota exceeded'
    default:
      return code ? ` (reason ${code})` : ''
  }
}
