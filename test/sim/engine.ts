// Virtual time: a heap of events ordered by time and number. Between two events all promises settle, so a program takes the
// same turns each time. No event waits for the real clock.
import { prng } from '../lib/random'

/** Numbers for one purpose, drawn from the seed: another purpose that draws more or less changes nothing here. */
export class Dice {
  readonly next: () => number
  readonly #seed: number

  constructor(seed: number) {
    this.#seed = seed
    this.next = prng(seed)
    for (let k = 0; k < 4; k++) this.next()
  }

  fork(purpose: string): Dice {
    return new Dice(fnv(purpose, this.#seed ^ 0x811c9dc5))
  }
  below(n: number): number {
    return Math.floor(this.next() * n)
  }
  between(from: number, to: number): number {
    return from + this.next() * (to - from)
  }
  /** as often small as large, over orders of magnitude */
  scale(from: number, to: number): number {
    return from * (to / from) ** this.next()
  }
  chance(p: number): boolean {
    return this.next() < p
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }
}

/** FNV-1a over the characters of a text. */
export function fnv(text: string, hash = 0x811c9dc5): number {
  for (let k = 0; k < text.length; k++) hash = Math.imul(hash ^ text.charCodeAt(k), 0x01000193)
  return hash >>> 0
}

/** The owner of an event: events of a dead process never run, those of a frozen one wait. */
export interface Owner {
  readonly dead: boolean
  readonly frozenUntil: number
}

/** Whose code runs: that of the event's owner, and of what its promises and ticks lead to. */
export const running: { owner: Owner | undefined; readonly strays: string[] } = { owner: undefined, strays: [] }

/** Runs `run` as code of `owner`, and restores whose code ran before. */
export function asOwner<T>(owner: Owner | undefined, run: () => T): T {
  const before = running.owner
  running.owner = owner
  try {
    return run()
  } finally {
    running.owner = before
  }
}

/** Ticks that wait. Each keeps its owner: those of Node's own streams, too. */
let ticks = 0
const tick = process.nextTick.bind(process)
process.nextTick = (run: (...parameters: unknown[]) => void, ...parameters: unknown[]): void => {
  const { owner } = running
  ticks++
  tick(() => {
    ticks--
    asOwner(owner, () => run(...parameters))
  })
}

const resolved = Promise.resolve()

/** Runs `run` after the microtasks that wait. Twice as fast as queueMicrotask() of Node. */
export const microtask = (run: () => void): void => void resolved.then(run)

/** Runs `run` when no tick and no microtask is left. A real turn of the loop is slower. */
const settled = (run: () => void): void =>
  microtask(() => {
    const waiting = ticks
    tick(() => (waiting + ticks > 0 ? settled(run) : run()))
  })

/** From here on code of `owner` runs: for a caller outside of events. What ran before settles first, as its own owner. */
export const become = (owner: Owner | undefined): Promise<void> =>
  new Promise(resolve =>
    settled(() => {
      running.owner = owner
      resolve()
    }),
  )

interface Event {
  at: number
  order: number
  run: (() => void) | null
  owner: Owner | undefined
}

const before = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)

export class Engine {
  now = 0
  events = 0
  /** an event threw: the error would have ended its process */
  onThrow: (error: unknown, owner: Owner | undefined) => void = error => {
    throw error
  }
  readonly #heap: Event[] = []
  #order = 0

  get pending(): number {
    return this.#heap.length
  }

  /** Runs `run` after `ms`; the function returned cancels it. */
  after(ms: number, run: () => void, owner?: Owner): () => void {
    const event: Event = { at: this.now + Math.max(0, ms), order: this.#order++, run, owner }
    this.#push(event)
    return () => {
      event.run = null
    }
  }

  /** Runs events until there is none before `end`, or `over` returns true. Then resolves. */
  run(end: number, over: () => boolean): Promise<void> {
    return new Promise(resolve => {
      let turns = 0
      const step = (): void => {
        const event = this.#heap[0]
        if (!event || event.at > end || over()) {
          if (!over()) this.now = Math.max(this.now, end)
          resolve()
          return
        }
        this.#pop()
        this.#take(event)
        // ticks and microtasks first, whatever they lead to; sometimes the real loop turns, for the garbage collector
        if (++turns % 4096 === 0) setImmediate(step)
        else settled(step)
      }
      settled(step)
    })
  }

  #take(event: Event): void {
    const { run, owner } = event
    if (!run || owner?.dead) return
    if (owner && owner.frozenUntil > event.at) {
      event.at = owner.frozenUntil
      event.order = this.#order++
      this.#push(event)
      return
    }
    this.now = Math.max(this.now, event.at)
    this.events++
    running.owner = owner
    try {
      run()
    } catch (error) {
      this.onThrow(error, owner)
    }
  }

  #push(event: Event): void {
    const heap = this.#heap
    let at = heap.push(event) - 1
    while (at > 0) {
      const up = (at - 1) >> 1
      if (!before(event, heap[up]!)) break
      heap[at] = heap[up]!
      at = up
    }
    heap[at] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()!
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++
      if (!before(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
  }
}
