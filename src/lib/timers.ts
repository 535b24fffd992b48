// Timers are injected like the clock, so that minutes of retries are tested in milliseconds. No errors.

export interface Timers {
  /** Runs `run` once after `ms` milliseconds (at most 2^31 - 1); the function returned cancels it. */
  after(ms: number, run: () => void): () => void
}

export const systemTimers: Timers = {
  after: (ms, run) => {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

/** timers that run near the same whole second of the monotonic clock */
const seconds = new Map<number, Set<() => void>>()

/**
 * Runs at the nearest whole second, so that all timers of a second cause one wake-up of the processor. Does not keep
 * the process alive.
 */
export const secondTimers: Timers = {
  after: (ms, run) => {
    const now = performance.now()
    const second = Math.round((now + ms) / 1000)
    const due = seconds.get(second) ?? new Set()
    const fire = (): void => {
      seconds.delete(second)
      for (const one of due) {
        due.delete(one)
        try {
          one()
        } catch (error) {
          setImmediate(fire)
          throw error
        }
      }
    }
    if (!seconds.has(second)) setTimeout(fire, second * 1000 - now).unref()
    seconds.set(second, due.add(run))
    return () => due.delete(run)
  },
}

/** Resolves after `ms`. */
export const sleep = (timers: Timers, ms: number): Promise<void> => new Promise(resolve => timers.after(ms, resolve))
