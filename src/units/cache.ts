// Units that were resolved before, bounded: a unit is resolved once and used for every reading, but peers may send new ones for
// ever. Long texts are not kept. Cannot fail.
import { LruMap } from '../lib/lru-map'

const CACHE_SIZE = 4096
const LONGEST_KEY = 256

export class UnitCache<Conversion extends object> {
  readonly #held = new LruMap<string, Conversion | null>(CACHE_SIZE)

  /** What is kept; undefined when the unit was not looked up lately. */
  get(key: string): Conversion | null | undefined {
    return this.#held.get(key)
  }

  /** What is kept, else what `make` gives, which is kept and frozen. */
  remember(key: string, make: () => Conversion | null): Conversion | null {
    const held = this.#held.get(key)
    if (held !== undefined) return held
    const made = make()
    if (key.length <= LONGEST_KEY) this.#held.set(key, made && Object.freeze(made))
    return made
  }
}
