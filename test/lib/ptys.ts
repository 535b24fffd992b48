// Serial ports without hardware: pseudo-terminals whose other ends are in the test, for unplugging, noise, echoes and shared
// buses. A small C program creates them (Node has no API for it), compiled at first use.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { compiled } from './compiled'

/** One plug: the far end of a serial port. */
export class Plug {
  /** called with the bytes that the port's user sent */
  onBytes: (bytes: Buffer) => void = () => undefined
  plugged = false

  constructor(
    readonly path: string,
    readonly id: number,
    readonly ptys: Ptys,
  ) {}

  plug(): Promise<void> {
    this.plugged = true
    return this.ptys.ask('o', this.id, Buffer.from(this.path))
  }

  unplug(): Promise<void> {
    this.plugged = false
    return this.ptys.ask('c', this.id)
  }

  /** Sends bytes to the port's user. */
  write(bytes: Uint8Array): void {
    if (this.plugged) this.ptys.tell('w', this.id, bytes)
  }
}

export class Ptys {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>
  readonly #plugs: Plug[] = []
  readonly #asked: (() => void)[] = []
  #rest = Buffer.alloc(0)

  constructor() {
    this.#child = spawn(compiled('ptys', ['-lutil']), { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#child.stdout.on('data', chunk => this.#events(chunk))
  }

  /** A port at `path`, plugged in. */
  async port(path: string): Promise<Plug> {
    const plug = new Plug(path, this.#plugs.length, this)
    this.#plugs.push(plug)
    await plug.plug()
    return plug
  }

  tell(op: string, id: number, bytes: Uint8Array = new Uint8Array()): void {
    this.#child.stdin.write(
      Buffer.concat([Buffer.from([op.charCodeAt(0), id, bytes.length >> 8, bytes.length & 0xff]), bytes]),
    )
  }

  ask(op: string, id: number, bytes?: Uint8Array): Promise<void> {
    return new Promise(resolve => {
      this.#asked.push(resolve)
      this.tell(op, id, bytes)
    })
  }

  close(): void {
    this.#child.stdin.end()
  }

  #events(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= 4) {
      const length = this.#rest.readUInt16BE(2)
      if (this.#rest.length < 4 + length) return
      const [op, id] = [this.#rest[0]!, this.#rest[1]!]
      const bytes = this.#rest.subarray(4, 4 + length)
      this.#rest = this.#rest.subarray(4 + length)
      if (op === 'd'.charCodeAt(0)) this.#plugs[id]!.onBytes(bytes)
      else this.#asked.shift()?.()
    }
  }
}
