// One reading of the configuration: the file if it is valid, else the last good copy with a reported problem, else the good copy before
// it, else an error. Defaults are used only if there never was a file or it is empty, which is a reported problem, never in place of a
// broken one (R6).
import { dirname, join } from 'node:path'
import { atomicWrite } from '../lib/atomic'
import { asOsError, errno, OsError, outOfFiles } from '../lib/errors'
import type { Files } from '../lib/files'
import type { Logger } from '../lib/logger'
import { atOnce, type Parts } from '../lib/slices'
import { check, invalid, unknownKeys } from './check'
import { type Document, isEmpty, parseDocument } from './document'
import { missing } from './find'
import { normalize } from './normalize'
import type { Config, Schema } from './schema'

export interface ConfigSnapshot {
  /** with all defaults */
  readonly config: Config
  /** the text it was read from; undefined for built-in defaults */
  readonly document?: Document
  readonly warnings: readonly string[]
}

/** The last good copy, and the one before it: a card that does not sync may leave both newer files empty after a power cut. */
export const copyPaths = (dataDir: string): [string, string] => [
  join(dataDir, 'config.last-good.json'),
  join(dataDir, 'config.earlier.json'),
]

/** Checks a document. Throws CONFIG_INVALID with key, line and allowed values. */
export const interpret = (schema: Schema, document: Document): ConfigSnapshot => atOnce(interpreting(schema, document))

/** The same in parts. */
export function* interpreting(schema: Schema, document: Document): Parts<ConfigSnapshot> {
  const { tree, warnings } = normalize(document.value)
  const { config, faults } = check(schema, tree, document)
  if (!config) throw invalid(faults)
  yield
  const unknown = unknownKeys(schema, tree, document).map(({ text }) => text)
  return { config, document, warnings: [...warnings, ...unknown] }
}

/** The bytes of the file; undefined if it does not exist. Throws CONFIG_SYNTAX if it cannot be read, NO_DESCRIPTORS if none is left. */
export function readText(path: string, files: Files): Buffer | undefined {
  try {
    return files.read(path)
  } catch (cause) {
    if (errno(cause) === 'ENOENT') return undefined
    const out = outOfFiles(cause)
    if (out) throw out
    throw new OsError('CONFIG_SYNTAX', `${path}: cannot be read (${errno(cause) ?? 'unknown reason'})`, {
      cause,
      hint: 'check the rights of the file',
      details: { file: path },
    })
  }
}

/** Atomic. Throws CONFIG_WRITE, and then the old file stays. */
export function writeText(path: string, content: string | Uint8Array, files: Files): void {
  try {
    atomicWrite(path, content, files)
  } catch (cause) {
    const reason = errno(cause) ?? (cause instanceof Error ? cause.message : String(cause))
    throw new OsError('CONFIG_WRITE', `${path} could not be written (${reason}); nothing was changed`, { cause })
  }
}

interface Reading {
  readonly snapshot: ConfigSnapshot
  /** why the file is not used; undefined if it is */
  readonly problem?: OsError
}

/** Reads the file, or its fallback. `mustExist`: the path is explicit. */
export function readConfig(schema: Schema, path: string, dataDir: string, files: Files, mustExist: boolean): Reading {
  let fault: OsError
  let bytes: Buffer | undefined
  try {
    bytes = readText(path, files)
    if (bytes) return { snapshot: interpret(schema, parseDocument(path, bytes)) }
    fault = missing(path)
  } catch (error) {
    fault = asOsError(error)
  }
  for (const copy of copyPaths(dataDir)) {
    const good = readCopy(schema, copy, files)
    if (good) return { snapshot: good, problem: fault }
  }
  // nothing in it could be used wrongly, and a gateway that starts keeps its readings and can be configured
  if (bytes && isEmpty(bytes.toString())) return { snapshot: interpretDefaults(schema), problem: fault }
  if (mustExist || files.exists(path)) throw fault
  return { snapshot: interpretDefaults(schema) }
}

export function interpretDefaults(schema: Schema): ConfigSnapshot {
  const { config, faults } = check(schema, {})
  if (!config) throw invalid(faults)
  return { config, warnings: [] }
}

function readCopy(schema: Schema, path: string, files: Files): ConfigSnapshot | undefined {
  try {
    return files.exists(path) ? interpret(schema, parseDocument(path, files.read(path))) : undefined
  } catch {
    // an invalid copy counts as none: the fault of the real file is reported
    return undefined
  }
}

/** The text of the last good load, and the one before it, stored next to the data. A failed write is only a warning. */
export class LastGood {
  readonly #path: string
  readonly #earlier: string
  readonly #files: Files
  readonly #logger: Logger
  #writer = (write: () => void): void => write()
  #text: string | undefined

  constructor(dataDir: string, files: Files, logger: Logger) {
    ;[this.#path, this.#earlier] = copyPaths(dataDir)
    this.#files = files
    this.#logger = logger
  }

  /** Later writes use `writer`, which may delay them; a failed write of the load is retried. */
  by(writer: (write: () => void) => void): void {
    this.#writer = writer
    if (this.#text !== undefined) this.keep(this.#text)
  }

  keep(text: string): void {
    this.#text = text
    try {
      this.#writer(() => this.#write(text))
    } catch (error) {
      const reason = errno(error) ?? 'unknown reason'
      this.#logger.warn(`${this.#path} could not be written (${reason}); a damaged Config.json would have no fallback`)
    }
  }

  #write(text: string): void {
    this.#files.mkdir(dirname(this.#path))
    const before = readText(this.#path, this.#files)?.toString() ?? ''
    if (before === text) return
    if (!isEmpty(before)) this.#files.rename(this.#path, this.#earlier)
    atomicWrite(this.#path, text, this.#files)
  }
}
