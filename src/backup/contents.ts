// Which files of a data directory a backup holds. Left out is what belongs to this run or this machine, what is made again, and what
// must not come back old: session keys, and templates of senders, by which a packet of today would be decoded wrongly.
import { join } from 'node:path'
import { errno } from '../lib/errors'
import type { Files } from '../lib/files'

/** the data directory of a gateway's own upstream lies in that of the gateway */
const UPSTREAM = 'upstream/'

/** of this run or machine: stays where it is at a restore, too */
const OF_THE_MACHINE = /^(os-node\.(lock|sock).*|native|parts|\.parts-.*|\.writable|restore)$/
/** made again, or not to come back old */
const NOT_KEPT =
  /^(starts\.json|frozen\.json|plugin-starts\.json|config\.last-good\.json|restored\.json|device_registry|secure_sessions.*)$/
const UNFINISHED = /\.(tmp|part)$|\.damaged/
const SECRET = /^(token\.json|web_users\.json|.*\.(pem|key))$/

/** A path in the data directory, from the one or the other that it is in. */
const within = (path: string): string => (path.startsWith(UPSTREAM) ? path.slice(UPSTREAM.length) : path)
const first = (path: string): string => within(path).split('/', 1)[0]!

/** True for what a restore leaves where it is. */
export const staysHere = (path: string): boolean => OF_THE_MACHINE.test(first(path))

export const isSecretFile = (path: string): boolean => SECRET.test(path.slice(path.lastIndexOf('/') + 1))

function isKept(path: string): boolean {
  if (staysHere(path) || NOT_KEPT.test(first(path)) || UNFINISHED.test(path)) return false
  return !within(path).startsWith('log/') || path.endsWith('.seg')
}

/** Paths of the regular files in `dir`, its folders included, sorted; `takes` says of a path whether it and what is below it counts. */
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

/** What of `dataDir` goes into a backup; `except`: whole paths of files that do not. */
export const contentsOf = (dataDir: string, files: Files, except: readonly string[]): string[] =>
  filesIn(dataDir, files, path => isKept(path) && !except.includes(join(dataDir, path)))
