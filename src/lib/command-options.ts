// What an option of a command may be, as a schema: parsing, help and checks are made from it. Commands and the commands of
// plugins share it.

export interface OptionSpec {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'list'
  readonly help: string
  readonly default?: string | number | boolean
  /** the placeholder of the value in the help, for example PATH */
  readonly value?: string
  /** environment variable that counts when the option is absent */
  readonly env?: string
  readonly required?: boolean
  readonly min?: number
  readonly max?: number
  readonly choices?: readonly string[]
}

/** A list holds each value, in order. */
export type OptionValues = Record<string, string | number | boolean | readonly string[] | undefined>

/** What is needed to read a command line. */
export interface CommandForm {
  /** as in messages, for example `web-user add` */
  readonly name: string
  readonly options: Readonly<Record<string, OptionSpec>>
  /** options that may be written without their name, in this order */
  readonly operands?: readonly string[]
}
