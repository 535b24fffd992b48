// Writes and reads the allocator's file in pieces: for 100,000 ids it is 30 MB of JSON, which must neither fill a small
// board's memory nor block the event loop.
//
// Errors: a file with another format throws STORAGE; an entry that cannot be read marks the state as damaged.
import { OsError } from '../../lib/errors'
import type { Files } from '../../lib/files'
import { isObject } from '../../lib/objects'
import { isId, recordFrom } from './change'
import { JsonScanner } from './jsonscanner'
import type { IdEntry, IdState } from './state'

/** ids per piece: about 100 KB, about a millisecond */
const IDS_AT_ONCE = 400

const inner = (value: unknown, indent: string): string => JSON.stringify(value, null, 2).replaceAll('\n', `\n${indent}`)

function entryText({ id, meta, noted, device_key, state, offline_since, addr, granted_to, ...times }: IdEntry): string {
  const record = {
    meta: JSON.parse(meta),
    ...times,
    device_key,
    state,
    offline_since,
    ...(addr && { addr }),
    ...(granted_to && { granted_to }),
  }
  return `\n    "${id}": ${inner(record, '    ')}`
}

/**
 * The document in pieces. The state may change between two pieces: changes since the first are in the journal, and applying
 * them again leads to the same state.
 */
export function* checkpointPieces(state: IdState): Generator<string, void> {
  let text = '{\n  "allocated": {'
  let separator = ''
  let count = 0
  // iterates over the keys, so that an id that is freed and assigned again meanwhile is not written twice
  for (const id of [...state.entries.keys()]) {
    const entry = state.entries.get(id)
    if (!entry) continue
    text += separator + entryText(entry)
    separator = ','
    if (++count % IDS_AT_ONCE !== 0) continue
    yield text
    text = ''
  }
  text += separator === '' ? '},' : '\n  },'
  text += `\n  "released": ${inner([...state.released, ...state.returned], '  ')},\n  "next_candidate": ${state.next_candidate}`
  if (state.lease_metrics) text += `,\n  "lease_metrics": ${inner(state.lease_metrics, '  ')}`
  if (state.granted) text += `,\n  "granted_until": ${state.granted_until}`
  if (state.damaged) text += ',\n  "damaged": true'
  yield `${text}\n}\n`
}

/** Reads the document at `path` into `state`, one id per step. Throws STORAGE. */
export function* readCheckpoint(path: string, files: Files, state: IdState): Generator<void, void> {
  const scanner = new JsonScanner(files, path)
  try {
    let allocated = false
    for (const name of scanner.members()) {
      if (name !== 'allocated') {
        member(state, name, scanner.value())
        continue
      }
      allocated = true
      for (const key of scanner.members()) {
        const id = Number(key)
        const record = recordFrom(scanner.value())
        if (isId(id) && record) state.apply({ set: id, record })
        else state.damaged = true
        yield
      }
    }
    if (!allocated) throw new SyntaxError('no ids in it')
    scanner.end()
  } catch (cause) {
    throw new OsError('STORAGE', `${path} cannot be read: no ids are assigned`, {
      cause,
      hint: `restore ${path} from a backup; remove it only if no device has an id`,
    })
  }
}

function member(state: IdState, name: string, value: unknown): void {
  if (name === 'released' && Array.isArray(value)) for (const id of value.filter(isId)) state.release(id)
  else if (name === 'next_candidate' && isId(value)) state.next_candidate = Math.max(state.next_candidate, value)
  else if (name === 'lease_metrics' && isObject(value)) state.lease_metrics = value
  else if (name === 'granted_until' && Number.isFinite(value)) state.granted_until = Number(value)
  else if (name === 'damaged') state.damaged = value === true
}
