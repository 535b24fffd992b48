// The budget of time on the air. In every window of a limit's length, wherever it begins, at most its budget is sent.
// Pure: the caller passes the time, and reports the beginning and the real end of each transmission.
//
// The fullest window ends with a transmission, so it is enough to check windows that end there: a transmission that
// ended less than one window earlier counts in full. Transmissions of the same slot (a 3600th of the window) are stored
// as one that ends with the last of them. That can overestimate the usage but never underestimate it, and it bounds the
// memory.
import type { Limit } from './region'

const SLOTS = 3600

/** Sum of the transmissions that ended within one slot. */
interface Spent {
  /** mono ms at which the first of them ended */
  readonly fromMs: number
  /** mono ms at which the last of them ended */
  endMs: number
  ms: number
}

/** As stored over a restart: ages instead of times, since the clock may have been set in between. */
export interface SpentAgo {
  readonly ago_ms: number
  readonly ms: number
}

class Window {
  readonly #limit: Limit
  readonly #slotMs: number
  /** oldest first */
  readonly #spent: Spent[] = []

  constructor(limit: Limit) {
    this.#limit = limit
    this.#slotMs = limit.windowMs / SLOTS
  }

  /** Earliest mono ms at which `ms` may be sent within `share` of the budget; Infinity: never. */
  readyAt(ms: number, now: number, share: number): number {
    const { windowMs } = this.#limit
    if (ms > this.#limit.budgetMs) return Number.POSITIVE_INFINITY
    const budgetMs = Math.max(ms, this.#limit.budgetMs * share)
    this.#forget(now)
    let used = 0
    for (const spent of this.#spent) used += spent.ms
    let at = now
    for (const spent of this.#spent) {
      // the window that ends with the new transmission begins at + ms - windowMs
      if (spent.endMs <= at + ms - windowMs) used -= spent.ms
      else if (used + ms <= budgetMs) break
      else {
        at = spent.endMs + windowMs - ms
        used -= spent.ms
      }
    }
    return at
  }

  used(now: number): number {
    this.#forget(now)
    return this.#spent.reduce((sum, { ms }) => sum + ms, 0)
  }

  add(ms: number, endMs: number): void {
    const last = this.#spent.at(-1)
    if (last && endMs - last.fromMs < this.#slotMs) {
      last.ms += ms
      last.endMs = Math.max(last.endMs, endMs)
    } else this.#spent.push({ ms, fromMs: endMs, endMs })
  }

  /** The last transmission ended at `endMs`. */
  ended(endMs: number): void {
    const last = this.#spent.at(-1)
    if (last && endMs > last.endMs) last.endMs = endMs
  }

  ago(now: number): SpentAgo[] {
    this.#forget(now)
    return this.#spent.map(({ ms, endMs }) => ({ ms, ago_ms: Math.max(0, now - endMs) }))
  }

  #forget(now: number): void {
    while (this.#spent.length > 0 && this.#spent[0]!.endMs <= now - this.#limit.windowMs) this.#spent.shift()
  }
}

export class DutyCycle {
  readonly #limits: readonly Limit[]
  readonly #windows: readonly Window[]

  constructor(limits: readonly Limit[]) {
    this.#limits = limits
    this.#windows = limits.map(limit => new Window(limit))
  }

  /**
   * Earliest mono ms at which a transmission of `ms` may begin, not before `now`; Infinity: it is longer than the
   * budget. A `share` below 1 reserves the remaining budget for more urgent packets.
   */
  readyAt(ms: number, now: number, share = 1): number {
    // a later start is allowed by each window, so the latest time satisfies all
    return Math.max(now, ...this.#windows.map(window => window.readyAt(ms, now, share)))
  }

  /** A transmission of `ms` begins now. Call it before sending. */
  spend(ms: number, now: number): void {
    for (const window of this.#windows) window.add(ms, now + ms)
  }

  /** The transmission booked last has ended. */
  ended(now: number): void {
    for (const window of this.#windows) window.ended(now)
  }

  /** The tightest limit and its usage, for the status. Null if there is no limit. */
  usage(now: number): { usedMs: number; budgetMs: number; windowMs: number } | null {
    const all = this.#windows.map((window, k) => ({ usedMs: window.used(now), ...this.#limits[k]! }))
    return all.sort((a, b) => b.usedMs / b.budgetMs - a.usedMs / a.budgetMs)[0] ?? null
  }

  /** The content of the longest window, newest last. */
  ago(now: number): SpentAgo[] {
    const longest = this.#limits.reduce(
      (best, { windowMs }, k) => (windowMs > this.#limits[best]!.windowMs ? k : best),
      0,
    )
    return this.#windows[longest]?.ago(now) ?? []
  }

  /** Loads the usage of an earlier run; call it before anything else is booked. */
  restore(spent: readonly SpentAgo[], now: number): void {
    const inOrder = [...spent].sort((a, b) => b.ago_ms - a.ago_ms)
    for (const window of this.#windows) for (const { ms, ago_ms } of inOrder) window.add(ms, now - ago_ms)
  }
}
