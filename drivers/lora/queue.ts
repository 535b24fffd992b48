// What waits to be sent: answers before everything else, since a peer repeats its request; bounded, and nothing waits
// for ever. Pure. What fails: a packet too many is refused, an answer too many pushes the oldest out; both resolve false.
import { ANSWERS, COMMAND } from '../../src/wire/commands'

export interface Waiting {
  readonly packet: Uint8Array
  /** given up at that mono time */
  readonly until: number
  /** how often the channel was busy */
  tries: number
  resolve(sent: boolean): void
}

/** packets, and answers, that wait at most */
export const MOST_WAITING = 16
/** the peer has repeated its request by then */
const ANSWER_MS = 30_000
const PACKET_MS = 60_000
/** command, a zero seq, and the epoch: what two answers of the delivery exchange have in common of which the newer says all */
const SAME_ANSWER = 7

const isDeliveryAnswer = (packet: Uint8Array): boolean =>
  packet.length > 12 && packet[0] === COMMAND.HANDSHAKE_ACK && packet[1] === 0 && packet[2] === 0

export class SendQueue {
  readonly #answers: Waiting[] = []
  readonly #packets: Waiting[] = []

  get length(): number {
    return this.#answers.length + this.#packets.length
  }

  /** Takes a copy. Resolves true when it was sent. */
  add(packet: Uint8Array, now: number): Promise<boolean> {
    const answer = ANSWERS.has(packet[0]!)
    const list = answer ? this.#answers : this.#packets
    return new Promise(resolve => {
      const waiting: Waiting = {
        packet: packet.slice(),
        until: now + (answer ? ANSWER_MS : PACKET_MS),
        tries: 0,
        resolve,
      }
      const older = isDeliveryAnswer(packet) ? list.findIndex(other => sameAnswer(other.packet, packet)) : -1
      if (older >= 0) list.splice(older, 1, waiting)[0]!.resolve(false)
      else if (list.length < MOST_WAITING) list.push(waiting)
      else if (answer) {
        list.shift()!.resolve(false)
        list.push(waiting)
      } else resolve(false)
    })
  }

  /** What goes next; stays until it is done. Null: nothing waits. */
  peek(): Waiting | null {
    return this.#answers[0] ?? this.#packets[0] ?? null
  }

  isAnswer({ packet }: Waiting): boolean {
    return ANSWERS.has(packet[0]!)
  }

  /** It was sent, or given up. */
  done(waiting: Waiting, sent: boolean): void {
    for (const list of [this.#answers, this.#packets]) {
      const at = list.indexOf(waiting)
      if (at >= 0) list.splice(at, 1)
    }
    waiting.resolve(sent)
  }

  /** Gives up what has waited too long; how many that were. */
  expire(now: number): number {
    const old = [...this.#answers, ...this.#packets].filter(({ until }) => until <= now)
    for (const waiting of old) this.done(waiting, false)
    return old.length
  }

  clear(): void {
    for (const waiting of [...this.#answers, ...this.#packets]) this.done(waiting, false)
  }
}

const sameAnswer = (a: Uint8Array, b: Uint8Array): boolean => {
  if (!isDeliveryAnswer(a)) return false
  for (let k = 0; k < SAME_ANSWER; k++) if (a[k] !== b[k]) return false
  return true
}
