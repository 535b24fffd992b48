// The configuration as the program sees it: located, checked, with all defaults; read by dotted keys, changed one key
// or many at a time. A change is checked, applied to the current text of the file (so concurrent edits by others stay),
// and saved by an atomic rename; on any error nothing changes. While the file is broken the last good copy is used and
// `problem` has the reason.

import { asOsError, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { type Logger, silentLogger } from '../lib/logger'
import { SerialQueue } from '../lib/serial-queue'
import { atOnce, inTurns, type Parts } from '../lib/slices'
import { changesOf, editOf, editsOf, inGroups } from './changes'
import { defaultText } from './default-text'
import { differences, rows, type SchemaRow } from './describe'
import { parseDocument, parsing } from './document'
import {
  type Edit,
  editing,
  MOST_EDITS,
  refuseDotted,
  refuseLarge,
  refuseOutside,
  refuseUnknown,
  refuseUnknownKeys,
  withoutLines,
} from './edit'
import { baseOf, findConfig, missing, startCopy } from './find'
import { getAt, joinKey, leaves, nearest, pathOf, refuseForbidden, same, splitKey } from './keys'
import { meantPath } from './normalize'
import {
  type ConfigSnapshot,
  interpret,
  interpretDefaults,
  interpreting,
  LastGood,
  readConfig,
  readText,
  writeText,
} from './read'
import { mend } from './repair'
import { assemble, type Config, type Schema } from './schema'
import { type ConfigTexts, configTexts, mask } from './secrets'
import type { Change, Changed, LoadOptions, Repair, SettingUpdate, WriteLimits } from './store-types'

/** configuration object → its store */
const owners = new WeakMap<object, ConfigStore>()

export class ConfigStore {
  readonly path: string
  readonly dataDir: string
  readonly #schema: Schema
  readonly #files: Files
  readonly #logger: Logger
  /** undefined: none is stored */
  readonly lastGood: LastGood | undefined
  readonly #listeners = new Set<(changes: readonly Changed[]) => void>()
  #snapshot: ConfigSnapshot
  #problem: OsError | undefined
  /** the last logged warnings, by their texts without the line */
  #said: ReadonlyMap<string, string> = new Map()
  /** the latest approved write; the next one begins after it */
  readonly #writes = new SerialQueue()
  /** Check by the user of this configuration: throws CONFIG_INVALID if it is valid by the schema but cannot be used. */
  approve: (next: Config) => Promise<void> = async () => undefined
  /** WriteLimits.lists for approved() */
  lists: () => Promise<WriteLimits['lists']> = async () => undefined
  /** Warnings about a valid configuration. */
  advice: () => readonly string[] = () => []
  /** Paths of keys below links that their drivers do not know. */
  unknown: () => Promise<readonly { path: readonly (string | number)[] }[]> = async () => []

  private constructor(
    schema: Schema,
    place: { path: string; dataDir: string },
    reading: { snapshot: ConfigSnapshot; problem?: OsError },
    { files = realFiles, logger = silentLogger, keep = true }: LoadOptions,
  ) {
    this.#schema = schema
    this.path = place.path
    this.dataDir = place.dataDir
    this.#files = files
    this.#logger = logger
    this.lastGood = keep ? new LastGood(place.dataDir, files, logger) : undefined
    this.#snapshot = reading.snapshot
    this.#problem = reading.problem
    this.#report()
  }

  /**
   * Finds and reads the configuration in the order of decision 0048. Throws CONFIG_SYNTAX (file, line, column) or CONFIG_INVALID (key,
   * line, allowed values) if the file is broken and there is no last good copy.
   */
  static load(options: LoadOptions = {}): ConfigStore {
    const { env = process.env, cwd = process.cwd(), files = realFiles, fragments } = options
    const schema = assemble(fragments)
    const found = findConfig({ path: options.path, dataDir: options.dataDir, env, cwd, files })
    const place = startCopy(found, { ...options, files })
    // a missing path on the command line is a mistake; one in a unit file may have a last good copy
    if (options.path && !options.makes && !files.exists(place.path)) throw missing(place.path)
    const named = Boolean(env.OS_NODE_CONFIG)
    try {
      return new ConfigStore(schema, place, readConfig(schema, place.path, place.dataDir, files, named), options)
    } catch (thrown) {
      const problem = asOsError(thrown)
      if (!options.tolerant || !problem.code.startsWith('CONFIG_')) throw problem
      return new ConfigStore(schema, place, { snapshot: interpretDefaults(schema), problem }, options)
    }
  }

  /** The store that returned this configuration object; undefined for any other object. */
  static of(config: object): ConfigStore | undefined {
    return owners.get(config)
  }

  /** The complete configuration with defaults. Do not change it: use set() or update(). */
  get config(): Config {
    const { config } = this.#snapshot
    owners.set(config, this)
    return config
  }

  /** The base folder of relative paths in the configuration. */
  get baseDir(): string {
    return baseOf(this.path, this.dataDir)
  }

  /** Why the file is not used; undefined if it is. */
  get problem(): OsError | undefined {
    return this.#problem
  }

  /** Unknown keys, older spellings and the like. */
  get warnings(): readonly string[] {
    return this.#snapshot.warnings
  }

  /** The value of a dotted key, defaults included; undefined if there is none. Throws CONFIG_KEY for an invalid key. */
  get<T = unknown>(key: string): T {
    return getAt(this.#snapshot.config, pathOf(key)) as T
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  /** The complete configuration, or one key, with secrets as ********. */
  masked(key?: string): unknown {
    const path = key === undefined ? [] : splitKey(key)
    return mask(this.#schema, getAt(this.config, path), path, this.config)
  }

  /** The file's text, unchanged and without secrets. Throws CONFIG_SYNTAX while it is broken. */
  readonly texts = (): ConfigTexts => configTexts(this.#schema, this.path, this.#currentText())

  /** Checks another text of the file as a start does. Throws CONFIG_SYNTAX, CONFIG_INVALID. */
  readonly check = (text: string): void => void interpret(this.#schema, parseDocument('Config.json', text))

  /** One row per key: type, default, allowed values, restart, secret, help. */
  rows(): SchemaRow[] {
    return rows(this.#schema)
  }

  /** The most similar known key. */
  suggest(key: string): string | undefined {
    return nearest(
      key,
      this.rows().map(row => row.key),
    )
  }

  /**
   * Changes one key and saves. `type` is int, float, bool, str or json; without it the schema decides. A masked value
   * keeps the stored one. Throws CONFIG_KEY, UNKNOWN_KEY, CONFIG_INVALID, SECRET_NEEDED, CONFIG_SYNTAX (the file is
   * broken), CONFIG_WRITE, and FORBIDDEN outside of `prefixes`.
   */
  set(key: string, value: unknown, type?: string, limits: WriteLimits = {}): Change {
    return atOnce(this.setting(key, value, type, limits))
  }

  /** set() in parts, for approved() */
  *setting(key: string, value: unknown, type?: string, limits: WriteLimits = {}): Parts<Change> {
    return (yield* this.#changing([editOf(this.#schema, { key, value, value_type: type }, limits)], limits))[0]!
  }

  /**
   * Changes many keys, each like set(), in few writes, for approved(): the change or the error for each, in order. If a
   * key occurs twice, the last one counts.
   */
  *settings(updates: readonly SettingUpdate[], limits: WriteLimits = {}): Parts<(Change | OsError)[]> {
    const meant = yield* editsOf(this.#schema, updates, limits)
    const edits = meant.filter(item => !(item instanceof OsError)) as Edit[]
    const done = (yield* inGroups(edits, group => this.#changing(group, limits))).values()
    return meant.map(item => (item instanceof OsError ? item : done.next().value!))
  }

  /**
   * Removes one key from the file, so that its default applies; an element of a list is removed from the list. Unused
   * keys can be removed too. Throws CONFIG_KEY if there is no such key, CONFIG_INVALID if it is required, and the
   * errors of set().
   */
  unset(key: string, limits: WriteLimits = {}): Change {
    return atOnce(this.unsetting(key, limits))
  }

  /** unset() in parts, for approved() */
  *unsetting(key: string, limits: WriteLimits = {}): Parts<Change> {
    const path = meantPath(splitKey(key))
    if (limits.prefixes) refuseOutside([{ path, value: undefined }], limits.prefixes)
    if (getAt(this.#snapshot.config, path) === undefined) {
      refuseUnknown(this.#schema, path)
      throw new OsError('CONFIG_KEY', `${key} is not set`, { details: { key } })
    }
    return (yield* this.#changing([{ path, value: undefined }], limits))[0]!
  }

  /**
   * Changes many keys, passed as nested sections; objects are merged, lists replaced. All or nothing. With `prefixes`,
   * other keys are refused: FORBIDDEN with `details.keys`. A dotted key in place of sections is CONFIG_INVALID. Returns
   * the changes.
   */
  update(nested: unknown, limits: WriteLimits = {}): Change[] {
    return atOnce(this.updating(nested, limits))
  }

  /** update() in parts, for approved() */
  *updating(nested: unknown, limits: WriteLimits = {}): Parts<Change[]> {
    refuseLarge(nested)
    refuseForbidden(nested)
    const typed = leaves(nested).filter(edit => edit.path.length > 0)
    if (typed.length > MOST_EDITS)
      throw new OsError('CONFIG_INVALID', `${typed.length} keys in one change; at most ${MOST_EDITS} are taken at once`)
    if (typed.length === 0 && typeof nested !== 'object') throw new OsError('BAD_REQUEST', 'an object is expected')
    for (const { path } of typed) refuseDotted(this.#schema, path)
    if (limits.prefixes) refuseOutside(typed, limits.prefixes)
    const edits = typed.map(({ path, value }) => ({ path: meantPath(path), value }))
    for (const { path } of limits.own ? [] : edits) refuseUnknown(this.#schema, path)
    const { before, after } = yield* this.#applying(edits, limits)
    if (before === after) return []
    const changes = yield* changesOf(this.#schema, edits, before, after)
    return changes.filter(change => !same(change.old, change.new))
  }

  /**
   * Runs a write by setting(), unsetting() or updating(): other work can run between its parts, and nothing is saved
   * before approve() accepts the result. Throws their errors.
   */
  approved<T>(write: (limits: WriteLimits) => Parts<T>, limits: WriteLimits = {}): Promise<T> {
    return this.#writes.run(async () => {
      const lists = await this.lists()
      return inTurns(write({ ...limits, ...(lists && { lists }) }))
    })
  }

  /** The file's current content, checked but not applied. Throws CONFIG_SYNTAX or CONFIG_INVALID, which `problem` then has. */
  read(): Config {
    return this.#reread().config
  }

  /** Reads the file again and applies it. A broken file changes only `problem`. Returns the changes. */
  reload(): Changed[] {
    const before = this.#snapshot
    try {
      this.#snapshot = this.#reread()
    } catch {
      // #reread sets it as `problem` and logs it
      return []
    }
    this.#problem = undefined
    this.#report()
    return this.#notify(before.config)
  }

  /**
   * Repairs a broken file: valid keys stay, all others get their default. `unknown`: also removes keys that the schema
   * does not have. The old file is stored next to it as `.bak`, never over an older one, unless it is `kept` already.
   * `paths`: keys to remove. Throws CONFIG_WRITE, and then nothing is changed.
   */
  repair(unknown = false, paths: readonly (readonly (string | number)[])[] = [], kept?: string): Repair {
    const bytes = readText(this.path, this.#files)
    const mended = bytes && mend(this.#schema, this.path, bytes, unknown, paths)
    if (!bytes || !mended) return { repaired: [] }
    let backup = kept ?? `${this.path}.bak`
    for (let n = 2; !kept && this.#files.exists(backup); n++) backup = `${this.path}.bak${n}`
    const snapshot = interpret(this.#schema, parseDocument(this.path, mended.text))
    if (!kept) writeText(backup, bytes, this.#files)
    writeText(this.path, mended.text, this.#files)
    const before = this.#snapshot.config
    this.#snapshot = snapshot
    this.#problem = undefined
    this.#report()
    this.#notify(before)
    return { repaired: mended.repaired, backup }
  }

  /** Keys whose value differs from an older configuration of this store. */
  changesSince(before: Config): Changed[] {
    return differences(this.#schema, before, this.config)
  }

  /** Rejects a configuration that is valid by the schema but cannot be used. */
  refuse(problem: OsError): void {
    this.#problem = problem
    this.#logger.error(`${problem.message}; the running configuration stays in use`)
  }

  /** Calls `listener` after each change. Returns the function that ends it. */
  onChange(listener: (changes: readonly Changed[]) => void): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  #report(): void {
    // warn once per key: a write moves lines without fixing the warning
    const said = this.#said
    this.#said = new Map(this.#snapshot.warnings.map(warning => [warning.replace(/:\d+: /, ': '), warning]))
    for (const [key, warning] of this.#said) if (!said.has(key)) this.#logger.warn(warning)
    if (this.#problem) {
      const inUse = this.#snapshot.document?.path ?? 'the built-in defaults'
      this.#logger.error(`${this.#problem.message}; the configuration in use is ${inUse} until the file is repaired`)
    } else if (this.#snapshot.document) this.lastGood?.keep(this.#snapshot.document.text)
  }

  *#changing(edits: readonly Edit[], limits: WriteLimits): Parts<Change[]> {
    const { before, after } = yield* this.#applying(edits, limits)
    return yield* changesOf(this.#schema, edits, before, after)
  }

  #notify(before: Config): Changed[] {
    const changes = this.changesSince(before)
    for (const listener of changes.length > 0 ? this.#listeners : []) {
      try {
        listener(changes)
      } catch (error) {
        // the writer is not at fault; an error of another listener is reported as an uncaught error
        queueMicrotask(() => {
          throw error
        })
      }
    }
    return changes
  }

  #reread(): ConfigSnapshot {
    try {
      const { snapshot, problem } = readConfig(this.#schema, this.path, this.dataDir, this.#files, false)
      if (problem) throw problem
      return snapshot
    } catch (thrown) {
      const problem = asOsError(thrown)
      this.refuse(problem)
      throw problem
    }
  }

  /** Applies the edits to the current text, checks the result, saves. Starts over if the file changed meanwhile. */
  *#applying(edits: readonly Edit[], { strict, lists, own }: WriteLimits): Parts<{ before: Config; after: Config }> {
    const list = (path: readonly string[]): readonly unknown[] | undefined => {
      const here = getAt(this.#snapshot.config, path)
      return Array.isArray(here) ? here : lists?.[joinKey(path)]
    }
    for (let round = 0; round < 5; round++) {
      const text = this.#currentText()
      const known = this.#snapshot.document
      const document = known?.text === text ? known : yield* parsing(this.path, text)
      const before = this.#snapshot.config
      yield
      const outcome = yield* editing(this.#schema, document, edits, {
        list,
        strict: strict === true,
        effective: before,
      })
      yield
      if (outcome.text === text && document === known && !this.#problem && this.#files.exists(this.path))
        return { before, after: before }
      if (!own) refuseUnknownKeys(this.#schema, document, outcome)
      yield
      const checked = yield* interpreting(this.#schema, withoutLines(outcome, edits))
      yield () => this.approve(checked.config)
      if (this.#currentText() !== text || this.#snapshot.config !== before) continue
      if (outcome.text !== text || !this.#files.exists(this.path)) writeText(this.path, outcome.text, this.#files)
      this.#snapshot = { ...checked, document: outcome }
      this.#problem = undefined
      yield
      this.#report()
      this.#notify(before)
      yield
      return { before, after: checked.config }
    }
    throw new OsError('CONFIG_WRITE', `another program keeps changing ${this.path}: stop it, then try again`)
  }

  #currentText(): string {
    const bytes = readText(this.path, this.#files)
    if (bytes) return bytes.toString('utf8').replace(/^\ufeff/, '')
    return this.#snapshot.document?.text ?? defaultText()
  }
}
