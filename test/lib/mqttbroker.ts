// A scripted broker: it parses MQTT packets of a client and answers as the test defines.
import type { EventEmitter } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { generate, type Packet, parser } from 'mqtt-packet'

export interface Client {
  readonly version: 4 | 5
  send(packet: Packet): void
  drop(): void
}

export type Answers = (packet: Packet, client: Client) => void

export class FakeBroker {
  port = 0
  /** received packets of all connections */
  readonly got: Packet[] = []
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(answers: Answers) {
    this.#server = createServer(socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
      socket.on('error', () => undefined) // the client disconnected: the test sees that elsewhere
      const read = parser() as EventEmitter & { parse(bytes: Buffer): number }
      let version: 4 | 5 = 4
      const client: Client = {
        get version() {
          return version
        },
        send: packet => void socket.write(generate(packet, { protocolVersion: version })),
        drop: () => socket.destroy(),
      }
      read.on('packet', (packet: Packet) => {
        if (packet.cmd === 'connect') version = packet.protocolVersion === 5 ? 5 : 4
        this.got.push(packet)
        answers(packet, client)
      })
      socket.on('data', bytes => read.parse(bytes))
    })
  }

  static async start(answers: Answers): Promise<FakeBroker> {
    const broker = new FakeBroker(answers)
    await new Promise<void>(done => broker.#server.listen(0, '127.0.0.1', done))
    broker.port = (broker.#server.address() as { port: number }).port
    return broker
  }

  count(cmd: Packet['cmd']): number {
    return this.got.filter(packet => packet.cmd === cmd).length
  }

  close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    return new Promise(done => this.#server.close(() => done()))
  }
}

/** Accepts connections and subscriptions; the test handles everything else. */
export function welcome(packet: Packet, client: Client): boolean {
  if (packet.cmd === 'connect')
    client.send({
      cmd: 'connack',
      sessionPresent: false,
      ...(client.version === 5 ? { reasonCode: 0 } : { returnCode: 0 }),
    })
  else if (packet.cmd === 'subscribe') client.send({ cmd: 'suback', messageId: packet.messageId!, granted: [1] })
  else return false
  return true
}
