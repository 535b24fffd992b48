// A value that many parts of the page observe.
import { useEffect, useReducer } from 'preact/hooks'

export class Store<T> {
  readonly #listeners = new Set<() => void>()
  #value: T

  constructor(first: T) {
    this.#value = first
  }

  get value(): T {
    return this.#value
  }

  set(next: T): void {
    if (Object.is(next, this.#value)) return
    this.#value = next
    for (const listener of [...this.#listeners]) listener()
  }

  /** Changes some keys of an object. */
  patch(change: Partial<T>): void {
    this.set({ ...this.#value, ...change })
  }

  /** Returns the function that ends it. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}

/** The current value; redraws whenever it changes. */
export function useStore<T>(store: Store<T>): T {
  const [, again] = useReducer<number, void>(count => count + 1, 0)
  const drawn = store.value
  useEffect(() => {
    const stop = store.listen(() => again())
    // it may have changed between drawing and this effect
    if (store.value !== drawn) again()
    return stop
  }, [store])
  return drawn
}
