/**
 * A map of at most `limit` entries: `set` makes an entry the newest, and beyond the limit the oldest is evicted. Loop
 * over a copy while setting entries, because a moved entry would be visited again. `evicted` gets each evicted entry.
 */
export class LruMap<K, V> extends Map<K, V> {
  constructor(
    readonly limit: number,
    readonly evicted?: (key: K, value: V) => void,
  ) {
    super()
  }

  override set(key: K, value: V): this {
    super.delete(key)
    super.set(key, value)
    if (this.size <= this.limit) return this
    const oldest = super.keys().next().value!
    this.evicted?.(oldest, super.get(oldest)!)
    super.delete(oldest)
    return this
  }
}
