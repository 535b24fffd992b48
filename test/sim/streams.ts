// Connections between the machines, and node:net over them: bytes arrive in order or not at all. Bytes that the network loses are
// retransmitted after a while; a cut stalls a connection, a killed process ends it after the bytes it wrote, a machine without power is
// silent and answers with a reset once it is back. Chunks are split and joined in transit, as the kernel does.
import { EventEmitter } from 'node:events'
import { Duplex } from 'node:stream'
import type { Dice, Engine, Owner } from './engine'
import type { Host, Net } from './net'

/** bytes that the kernel accepts before a write waits */
const BUFFER_BYTES = 64 * 1024
const LEAST_RTO_MS = 200
const MOST_RTO_MS = 10_000
/** Linux times a connection out after about so long */
const GIVE_UP_MS = 900_000
const PROBE_MS = 30_000
const PROBES_MS = 10_000
const SYN_MS = 60_000

type Entry = { kind: 'data'; bytes: Buffer; since: number } | { kind: 'fin' | 'rst' | 'probe'; since: number }

/** One direction of a connection. */
class Pipe {
  readonly #queue: Entry[] = []
  #bytes = 0
  #waits: (() => void)[] = []
  #running = false
  #rto = LEAST_RTO_MS

  constructor(
    readonly streams: Streams,
    readonly from: SimSocket,
    readonly to: SimSocket,
  ) {}

