// Delayed acknowledgements (D19: PUBACK after the commit). mqtt.js answers a PUBLISH immediately; its answers are
// intercepted here and sent when the packet is settled, in the order of the packets, as MQTT requires. Packets that are
// not settled when the connection ends were never acknowledged, so the broker sends them again.
import type { Packet } from 'mqtt/lib/client'

interface Held {
  settled: boolean
  /** PUBACK or PUBREC; set right after the packet itself */
  answer: Packet | null
}

export class HeldAcks {
  readonly #send: (answer: Packet) => void
  readonly #most: number
  readonly #paused: (paused: boolean) => void
  readonly #queue: Held[] = []
  #resume: (() => void) | undefined

  /** `most`: limit of unsettled packets; reading stops at the limit until one is settled; `paused` is called. */
  constructor(send: (answer: Packet) => void, most: number, paused: (paused: boolean) => void = () => undefined) {
    this.#send = send
    this.#most = most
    this.#paused = paused
  }

  get unsettled(): number {
    return this.#queue.length
  }

  /** Registers a packet that needs an answer. Returns the function that settles it, once. */
  hold(): () => void {
    const held: Held = { settled: false, answer: null }
    this.#queue.push(held)
    return () => {
      held.settled = true
      this.#flush()
    }
  }

  /** mqtt.js is about to answer the last packet; `next` lets it continue reading. */
  catch(answer: Packet, next: () => void): void {
    const held = this.#queue.at(-1)
    if (held) held.answer ??= answer
    this.#flush()
    if (this.#queue.length < this.#most) {
      next()
      return
    }
    this.#resume = next
    this.#paused(true)
  }

  #flush(): void {
    let n = 0
    for (; n < this.#queue.length; n++) {
      const { settled, answer } = this.#queue[n]!
      if (!settled || !answer) break
      this.#send(answer)
    }
    if (n === 0) return
    this.#queue.splice(0, n)
    const resume = this.#resume
    if (!resume || this.#queue.length >= this.#most) return
    this.#resume = undefined
    this.#paused(false)
    resume()
  }
}
