// A bounded cache of resolved units: a unit is resolved once and used for every reading, but peers may keep sending new
// ones. Long texts are not cached: they would fill the memory. Cannot fail.
import { LruMap } from '../lib/lru-map'

const CACHE_SIZE = 4096
const LONGEST_KEY = 255

/** `make`, whose frozen results are cached: a repeated use costs one lookup. */
export function remembered<T>(make: (text: string) => T, size = CACHE_SIZE): (text: string) => T {
  const cache = new LruMap<string, T>(size)
  return text => {
    const held = cache.get(text)
    if (held !== undefined) return held
    const made = make(text)
    Object.freeze(made)
    if (text.length <= LONGEST_KEY) cache.set(text, made)
    return made
  }
}
