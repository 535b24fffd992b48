// A bounded cache of resolved units: a unit is resolved once and used for every reading, but peers may keep sending new
// ones. Long texts are not cached. Cannot fail.
import { LruMap } from '../lib/lru-map'

const CACHE_SIZE = 4096
const LONGEST_KEY = 256

export class UnitCache<Conversion extends object> {
  readonly #held = new LruMap<string, Conversion | null>(CACHE_SIZE)

  /** The cached result; undefined if the unit is not in the cache. */
  get(key: string): Conversion | null | undefined {
    return this.#held.get(key)
  }

  /** The cached result, else that of `make`, which is cached and frozen. */
  remember(key: string, make: () => Conversion | null): Conversion | null {
    const held = this.#held.get(key)
    if (held !== undefined) return held
    const made = make()
    if (key.length <= LONGEST_KEY) this.#held.set(key, made && Object.freeze(made))
    return made
  }
}
