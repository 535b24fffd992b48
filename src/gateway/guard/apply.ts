// Compares a new list of links with the running ones: which to close, to open, to reopen, and to keep (R27).
import { isDeepStrictEqual } from 'node:util'

/** Names of links after a reload. */
export interface Applied {
  readonly added: string[]
  readonly removed: string[]
  readonly changed: string[]
  readonly kept: string[]
}

export const NOTHING_APPLIED: Applied = { added: [], removed: [], changed: [], kept: [] }

/** Compares by name and content. A name that is in the list twice counts once. */
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

/** The part of Sources, Uplinks and Receivers that a reload needs. */
interface Builder<T extends { readonly name: string }> {
  readonly names: readonly string[]
  apply(list: readonly T[]): Promise<Applied>
}

interface Wanted<T extends { readonly name: string }> {
  readonly builder: Builder<T>
  readonly list: readonly T[]
}

// biome-ignore lint/suspicious/noExplicitAny: each kind has entries of its own
type AnyWanted = Wanted<any>

/**
 * Applies lists of several kinds, in their order. A name that moves from one kind to another is closed there first, since all
 * links share one set of names.
 */
export async function applyAll<K extends string>(wanted: Record<K, AnyWanted>): Promise<Record<K, Applied>> {
  const kinds = Object.entries(wanted) as [K, AnyWanted][]
  const first: Partial<Record<K, Applied>> = {}
  for (const [kind, { builder, list }] of kinds) {
    const names = new Set(builder.names)
    const others = kinds.filter(([other]) => other !== kind).flatMap(([, wish]) => wish.list.map(({ name }) => name))
    if (!others.some(name => names.has(name))) continue
    first[kind] = await builder.apply(list.filter(({ name }) => names.has(name)))
  }
  const done = {} as Record<K, Applied>
  for (const [kind, { builder, list }] of kinds) {
    const applied = await builder.apply(list)
    const { removed, changed } = first[kind] ?? NOTHING_APPLIED
    done[kind] = {
      added: applied.added,
      removed: [...removed, ...applied.removed],
      changed: [...changed, ...applied.changed],
      kept: changed.length === 0 ? applied.kept : applied.kept.filter(name => !changed.includes(name)),
    }
  }
  return done
}
