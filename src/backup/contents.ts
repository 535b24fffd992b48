// Which files of a data directory are in a backup. Excluded: files of this run or this machine, files that are created again,
// and files that must not be restored from an older state: session keys, and templates of senders, with which a current
// packet would be decoded wrongly.
import { join } from 'node:path'
import { errno } from '../lib/errors'
import type { Files } from '../lib/files'

/** the data directory of the local upstream is inside that of the gateway */
const UPSTREAM = 'upstream/'

/** of this run or machine: not replaced by a restore either */
const OF_THE_MACHINE = /^(os-node\.(lock|sock).*|native|parts|\.parts-.*|\.writable|restore)$/
/** created again, or must not be restored from an older state */
const NOT_KEPT =
  /^(starts\.json|frozen\.json|plugin-starts\.json|config\.(last-good|earlier)\.json|restored\.json|cores\.json|device_registry|secure_sessions.*)$/
const UNFINISHED = /\.(tmp|part)$|\.damaged/
const SECRET = /^(token\.json|web_users\.json|.*\.(pem|key))$/

/** A path relative to the data directory that contains it. */
const within = (path: string): string => (path.startsWith(UPSTREAM) ? path.slice(UPSTREAM.length) : path)
const first = (path: string): string => within(path).split('/', 1)[0]!

/** True for files that a restore does not touch. */
export const staysHere = (path: string): boolean => OF_THE_MACHINE.test(first(path))

export const isSecretFile = (path: string): boolean => SECRET.test(path.slice(path.lastIndexOf('/') + 1))

function isKept(path: string): boolean {
  if (staysHere(path) || NOT_KEPT.test(first(path)) || UNFINISHED.test(path)) return false
  return !within(path).startsWith('log/') || path.endsWith('.seg')
}

/**
 * Paths of the regular files in `dir` and its folders, sorted; `takes` decides whether a path and everything below it is
 * included.
 */
export function filesIn(dir: string, files: Files, takes: (path: string) => boolean = () => true, at = ''): string[] {
  const found: string[] = []
  for (const name of files.list(join(dir, at)).sort()) {
    const path = at === '' ? name : `${at}/${name}`
    if (!takes(path)) continue
    const kind = kindOf(join(dir, path), files)
    if (kind === 'file') found.push(path)
    else if (kind === 'folder') found.push(...filesIn(dir, files, takes, path))
  }
  return found
}

function kindOf(path: string, files: Files): 'file' | 'folder' | 'other' {
  try {
    files.size(path)
    return 'file'
  } catch (error) {
    return errno(error) === 'EISDIR' ? 'folder' : 'other'
  }
}

/** The files of `dataDir` for a backup; `except`: absolute paths of excluded files. */
export const contentsOf = (dataDir: string, files: Files, except: readonly string[]): string[] =>
  filesIn(dataDir, files, path => isKept(path) && !except.includes(join(dataDir, path)))
