// A map in sixteen parts. A Map of a million entries holds up the event loop for 70 ms when it grows, and that would be during
// some device's request; a part of one takes 5 ms. Nothing here fails.

/** four bits of a hash choose the part */
const COUNT = 16

export class Shards<K extends string | number, V> {
  readonly #parts = Array.from({ length: COUNT }, () => new Map<K, V>())

  get size(): number {
    return this.#parts.reduce((sum, { size }) => sum + size, 0)
  }

  get(key: K): V | undefined {
    return this.#part(key).get(key)
  }
  has(key: K): boolean {
    return this.#part(key).has(key)
  }
  set(key: K, value: V): void {
    this.#part(key).set(key, value)
  }
  delete(key: K): boolean {
    return this.#part(key).delete(key)
  }

  /** Every value, those that come while it runs perhaps. */
  *values(): Generator<V, void> {
    for (const part of this.#parts) yield* part.values()
  }

  /** Every key that is there when its part is reached, each once. */
  *keys(): Generator<K, void> {
    for (const part of this.#parts) yield* [...part.keys()]
  }

  #part(key: string | number): Map<K, V> {
    const number = typeof key === 'string' ? key.length + 3 * key.charCodeAt(key.length - 1) : key
    // spread, so that the parts of ids in a row do not all grow at once
    return this.#parts[Math.imul(number, 0x9e3779b1) >>> 28]!
  }
}
