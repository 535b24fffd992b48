// A UDP proxy that acts like a bad network, in both directions: drops, duplicates, delays (so that later datagrams overtake)
// and sometimes blocks everything. Seeded, so that a failure can be reproduced.
import { createSocket, type Socket } from 'node:dgram'

/** first byte of an acknowledgement of the delivery exchange */
const ACK = 0x05

export interface LossyOptions {
  seed?: number
  /** shares of all datagrams, 0 to 1 */
  drop?: number
  /** share of dropped acknowledgements, if different */
  dropAcks?: number
  double?: number
  late?: number
  lateMs?: number
}

export class LossyProxy {
  readonly counters = { passed: 0, dropped: 0, doubled: 0, late: 0, blocked: 0 }
  /** nothing passes */
  black = false
  readonly #options: Required<LossyOptions>
  readonly #target: number
  readonly #front: Socket
  readonly #backs = new Map<number, Socket>()
  #state: number
  #closed = false

  private constructor(target: number, options: LossyOptions) {
    this.#options = {
      seed: 1,
      drop: 0.2,
      double: 0.05,
      late: 0.2,
      lateMs: 80,
      dropAcks: options.drop ?? 0.2,
      ...options,
    }
    this.#state = this.#options.seed
    this.#target = target
    this.#front = createSocket('udp4')
  }

  /** Listens on `port` and forwards to `target`, both on 127.0.0.1. */
  static async open(port: number, target: number, options: LossyOptions = {}): Promise<LossyProxy> {
    const proxy = new LossyProxy(target, options)
    proxy.#front.on('message', (message, from) => {
      const back = proxy.#back(from.port)
      proxy.#treat(message, () => back.send(message, proxy.#target, '127.0.0.1'))
    })
    await new Promise<void>((resolve, reject) => {
      proxy.#front.once('error', reject)
      proxy.#front.bind(port, '127.0.0.1', resolve)
    })
    return proxy
  }

  close(): void {
    this.#closed = true
    this.#front.close()
    for (const back of this.#backs.values()) back.close()
  }

  /** Like a restarted router: later datagrams have another source, and answers to the old one are lost. */
  move(): void {
    for (const back of this.#backs.values()) back.close()
    this.#backs.clear()
  }

  #back(port: number): Socket {
    let back = this.#backs.get(port)
    if (!back) {
      back = createSocket('udp4')
      back.on('error', () => undefined) // the target does not exist, which counts as loss
      back.on('message', message => this.#treat(message, () => this.#front.send(message, port, '127.0.0.1')))
      this.#backs.set(port, back)
    }
    return back
  }

  #random(): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0
    return this.#state / 2 ** 32
  }

  #treat(message: Uint8Array, send: () => void): void {
    const drop = message[0] === ACK ? this.#options.dropAcks : this.#options.drop
    const { double, late, lateMs } = this.#options
    if (this.black) {
      this.counters.blocked++
      return
    }
    if (this.#random() < drop) {
      this.counters.dropped++
      return
    }
    const copies = this.#random() < double ? 2 : 1
    if (copies === 2) this.counters.doubled++
    for (let k = 0; k < copies; k++) {
      if (this.#random() >= late) {
        this.counters.passed++
        send()
        continue
      }
      this.counters.late++
      setTimeout(() => {
        if (!this.#closed && !this.black) send()
      }, this.#random() * lateMs)
    }
  }
}
