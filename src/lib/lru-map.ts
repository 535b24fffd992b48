/**
 * A map of at most `limit` entries: `set` makes an entry the newest, and beyond the limit the oldest one goes. A loop over it
 * that sets entries works on a copy, for a moved entry comes again.
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
