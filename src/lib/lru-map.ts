/**
 * A map of at most `limit` entries: `set` makes an entry the newest, and beyond the limit the oldest is evicted, of those that
 * `mayEvict` allows. Loop over a copy while setting entries, because a moved entry would be visited again. `evicted` gets each
 * evicted entry.
 */
export class LruMap<K, V> extends Map<K, V> {
  constructor(
    readonly limit: number,
    readonly evicted?: (key: K, value: V) => void,
    readonly mayEvict?: (value: V) => boolean,
  ) {
    super()
  }

  override set(key: K, value: V): this {
    super.delete(key)
    super.set(key, value)
    if (this.size <= this.limit) return this
    for (const [oldest, old] of this) {
      if (this.mayEvict?.(old) === false) continue
      this.evicted?.(oldest, old)
      super.delete(oldest)
      break
    }
    return this
  }
}
