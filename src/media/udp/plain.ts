// UDP by node:dgram, for machines without the addon: one system call and one callback per packet. Errors of dgram's
// events and callbacks are passed on unchanged.
import type { RemoteInfo, Socket } from 'node:dgram'
import { AGAIN, systemError } from '../../native'
import { MAX_PENDING, type UdpPeer, type UdpPort, type UdpPortEvents, type UdpPortOptions } from './port'
import { closed, makeSocket, until } from './socket'

/** Rejects with the system's error. */
export async function openPlain(options: UdpPortOptions): Promise<UdpPort> {
  const { family, way, address, port, receiveBufferBytes, events } = options
  const socket = makeSocket(family, receiveBufferBytes)
  try {
    if (way === 'bind') await until(socket, 'listening', () => socket.bind({ address, port, exclusive: true }))
    else await until(socket, 'connect', () => socket.connect(port, address))
  } catch (error) {
    socket.close()
    throw error
  }
  return new PlainPort(socket, way === 'connect', events)
}

class PlainPort implements UdpPort {
  readonly port: number
  readonly receiveBuffer: number
  readonly dropped = undefined
  readonly #socket: Socket
  readonly #events: UdpPortEvents
  #last: UdpPeer | undefined
  #pending = 0

  constructor(socket: Socket, connected: boolean, events: UdpPortEvents) {
    this.#socket = socket
    this.#events = events
    this.port = socket.address().port
    this.receiveBuffer = socket.getRecvBufferSize()
    socket.on('error', error => events.failed(error))
    socket.on('message', (message, from) => events.packet(message, connected ? undefined : this.#peer(from)))
  }

  send(packet: Uint8Array, to?: UdpPeer): Promise<boolean> {
    if (this.#pending >= MAX_PENDING) {
      this.#events.sendFailed(systemError(AGAIN, 'send'))
      return Promise.resolve(false)
    }
    this.#pending++
    return new Promise(resolve => {
      const done = (error: Error | null): void => {
        this.#pending--
        if (error) this.#events.sendFailed(error)
        else this.#events.sent(1)
        resolve(!error)
      }
      try {
        if (to) this.#socket.send(packet, to.port, to.address, done)
        else this.#socket.send(packet, done)
      } catch (error) {
        done(error as Error)
      }
    })
  }

  async sendBatch(packets: readonly Uint8Array[]): Promise<number> {
    const results = await Promise.all(packets.map(packet => this.send(packet)))
    const refused = results.indexOf(false)
    return refused < 0 ? packets.length : refused
  }

  close(): Promise<void> {
    return closed(this.#socket)
  }

  /** A burst comes from one peer, so caching the last one is enough. */
  #peer({ address, port }: RemoteInfo): UdpPeer {
    if (this.#last?.address !== address || this.#last.port !== port) this.#last = { address, port }
    return this.#last
  }
}
