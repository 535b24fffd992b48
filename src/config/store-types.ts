// Types of the configuration store: how it is loaded, limits of a write, results of a change or a repair.
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import type { Repaired } from './repair'
import type { Fragment } from './schema'

export interface LoadOptions {
  /** --config */
  path?: string | undefined
  /** --data-dir */
  dataDir?: string | undefined
  env?: Record<string, string | undefined>
  cwd?: string
  files?: Files
  logger?: Logger
  fragments?: readonly Fragment[]
  /** false: do not write the data directory (read-only commands) */
  keep?: boolean
  /** true: without a last good copy, a broken file counts as the defaults, with `problem` (repair commands) */
  tolerant?: boolean
  /** true: an explicit file need not exist (commands that create it) */
  makes?: boolean
}

export interface Repair {
  readonly repaired: readonly Repaired[]
  /** path of the stored broken file; absent: nothing was wrong */
  readonly backup?: string
}

export interface Changed {
  readonly key: string
  /** true: takes effect at the next start */
  readonly restart: boolean
}

export interface Change extends Changed {
  /** null if there was none; masked if secret */
  readonly old: unknown
  readonly new: unknown
}

export interface WriteLimits {
  /** prefixes of the keys that may be written */
  readonly prefixes?: readonly string[]
  /** a secret must be sent again if its entry gets another host, port or medium (HTTP) */
  readonly strict?: boolean
  /** unknown keys are accepted: a plugin adds its own */
  readonly own?: boolean
  /** by key: the effective value of a list that is null or missing, written out before an element of it is changed */
  readonly lists?: Readonly<Record<string, readonly unknown[]>>
}

/** One of many changes, like set() of the key. */
export interface SettingUpdate {
  readonly key: string
  readonly value?: unknown
  readonly value_type?: string | undefined
}
