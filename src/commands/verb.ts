// The form of a verb: one file each, with its options as a schema for parsing, help and checks. `text` formats the
// result for people; it runs on the client's side, the verb itself possibly in a running gateway.
import { plain, textOf } from '../display'
import type { OptionSpec, OptionValues } from '../lib/command-options'
import type { CommandContext } from './context'

export type { OptionSpec, OptionValues }

export interface VerbResult<Value extends object = Record<string, unknown>> {
  readonly value?: Value
  /** printed one JSON line each, at the reader's pace */
  readonly rows?: AsyncIterable<unknown>
  readonly exitCode?: number
  /** text for people, if only the command has the words; else the verb's `text` makes it from the value */
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

/** A table of options that has those of `Options` with their types. */
type OptionTable<Options> = Readonly<Record<string, OptionSpec>> & {
  readonly [Name in keyof Options]-?: OptionSpec & { readonly type: OptionType<NonNullable<Options[Name]>> }
}
type OptionType<T> = T extends string ? 'string' : T extends number ? 'integer' | 'number' : OptionSpec['type']

/** `Value` is the result of `run` and the input of `text`; `Options` the options whose type `run` needs. */
export interface Verb<Value extends object = Record<string, unknown>, Options = unknown> {
  readonly name: string
  readonly aliases?: readonly string[]
  readonly summary: string
  /** additional text for --help */
  readonly description?: string
  readonly examples: readonly string[]
  /** besides those of every verb */
  readonly options?: OptionTable<Options>
  /** options whose name may be left out, in this order */
  readonly operands?: readonly string[]
  /** gateway: needs one; local: never inside one; either: inside one if it runs */
  readonly where: 'gateway' | 'local' | 'either'
  /** true: without a gateway it needs the data directory's lock */
  readonly changes?: boolean | ((options: OptionValues) => boolean)
  /** true: prints a new secret that cannot be shown again */
  readonly printsSecret?: boolean
  /** true: also changes the program itself, which belongs to root */
  readonly installs?: boolean | ((options: OptionValues) => boolean)
  /** true: starts a gateway, which takes the lock itself */
  readonly starts?: boolean | ((options: OptionValues) => boolean)
  /** true: also runs with a broken configuration, on defaults */
  readonly tolerant?: boolean
  /** true: creates the configuration file, so an explicit path need not exist */
  readonly makesConfig?: boolean
  /** true: runs until it is stopped; being stopped is no failure */
  readonly endless?: boolean | ((options: OptionValues) => boolean)
  /** true: prints JSON even without --json (the specification says so) */
  readonly json?: boolean
  /** A temporary configuration and data directory, created before and removed after the command. */
  place?(): { readonly config: string; readonly dataDir: string; remove(): void }
  /** Parses the command line itself, for verbs whose words after the command belong to a plugin. */
  read?(argv: readonly string[]): Record<string, unknown>
  /**
   * Work on the client's side before a request is sent to a gateway: reads files named on the command line, and secrets
   * that must not be on it. `warn` prints on the terminal, and does nothing if the line came over HTTP.
   */
  prepare?(
    options: OptionValues,
    read: (path: string) => Promise<string>,
    secret: (what: string) => Promise<string>,
    warn: (text: string) => void,
  ): Promise<OptionValues>
  run(context: CommandContext, options: OptionValues & Options): Promise<VerbResult<Value>>
  text?(value: Value, paint: Paint): string
  /** one row for people; without it rows are JSON lines */
  rowText?(row: unknown, paint: Paint): string
}

/** A verb with any result: the type of tables of verbs. */
export type AnyVerb = Verb<object>

/** A result as text; `status` also says where it was run. */
export function resultText(verb: AnyVerb, { via, ...value }: Record<string, unknown>, paint: Paint): string {
  if (verb.text) return verb.text(verb.name === 'status' ? { ...value, via } : value, paint)
  return textOf(plain(value))
}

/** The error of a result that is one: what happened, and what to do if the command knows it. */
export function failureOf(value: object): { message: string; hint: string } | undefined {
  const { error, hint, key, did_you_mean: meant } = value as Record<string, unknown>
  if (typeof error !== 'string') return undefined
  const message = typeof key === 'string' ? `${error}: ${key}` : error
  return { message, hint: typeof hint === 'string' ? hint : meant ? `did you mean ${meant}?` : '' }
}

/** Evaluates a property of a verb for a call with these options. */
export const holds = (said: AnyVerb['changes'], options: OptionValues): boolean =>
  typeof said === 'function' ? said(options) : said === true

/** Options of every verb. */
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
