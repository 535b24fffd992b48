// Decides whether a code file may be loaded (docs/plugins.md): the file, every folder above it and every link in its path
// must belong to root or to the current user, and only their owner may have write permission. The files it imports by literal
// names follow the same rule; computed names are checked when require() resolves them (watchRequire). Nothing here loads
// code; what cannot be checked is refused.
import { lstatSync, readdirSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import Module, { createRequire, isBuiltin } from 'node:module'
import { dirname, join, parse, resolve, sep } from 'node:path'
import { OsError } from '../lib/errors'

/** maximum number of checked files per plugin */
const MOST_FILES = 5000
const MOST_LINKS = 40
/** larger files are not scanned for imports */
const MOST_BYTES = 8 * 1024 * 1024
const IMPORT = /\b(?:require\s*\(|import\s*\(|from|import)\s*(['"])([^'"\n]+)\1/g
const CODE = /\.[cm]?js$/

/** true while a name is only resolved, not loaded */
let resolving = false

/** Everything that determines the target of a path: folders, links and the file, in the order the system resolves them. */
function* steps(path: string): Generator<{ at: string; stats: Stats }> {
  const segments = resolve(path).split(sep).filter(Boolean)
  let { root: at } = parse(resolve(path))
  let links = 0
  yield { at, stats: lstatSync(at) }
  while (segments.length > 0) {
    const next = join(at, segments.shift()!)
    const stats = lstatSync(next)
    yield { at: next, stats }
    if (!stats.isSymbolicLink()) {
      at = next
      continue
    }
    if (++links > MOST_LINKS) throw new Error(`${path}: too many links`)
    const target = resolve(at, readlinkSync(next))
    segments.unshift(...target.split(sep).filter(Boolean))
    at = parse(target).root
  }
}

/** Why one path is not trusted; undefined: it is. Throws if it cannot be checked. */
function fault(path: string, own: number): string | undefined {
  for (const { at, stats } of steps(path)) {
    if (stats.uid !== 0 && stats.uid !== own)
      return `${at} belongs to another user: chown it to the one os-node runs as`
    // the mode of a link is meaningless; in a sticky folder of root no other user can replace an entry
    if (stats.isSymbolicLink() || (stats.isDirectory() && stats.uid === 0 && (stats.mode & 0o1000) !== 0)) continue
    if ((stats.mode & 0o002) !== 0) return `${at} is writable by everyone: chmod o-w`
    if ((stats.mode & 0o020) !== 0) return `${at} is writable by its group: chmod g-w`
  }
  return undefined
}

/** The files that the text of a file names, as far as they can be resolved. */
function importsOf(file: string): string[] {
  if (!CODE.test(file) || lstatSync(file).size > MOST_BYTES) return []
  const from = createRequire(file)
  return [...readFileSync(file, 'utf8').matchAll(IMPORT)].flatMap(([, , name = '']) => {
    if (isBuiltin(name)) return []
    resolving = true
    try {
      return [from.resolve(name)]
    } catch {
      return [] // the import will fail, or it only looks like an import
    } finally {
      resolving = false
    }
  })
}

/**
 * Why the code of `entry` may not be loaded; undefined: it may. `folder`: the plugin's folder, in which all files are
 * checked. `own`: the current user.
 */
export function distrust(entry: string, folder?: string, own = process.geteuid?.() ?? 0): string | undefined {
  const seen = new Set<string>()
  const left = [entry]
  if (folder !== undefined)
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) left.push(join(folder, name))
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    if (seen.has(path)) continue
    seen.add(path)
    if (seen.size > MOST_FILES) return `${dirname(entry)} contains more than ${MOST_FILES} files`
    const why = fault(path, own)
    if (why !== undefined) return why
    if (lstatSync(path).isFile()) left.push(...importsOf(path))
  }
  return undefined
}

interface Loader {
  _resolveFilename(request: string, parent?: { readonly filename?: string | null }, ...args: unknown[]): string
}
let watching = false

/** From now on checks each file that require() resolves for code other than `program`, including computed names. */
export function watchRequire(program: string): void {
  if (watching) return
  watching = true
  const loader = Module as unknown as Loader
  const original = loader._resolveFilename
  loader._resolveFilename = function (request, parent, ...args) {
    const file = original.call(this, request, parent, ...args)
    const from = parent?.filename
    if (resolving || !from || from === program || isBuiltin(file)) return file
    const why = fault(file, process.geteuid?.() ?? 0)
    if (why !== undefined)
      throw new OsError('FORBIDDEN', `${from} requires ${request}: ${why}`, {
        hint: 'correct that, then load the plugin again',
      })
    return file
  }
}
