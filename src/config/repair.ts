// repair-config: turns an unusable configuration into a usable one. Every valid key stays; an invalid value gets its
// default, an invalid list element without one is removed. Comments and formatting stay if the text was JSON; else the
// file is written anew from the readable parts. Nothing here writes a file; the result passes the same check as any
// other configuration.
import { OsError, orElse } from '../lib/errors'
import { check, type Fault, unknownKeys } from './check'
import { textOf } from './default-text'
import { rowOf, schemaAt } from './describe'
import { type Document, parseDocument } from './document'
import { getAt, joinKey, putAt, removeAt, same, type Tree } from './keys'
import { normalize, placeInFile } from './normalize'
import { interpretDefaults } from './read'
import { moveToSection, salvage } from './readable-values'
import { rewritten } from './rewrite'
import type { Config, Schema } from './schema'
import { mask } from './secrets'

export interface Repaired {
  readonly key: string
  /** the old value, secrets masked; null: none, or unreadable */
  readonly old: unknown
  /** the new value; null: the key was removed */
  readonly new: unknown
}

type Path = readonly (string | number)[]

/** each round repairs the remaining faults by removing something */
const MOST_ROUNDS = 10_000

/** A tree under repair, with the original positions of its list elements. */
class Mending {
  readonly #schema: Schema
  readonly #defaults: Config
  readonly #first: Tree
  raw: Tree
  /** current path of a list → original indexes of its elements */
  readonly #places = new Map<string, number[]>()
  readonly #done = new Map<string, { path: Path; old: unknown; new: unknown }>()
  readonly #tried = new Set<string>()

  constructor(schema: Schema, raw: Tree) {
    this.#schema = schema
    this.#defaults = interpretDefaults(schema).config
    this.#first = raw
    this.raw = structuredClone(raw)
  }

  get tree(): Tree {
    return normalize(this.raw).tree
  }

  /** Removes the fault: the value, or if a value is missing, its parent. */
  mend(fault: Fault): void {
    const { tree } = this
    let path: Path = fault.path
    while (path.length > 0 && getAt(tree, path) === undefined) path = path.slice(0, -1)
    const key = joinKey(path)
    const named = path.length > 0 && path.every(part => typeof part === 'string')
    // a default that is refused in its place is removed too, then its parent
    const standard = named && !this.#tried.has(key) ? getAt(this.#defaults, path) : undefined
    this.#tried.add(key)
    this.#note(path, this.#standard(path))
    if (standard === undefined) this.#remove(path)
    else this.#put(path, standard)
  }

  /** Records a value that was unreadable in the text. */
  note(path: Path, old: unknown): void {
    const element = typeof path.at(-1) === 'number'
    this.#done.set(joinKey(path), { path, old, new: element ? null : (getAt(this.tree, path) ?? this.#standard(path)) })
  }

  /** The repairs, outermost keys only. */
  get repaired(): Repaired[] {
    const all = [...this.#done.values()]
    const inside = (path: Path): boolean =>
      all.some(
        ({ path: other }) => other.length < path.length && other.every((part, k) => String(part) === String(path[k])),
      )
    return all
      .filter(({ path }) => !inside(path))
      .map(({ path, old, new: meant }) => ({
        key: joinKey(path),
        old: mask(this.#schema, old, path) ?? null,
        new: mask(this.#schema, meant, path) ?? null,
      }))
  }

  #standard(path: Path): unknown {
    const standard = getAt(this.#defaults, path)
    if (standard !== undefined) return standard
    const known = schemaAt(this.#schema, path)
    // a list element is removed; a key of one may have a default
    return known && typeof path.at(-1) !== 'number' ? rowOf('', known).default : undefined
  }

  #put(path: Path, value: unknown): void {
    putAt(this.raw, placeInFile(this.raw, path.map(String)), structuredClone(value))
  }

  #remove(path: Path): void {
    if (path.length === 0) {
      this.raw = {}
      return
    }
    const place = placeInFile(this.raw, path.map(String))
    const last = path.at(-1)
    if (removeAt(this.raw, place) && typeof last === 'number') this.#placesOf(path.slice(0, -1)).splice(last, 1)
  }

  /** Removes a key that nothing reads. */
  drop(path: Path): void {
    this.#note(path, null)
    this.#remove(path)
  }

  #placesOf(list: Path): number[] {
    const key = joinKey(list)
    const old = getAt(this.raw, list)
    const known = this.#places.get(key) ?? Array.from({ length: Array.isArray(old) ? old.length + 1 : 0 }, (_, k) => k)
    this.#places.set(key, known)
    return known
  }

  /** Remembers the original value at a path. */
  #note(path: Path, meant: unknown): void {
    const first = path.map((part, k) =>
      typeof part === 'number' ? (this.#places.get(joinKey(path.slice(0, k)))?.[part] ?? part) : part,
    )
    const key = joinKey(first)
    if (this.#done.has(key)) this.#done.set(key, { ...this.#done.get(key)!, new: meant })
    else this.#done.set(key, { path: first, old: getAt(normalize(this.#first).tree, first), new: meant })
  }
}

/** The text of a tree: the original with the differences, or written anew if that fails. */
function textFor(tree: Tree, document: Document | undefined): string {
  if (!document) return textOf(tree)
  const text = rewritten(document, tree)
  const read = parsed('', text)
  return read && same(read.value, tree) ? text : textOf(tree)
}

/**
 * Repairs the bytes of a configuration file; null if they are valid. `unknown`: unknown keys are faults too, and so are
 * `paths`. Throws INTERNAL if it is impossible, which would be a bug: the empty configuration is valid.
 */
export function mend(
  schema: Schema,
  path: string,
  bytes: Uint8Array,
  unknown = false,
  paths: readonly Path[] = [],
): { text: string; repaired: readonly Repaired[] } | null {
  const text = Buffer.from(bytes)
    .toString('utf8')
    .replace(/^\ufeff/, '')
  const document = parsed(path, text)
  const found = document ? { tree: document.value, damaged: [] } : salvage(text)
  const moved = document ? [] : moveToSection(schema, found.tree)
  const mending = new Mending(schema, found.tree)
  for (const at of paths) mending.drop(at)
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const { faults } = check(schema, mending.tree)
    const [fault] = faults
    if (fault) {
      mending.mend(fault)
      continue
    }
    const lost = unknown ? unknownKeys(schema, mending.tree).filter(one => one.lost) : []
    // from last to first, so that a removal does not move later ones
    for (const { path: at } of lost.reverse()) mending.drop(at)
    if (lost.length > 0) continue
    for (const { path: at, old } of found.damaged) mending.note(at, old)
    for (const at of moved) mending.note(at, null)
    const { repaired } = mending
    if (document && repaired.length === 0) return null
    return { text: textFor(mending.raw, document), repaired }
  }
  throw new OsError('INTERNAL', `${path} could not be repaired`)
}

/** undefined: its fault was reported when the file was read before */
const parsed = (path: string, text: string): Document | undefined => orElse(undefined, () => parseDocument(path, text))
