// Changes of single keys: which may be made, and the text of the file once they are. Everything else in the file stays as it
// is, comments too.
//
// What fails: FORBIDDEN for keys that may not be written, CONFIG_INVALID for a dotted key where a section belongs.
import { OsError } from '../lib/errors'
import { schemaAt } from './describe'
import { type Document, editText, parseDocument, same } from './document'
import { getAt, joinKey, splitKey, type Tree, textPath, underPrefix, withAt } from './keys'
import { meantPath, normalize, placeInFile } from './normalize'
import type { AnySchema } from './schema'
import { unmask } from './secrets'

export interface Edit {
  readonly path: string[]
  readonly value: unknown
}

/** True when a key may be written where only `prefixes` may, in whatever spelling it comes. Throws CONFIG_KEY. */
export const mayWrite = (key: string, prefixes: readonly string[]): boolean =>
  underPrefix(joinKey(meantPath(splitKey(key))), prefixes)

/** Throws FORBIDDEN with `details.keys`. */
export function refuseOutside(edits: readonly Edit[], prefixes: readonly string[]): void {
  const refused = new Set(edits.map(edit => joinKey(edit.path)).filter(key => !mayWrite(key, prefixes)))
  if (refused.size === 0) return
  throw new OsError('FORBIDDEN', 'write blocked by writable_config_prefixes', { details: { keys: [...refused] } })
}

/** A dotted key as the name of a section would be told as changed and change nothing. Throws CONFIG_KEY, CONFIG_INVALID. */
export function refuseDotted(schema: AnySchema, path: readonly string[]): void {
  const key = joinKey(path)
  const meant = splitKey(key)
  if (meant.length === path.length || schemaAt(schema, path) || !schemaAt(schema, meant)) return
  throw new OsError('CONFIG_INVALID', `${key} must be given as nested sections, or as key and value`, {
    details: { key },
  })
}

/** The text of `document` with the edits made; a masked secret keeps what is stored. */
export function edited(schema: AnySchema, document: Document, edits: readonly Edit[]): string {
  let { text } = document
  let raw: unknown = document.value
  for (const { path, value } of edits) {
    const place = placeInFile(raw as Tree, path)
    const stored = getAt(normalize(raw as Tree).tree, path)
    const meant = unmask(schema, value, stored, path)
    if (stored !== undefined && same(stored, meant)) continue
    const target = withAt(raw, place, meant)
    text = editText(text, textPath(raw, place), meant)
    raw = parseDocument(document.path, text).value
    if (!same(raw, target)) throw new OsError('INTERNAL', `editing ${joinKey(path)} in ${document.path} went wrong`)
  }
  return text
}
