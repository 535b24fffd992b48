// Simulated gateways for tests: the real exchange, and a separate address for each, 127.16.0.1 upwards. Each gets its id over UDP,
// then sends its facts over its own medium until all are acknowledged.
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { connect, type Socket as TcpSocket } from 'node:net'
import { connectAsync, type MqttClient } from 'mqtt'
import { DeliverySender } from '../../src/protocol/delivery'
import { until } from '../lib/gateway'
import { peerFrame } from '../lib/peer'

export interface FleetOptions {
  readonly udp: number
  readonly tcp: number
  readonly mqtt: number
  /** of each gateway */
  readonly facts: number
  readonly udpPort: number
  readonly tcpPort: number
  readonly brokerPort: number
}

const TICK_MS = 50
/** ms between two facts of one gateway */
const PAUSE_MS = 1000
const ASK_MS = 3000

/** What all gateways have: an id, and facts that wait for their acknowledgement. */
class Gateway {
  aid = 0
  seq = 1
  made = 0
  acked = 0
  readonly name: string
  readonly address: string
  readonly phase: number
  askAt = 0

  constructor(readonly k: number) {
    this.name = `fleet-${k}`
    this.address = `127.${16 + (k >> 14)}.${(k >> 7) & 127}.${1 + (k & 127)}`
    this.phase = (k * 37) % PAUSE_MS
  }

  time = (fact: number, from: number): number => from + this.phase + fact * PAUSE_MS

  /** A FULL packet of that fact. */
  packet(fact: number, from: number): Buffer {
    const ts = this.time(fact, from)
    const stamp = Buffer.alloc(6)
    stamp.writeUIntBE(ts, 0, 6)
    return peerFrame(
      0x3f,
      [this.aid],
      1,
      ts,
      `${this.aid};${this.name}.U.${stamp.toString('base64url')}|t>U.K:${fact + 1}|`,
    )
  }
}

export class Fleet {
  acknowledged = 0
  readonly #o: FleetOptions
  readonly #gateways: Gateway[]
  readonly #sockets: UdpSocket[] = []
  readonly #ends: (() => unknown)[] = []
  readonly #senders: DeliverySender<Buffer>[] = []
  readonly #from = Date.now() - 60_000

  constructor(options: FleetOptions) {
    this.#o = options
    this.#gateways = Array.from({ length: options.udp + options.tcp + options.mqtt }, (_, k) => new Gateway(k))
  }

  get resent(): number {
    return this.#senders.reduce((sum, { counters }) => sum + counters.resent, 0)
  }

  ids(): number[] {
    return this.#gateways.map(({ aid }) => aid)
  }

