// Which files of a data directory are in a backup. Excluded: files of this run or this machine, files that are created again,
// and files that must not be restored from an older state: session keys, and templates of senders, with which a current
// packet would be decoded wrongly. Copies of Config.json are excluded, since they contain its secrets. A file is a secret by
// its name, or because a key of the configuration names it as one.
import { basename, dirname, join, resolve } from 'node:path'
import { errno, OsError } from '../lib/errors'
import { type Files, realPath } from '../lib/files'

/** the data directory of the local upstream is inside that of the gateway */
const UPSTREAM = 'upstream/'

/** of this run or machine: not replaced by a restore either */
const OF_THE_MACHINE = /^(os-node\.(lock|sock).*|.*\.cache|native|parts|\.parts-.*|\.writable|restore|update-upload)$/
/** created again, or must not be restored from an older state */
const NOT_KEPT =
  /^(starts\.json|frozen\.json|plugin-starts\.json|config\.(last-good|earlier)\.json|restored\.json|cores\.json|device_registry|secure_sessions.*)$/
const UNFINISHED = /\.(tmp|part)$|\.damaged/
const SECRET = /^(token\.json|web_users\.json|.*\.(pem|key|p12|pfx))$/
/** configuration keys that name a file with a secret; a certificate's file often contains its key */
const SECRET_KEY = /pass|secret|token|cred|key|psk|cert|auth|pem|pfx|p12/i

/** A path relative to the data directory that contains it. */
const pathBelow = (path: string): string => (path.startsWith(UPSTREAM) ? path.slice(UPSTREAM.length) : path)
const first = (path: string): string => pathBelow(path).split('/', 1)[0]!

/** True for files that a restore does not touch. */
export const staysHere = (path: string): boolean => OF_THE_MACHINE.test(first(path))

function isKept(path: string): boolean {
  if (staysHere(path) || NOT_KEPT.test(first(path)) || UNFINISHED.test(path)) return false
  return !pathBelow(path).startsWith('log/') || path.endsWith('.seg')
}

/** The configuration whose files are in a backup. */
export interface ConfigPlace {
  /** absolute */
  readonly path: string
  /** of its relative paths, absolute */
  readonly baseDir: string
  readonly settings: object
}

/** A path and its target. */
const bothOf = (path: string): string[] => [path, realPath(path)]

/** True for the file `name` and for its copies, as `.bak` of repair-config and those of editors. */
const isCopyOf = (name: string, path: string): boolean =>
  basename(path) === name ||
  basename(path).startsWith(`${name}.`) ||
  /^(\.?)(.+?)(~|\.sw.)$/.exec(basename(path))?.[2] === name

/** The paths that keys of the configuration with the name of a secret may mean. */
function secretPaths({ settings, baseDir }: ConfigPlace, dataDir: string): Set<string> {
  const found = new Set<string>()
  const walk = (value: unknown, secret: boolean): void => {
    if (typeof value === 'object' && value !== null)
      for (const [key, item] of Object.entries(value)) walk(item, secret || SECRET_KEY.test(key))
    else if (secret && typeof value === 'string' && value.length < 4096 && !value.includes('\0'))
      for (const base of [dataDir, baseDir, '.'])
        for (const path of bothOf(resolve(base, value.replace(/^file:\/\//, '')))) found.add(path)
  }
  walk(settings, false)
  return found
}

/** Both files of the session store: that of the receiver, and `.own` of the sender (secure.ts), with their copies. */
function isOfSessions({ settings, baseDir }: ConfigPlace): (path: string) => boolean {
  const { secure_session_store: store } =
    (settings as { security_settings?: { secure_session_store?: string | null } }).security_settings ?? {}
  if (!store) return () => false
  const stores = ['.', baseDir].flatMap(base => bothOf(resolve(base, store)))
  return path =>
    stores.some(one => {
      const stem = basename(one).replace(/\.json$/, '')
      return (
        dirname(one) === dirname(path) && (basename(path) === basename(one) || basename(path).startsWith(`${stem}.`))
      )
    })
}

/**
 * Paths of the regular files in `dir` and its folders, sorted; `takes` decides whether a path and everything below it is
 * included.
 */
export function filesIn(dir: string, files: Files, takes: (path: string) => boolean = () => true, at = ''): string[] {
  const found: string[] = []
  for (const name of namesIn(join(dir, at), files, at !== '')) {
    const path = at === '' ? name : `${at}/${name}`
    if (!takes(path)) continue
    const kind = kindOf(join(dir, path), files)
    if (kind === 'file') found.push(path)
    else if (kind === 'folder') found.push(...filesIn(dir, files, takes, path))
  }
  return found
}

/** Sorted; none if the folder was removed meanwhile. */
function namesIn(dir: string, files: Files, mayBeGone: boolean): string[] {
  try {
    return files.list(dir).sort()
  } catch (error) {
    if (mayBeGone && errno(error) === 'ENOENT') return []
    throw error
  }
}

function kindOf(path: string, files: Files): 'file' | 'folder' | 'other' {
  try {
    files.size(path)
    return 'file'
  } catch (error) {
    return errno(error) === 'EISDIR' ? 'folder' : 'other'
  }
}

/** The files of `dataDir` for a backup, sorted, and which of them are secrets. Throws NOT_FOUND without the folder. */
export function contentsOf(
  dataDir: string,
  files: Files,
  config: ConfigPlace,
): { paths: string[]; secret: ReadonlySet<string> } {
  if (!files.exists(dataDir))
    throw new OsError('NOT_FOUND', `there is no data directory ${dataDir}`, { hint: 'name it with --data-dir' })
  const isSession = isOfSessions(config)
  const named = secretPaths(config, dataDir)
  const configs = bothOf(config.path)
  const excluded = (path: string): boolean =>
    isSession(path) || configs.some(one => dirname(one) === dirname(path) && isCopyOf(basename(one), path))
  const pathsOf = (path: string): string[] => bothOf(join(dataDir, path))
  const paths = filesIn(dataDir, files, path => isKept(path) && !pathsOf(path).some(excluded))
  const isSecret = (path: string): boolean => SECRET.test(basename(path)) || pathsOf(path).some(one => named.has(one))
  return { paths, secret: new Set(paths.filter(isSecret)) }
}
