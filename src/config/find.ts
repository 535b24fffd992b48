// Where Config.json and the data directory are (D14). The first that exists counts; a place named on purpose (--config,
// OS_NODE_CONFIG) must exist, else the error says so instead of running with something else.
import { dirname, join, resolve } from 'node:path'
import { OsError } from '../lib/errors'
import type { Files } from '../lib/files'

export interface FoundConfig {
  readonly path: string
  readonly exists: boolean
  readonly dataDir: string
}

export interface FindOptions {
  /** --config */
  path?: string | undefined
  /** --data-dir */
  dataDir?: string | undefined
  env: Record<string, string | undefined>
  cwd: string
  files: Files
}

export const SYSTEM_PLACES: readonly string[] = ['/data/Config.json', '/etc/os-node/Config.json']

/** A file in the read-only /etc keeps its data under /data or /var/lib, never in /etc. */
const dataBeside = (path: string): string =>
  path.startsWith('/etc/') ? '/var/lib/os-node' : join(dirname(path), 'data')

/** Finds the file; without any, the place where one would be written is ./Config.json. */
export function findConfig({ path, dataDir, env, cwd, files }: FindOptions): FoundConfig {
  const named = path || env.OS_NODE_CONFIG || undefined
  const data = dataDir || env.OS_NODE_DATA_DIR || undefined
  const found = (at: string, exists: boolean): FoundConfig => ({
    path: at,
    exists,
    dataDir: data ? resolve(cwd, data) : dataBeside(at),
  })
  if (named) {
    const at = resolve(cwd, named)
    return found(at, files.exists(at))
  }
  const here = resolve(cwd, 'Config.json')
  for (const place of [here, ...SYSTEM_PLACES]) if (files.exists(place)) return found(place, true)
  return found(here, false)
}

export const missing = (path: string): OsError =>
  new OsError('CONFIG_SYNTAX', `${path}: no such file`, {
    hint: 'check --config or OS_NODE_CONFIG',
    details: { file: path },
  })
