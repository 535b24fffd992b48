// Serial lines between the machines: each is a cable between two adapters, one in each machine. Bytes take their time by the baud rate and
// arrive in order, split and joined. What arrives where no process has the port open is lost; so is what a cut cable carries, what a
// full buffer has no room for, and what an adapter holds when it is pulled. Noise loses, changes and adds bytes.
import type { Dice, Engine, Owner } from './engine'
import type { Host, Net } from './net'

/** of the kernel, for each direction of a port */
const BUFFER_BYTES = 4096
/** of a character: start bit, eight data bits, stop bit */
const BITS = 10
/** an adapter passes on so many bytes at once, and keeps none for longer */
const PIECES = [1, 16, 62, 62, 62, 512]
const KEPT_MS = 16
/** reads mark damaged bytes with it (PARMRK of termios) */
const MARK = 0xff
const NOTHING = Buffer.alloc(0)

/** A port that a process has open. */
export interface PortFile {
  readonly port: Port
  readonly owner: Owner
  readonly baudrate: number
  /** not read yet */
  received: Buffer
  /** not on the wire yet */
  waiting: Buffer
  /** called when there are bytes, and when the port has hung up */
  wake: (() => void) | null
}

/** One end of a cable: an adapter, and its device node while it is plugged in. */
export class Port {
  peer!: Port
  plugged = true
  /** of its node; each time it is plugged in it gets another */
  inode = 1
  /** until then it takes no bytes of its process */
  stuckUntil = 0
  /** until then its driver answers no opening, or refuses it */
  opensAt = 0
  file: PortFile | undefined
  #sending = false
  #arrivesAt = 0

  constructor(
    readonly lines: Lines,
    readonly host: Host,
    readonly path: string,
  ) {}

  /** Opens it, or returns the name of the error. */
  open(owner: Owner, baudrate: number): PortFile | 'ENOENT' | 'EBUSY' | 'EIO' {
    if (!this.plugged) return 'ENOENT'
    if (this.lines.engine.now < this.opensAt) return 'EIO'
    if (this.file && !this.file.owner.dead) return 'EBUSY'
    this.close(this.file)
    this.file = { port: this, owner, baudrate, received: NOTHING, waiting: NOTHING, wake: null }
    return this.file
  }

  /** Discards what is not sent. */
  close(file: PortFile | undefined): void {
    if (!file) return
    file.waiting = file.received = NOTHING
    file.wake = null
    if (this.file === file) this.file = undefined
  }

