// Updates of the configuration: converts key and value to an edit, finds the changes a write made, and combines many
// updates in few writes. A refused group is halved and each half written again, so that a bad update costs only a few
// more writes.
//
// Errors: an update whose value is invalid by its own schema is not written. A write error or a syntax error of the
// file is the result of every update in the group. After MOST_REFUSED refused writes the remaining updates are refused
// without a write.
import { counted } from '../lib/counted'
import { asOsError, OsError } from '../lib/errors'
import type { Parts } from '../lib/slices'
import { faultOf } from './check'
import { convert } from './convert'
import { needsRestart, rowOf, schemaAt } from './describe'
import { type Edit, refuseLarge, refuseOutside, refuseUnknown } from './edit'
import { getAt, joinKey, leaves, refuseForbidden, splitKey } from './keys'
import { meantPath } from './normalize'
import type { AnySchema, Config } from './schema'
import { mask } from './secrets'
import type { Change, SettingUpdate, WriteLimits } from './store-types'

const MOST_REFUSED = 50

/** For each item the result of apply(), or its error. Throws INTERNAL. */
export function* inGroups<Item, Done>(
  items: readonly Item[],
  apply: (group: readonly Item[]) => Parts<Done[]>,
): Parts<(Done | OsError)[]> {
  let refused = 0
  function* part(group: readonly Item[]): Parts<(Done | OsError)[]> {
    let error: OsError
    try {
      if (refused < MOST_REFUSED) return yield* apply(group)
      error = new OsError(
        'CONFIG_INVALID',
        `not tried, since ${counted(refused, 'change')} before it were refused; send it again`,
      )
    } catch (thrown) {
      error = asOsError(thrown)
      if (error.code === 'INTERNAL') throw error
      refused++
      if (group.length > 1 && !/WRITE|SYNTAX/.test(error.code)) {
        const half = group.length >> 1
        return [...(yield* part(group.slice(0, half))), ...(yield* part(group.slice(half)))]
      }
    }
    return group.map(() => error)
  }
  return items.length > 0 ? yield* part(items) : []
}

/** The edit of one update. Throws for a bad key, type or value. */
export function editOf(schema: AnySchema, { key, value, value_type }: SettingUpdate, { prefixes }: WriteLimits): Edit {
  refuseLarge(value)
  const typed = splitKey(key)
  const path = meantPath(typed)
  refuseForbidden(value, key)
  const known = schemaAt(schema, path)
  const meant = convert(key, value, value_type, known && rowOf(key, known).type)
  refuseForbidden(meant, key)
  if (prefixes) refuseOutside([{ path: typed, value: meant }, ...leaves(meant, typed)], prefixes)
  refuseUnknown(schema, path)
  return { path, value: meant }
}

/** The edit of each update, or the error of its key, type or value. */
export function* editsOf(
  schema: AnySchema,
  updates: readonly SettingUpdate[],
  limits: WriteLimits,
): Parts<(Edit | OsError)[]> {
  const edits: (Edit | OsError)[] = []
  for (const update of updates) {
    try {
      const edit = editOf(schema, update, limits)
      edits.push(faultOf(schema, edit.path, edit.value) ?? edit)
    } catch (thrown) {
      edits.push(asOsError(thrown))
    }
    yield
  }
  return edits
}

/** The changes that one write made for each edit. */
export function* changesOf(schema: AnySchema, edits: readonly Edit[], before: Config, after: Config): Parts<Change[]> {
  const changes: Change[] = []
  for (const { path } of edits) {
    const shown = (tree: Config): unknown => mask(schema, getAt(tree, path), path, tree) ?? null
    changes.push({ key: joinKey(path), old: shown(before), new: shown(after), restart: needsRestart(schema, path) })
    yield
  }
  return changes
}
