// The schema of a command's option: parsing, help and checks are derived from it. Shared by commands and plugin
// commands.

export interface OptionSpec {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'list'
  readonly help: string
  readonly default?: string | number | boolean
  /** the placeholder of the value in the help, for example PATH */
  readonly value?: string
  /** environment variable that is used if the option is absent */
  readonly env?: string
  readonly required?: boolean
  readonly min?: number
  readonly max?: number
  readonly choices?: readonly string[]
}

/** A list contains each value, in order. */
export type OptionValues = Record<string, string | number | boolean | readonly string[] | undefined>

/** Everything needed to parse a command line. */
export interface CommandForm {
  /** as in messages, for example `web-user add` */
  readonly name: string
  readonly options: Readonly<Record<string, OptionSpec>>
  /** options whose name may be left out, in this order */
  readonly operands?: readonly string[]
}
