// The configuration as the program sees it: found, checked, with all defaults; read by dotted keys, changed one key or many
// at once. A change is checked first, made in the newest text of the file (edits of others made meanwhile stay), and
// saved by an atomic rename; when anything is wrong nothing changes. While the file is broken the last good copy counts and
// `problem` says why.

import { asOsError, OsError } from '../lib/errors'
import { type Files, realFiles } from '../lib/files'
import { type Logger, silentLogger } from '../lib/logger'
import { SerialQueue } from '../lib/serial-queue'
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
import { getAt, joinKey, leaves, nearest, refuseForbidden, same, splitKey } from './keys'
import { meantPath } from './normalize'
import {
  type ConfigSnapshot,
  interpret,
  interpretDefaults,
  interpreting,
  LastGood,
  readConfig,
  readText,
  type Schema,
  writeText,
} from './read'
import { mend } from './repair'
import { type AnySchema, assemble, type Config } from './schema'
import { type ConfigTexts, configTexts, mask } from './secrets'
import { atOnce, inTurns, type Parts } from './slices'
import type { Change, Changed, LoadOptions, Repair, Update, WriteLimits } from './store-types'

/** whose a configuration is */
const owners = new WeakMap<object, ConfigStore>()

export class ConfigStore {
  readonly path: string
  readonly dataDir: string
  readonly #schema: Schema
  readonly #files: Files
  readonly #logger: Logger
  /** undefined: none is kept */
  readonly lastGood: LastGood | undefined
  readonly #listeners = new Set<(changes: readonly Changed[]) => void>()
  #snapshot: ConfigSnapshot
  #problem: OsError | undefined
  /** warnings as they were logged last, by their texts without the line */
  #said: ReadonlyMap<string, string> = new Map()
  /** the newest approved write; the next one begins after it */
  readonly #writes = new SerialQueue()
  /** Who runs by this configuration: throws CONFIG_INVALID where the schema sees nothing wrong and it cannot be run by. */
  approve: (next: Config) => Promise<void> = async () => undefined
  /** WriteLimits.lists for approved() */
  lists: () => Promise<WriteLimits['lists']> = async () => undefined
  /** What is worth a warning in the configuration, and no fault. */
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
   * Finds and reads the configuration (D14 order). Throws CONFIG_SYNTAX (file, line, column) or CONFIG_INVALID (key, line,
   * what is allowed) when the file is broken and there is no last good copy.
   */
  static load(options: LoadOptions = {}): ConfigStore {
    const { env = process.env, cwd = process.cwd(), files = realFiles, fragments } = options
    const schema = assemble(fragments)
    const found = findConfig({ path: options.path, dataDir: options.dataDir, env, cwd, files })
    const place = found.copyOf === undefined ? found : startCopy(found, found.copyOf, { ...options, files })
    // a typed path is a mistake when nothing is there; one a unit file names may have its last good copy
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

  /** The store that gave this configuration; undefined for any other object. */
  static of(config: object): ConfigStore | undefined {
    return owners.get(config)
  }

  /** Everything with its defaults. Do not change it: use set() or update(). */
  get config(): Config {
    const { config } = this.#snapshot
    owners.set(config, this)
    return config
  }

  /** The folder that relative paths of the configuration count from. */
  get baseDir(): string {
    return baseOf(this.path, this.dataDir)
  }

  /** Why the file does not count; undefined when it does. */
  get problem(): OsError | undefined {
    return this.#problem
  }

  /** Unknown keys, older spellings and the like. */
  get warnings(): readonly string[] {
    return this.#snapshot.warnings
  }

  /** The value of a dotted key, defaults included; undefined when there is none. Throws CONFIG_KEY for an impossible key. */
  get<T = unknown>(key: string): T {
    return getAt(this.#snapshot.config, splitKey(key)) as T
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  /** The whole configuration, or one key, with secrets as ********. */
  masked(key?: string): unknown {
    const path = key === undefined ? [] : splitKey(key)
    const { config } = this.#snapshot
    return mask(this.#walk, getAt(config, path), path, config)
  }

  /** The file as it is, and without its secrets. Throws CONFIG_SYNTAX while it is broken. */
  readonly texts = (): ConfigTexts => configTexts(this.#walk, this.path, this.#currentText())

  /** One row per key: type, default, what is allowed, restart, secret, help. */
  rows(): SchemaRow[] {
    return rows(this.#walk)
  }

  /** The known key that was probably meant. */
  suggest(key: string): string | undefined {
    return nearest(
      key,
      this.rows().map(row => row.key),
    )
  }

  /**
   * Changes one key and saves. `type` is int, float, bool, str or json; without it the schema decides. A masked value keeps
   * what is stored. Throws CONFIG_KEY, UNKNOWN_KEY, CONFIG_INVALID, SECRET_NEEDED, CONFIG_SYNTAX (the file is broken),
   * CONFIG_WRITE, and FORBIDDEN outside of `prefixes`.
   */
  set(key: string, value: unknown, type?: string, limits: WriteLimits = {}): Change {
    return atOnce(this.setting(key, value, type, limits))
  }

  /** set() in parts, for approved() */
  *setting(key: string, value: unknown, type?: string, limits: WriteLimits = {}): Parts<Change> {
    return (yield* this.#changing([editOf(this.#walk, { key, value, value_type: type }, limits)], limits))[0]!
  }

  /**
   * Many keys, each as set() changes it, in few writes, for approved(): the change or why it is refused, for each in its order.
   * Of a key that is there twice the last counts.
   */
  *settings(updates: readonly Update[], limits: WriteLimits = {}): Parts<(Change | OsError)[]> {
    const meant = yield* editsOf(this.#walk, updates, limits)
    const edits = meant.filter(item => !(item instanceof OsError)) as Edit[]
    const done = (yield* inGroups(edits, group => this.#changing(group, limits))).values()
    return meant.map(item => (item instanceof OsError ? item : done.next().value!))
  }

  /**
   * Takes one key out of the file, so that its default counts; an element of a list goes. Keys that nothing reads may be
   * taken out too. Throws CONFIG_KEY where there is no such key, CONFIG_INVALID where it cannot be left out, and what set()
   * throws.
   */
  unset(key: string, limits: WriteLimits = {}): Change {
    return atOnce(this.unsetting(key, limits))
  }

  /** unset() in parts, for approved() */
  *unsetting(key: string, limits: WriteLimits = {}): Parts<Change> {
    const path = meantPath(splitKey(key))
    if (limits.prefixes) refuseOutside([{ path, value: undefined }], limits.prefixes)
    if (getAt(this.#snapshot.config, path) === undefined) {
      refuseUnknown(this.#walk, path)
      throw new OsError('CONFIG_KEY', `${key} is not set`, { details: { key } })
    }
    return (yield* this.#changing([{ path, value: undefined }], limits))[0]!
  }

  /**
   * Changes many keys, passed as nested sections; objects are merged, lists replaced. All or nothing. With `prefixes`, keys
   * outside them are refused: FORBIDDEN with `details.keys`. A dotted key in place of sections is CONFIG_INVALID. Returns
   * what is different now.
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
    for (const { path } of typed) refuseDotted(this.#walk, path)
    if (limits.prefixes) refuseOutside(typed, limits.prefixes)
    const edits = typed.map(({ path, value }) => ({ path: meantPath(path), value }))
    for (const { path } of limits.own ? [] : edits) refuseUnknown(this.#walk, path)
    const { before, after } = yield* this.#applying(edits, limits)
    if (before === after) return []
    const changes = yield* changesOf(this.#walk, edits, before, after)
    return changes.filter(change => !same(change.old, change.new))
  }

  /**
   * A write by setting(), unsetting() or updating(): others get their turn between its parts, and nothing is saved before
   * approve() has nothing against its outcome. Throws what they throw.
   */
  approved<T>(write: (limits: WriteLimits) => Parts<T>, limits: WriteLimits = {}): Promise<T> {
    return this.#writes.run(async () => {
      const lists = await this.lists()
      return inTurns(write({ ...limits, ...(lists && { lists }) }))
    })
  }

  /**
   * What the file says now, checked, without taking it over. Throws CONFIG_SYNTAX or CONFIG_INVALID, which `problem` has
   * from then on.
   */
  read(): Config {
    return this.#reread().config
  }

  /** Reads the file again and takes it over. A broken file changes nothing but `problem`. Returns what is different now. */
  reload(): Changed[] {
    const before = this.#snapshot
    try {
      this.#snapshot = this.#reread()
    } catch {
      // #reread keeps it as `problem` and says it
      return []
    }
    this.#problem = undefined
    this.#report()
    return this.#tell(before.config)
  }

  /**
   * Mends a broken file: valid keys stay, the rest gets its default. `unknown`: keys that the schema does not know go too. The
   * old file is kept beside it as `.bak`, never over an older one, unless it is `kept` already. `paths`: keys to remove. Throws CONFIG_WRITE, and nothing is changed then.
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
    this.#tell(before)
    return { repaired: mended.repaired, backup }
  }

  /** Keys that have another value now than in an older configuration of this store. */
  changesSince(before: Config): Changed[] {
    return differences(this.#walk, before, this.config)
  }

  /** A configuration that was read and cannot be used, for a reason that the schema does not see. */
  refuse(problem: OsError): void {
    this.#problem = problem
    this.#logger.error(`${problem.message}; the running configuration stays`)
  }

  /** Called after each change with what changed. Returns how to stop. */
  onChange(listener: (changes: readonly Changed[]) => void): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  get #walk(): AnySchema {
    return this.#schema as unknown as AnySchema
  }

  #report(): void {
    // once for each key: a write moves lines and mends nothing of it
    const said = this.#said
    this.#said = new Map(this.#snapshot.warnings.map(warning => [warning.replace(/:\d+: /, ': '), warning]))
    for (const [key, warning] of this.#said) if (!said.has(key)) this.#logger.warn(warning)
    if (this.#problem) {
      const stand = this.#snapshot.document?.path ?? 'built-in defaults'
      this.#logger.error(`${this.#problem.message}. USING ${stand} INSTEAD until this is mended`)
    } else if (this.#snapshot.document) this.lastGood?.keep(this.#snapshot.document.text)
  }

  *#changing(edits: readonly Edit[], limits: WriteLimits): Parts<Change[]> {
    const { before, after } = yield* this.#applying(edits, limits)
    return yield* changesOf(this.#walk, edits, before, after)
  }

  #tell(before: Config): Changed[] {
    const changes = this.changesSince(before)
    for (const listener of changes.length > 0 ? this.#listeners : []) {
      try {
        listener(changes)
      } catch (error) {
        // the caller of the change is not at fault; the error of another listener is reported as an uncaught error
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

  /** Makes the edits in the newest text, checks the outcome, saves. Starts over when the file changed under our hands. */
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
      const outcome = yield* editing(this.#walk, document, edits, { list, strict: strict === true, effective: before })
      yield
      if (outcome.text === text && document === known && !this.#problem && this.#files.exists(this.path))
        return { before, after: before }
      if (!own) refuseUnknownKeys(this.#walk, document, outcome)
      yield
      const checked = yield* interpreting(this.#schema, withoutLines(outcome, edits))
      yield () => this.approve(checked.config)
      if (this.#currentText() !== text || this.#snapshot.config !== before) continue
      if (outcome.text !== text || !this.#files.exists(this.path)) writeText(this.path, outcome.text, this.#files)
      this.#snapshot = { ...checked, document: outcome }
      this.#problem = undefined
      yield
      this.#report()
      this.#tell(before)
      yield
      return { before, after: checked.config }
    }
    throw new OsError('CONFIG_WRITE', `${this.path} is being changed by something else all the time`)
  }

  #currentText(): string {
    const bytes = readText(this.path, this.#files)
    if (bytes) return bytes.toString('utf8').replace(/^\ufeff/, '')
    return this.#snapshot.document?.text ?? defaultText()
  }
}
