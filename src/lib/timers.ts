// Timers are handed in like the clock, so that minutes of retries are tested in milliseconds. Nothing here fails.

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

/** Settles after `ms`. */
export const sleep = (timers: Timers, ms: number): Promise<void> => new Promise(resolve => timers.after(ms, resolve))
