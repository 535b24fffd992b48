// A UDP proxy on this machine that forwards and records every datagram, and drops those the test selects.
import { createSocket, type Socket } from 'node:dgram'
import { packetsIn } from './packets'

export interface Tapped {
  /** 'up': to the target, 'down': its answers */
  readonly way: 'up' | 'down'
  readonly bytes: Buffer
  readonly lost: boolean
}

export class Tap {
  readonly seen: Tapped[] = []
  lose: (packet: Buffer, way: Tapped['way']) => boolean = () => false
  readonly #front = createSocket('udp4')
  readonly #backs = new Map<number, Socket>()

  static async open(port: number, target: number): Promise<Tap> {
    const tap = new Tap()
    tap.#front.on('message', (message, from) => {
      const back = tap.#back(from.port)
      if (tap.#passes(message, 'up')) back.send(message, target, '127.0.0.1')
    })
    await new Promise<void>((resolve, reject) => {
      tap.#front.once('error', reject)
      tap.#front.bind(port, '127.0.0.1', resolve)
    })
    return tap
  }

  close(): void {
    this.#front.close()
    for (const back of this.#backs.values()) back.close()
  }

  /** Clears the record and drops nothing. */
  clear(): void {
    this.seen.length = 0
    this.lose = () => false
  }

  /** Every packet; delivery frames are split into their packets. */
  packets(way?: Tapped['way']): { way: Tapped['way']; packet: Uint8Array; lost: boolean }[] {
    return this.seen
      .filter(one => way === undefined || one.way === way)
      .flatMap(one => packetsIn(one.bytes).map(packet => ({ way: one.way, packet, lost: one.lost })))
  }

  #passes(bytes: Buffer, way: Tapped['way']): boolean {
    const lost = this.lose(bytes, way)
    this.seen.push({ way, bytes, lost })
    return !lost
  }

  #back(port: number): Socket {
    let back = this.#backs.get(port)
    if (back) return back
    back = createSocket('udp4')
    back.on('error', () => undefined) // the target does not exist: no answer
    back.on('message', message => {
      if (this.#passes(message, 'down')) this.#front.send(message, port, '127.0.0.1')
    })
    this.#backs.set(port, back)
    return back
  }
}
