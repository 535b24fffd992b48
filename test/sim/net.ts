// The network between the machines, and node:dgram over it (connections: streams.ts). Packets are lost, duplicated, late and reordered; pairs of
// machines are cut off in both directions or in one. A port without a listener refuses, as with ICMP.
import { EventEmitter } from 'node:events'
import type { Dice, Engine, Owner } from './engine'
import { Streams } from './streams'

export interface Weather {
  loss: number
  double: number
  /** ms */
  delay: number
  jitter: number
}

export interface Host {
  readonly address: string
  /** it has power */
  up: boolean
}

interface Socket {
  readonly host: Host
  readonly owner: Owner
  port: number
  peer: { address: string; port: number } | undefined
  /** packets in its receive buffer, while the process does not read them */
  waiting: number
  readonly take: (bytes: Buffer, address: string, port: number) => void
  readonly refused: () => void
}

const BUFFER_PACKETS = 256

export class Net {
  readonly weather: Weather = { loss: 0, double: 0, delay: 5, jitter: 10 }
  /** blocked directions: `from>to` */
  readonly cut = new Set<string>()
  /** additional loss of one direction: share */
  readonly lossy = new Map<string, number>()
  packets = 0
  /** UDP ports bound and connections made, so far */
  opened = 0
  /** a socket gets the lowest free port, so that of the process before it; otherwise no port is reused */
  samePorts = false
  /** every packet passed to the network */
  onPacket: (from: string, to: string, bytes: Buffer, fate: string) => void = () => undefined
  readonly #hosts = new Map<string, Host>()
  readonly #sockets = new Map<string, Socket>()
  #port = 40_000
  readonly streams: Streams

  constructor(
    readonly engine: Engine,
    readonly dice: Dice,
  ) {
    this.streams = new Streams(this, engine, dice.fork('streams'))
  }

  host(address: string): Host | undefined {
    return this.#hosts.get(address)
  }

  add(host: Host): void {
    this.#hosts.set(host.address, host)
  }

  /** node:dgram for one process */
  dgram(host: Host, owner: Owner): Record<string, unknown> {
    return { createSocket: () => new SimDgram(this, host, owner) }
  }

  bind(socket: Socket, port: number): boolean {
    const key = `${socket.host.address}:${port}`
    const old = this.#sockets.get(key)
    if (old && !old.owner.dead) return false
    socket.port = port
    this.#sockets.set(key, socket)
    this.opened++
    return true
  }
  /** of a connection: they wait for its end, so none is reused soon */
  nextPort(): number {
    return this.#port++
  }
  anyPort(host: Host): number {
    if (!this.samePorts) return this.nextPort()
    let port = this.#port
    for (let used = true; used; ) {
      const socket = this.#sockets.get(`${host.address}:${port}`)
      used = socket !== undefined && !socket.owner.dead
      if (used) port++
    }
    return port
  }
  release(socket: Socket): void {
    const key = `${socket.host.address}:${socket.port}`
    if (this.#sockets.get(key) === socket) this.#sockets.delete(key)
  }

  send(from: Socket, bytes: Buffer, address: string, port: number): void {
    this.packets++
    const way = `${from.host.address}>${address}`
    const { loss, double, delay, jitter } = this.weather
    const late = (): number => delay + this.dice.next() ** 2 * jitter
    const copies = this.dice.chance(double) ? 2 : 1
    for (let k = 0; k < copies; k++) {
      const wait = late()
      const lost = this.dice.chance(Math.max(loss, this.lossy.get(way) ?? 0))
      if (lost || this.cut.has(way))
        this.onPacket(`${from.host.address}:${from.port}`, `${address}:${port}`, bytes, 'lost')
      else this.engine.after(wait, () => this.#arrive(from, bytes, address, port))
    }
  }

  #arrive(from: Socket, bytes: Buffer, address: string, port: number): void {
    const way = `${from.host.address}>${address}`
    const to = this.#sockets.get(`${address}:${port}`)
    const host = this.#hosts.get(address)
    const there =
      to && !to.owner.dead && (!to.peer || (to.peer.address === from.host.address && to.peer.port === from.port))
    const fate = this.cut.has(way) || !host?.up ? 'lost' : there ? 'there' : 'refused'
    this.onPacket(`${from.host.address}:${from.port}`, `${address}:${port}`, bytes, fate)
    if (fate === 'refused' && from.peer && !this.cut.has(`${address}>${from.host.address}`))
      this.engine.after(this.weather.delay, from.refused, from.owner)
    if (fate !== 'there' || to!.waiting >= BUFFER_PACKETS) return
    to!.waiting++
    this.engine.after(
      0,
      () => {
        to!.waiting--
        to!.take(Buffer.from(bytes), from.host.address, from.port)
      },
      to!.owner,
    )
  }
}

/** Like node:dgram's Socket, as far as the UDP medium uses it. */
class SimDgram extends EventEmitter {
  readonly #net: Net
  readonly #socket: Socket
  #open = true

  constructor(net: Net, host: Host, owner: Owner) {
    super()
    this.#net = net
    this.#socket = {
      host,
      owner,
      port: 0,
      peer: undefined,
      waiting: 0,
      take: (bytes, address, port) => {
        if (this.#open) this.emit('message', bytes, { address, port, family: 'IPv4', size: bytes.length })
      },
      refused: () => {
        if (this.#open) this.emit('error', Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))
      },
    }
  }

  #later(run: () => void): void {
    this.#net.engine.after(0, run, this.#socket.owner)
  }
  bind({ port }: { port: number }): void {
    this.#later(() => {
      if (!this.#open) return
      if (this.#net.bind(this.#socket, port || this.#net.anyPort(this.#socket.host))) this.emit('listening')
      else this.emit('error', Object.assign(new Error('bind EADDRINUSE'), { code: 'EADDRINUSE' }))
    })
  }
  connect(port: number, address: string): void {
    this.#later(() => {
      if (!this.#open) return
      this.#socket.peer = { address, port }
      this.#net.bind(this.#socket, this.#net.anyPort(this.#socket.host))
      this.emit('connect')
    })
  }
  send(bytes: Uint8Array, ...rest: unknown[]): void {
    if (!this.#open) throw new Error('ERR_SOCKET_DGRAM_NOT_RUNNING')
    const done = rest.pop() as (error: Error | null) => void
    const { peer } = this.#socket
    const [port, address] = peer ? [peer.port, peer.address] : (rest as [number, string])
    if (!this.#socket.owner.dead) this.#net.send(this.#socket, Buffer.from(bytes), address, port)
    this.#later(() => done(null))
  }
  address(): { address: string; port: number; family: string } {
    return { address: this.#socket.host.address, port: this.#socket.port, family: 'IPv4' }
  }
  getRecvBufferSize(): number {
    return 8 * 1024 * 1024
  }
  close(done?: () => void): void {
    if (!this.#open) throw new Error('ERR_SOCKET_DGRAM_NOT_RUNNING')
    this.#open = false
    this.#net.release(this.#socket)
    this.#later(() => {
      this.emit('close')
      done?.()
    })
  }
}