  /** `device_id t_raw` of everything that is sent. */
  facts(): Set<string> {
    return new Set(
      this.#gateways.flatMap(gateway =>
        Array.from({ length: this.#o.facts }, (_, fact) => `${gateway.name} ${gateway.time(fact, this.#from)}`),
      ),
    )
  }

  /** Every gateway requests its id until it has one. */
  async identify(): Promise<void> {
    const { udpPort } = this.#o
    for (const gateway of this.#gateways) {
      const socket = createSocket('udp4')
      await new Promise<void>((resolve, reject) => {
        socket.once('error', reject)
        socket.bind(0, gateway.address, resolve)
      })
      this.#sockets.push(socket)
      socket.on('message', bytes => {
        if (bytes[0] !== 0x02 || bytes.readUInt16BE(1) !== gateway.seq || bytes.length < 7) return
        const aid = bytes.readUInt32BE(3)
        if (gateway.aid !== 0 && gateway.aid !== aid)
          throw new Error(`${gateway.name} has id ${gateway.aid} and ${aid}`)
        gateway.aid = aid
        socket.send(Buffer.of(0x05, gateway.seq >> 8, gateway.seq & 255), udpPort, '127.0.0.1')
      })
    }
    // a few at a time: a burst that fills the socket's buffer is tested elsewhere
    const ask = setInterval(() => {
      const now = performance.now()
      let room = 50
      for (const [k, gateway] of this.#gateways.entries()) {
        if (gateway.aid !== 0 || gateway.askAt > now) continue
        if (room-- === 0) break
        gateway.askAt = now + ASK_MS
        const head = Buffer.of(0x01, gateway.seq >> 8, gateway.seq & 255)
        this.#sockets[k]!.send(
          Buffer.concat([head, Buffer.from(JSON.stringify({ device_id: gateway.name }))]),
          udpPort,
          '127.0.0.1',
        )
      }
    }, TICK_MS)
    await until('every gateway has an id', () => this.#gateways.every(({ aid }) => aid !== 0), 600_000)
    clearInterval(ask)
  }

  /** Sends everything, each gateway a fact a second. */
  start(): void {
    const { udp, tcp } = this.#o
    const ticks = this.#gateways.map((gateway, k) => {
      if (k < udp) return this.#overUdp(gateway, this.#sockets[k]!)
      return k < udp + tcp ? this.#overTcp(gateway) : this.#overMqtt(gateway)
    })
    const began = performance.now()
    const timer = setInterval(() => {
      const now = performance.now()
      for (const [k, gateway] of this.#gateways.entries()) {
        const due = Math.min(this.#o.facts, Math.floor((now - began + gateway.phase) / PAUSE_MS))
        const fresh: Buffer[] = []
        while (gateway.made < due) fresh.push(gateway.packet(gateway.made++, this.#from))
        ticks[k]!(fresh, now)
      }
    }, TICK_MS)
    this.#ends.push(() => clearInterval(timer))
  }

  async stop(): Promise<void> {
    for (const end of this.#ends) await end()
    for (const socket of this.#sockets) socket.close()
  }

  #sender(): DeliverySender<Buffer> {
    let seq = 100
    const sender = new DeliverySender<Buffer>({
      maxPacket: 1400,
      nextSeq: () => (seq = (seq % 65_535) + 1),
      randomEpoch: () => Math.floor(Math.random() * 2 ** 32),
      onAcked: () => {
        this.acknowledged++
      },
      onResend: packet => packet,
    })
    this.#senders.push(sender)
    return sender
  }

  #overUdp(_: Gateway, socket: UdpSocket) {
    const sender = this.#sender()
    const waiting: Buffer[] = []
    socket.on('message', bytes => void sender.onAnswer(bytes, performance.now()))
    return (fresh: Buffer[], now: number): void => {
      waiting.push(...fresh)
      if (sender.mode === 'silent') waiting.unshift(...sender.reset())
      while (waiting.length > 0 && sender.submit(waiting[0]!, waiting[0]!)) waiting.shift()
      for (let bytes = sender.poll(now); bytes; bytes = sender.poll(now))
        socket.send(Buffer.from(bytes), this.#o.udpPort, '127.0.0.1')
    }
  }

  #overTcp(gateway: Gateway) {
    const sender = this.#sender()
    const waiting: Buffer[] = []
    let socket: TcpSocket | undefined
    let again = 0
    const open = (): void => {
      const mine = connect({ host: '127.0.0.1', port: this.#o.tcpPort, localAddress: gateway.address })
      socket = mine
      let heard = Buffer.alloc(0)
      let first = true
      mine.on('data', chunk => {
        heard = Buffer.concat([heard, chunk])
        for (;;) {
          const at = first ? 0 : 2
          const length = first ? 10 : heard.length < 2 ? Number.POSITIVE_INFINITY : heard.readUInt16BE(0)
          if (heard.length < at + length) return
          sender.onAnswer(heard.subarray(at, at + length), performance.now())
          heard = heard.subarray(at + length)
          first = false
        }
      })
      mine.on('error', () => undefined)
      mine.on('close', () => {
        if (socket === mine) socket = undefined
        waiting.unshift(...sender.reset())
        again = performance.now() + 500
      })
    }
    this.#ends.push(() => socket?.destroy())
    return (fresh: Buffer[], now: number): void => {
      waiting.push(...fresh)
      if (!socket && now >= again) open()
      if (!socket || socket.connecting) return
      if (sender.mode === 'silent') return void socket.destroy()
      while (waiting.length > 0 && sender.submit(waiting[0]!, waiting[0]!)) waiting.shift()
      for (let bytes = sender.poll(now); bytes; bytes = sender.poll(now)) {
        const probing = sender.mode === 'probing'
        const length = Buffer.of(bytes.length >> 8, bytes.length & 255)
        socket.write(probing ? Buffer.from(bytes) : Buffer.concat([length, bytes]))
      }
    }
  }

  /** The broker acknowledges what it keeps. */
  #overMqtt(gateway: Gateway) {
    let client: MqttClient | undefined
    let opening = false
    const waiting: Buffer[] = []
    const open = async (): Promise<void> => {
      opening = true
      client = await connectAsync({
        ...{
          host: '127.0.0.1',
          port: this.#o.brokerPort,
          protocol: 'mqtt',
          protocolVersion: 5,
          localAddress: gateway.address,
        },
        ...{ clientId: gateway.name, clean: false, properties: { sessionExpiryInterval: 3600 } },
      }).finally(() => {
        opening = false
      })
    }
    this.#ends.push(() => client?.endAsync(true))
    return (fresh: Buffer[]): void => {
      waiting.push(...fresh)
      if (!client && !opening) void open().catch(() => undefined)
      for (const packet of client ? waiting.splice(0) : [])
        client!.publish(`os/${gateway.aid}/up`, packet, { qos: 1 }, error => {
          if (error) waiting.push(packet)
          else this.acknowledged++
        })
    }
  }
}