  put(entry: Entry, taken?: () => void): void {
    this.#queue.push(entry)
    if (entry.kind === 'data') this.#bytes += entry.bytes.length
    if (taken) {
      if (this.#bytes <= BUFFER_BYTES) this.streams.engine.after(0, taken, this.from.owner)
      else this.#waits.push(taken)
    }
    if (!this.#running) this.#later(this.streams.travel(this.from.host, this.to.host))
  }

  get idle(): boolean {
    return this.#queue.length === 0
  }

  clear(): void {
    this.#queue.length = 0
    this.#bytes = 0
    this.#waits = []
  }

  #later(ms: number): void {
    this.#running = true
    this.streams.engine.after(ms, () => this.#arrive())
  }

  #arrive(): void {
    this.#running = false
    const head = this.#queue[0]
    if (!head) return
    const { engine, dice } = this.streams
    if (this.streams.lost(this.from.host, this.to.host)) {
      const patience = head.kind === 'probe' ? PROBES_MS : GIVE_UP_MS
      if (engine.now - head.since > patience) {
        this.clear()
        this.from.fail('ETIMEDOUT')
        return
      }
      this.#later(this.#rto)
      this.#rto = Math.min(MOST_RTO_MS, this.#rto * 2)
      return
    }
    this.#rto = LEAST_RTO_MS
    const wait = this.#deliver(head, dice)
    if (this.#bytes <= BUFFER_BYTES) for (const taken of this.#waits.splice(0)) engine.after(0, taken, this.from.owner)
    if (this.#queue.length > 0) this.#later(wait)
  }

  /** Returns ms until the next one. */
  #deliver(head: Entry, dice: Dice): number {
    const { net } = this.streams
    net.packets++
    if (head.kind !== 'data') {
      this.#queue.shift()
      net.onPacket(this.from.name, this.to.name, Buffer.alloc(0), head.kind)
      this.to.arrived(head.kind)
      return 0
    }
    // several writes in one chunk, or a part of one
    let bytes = head.bytes
    this.#queue.shift()
    while (this.#queue[0]?.kind === 'data' && dice.chance(0.5))
      bytes = Buffer.concat([bytes, (this.#queue.shift() as { bytes: Buffer }).bytes])
    if (bytes.length > 1 && dice.chance(0.1)) {
      const at = 1 + dice.below(bytes.length - 1)
      this.#queue.unshift({ kind: 'data', bytes: bytes.subarray(at), since: head.since })
      bytes = bytes.subarray(0, at)
    }
    this.#bytes -= bytes.length
    net.onPacket(this.from.name, this.to.name, bytes, 'stream')
    this.to.arrived('data', bytes)
    return dice.next() * 2
  }
}

export class Streams {
  readonly #servers = new Map<string, SimServer>()
  readonly #open = new Map<Owner, Set<SimSocket>>()

  constructor(
    readonly net: Net,
    readonly engine: Engine,
    readonly dice: Dice,
  ) {}

  /** node:net for one process */
  module(host: Host, owner: Owner): Record<string, unknown> {
    return {
      connect: ({ host: to, port }: { host: string; port: number }) => this.connect(host, owner, to, port),
      createServer: (_: unknown, handler: (socket: SimSocket) => void) => this.server(host, owner, handler),
    }
  }

  server(host: Host, owner: Owner, handler: (socket: SimSocket) => void): SimServer {
    const server = new SimServer(this, host, owner)
    server.on('connection', handler)
    return server
  }

  connect(host: Host, owner: Owner, address: string, port: number): SimSocket {
    const socket = this.#socket(host, owner, this.net.nextPort())
    this.net.opened++
    const peer = this.net.host(address)
    const since = this.engine.now
    let wait = 1000
    const syn = (): void => {
      if (socket.destroyed || owner.dead) return
      if (!peer || this.lost(host, peer) || this.lost(peer, host)) {
        if (this.engine.now - since > SYN_MS) socket.fail('ETIMEDOUT')
        else this.engine.after(wait, syn)
        wait *= 2
        return
      }
      const server = this.#servers.get(`${address}:${port}`)
      if (!server || server.owner.dead) {
        socket.fail('ECONNREFUSED')
        return
      }
      const other = this.#socket(peer, server.owner, port)
      socket.joined(other)
      other.joined(socket)
      this.engine.after(0, () => server.emit('connection', other), server.owner)
      this.engine.after(this.net.weather.delay, () => socket.destroyed || socket.emit('connect'), owner)
    }
    this.engine.after(this.travel(host, peer ?? host), syn)
    return socket
  }

  /** A process ended; without power its machine sends no reset. */
  ended(owner: Owner, power: boolean): void {
    for (const socket of this.#open.get(owner) ?? []) socket.lostOwner(power)
    this.#open.delete(owner)
  }

  listen(server: SimServer, port: number): boolean {
    const key = `${server.host.address}:${port}`
    const old = this.#servers.get(key)
    if (old && !old.owner.dead) return false
    this.#servers.set(key, server)
    return true
  }
  release(server: SimServer, port: number): void {
    const key = `${server.host.address}:${port}`
    if (this.#servers.get(key) === server) this.#servers.delete(key)
  }
  forget(socket: SimSocket): void {
    this.#open.get(socket.owner)?.delete(socket)
  }

  travel(from: Host, to: Host): number {
    const { delay, jitter } = this.net.weather
    return from === to ? 0 : delay + this.dice.next() ** 2 * Math.min(jitter, 500)
  }
  lost(from: Host, to: Host): boolean {
    const way = `${from.address}>${to.address}`
    const { net } = this
    return (
      !from.up || !to.up || net.cut.has(way) || this.dice.chance(Math.max(net.weather.loss, net.lossy.get(way) ?? 0))
    )
  }

  #socket(host: Host, owner: Owner, port: number): SimSocket {
    const socket = new SimSocket(this, host, owner, port)
    let open = this.#open.get(owner)
    if (!open) this.#open.set(owner, (open = new Set()))
    open.add(socket)
    return socket
  }
}

/** Like net.Socket, as far as the media use it. */
export class SimSocket extends Duplex {
  #out: Pipe | undefined
  #peer: SimSocket | undefined
  #early: [Buffer, () => void][] = []
  #heard = 0
  #finished = false
  /** its process is gone: later data is answered by a reset */
  #gone = false

  constructor(
    readonly streams: Streams,
    readonly host: Host,
    readonly owner: Owner,
    readonly port: number,
  ) {
    super({ allowHalfOpen: true })
  }

  get name(): string {
    return `${this.host.address}:${this.port}`
  }
  get remoteAddress(): string | undefined {
    return this.#peer?.host.address
  }
  get remotePort(): number | undefined {
    return this.#peer?.port
  }
  setNoDelay(): this {
    return this
  }
  /** The other end is probed while the connection is idle. */
  setKeepAlive(on: boolean): this {
    const probe = (): void => {
      if (this.destroyed || this.#gone || !this.#out) return
      const { now } = this.streams.engine
      if (this.#out.idle && now - this.#heard >= PROBE_MS) this.#out.put({ kind: 'probe', since: now })
      this.streams.engine.after(PROBE_MS, probe)
    }
    if (on) this.streams.engine.after(PROBE_MS, probe)
    return this
  }

  joined(peer: SimSocket): void {
    this.#peer = peer
    this.#heard = this.streams.engine.now
    const out = (this.#out = new Pipe(this.streams, this, peer))
    for (const [bytes, taken] of this.#early.splice(0)) out.put({ kind: 'data', bytes, since: this.#heard }, taken)
  }

  override _read(): void {
    // all received data is pushed
  }
  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    const bytes = Buffer.from(chunk)
    if (this.#out) this.#out.put({ kind: 'data', bytes, since: this.streams.engine.now }, done)
    else this.#early.push([bytes, done])
  }
  override _final(done: () => void): void {
    this.#end('fin')
    this.streams.engine.after(0, done, this.owner)
  }
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#end('fin')
    this.#gone = true
    this.streams.forget(this)
    this.streams.engine.after(0, () => done(error), this.owner)
  }

  #end(kind: 'fin'): void {
    if (this.#finished || !this.#out) return
    this.#finished = true
    this.#out.put({ kind, since: this.streams.engine.now })
  }

  /** The network has something for it. */
  arrived(kind: Entry['kind'], bytes?: Buffer): void {
    this.#heard = this.streams.engine.now
    if (kind === 'rst') {
      this.fail('ECONNRESET')
      return
    }
    if (this.#gone || this.owner.dead) {
      if (kind !== 'fin') this.#out?.put({ kind: 'rst', since: this.#heard })
      return
    }
    if (kind === 'probe') {
      this.#peer?.answered()
      return
    }
    this.streams.engine.after(
      0,
      () => {
        if (!this.destroyed) this.push(kind === 'fin' ? null : bytes)
      },
      this.owner,
    )
  }

  answered(): void {
    this.#heard = this.streams.engine.now
  }

  /** The kernel ends it with this error. */
  fail(code: string): void {
    this.#out?.clear()
    this.#finished = true
    if (this.#gone) return
    this.streams.engine.after(
      0,
      () => {
        if (!this.destroyed) this.destroy(Object.assign(new Error(`${code} ${this.name}`), { code, syscall: 'read' }))
      },
      this.owner,
    )
  }

  lostOwner(power: boolean): void {
    this.#gone = true
    if (!power) {
      this.#end('fin')
      return
    }
    this.#out?.clear()
    this.#finished = true
  }
}

/** Like net.Server. */
export class SimServer extends EventEmitter {
  #port = 0

  constructor(
    readonly streams: Streams,
    readonly host: Host,
    readonly owner: Owner,
  ) {
    super()
  }

  listen({ port }: { port: number }, done?: () => void): this {
    this.streams.engine.after(
      0,
      () => {
        if (!this.streams.listen(this, port)) {
          this.emit('error', Object.assign(new Error(`EADDRINUSE :${port}`), { code: 'EADDRINUSE' }))
          return
        }
        this.#port = port
        this.emit('listening')
        done?.()
      },
      this.owner,
    )
    return this
  }
  address(): { address: string; port: number; family: string } | null {
    return this.#port > 0 ? { address: this.host.address, port: this.#port, family: 'IPv4' } : null
  }
  close(done?: () => void): this {
    if (this.#port > 0) this.streams.release(this, this.#port)
    this.#port = 0
    if (done) this.streams.engine.after(0, done, this.owner)
    return this
  }
}
