// Changes of keys: which are allowed, and the resulting text of the file. Everything else in the file stays unchanged,
// comments too. The work grows with the size of text plus change, never with their product.
//
// Errors: FORBIDDEN for keys that may not be written; CONFIG_INVALID for a dotted key in place of a section, or too
// many keys; UNKNOWN_KEY for unused keys; SECRET_NEEDED for masked secrets that must not be kept.
import { OsError } from '../lib/errors'
import { PART, type Parts } from '../lib/slices'
import { nearestKey, newUnknownKey } from './check'
import { isFree, schemaAt } from './describe'
import { type Document, parsing } from './document'
import { getAt, joinKey, putAt, removeAt, same, splitKey, type Tree, underPrefix } from './keys'
import { meantPath, normalize, placeInFile } from './normalize'
import { rewritten } from './rewrite'
import { type AnySchema, openSchema } from './schema'
import { unmask } from './secrets'

export interface Edit {
  readonly path: string[]
  /** undefined: remove the key, so that its default applies */
  readonly value: unknown
}

/** Maximum number of keys in one change; a configuration has a few hundred. */
export const MOST_EDITS = 2000

/** Maximum size of a written file, because each later change reads all of it. */
const MOST_CHARS = 256 * 1024

const tooLarge = (): OsError =>
  new OsError('CONFIG_INVALID', `the configuration would be larger than ${MOST_CHARS} characters`)

/** Call before anything else is done with a value that is too large to store. */
export function refuseLarge(value: unknown): void {
  let chars = 0
  try {
    chars = JSON.stringify(value)?.length ?? 0
  } catch {
    chars = Number.POSITIVE_INFINITY // nested too deep for the stack
  }
  if (chars > MOST_CHARS) throw tooLarge()
}

/** True if only `prefixes` may be written and the key, in any spelling, is below one. Throws CONFIG_KEY. */
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

/** A dotted key as the name of a section would be reported as changed but have no effect. Throws CONFIG_KEY, CONFIG_INVALID. */
export function refuseDotted(schema: AnySchema, path: readonly string[]): void {
  const key = joinKey(path)
  const meant = splitKey(key)
  if (meant.length === path.length || schemaAt(schema, path) || !schemaAt(schema, meant)) return
  throw new OsError('CONFIG_INVALID', `${key} must be nested sections, or key and value`, {
    details: { key },
  })
}

/** Checks the key names in the path of an edit. Throws UNKNOWN_KEY with the most similar known name. */
export function refuseUnknown(schema: AnySchema, path: readonly string[]): void {
  const at = path.findIndex((_, k) => {
    const here = path.slice(0, k + 1)
    return !schemaAt(schema, here) && !isFree(schema, here)
  })
  // the driver checks options of a source later, with the links
  if (at >= 0 && !(path[0] === 'gateway' && path[1] === 'sources' && at > 2))
    throw unknownKey(schema, path.slice(0, at + 1))
}

/** Checks keys inside values. Throws UNKNOWN_KEY for the first unknown one in `after` that is not in `before`. */
export function refuseUnknownKeys(schema: AnySchema, before: Document, after: Document): void {
  const unknown = newUnknownKey(schema, normalize(before.value).tree, normalize(after.value).tree)
  if (unknown) throw unknownKey(schema, unknown)
}

function unknownKey(schema: AnySchema, path: readonly (string | number)[]): OsError {
  const key = joinKey(path)
  const meant = nearestKey(schema, path)
  return new OsError('UNKNOWN_KEY', `${key} is not a known key${meant ? `; did you mean ${meant}?` : ''}`, {
    details: { key, ...(meant && { did_you_mean: meant }) },
  })
}

interface Editing {
  /** the effective list if the file has none; undefined: an empty list */
  readonly list?: (path: readonly string[]) => readonly unknown[] | undefined
  /** the effective configuration with defaults: writing out a default moves no entry */
  readonly effective?: unknown
  /** secrets must be sent again when the place of their entry changes, even if the change omits them (HTTP) */
  readonly strict?: boolean
}

/** `document` with the edits applied, parsed again; a masked secret keeps its stored value. */
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
  const paths = new Set(edits.map(({ path }) => JSON.stringify(placeInFile(target, path))))
  // the change has a value for this path, directly or inside another value
  const sent = (path: readonly (string | number)[]): boolean =>
    path.some((_, k) => paths.has(JSON.stringify(path.slice(0, k + 1).map(String))))
  const meant = unmask(schema, target, raw, { effective, ...(strict && { sent }) }) as Tree
  yield
  const text = rewritten(document, meant)
  if (text.length > MOST_CHARS) throw tooLarge()
  yield
  const outcome = yield* parsing(document.path, text)
  if (!same(outcome.value, meant)) throw new OsError('INTERNAL', `editing ${document.path} went wrong`)
  return outcome
}

/** `document` without line numbers for the edited keys, which are not in the file yet. */
export function withoutLines(document: Document, edits: readonly Edit[]): Document {
  const isNew = (path: readonly (string | number)[]): boolean =>
    edits.some(edit => edit.path.every((part, k) => part === String(path[k])))
  return { ...document, placeOf: path => (isNew(path) ? undefined : document.placeOf(path)) }
}

/** Writes out a list that is missing or null in the file, before an element of it is changed. */
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
