/** Runs jobs one after the other. A job's error goes to its caller only; the next job starts anyway. */
export class SerialQueue {
  #last: Promise<unknown>

  /** The first job starts after `after`. */
  constructor(after?: Promise<unknown>) {
    this.#last = Promise.resolve(after)
  }

  run<T>(job: () => T | Promise<T>): Promise<T> {
    const mine = this.#last.then(job)
    this.#last = mine.catch(() => undefined)
    return mine
  }

  /** Resolves when the jobs so far have ended. */
  get idle(): Promise<void> {
    return this.#last.then(() => undefined)
  }
}
