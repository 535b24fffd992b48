// Changes of keys: which may be made, and the text of the file once they are. Everything else in the file stays as it is,
// comments too. The work grows with the size of text and change, never with their product.
//
// What fails: FORBIDDEN for keys that may not be written, CONFIG_INVALID for a dotted key where a section belongs or for too
// many keys at once, UNKNOWN_KEY for keys that nothing reads, SECRET_NEEDED for masked secrets that must not be kept.
import { OsError } from '../lib/errors'
import { nearestKey, newUnknownKey } from './check'
import { isFree, schemaAt } from './describe'
import { type Document, parsing } from './document'
import { getAt, joinKey, putAt, removeAt, same, splitKey, type Tree, underPrefix } from './keys'
import { meantPath, normalize, placeInFile } from './normalize'
import { rewritten } from './rewrite'
import { type AnySchema, openSchema } from './schema'
import { unmask } from './secrets'
import { PART, type Parts } from './slices'

export interface Edit {
  readonly path: string[]
  /** undefined: the key goes, and its default counts */
  readonly value: unknown
}

/** Keys of one change; a configuration has some hundred. */
export const MOST_EDITS = 2000

/** Size of a file that is written: each later change reads all of it. */
const MOST_CHARS = 256 * 1024

const tooLarge = (): OsError =>
  new OsError('CONFIG_INVALID', `the configuration would be larger than ${MOST_CHARS} characters`)

/** Before anything is done with a value that cannot be kept. */
export function refuseLarge(value: unknown): void {
  let chars = 0
  try {
    chars = JSON.stringify(value)?.length ?? 0
  } catch {
    chars = Number.POSITIVE_INFINITY // nested deeper than the stack
  }
  if (chars > MOST_CHARS) throw tooLarge()
}

/** True when a key may be written where only `prefixes` may, in whatever spelling it comes. Throws CONFIG_KEY. */
export const mayWrite = (key: string, prefixes: readonly string[]): boolean =>
  underPrefix(joinKey(meantPath(splitKey(key))), prefixes)

/** Throws FORBIDDEN with `details.keys`. */
export function refuseOutside(edits: readonly Edit[], prefixes: readonly string[]): void {
  const refused = new Set(edits.map(edit => joinKey(edit.path)).filter(key => !mayWrite(key, prefixes)))
  if (refused.size === 0) return
  throw new OsError('FORBIDDEN', 'write blocked by writable_config_prefixes', {
    details: { keys: [...refused].slice(0, 100) },
  })
}

/** A dotted key as the name of a section would be reported as changed and change nothing. Throws CONFIG_KEY, CONFIG_INVALID. */
export function refuseDotted(schema: AnySchema, path: readonly string[]): void {
  const key = joinKey(path)
  const meant = splitKey(key)
  if (meant.length === path.length || schemaAt(schema, path) || !schemaAt(schema, meant)) return
  throw new OsError('CONFIG_INVALID', `${key} must be nested sections, or key and value`, {
    details: { key },
  })
}

/** Keys whose names are in the path of an edit. Throws UNKNOWN_KEY with the nearest known name. */
export function refuseUnknown(schema: AnySchema, path: readonly string[]): void {
  const at = path.findIndex((_, k) => {
    const here = path.slice(0, k + 1)
    return !schemaAt(schema, here) && !isFree(schema, here)
  })
  // what a source type understands its driver says, when the links are checked
  if (at >= 0 && !(path[0] === 'gateway' && path[1] === 'sources' && at > 2))
    throw unknownKey(schema, path.slice(0, at + 1))
}

/** Keys inside values. Throws UNKNOWN_KEY for the first that `after` has and `before` has not. */
export function refuseUnknownKeys(schema: AnySchema, before: Document, after: Document): void {
  const stranger = newUnknownKey(schema, normalize(before.value).tree, normalize(after.value).tree)
  if (stranger) throw unknownKey(schema, stranger)
}

function unknownKey(schema: AnySchema, path: readonly (string | number)[]): OsError {
  const key = joinKey(path)
  const meant = nearestKey(schema, path)
  return new OsError('UNKNOWN_KEY', `${key} is not a known key${meant ? `; did you mean ${meant}?` : ''}`, {
    details: { key, ...(meant && { did_you_mean: meant }) },
  })
}

interface Editing {
  /** what counts where the file leaves a list out; undefined: an empty list */
  readonly list?: (path: readonly string[]) => readonly unknown[] | undefined
  /** the configuration as it counts, defaults included: a default that is written out moves nothing */
  readonly effective?: unknown
  /** secrets have to come anew with another place of their entry, also where the change leaves them out (HTTP) */
  readonly strict?: boolean
}

/** `document` with the edits made, read again; a masked secret keeps what is stored. */
export function* editing(
  schema: AnySchema,
  document: Document,
  edits: readonly Edit[],
  { list, effective, strict = false }: Editing = {},
): Parts<Document> {
  const raw = document.value
  const target = structuredClone(raw)
  const stored = normalize(raw).tree
  for (const [k, { path, value }] of edits.entries()) {
    if (k % PART === PART - 1) yield
    if (value === undefined) {
      writeOutLists(schema, target, path, list)
      removeAt(target, placeInFile(target, path))
    } else if (!same(getAt(stored, path), value) || getAt(stored, path) === undefined) {
      writeOutLists(schema, target, path, list)
      putAt(target, placeInFile(target, path), structuredClone(value))
    }
  }
  yield
  const sent = new Sent(edits.map(({ path }) => placeInFile(target, path)))
  const meant = unmask(schema, target, raw, { effective, ...(strict && { sent: path => sent.has(path) }) }) as Tree
  yield
  const text = rewritten(document, meant)
  if (text.length > MOST_CHARS) throw tooLarge()
  yield
  const outcome = yield* parsing(document.path, text)
  if (!same(outcome.value, meant)) throw new OsError('INTERNAL', `editing ${document.path} went wrong`)
  return outcome
}

/** `document` where what is being written is in no line yet. */
export function withoutLines(document: Document, edits: readonly Edit[]): Document {
  const isNew = (path: readonly (string | number)[]): boolean =>
    edits.some(edit => edit.path.every((part, k) => part === String(path[k])))
  return { ...document, placeOf: path => (isNew(path) ? undefined : document.placeOf(path)) }
}

/** A list that the file leaves out, or has as null, is written out before an element of it is changed. */
function writeOutLists(schema: AnySchema, target: Tree, path: readonly string[], list: Editing['list']): void {
  path.forEach((_, k) => {
    const here = path.slice(0, k)
    const known = k > 0 ? schemaAt(schema, here) : undefined
    if (!known || openSchema(known).core.type !== 'array') return
    const place = placeInFile(target, here)
    const there = getAt(target, place)
    if (there === undefined || there === null) putAt(target, place, structuredClone(list?.(here) ?? []))
  })
}

/** Paths that a change brings a value for, itself or by a value around it. */
class Sent {
  readonly #root: Map<string, unknown> = new Map()

  constructor(paths: readonly (readonly string[])[]) {
    for (const path of paths) {
      let at = this.#root
      for (const part of path) {
        const next = (at.get(part) as Map<string, unknown> | undefined) ?? new Map<string, unknown>()
        at.set(part, next)
        at = next
      }
      at.set('', true)
    }
  }

  has(path: readonly (string | number)[]): boolean {
    let at = this.#root
    for (const part of path) {
      if (at.has('')) return true
      const next = at.get(String(part))
      if (!(next instanceof Map)) return false
      at = next
    }
    return at.has('')
  }
}
