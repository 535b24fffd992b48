// The budget of time on the air. In any window of a limit's length, wherever it begins, no more is sent than its budget.
// Pure: the owner hands in the time and says of each transmission when it begins and when it really ended.
//
// A window that holds the most ends with a transmission, so it is enough to look back from there: what ended less than a
// window before the end of the new one counts in full. Transmissions of the same slot (a 3600th of the window) are kept as
// one that ends with the last of them, which counts them too long and never too short; so memory is bounded.
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

/** As kept over a restart: ages instead of times, since a clock may have been set in between. */
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

  /** Earliest mono ms at which `ms` may be sent so that `share` of the budget is not passed; Infinity: never. */
  readyAt(ms: number, now: number, share: number): number {
    const { windowMs } = this.#limit
    if (ms > this.#limit.budgetMs) return Number.POSITIVE_INFINITY
    const budgetMs = Math.max(ms, this.#limit.budgetMs * share)
    this.#forget(now)
    let used = 0
    for (const spent of this.#spent) used += spent.ms
    let at = now
    for (const spent of this.#spent) {
      // the window that ends with the new one begins at + ms - windowMs
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

  /** The last one lasted until then. */
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
   * Earliest mono ms at which a transmission of `ms` may begin: `now`, or later; Infinity: it is longer than the budget. With
   * a `share` below 1 the rest of the budget stays for what is more urgent.
   */
  readyAt(ms: number, now: number, share = 1): number {
    // a later begin is never worse for a window, so the latest of them suits them all
    return Math.max(now, ...this.#windows.map(window => window.readyAt(ms, now, share)))
  }

  /** A transmission of `ms` begins now. To be called before it does. */
  spend(ms: number, now: number): void {
    for (const window of this.#windows) window.add(ms, now + ms)
  }

  /** The transmission that was booked last has ended by now. */
  ended(now: number): void {
    for (const window of this.#windows) window.ended(now)
  }

  /** The tightest limit, and what is used of it: for status. Null where there is none. */
  usage(now: number): { usedMs: number; budgetMs: number; windowMs: number } | null {
    const all = this.#windows.map((window, k) => ({ usedMs: window.used(now), ...this.#limits[k]! }))
    return all.sort((a, b) => b.usedMs / b.budgetMs - a.usedMs / a.budgetMs)[0] ?? null
  }

  /** What the longest window still holds, newest last. */
  ago(now: number): SpentAgo[] {
    const longest = this.#limits.reduce(
      (best, { windowMs }, k) => (windowMs > this.#limits[best]!.windowMs ? k : best),
      0,
    )
    return this.#windows[longest]?.ago(now) ?? []
  }

  /** What an earlier run sent; before anything else is booked. */
  restore(spent: readonly SpentAgo[], now: number): void {
    const inOrder = [...spent].sort((a, b) => b.ago_ms - a.ago_ms)
    for (const window of this.#windows) for (const { ms, ago_ms } of inOrder) window.add(ms, now - ago_ms)
  }
}
