// What the configuration store takes and answers: how it is loaded, what bounds a write, what a change or a repair did.
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
  /** false: leave the data directory alone (commands that only look) */
  keep?: boolean
  /** true: a broken file without a last good copy counts as the defaults, with `problem` (commands that mend it) */
  tolerant?: boolean
  /** true: a file that is named need not be there (commands that make it) */
  makes?: boolean
}

export interface Repair {
  readonly repaired: readonly Repaired[]
  /** where the broken file is kept; absent: nothing was wrong */
  readonly backup?: string
}

export interface Changed {
  readonly key: string
  /** true: counts from the next start on */
  readonly restart: boolean
}

export interface Change extends Changed {
  /** null where nothing was; masked when secret */
  readonly old: unknown
  readonly new: unknown
}

export interface WriteLimits {
  /** keys that may be written, with all below them */
  readonly prefixes?: readonly string[]
  /** a secret has to come anew where its entry gets another host, port or medium (HTTP) */
  readonly strict?: boolean
  /** keys that the schema does not know are taken: a plugin brings its own */
  readonly own?: boolean
  /** by key: what counts where a list is null or left out, written out before an element of it is changed */
  readonly lists?: Readonly<Record<string, readonly unknown[]>>
}

/** One of many changes: set() of the key. */
export interface Update {
  readonly key: string
  readonly value?: unknown
  readonly value_type?: string | undefined
}
