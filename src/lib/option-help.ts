// Options as text for --help, derived from the schemas that check them, so that both always agree.
import type { OptionSpec } from './command-options'

/** Two columns, the first as wide as its widest cell. */
export function table(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(0, ...rows.map(([name]) => name.length)) + 2
  return rows.map(([name, text]) => `  ${name.padEnd(width)}${text}`).join('\n')
}

const placeholderOf = ({ type, value }: OptionSpec): string =>
  type === 'boolean' ? '' : ` ${value ?? (type === 'integer' || type === 'number' ? 'N' : 'TEXT')}`

/** Operands after a command; one in brackets may be left out. */
export const operandWords = (operands: readonly string[] = [], options: Readonly<Record<string, OptionSpec>> = {}) =>
  operands.map(name => {
    const { value = name.toUpperCase(), required } = options[name] ?? {}
    return required ? value : `[${value}]`
  })

export const optionRows = (options: Readonly<Record<string, OptionSpec>>): [string, string][] =>
  Object.entries(options).map(([name, spec]) => {
    const more = [
      spec.required ? 'required' : '',
      spec.default !== undefined ? `default ${spec.default}` : '',
      spec.choices ? spec.choices.join(' | ') : '',
      spec.env ? `environment ${spec.env}` : '',
    ].filter(Boolean)
    return [`--${name}${placeholderOf(spec)}`, spec.help + (more.length > 0 ? ` (${more.join('; ')})` : '')]
  })
