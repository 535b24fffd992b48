// Acknowledgements that wait (D19: PUBACK after the commit). mqtt.js answers a PUBLISH at once; its answers are caught here
// and go out when the packet is settled, in the order the packets came, as MQTT wants it. What is not settled when the
// connection ends was never acknowledged, and the broker sends it again.
import type { Packet } from 'mqtt/lib/client'

interface Held {
  settled: boolean
  /** PUBACK or PUBREC; comes right after the packet itself */
  answer: Packet | null
}

export class HeldAcks {
  readonly #send: (answer: Packet) => void
  readonly #most: number
  readonly #paused: (paused: boolean) => void
  readonly #queue: Held[] = []
  #resume: (() => void) | undefined

  /**
   * `most`: so many unsettled packets, and nothing more is read until one is settled; `paused` is called.
   */
  constructor(send: (answer: Packet) => void, most: number, paused: (paused: boolean) => void = () => undefined) {
    this.#send = send
    this.#most = most
    this.#paused = paused
  }

  get unsettled(): number {
    return this.#queue.length
  }

  /** A packet came that wants an answer. Returns how to settle it, once. */
  hold(): () => void {
    const held: Held = { settled: false, answer: null }
    this.#queue.push(held)
    return () => {
      held.settled = true
      this.#flush()
    }
  }

  /** mqtt.js would answer the packet that came last; `next` makes it read on. */
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
