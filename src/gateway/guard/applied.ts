// What a new list of links means for those that run: which go, which come, which are opened anew, which stay untouched (R27).
import { isDeepStrictEqual } from 'node:util'

/** Names of links, as a reload left them. */
export interface Applied {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: string[]
  readonly kept: string[]
}

export const NOTHING_APPLIED: Applied = { added: [], removed: [], changed: [], kept: [] }

/** Compares by name and content. A name that stands in the list twice counts once. */
export function compareLinks<T extends { readonly name: string }>(
  running: ReadonlyMap<string, T>,
  list: readonly T[],
): Applied {
  const next = new Map(list.map(entry => [entry.name, entry]))
  const applied: Applied = { added: [], removed: [], changed: [], kept: [] }
  for (const name of running.keys()) if (!next.has(name)) applied.removed.push(name)
  for (const [name, entry] of next) {
    if (!running.has(name)) applied.added.push(name)
    else if (isDeepStrictEqual(running.get(name), entry)) applied.kept.push(name)
    else applied.changed.push(name)
  }
  return applied
}
