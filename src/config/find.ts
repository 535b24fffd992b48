// Finds Config.json and the data directory (decision 0048). The first existing place is used; an explicit path (--config,
// OS_NODE_CONFIG) must exist, otherwise the error says so, and no other file is used.
//
// In the project's own folder ./Config.json is a tracked file, which no command may change: there the gateway's file is
// ./data/Config.json, and its initial text is that of ./Config.json.
import { basename, dirname, join, resolve } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { errno, OsError, orElse } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'

interface FoundConfig {
  readonly path: string
  readonly dataDir: string
  /** the tracked file whose copy becomes `path`, which does not exist yet */
  readonly copyOf?: string
}

interface FindOptions {
  /** --config */
  path?: string | undefined
  /** --data-dir */
  dataDir?: string | undefined
  env: Record<string, string | undefined>
  cwd: string
  files: Files
}

const SYSTEM_PLACES: readonly string[] = ['/data/Config.json', '/etc/os-node/Config.json']

/**
 * A file in the read-only /etc has its data under /var/lib, never in /etc. A file in a folder `data` without another
 * `data` in it has that folder as its data directory.
 */
function dataBeside(path: string, files: Files): string {
  if (path.startsWith('/etc/')) return '/var/lib/os-node'
  const dir = dirname(path)
  const inside = basename(dir) === 'data' && !SYSTEM_PLACES.includes(path) && !files.exists(join(dir, 'data'))
  return inside ? dir : join(dir, 'data')
}

/** The base folder of relative paths in a configuration. */
export const baseOf = (path: string, dataDir: string): string =>
  dirname(path) === dataDir ? dirname(dataDir) : dirname(path)

/** Whether a folder is the project's own, with a tracked ./Config.json. */
const isProject = (dir: string, files: Files): boolean =>
  orElse(false, () => JSON.parse(files.read(join(dir, 'package.json')).toString('utf8')).name === 'os-node')

/** Finds the file; if there is none, it would be written to ./Config.json. */
export function findConfig({ path, dataDir, env, cwd, files }: FindOptions): FoundConfig {
  const data = dataDir || env.OS_NODE_DATA_DIR || undefined
  const found = (at: string, copyOf?: string): FoundConfig => ({
    path: at,
    dataDir: data ? resolve(cwd, data) : dataBeside(at, files),
    ...(copyOf && { copyOf }),
  })
  const here = resolve(cwd, 'Config.json')
  const own = resolve(cwd, 'data/Config.json')
  const named = path || env.OS_NODE_CONFIG || undefined
  const at = named ? resolve(cwd, named) : own
  if (files.exists(at)) return found(at)
  if (at === own && files.exists(here) && isProject(cwd, files)) return found(own, here)
  if (named) return found(at)
  return found([here, ...SYSTEM_PLACES].find(place => files.exists(place)) ?? here)
}

export const missing = (path: string): OsError =>
  new OsError('CONFIG_SYNTAX', `${path}: no such file`, {
    hint: 'check --config or OS_NODE_CONFIG',
    details: { file: path },
  })

/**
 * Copies the tracked file (`copyOf`) to the gateway's own. A read-only command (`keep: false`) uses the tracked file; so
 * does every other if the folder cannot be written.
 */
export function startCopy(
  found: FoundConfig,
  { files, keep, logger }: { files: Files; keep?: boolean | undefined; logger?: Logger | undefined },
): FoundConfig {
  const { copyOf: tracked } = found
  if (tracked === undefined) return found
  const instead = { ...found, path: tracked }
  if (keep === false) return instead
  try {
    files.mkdir(dirname(found.path))
    atomicWrite(found.path, files.read(tracked), files)
  } catch (error) {
    logger?.warn(`${found.path} could not be written (${errno(error) ?? String(error)}): ${tracked} is changed instead`)
    return instead
  }
  const git = files.exists(join(dirname(tracked), '.git'))
  logger?.info(
    `${found.path} was made from ${tracked}, edits and identity included, and is used from now on` +
      (git ? '. To restore the tracked file: git checkout -- Config.json' : ''),
  )
  return found
}