  /** The number of bytes that fit into the buffer. */
  write(file: PortFile, bytes: Uint8Array): number {
    const room = this.lines.engine.now < this.stuckUntil ? 0 : BUFFER_BYTES - file.waiting.length
    const taken = Buffer.from(bytes.subarray(0, room))
    file.waiting = Buffer.concat([file.waiting, taken])
    if (!this.#sending && taken.length > 0) this.#send(file)
    return taken.length
  }

  pull(): void {
    const { file } = this
    this.plugged = false
    this.file = undefined
    if (!file) return
    file.waiting = NOTHING
    this.tell(file)
  }

  plug(): void {
    if (this.plugged) return
    this.plugged = true
    this.inode++
    this.lines.crackle(this.peer)
  }

  /** Wakes its process as long as it has not read everything, or not seen that the port has hung up. */
  tell(file: PortFile): void {
    const { wake } = file
    if (!wake || (file.received.length === 0 && this.file === file)) return
    this.lines.engine.after(
      0,
      () => {
        if (file.wake !== wake) return
        wake()
        this.tell(file)
      },
      file.owner,
    )
  }

  #send(file: PortFile): void {
    const { engine, dice } = this.lines
    const byteMs = (BITS * 1000) / file.baudrate
    const piece = file.waiting.subarray(0, Math.min(dice.pick(PIECES), Math.ceil(KEPT_MS / byteMs)))
    this.#sending = true
    engine.after(piece.length * byteMs, () => {
      this.#sending = false
      // otherwise it was closed, pulled or opened again meanwhile
      if (file.waiting.length > 0) {
        file.waiting = file.waiting.subarray(piece.length)
        this.#arrivesAt = Math.max(this.#arrivesAt, engine.now + dice.pick([0, 1, 1, KEPT_MS]))
        engine.after(this.#arrivesAt - engine.now, () => this.peer.arrive(piece))
      }
      const next = file.waiting.length > 0 ? file : this.file
      if (next && next.waiting.length > 0) this.#send(next)
    })
  }

  /** The cable brings these bytes. */
  arrive(sent: Buffer): void {
    const { file, lines, peer } = this
    const { net, dice } = lines
    const way = `${peer.host.address}>${this.host.address}`
    const lossy = net.lossy.get(way)
    const lost = net.cut.has(way) || (lossy !== undefined && dice.chance(lossy))
    const open = !lost && this.host.up && file && !file.owner.dead
    net.packets++
    net.onPacket(`${peer.host.address}${peer.path}`, this.host.address, sent, lost ? 'lost' : open ? 'line' : 'unread')
    if (!open) return
    const was = file.received.length
    file.received = Buffer.concat([file.received, lines.marked(sent).subarray(0, BUFFER_BYTES - was)])
    if (was === 0) this.tell(file)
  }
}

export class Lines {
  /** share of the bytes that noise touches; with any, plugs and power leave bytes on the cable */
  noise = 0
  readonly #ports = new Map<string, Port>()

  constructor(
    readonly engine: Engine,
    readonly net: Net,
    readonly dice: Dice,
  ) {}

  /** A cable between two machines. */
  lay(a: [Host, string], b: [Host, string]): void {
    const [one, other] = [a, b].map(([host, path]) => new Port(this, host, path)) as [Port, Port]
    one.peer = other
    other.peer = one
    for (const port of [one, other]) this.#ports.set(port.host.address + port.path, port)
  }

  port({ address }: Host, path: string): Port | undefined {
    return this.#ports.get(address + path)
  }
  of(host: Host): Port[] {
    return [...this.#ports.values()].filter(port => port.host === host)
  }

  /** A process is gone: its ports are closed, with or without what they still hold. */
  ended(owner: Owner, power: boolean): void {
    for (const port of this.#ports.values()) {
      const { file } = port
      if (file?.owner !== owner) continue
      if (power || this.dice.chance(0.5)) port.close(file)
      if (power) this.crackle(port.peer)
    }
  }

  /** The faults are over. */
  heal(): void {
    for (const port of this.#ports.values()) {
      port.stuckUntil = port.opensAt = 0
      port.plug()
    }
    this.noise = Math.min(this.noise, 1e-4)
  }

  /** Noise: bytes without a sender arrive at a port. */
  crackle(to: Port): void {
    const { dice } = this
    if (this.noise > 0) to.arrive(Buffer.from(Array.from({ length: 1 + dice.below(20) }, () => dice.below(256))))
  }

  /** What a process reads for these bytes: noise touches some of them, and the kernel marks some of those. */
  marked(sent: Buffer): Buffer {
    const { dice, noise } = this
    if (noise === 0 && !sent.includes(MARK)) return sent
    const read: number[] = []
    const put = (byte: number): void => void (byte === MARK ? read.push(MARK, MARK) : read.push(byte))
    for (const byte of sent) {
      const fate =
        noise > 0 && dice.chance(noise) ? dice.pick(['lost', 'flipped', 'marked', 'added'] as const) : 'there'
      const other = byte ^ (1 << dice.below(8))
      if (fate === 'marked') read.push(MARK, 0, other)
      else if (fate !== 'lost') put(fate === 'flipped' ? other : byte)
      if (fate === 'added') put(dice.below(256))
    }
    return Buffer.from(read)
  }
}
