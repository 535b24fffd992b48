// The form of a verb: one file each, its options as a schema that gives parsing, help and checks at once. `text` turns the
// result into what people read; it runs where the person is, the verb itself perhaps in a running gateway.
import { plain, textOf } from '../display'
import type { OptionSpec, OptionValues } from '../lib/command-options'
import type { CommandContext } from './context'

export type { OptionSpec, OptionValues }

export interface VerbResult<Value extends object = Record<string, unknown>> {
  readonly value?: Value
  /** printed one JSON line each, at the reader's pace */
  readonly rows?: AsyncIterable<unknown>
  readonly exitCode?: number
  /** for people, where only the command knows the words; else `text` of the verb makes them of the value */
  readonly text?: string
}

export interface Paint {
  bold(text: string): string
  dim(text: string): string
  good(text: string): string
  bad(text: string): string
  warn(text: string): string
}

const asIs = (text: string): string => text
/** no colours */
export const PLAIN: Paint = { bold: asIs, dim: asIs, good: asIs, bad: asIs, warn: asIs }

interface DemoFolder {
  readonly config: string
  readonly dataDir: string
  remove(): void
}

/** `Value` is what `run` results in and `text` prints. */
export interface Verb<Value extends object = Record<string, unknown>> {
  readonly name: string
  readonly aliases?: readonly string[]
  readonly summary: string
  /** more for --help */
  readonly description?: string
  readonly examples: readonly string[]
  readonly options: Readonly<Record<string, OptionSpec>>
  /** options that may be written without their name, in this order */
  readonly operands?: readonly string[]
  /** gateway: needs one; local: never inside one; either: inside when one runs */
  readonly where: 'gateway' | 'local' | 'either'
  /** true: works on files alone only with the data directory's lock */
  readonly changes?: boolean | ((options: OptionValues) => boolean)
  /** true: prints a secret that it made, which cannot be shown again */
  readonly printsSecret?: boolean
  /** true: changes the program itself too, which belongs to root */
  readonly installs?: boolean | ((options: OptionValues) => boolean)
  /** true: starts a gateway, which takes the lock itself */
  readonly starts?: boolean | ((options: OptionValues) => boolean)
  /** true: runs with a broken configuration too, on its defaults */
  readonly tolerant?: boolean
  /** true: makes the configuration file; one that is named need not be there */
  readonly makesConfig?: boolean
  /** true: goes on until it is stopped, and being stopped is no failure */
  readonly endless?: boolean | ((options: OptionValues) => boolean)
  /** true: prints JSON even without --json (the specification says so) */
  readonly json?: boolean
  /** A configuration and data directory of its own, made before and removed after the command. */
  place?(): DemoFolder
  /** Takes the command line apart in its own way, where words after the command belong to a plugin. */
  read?(argv: readonly string[]): Record<string, unknown>
  /**
   * Work of the calling side, before anything is sent to a gateway: reading files named on the command line, and secrets
   * that must not be there. `warn` prints it on the terminal, and does nothing where the line came over HTTP.
   */
  prepare?(
    options: OptionValues,
    read: (path: string) => Promise<string>,
    secret: (what: string) => Promise<string>,
    warn: (text: string) => void,
  ): Promise<OptionValues>
  run(context: CommandContext, options: OptionValues): Promise<VerbResult<Value>>
  text?(value: Value, paint: Paint): string
  /** one row for people; without it rows are JSON lines */
  rowText?(row: unknown, paint: Paint): string
}

/** A verb whatever its result: the form in which tables of verbs hold them. */
export type AnyVerb = Verb<object>

/** A result as people read it; `status` says where it was run. */
export function resultText(verb: AnyVerb, { via, ...value }: Record<string, unknown>, paint: Paint): string {
  if (verb.text) return verb.text(verb.name === 'status' ? { ...value, via } : value, paint)
  return textOf(plain(value))
}

interface Failure {
  readonly error?: unknown
  readonly hint?: unknown
  readonly key?: unknown
  readonly did_you_mean?: unknown
}

/** The error of a result that is one: what happened, and what to do where the command knows it. */
export function failureOf({
  error,
  hint,
  key,
  did_you_mean: meant,
}: Failure): { message: string; hint: string } | undefined {
  if (typeof error !== 'string') return undefined
  const message = typeof key === 'string' ? `${error}: ${key}` : error
  return { message, hint: typeof hint === 'string' ? hint : meant ? `did you mean ${meant}?` : '' }
}

/** What a verb says of a call with these options. */
export const holds = (said: AnyVerb['changes'], options: OptionValues): boolean =>
  typeof said === 'function' ? said(options) : said === true

/** Options every verb has. */
export const GLOBAL_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  config: {
    type: 'string',
    value: 'PATH',
    env: 'OS_NODE_CONFIG',
    help: 'configuration file (else ./data/Config.json, ./Config.json, /data, /etc/os-node)',
  },
  'data-dir': {
    type: 'string',
    value: 'DIR',
    env: 'OS_NODE_DATA_DIR',
    help: 'data directory (else data/ beside the configuration)',
  },
  json: { type: 'boolean', help: 'print one JSON document on stdout' },
  help: { type: 'boolean', help: 'print this help' },
}
