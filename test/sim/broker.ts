// An MQTT broker in the simulated world (3.1.1 and 5, QoS 0 to 2, retained messages, wills). It keeps what it acknowledged: sessions,
// queues and packets in flight survive its restarts. It may be away, drop connections, leave packets unanswered and deliver messages twice.
import type { EventEmitter } from 'node:events'
import { generate, type IPublishPacket, type Packet, parser } from 'mqtt-packet'
import type { Dice, Engine, Owner } from './engine'
import type { Host, Net } from './net'
import type { SimServer, SimSocket } from './streams'

export const BROKER = '10.0.0.200'
const PORT = 1883
/** unacknowledged packets of one session */
const WINDOW = 20

type Qos = 0 | 1 | 2

interface Message {
  readonly topic: string
  readonly payload: Buffer
  readonly qos: Qos
  readonly retain: boolean
}

interface Session {
  readonly id: string
  /** it ends with its connection */
  clean: boolean
  readonly filters: Map<string, Qos>
  queue: Message[]
  /** sent and not acknowledged; `rel`: PUBREC was received */
  readonly under: Map<number, { message: Message; rel: boolean }>
  nextId: number
  /** received packets of QoS 2 that wait for PUBREL */
  readonly received: Set<number>
  client: Client | undefined
}

interface Client {
  readonly socket: SimSocket
  readonly send: (packet: Packet) => void
  window: number
  will: Message | undefined
  heard: number
  keepalive: number
}

const matches = (filter: string, topic: string): boolean => {
  const [want, have] = [filter.split('/'), topic.split('/')]
  const hash = want.indexOf('#')
  const length = hash < 0 ? want.length : hash
  return (hash >= 0 || have.length === length) && want.slice(0, length).every((w, k) => w === '+' || w === have[k])
}

export class Broker {
  readonly host: Host = { address: BROKER, up: true }
  /** it answers no PUBLISH before this virtual time */
  muteUntil = 0
  /** share of the messages that it delivers twice */
  doubles = 0
  readonly #owner: Owner & { dead: boolean } = { dead: false, frozenUntil: 0 }
  readonly #sessions = new Map<string, Session>()
  readonly #retained = new Map<string, Message>()
  readonly #clients = new Set<Session>()
  #server: SimServer | undefined

