// Delayed acknowledgements (decision 0021: PUBACK after the commit). mqtt.js answers a PUBLISH immediately; its answers are
// intercepted here and sent when the packet is settled, in the order of the packets, as MQTT requires. Packets that are
// not settled when the connection ends were never acknowledged, so the broker sends them again.
import type { Packet } from 'mqtt/lib/client'

/** `after`: the packet is acknowledged when that settles, and no longer stops reading: what it waits for may have to be read. */
export type Settle = (after?: Promise<unknown>) => void

interface Held {
  settled: boolean
  /** counts for the limit */
  counts: boolean
  /** PUBACK or PUBREC; set right after the packet itself */
  answer: Packet | null
}

export class HeldAcks {
  readonly #send: (answer: Packet) => void
  readonly #most: number
  readonly #paused: (paused: boolean) => void
  readonly #queue: Held[] = []
  /** packets that count for the limit */
  #open = 0
  /** packets that wait for what their `settle` was called with */
  #late = 0
  #resume: (() => void) | undefined

  /** `most`: limit of unsettled packets; reading stops at the limit until one is settled; `paused` is called. */
  constructor(send: (answer: Packet) => void, most: number, paused: (paused: boolean) => void = () => undefined) {
    this.#send = send
    this.#most = most
    this.#paused = paused
  }

  /** Registers a packet that needs an answer. Returns the function that settles it, once. */
  hold(): Settle {
    const held: Held = { settled: false, counts: true, answer: null }
    this.#queue.push(held)
    this.#open++
    const settle = (): void => {
      held.settled = true
      this.#flush()
    }
    return after => {
      if (!after) {
        settle()
        return this.#read()
      }
      this.#uncount(held)
      this.#late++
      void after.then(() => {
        this.#late--
        settle()
      })
      this.#read()
    }
  }

  /** mqtt.js is about to answer the last packet; `next` lets it continue reading. */
  catch(answer: Packet, next: () => void): void {
    const held = this.#queue.at(-1)
    if (held) held.answer ??= answer
    this.#flush()
    if (this.#open < this.#most) {
      next()
      return
    }
    this.#resume = next
    this.#paused(true)
    this.#read()
  }

  #flush(): void {
    let n = 0
    for (; n < this.#queue.length; n++) {
      const { settled, answer } = this.#queue[n]!
      if (!settled || !answer) break
      this.#send(answer)
      this.#uncount(this.#queue[n]!)
    }
    if (n === 0) return
    this.#queue.splice(0, n)
    this.#read()
  }

  #uncount(held: Held): void {
    if (held.counts) this.#open--
    held.counts = false
  }

  /** Reads on if there is room again. */
  #read(): void {
    const resume = this.#resume
    if (!resume) return
    // those behind a packet that waits need nothing else
    if (this.#late > 0) for (const held of this.#queue) if (held.settled) this.#uncount(held)
    if (this.#open >= this.#most) return
    this.#resume = undefined
    this.#paused(false)
    resume()
  }
}
