// The send queue: answers first, because a peer repeats its request; bounded in length and time. Pure. Errors: a packet
// that exceeds the limit is refused, an answer that exceeds it evicts the oldest answer; both resolve false.
import { ANSWERS, COMMAND } from '../../src/wire/commands'

export interface QueuedPacket {
  readonly packet: Uint8Array
  /** dropped at this mono time */
  readonly until: number
  /** how often the channel was busy */
  tries: number
  resolve(sent: boolean): void
}

/** limit of queued packets, and of queued answers */
export const MOST_WAITING = 16
/** the peer has repeated its request by then */
const ANSWER_MS = 30_000
const PACKET_MS = 60_000
/** command, a zero seq, and the epoch: two answers of the delivery exchange with the same prefix; the newer replaces the older */
const SAME_ANSWER = 7

const isDeliveryAnswer = (packet: Uint8Array): boolean =>
  packet.length > 12 && packet[0] === COMMAND.HANDSHAKE_ACK && packet[1] === 0 && packet[2] === 0

export class RadioQueue {
  readonly #answers: QueuedPacket[] = []
  readonly #packets: QueuedPacket[] = []

  get length(): number {
    return this.#answers.length + this.#packets.length
  }

  /** Copies the packet. Resolves true when it was sent. */
  add(packet: Uint8Array, now: number): Promise<boolean> {
    const answer = ANSWERS.has(packet[0]!)
    const list = answer ? this.#answers : this.#packets
    return new Promise(resolve => {
      const waiting: QueuedPacket = {
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

  /** The next packet to send; it stays queued until done(). Null: the queue is empty. */
  peek(): QueuedPacket | null {
    return this.#answers[0] ?? this.#packets[0] ?? null
  }

  isAnswer({ packet }: QueuedPacket): boolean {
    return ANSWERS.has(packet[0]!)
  }

  /** Removes a packet that was sent or dropped. */
  done(waiting: QueuedPacket, sent: boolean): void {
    for (const list of [this.#answers, this.#packets]) {
      const at = list.indexOf(waiting)
      if (at >= 0) list.splice(at, 1)
    }
    waiting.resolve(sent)
  }

  /** Drops packets that have waited too long; returns their number. */
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
