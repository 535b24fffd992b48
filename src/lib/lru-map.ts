/**
 * A map of at most `limit` entries: `set` makes an entry the newest, and beyond the limit the oldest is evicted. Loop
 * over a copy while setting entries, because a moved entry would be visited again.
 */
export class LruMap<K, V> extends Map<K, V> {
  constructor(readonly limit: number) {
    super()
  }

  override set(key: K, value: V): this {
    super.delete(key)
    super.set(key, value)
    if (this.size > this.limit) super.delete(super.keys().next().value!)
    return this
  }
}