  constructor(
    readonly engine: Engine,
    readonly net: Net,
    readonly dice: Dice,
  ) {
    net.add(this.host)
    this.#listen()
    const sweep = (): void => {
      for (const { client } of this.#clients)
        if (client && client.keepalive > 0 && engine.now - client.heard > 1500 * client.keepalive)
          client.socket.destroy()
      engine.after(5000, sweep)
    }
    engine.after(5000, sweep)
  }

  /** A session that already exists: messages for it are kept. */
  session(id: string, filter?: string, qos: Qos = 1): Session {
    let session = this.#sessions.get(id)
    if (!session) {
      session = {
        id,
        clean: false,
        filters: new Map(),
        queue: [],
        under: new Map(),
        nextId: 1,
        received: new Set(),
        client: undefined,
      }
      this.#sessions.set(id, session)
    }
    if (filter !== undefined) session.filters.set(filter, qos)
    return session
  }

  /** messages that wait for that session, or are in flight to it */
  waiting(id: string): number {
    const session = this.#sessions.get(id)
    return session ? session.queue.length + session.under.size : 0
  }

  /** Ends some connections. */
  drop(share: number): void {
    for (const { client } of [...this.#clients]) if (client && this.dice.chance(share)) client.socket.destroy()
  }

  /** Ends, and is back after `ms`. */
  away(ms: number): void {
    this.#server?.close()
    this.drop(1)
    this.#server = undefined
    this.engine.after(ms, () => this.#listen())
  }

  #listen(): void {
    if (this.#server) return
    this.#server = this.net.streams.server(this.host, this.#owner, socket => this.#accept(socket))
    this.#server.listen({ port: PORT })
  }

  #accept(socket: SimSocket): void {
    const read = parser() as EventEmitter & { parse(bytes: Buffer): number }
    let version: 4 | 5 = 4
    let session: Session | undefined
    const client: Client = {
      socket,
      send: packet => {
        if (socket.writable) socket.write(generate(packet, { protocolVersion: version }))
      },
      window: WINDOW,
      will: undefined,
      heard: this.engine.now,
      keepalive: 0,
    }
    socket.on('error', () => undefined) // 'close' follows
    socket.on('end', () => socket.destroy())
    socket.on('close', () => this.#left(session, client))
    read.on('error', () => socket.destroy())
    read.on('packet', (packet: Packet) => {
      client.heard = this.engine.now
      if (packet.cmd !== 'connect') {
        if (session && session.client === client) this.#packet(session, client, packet)
        return
      }
      version = packet.protocolVersion === 5 ? 5 : 4
      session = this.#connect(packet, client, version)
    })
    socket.on('data', bytes => read.parse(bytes))
  }

  #connect(packet: Packet & { cmd: 'connect' }, client: Client, version: 4 | 5): Session {
    const known = this.#sessions.has(packet.clientId)
    if (packet.clean) this.#sessions.delete(packet.clientId)
    const old = known ? this.#sessions.get(packet.clientId)?.client : undefined
    const session = this.session(packet.clientId)
    old?.socket.destroy()
    session.clean = version === 5 ? !(Number(packet.properties?.sessionExpiryInterval) > 0) : packet.clean === true
    session.client = client
    this.#clients.add(session)
    client.keepalive = packet.keepalive ?? 0
    client.window = Math.min(WINDOW, packet.properties?.receiveMaximum ?? WINDOW)
    const { will } = packet
    if (will)
      client.will = {
        topic: will.topic,
        payload: Buffer.from(will.payload),
        qos: (will.qos ?? 0) as Qos,
        retain: will.retain === true,
      }
    client.send({
      cmd: 'connack',
      sessionPresent: known && !packet.clean,
      ...(version === 5 ? { reasonCode: 0 } : { returnCode: 0 }),
    })
    for (const [messageId, { message, rel }] of session.under)
      if (rel) client.send({ cmd: 'pubrel', messageId })
      else client.send({ cmd: 'publish', ...message, messageId, dup: true })
    this.#pump(session)
    return session
  }

  #left(session: Session | undefined, client: Client): void {
    if (!session || session.client !== client) return
    session.client = undefined
    this.#clients.delete(session)
    if (session.clean && this.#sessions.get(session.id) === session) this.#sessions.delete(session.id)
    if (client.will) this.#route(client.will)
  }

  #packet(session: Session, client: Client, packet: Packet): void {
    const { send } = client
    switch (packet.cmd) {
      case 'publish':
        this.#published(session, send, packet)
        return
      case 'pubrel':
        session.received.delete(packet.messageId!)
        send({ cmd: 'pubcomp', messageId: packet.messageId! })
        return
      case 'puback':
      case 'pubcomp':
        session.under.delete(packet.messageId!)
        this.#pump(session)
        return
      case 'pubrec': {
        const under = session.under.get(packet.messageId!)
        if (under) under.rel = true
        send({ cmd: 'pubrel', messageId: packet.messageId! })
        return
      }
      case 'subscribe':
        for (const { topic, qos } of packet.subscriptions) session.filters.set(topic, qos as Qos)
        send({
          cmd: 'suback',
          messageId: packet.messageId!,
          granted: packet.subscriptions.map(({ qos }) => qos as Qos),
        })
        for (const message of this.#retained.values())
          if (packet.subscriptions.some(({ topic }) => matches(topic, message.topic))) session.queue.push(message)
        this.#pump(session)
        return
      case 'unsubscribe':
        for (const topic of packet.unsubscriptions) session.filters.delete(topic)
        send({ cmd: 'unsuback', messageId: packet.messageId!, granted: [] })
        return
      case 'pingreq':
        send({ cmd: 'pingresp' })
        return
      case 'disconnect':
        client.will = undefined
        client.socket.end()
        return
      default:
    }
  }

  #published(session: Session, send: Client['send'], packet: IPublishPacket): void {
    const { topic, qos, retain, messageId } = packet
    // it neither keeps nor acknowledges it
    if (qos > 0 && this.engine.now < this.muteUntil) return
    const message: Message = { topic, payload: Buffer.from(packet.payload as Buffer), qos, retain }
    if (retain) {
      if (message.payload.length > 0) this.#retained.set(topic, message)
      else this.#retained.delete(topic)
    }
    if (qos !== 2 || !session.received.has(messageId!)) this.#route({ ...message, retain: false })
    if (qos === 1) send({ cmd: 'puback', messageId: messageId! })
    if (qos === 2) {
      session.received.add(messageId!)
      send({ cmd: 'pubrec', messageId: messageId! })
    }
  }

  #route(message: Message): void {
    for (const session of this.#sessions.values()) {
      const granted = [...session.filters].filter(([filter]) => matches(filter, message.topic)).map(([, qos]) => qos)
      if (granted.length === 0) continue
      const qos = Math.min(message.qos, Math.max(...granted)) as Qos
      if (qos === 0 && !session.client) continue
      session.queue.push({ ...message, qos })
      if (this.dice.chance(this.doubles)) session.queue.push({ ...message, qos })
      this.#pump(session)
    }
  }

  #pump(session: Session): void {
    const { client } = session
    while (client && session.queue.length > 0 && session.under.size < client.window) {
      const message = session.queue.shift()!
      if (message.qos === 0) {
        client.send({ cmd: 'publish', ...message, dup: false })
        continue
      }
      const messageId = session.nextId
      session.nextId = (messageId % 65_535) + 1
      session.under.set(messageId, { message, rel: false })
      client.send({ cmd: 'publish', ...message, messageId, dup: false })
    }
  }
}
