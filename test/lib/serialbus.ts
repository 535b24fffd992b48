// A bus of serial ports in the test: all others read what one sends, as on two wires; with optional echo, noise and
// collisions.
import type { Plug } from './ptys'

export interface BusOptions {
  /** the sender receives its own bytes too */
  echo?: boolean
  /** changes bytes on the wire, and may add some */
  noise?: (bytes: Buffer) => Buffer
}

/** Damages a share of all pieces: flips a bit, drops a byte, or inserts bytes that look like the start of a frame. */
export function damaged(bytes: Buffer, random: () => number, share: number): Buffer {
  if (random() >= share) return bytes
  const at = Math.floor(random() * bytes.length)
  const kind = random()
  if (kind < 0.4) bytes[at]! ^= 1 << Math.floor(random() * 8)
  else if (kind < 0.7) return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])
  else return Buffer.concat([bytes.subarray(0, at), Buffer.from([2, 9, 0, 3]), bytes.subarray(at)])
  return bytes
}

export class SerialBus {
  readonly #plugs: Plug[] = []
  readonly options: BusOptions
  /** sender and bytes, as sent over the wire */
  readonly log: { from: Plug; bytes: Buffer; at: number }[] = []

  constructor(plugs: readonly Plug[], options: BusOptions = {}) {
    this.options = options
    for (const plug of plugs) this.join(plug)
  }

  join(plug: Plug): void {
    this.#plugs.push(plug)
    plug.onBytes = bytes => this.#carry(plug, Buffer.from(bytes))
  }

  leave(plug: Plug): void {
    this.#plugs.splice(this.#plugs.indexOf(plug), 1)
    plug.onBytes = () => undefined
  }

  #carry(from: Plug, sent: Buffer): void {
    const bytes = this.options.noise ? this.options.noise(sent) : sent
    this.log.push({ from, bytes: sent, at: performance.now() })
    if (bytes.length === 0) return
    for (const plug of this.#plugs) if (plug !== from || this.options.echo) plug.write(bytes)
  }
}
