// What the service manager tells: help of a plugin's commands, and settings without their secrets.
import { MASK, SECRET_NAME } from '../config'
import type { CommandForm } from '../lib/options'
import type { CliHandler } from './contract'

/** A copy for eyes, where no schema says what is secret. */
export function masked(value: unknown, name = ''): unknown {
  if (SECRET_NAME.test(name) && value !== '' && value !== null && value !== undefined) return MASK
  if (Array.isArray(value)) return value.map(item => masked(item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, masked(item, key)]))
}

export const summaries = (commands: Record<string, CliHandler>): Record<string, unknown> => ({
  commands: Object.fromEntries(Object.entries(commands).map(([name, { summary }]) => [name, summary])),
})

const rows = (pairs: readonly (readonly [string, string])[]): string => {
  const width = Math.max(0, ...pairs.map(([left]) => left.length)) + 2
  return pairs.map(([left, right]) => `  ${left.padEnd(width)}${right}`).join('\n')
}

export const listed = (name: string, commands: Record<string, CliHandler>): string =>
  [`Commands of ${name}:`, rows(Object.entries(commands).map(([command, { summary }]) => [command, summary]))].join(
    '\n',
  )

export const helpOf = ({ name, options, operands = [] }: CommandForm, { summary }: CliHandler): string =>
  [
    `os-node ${name}: ${summary}`,
    '',
    `Usage: os-node ${[name, ...operands.map(operand => operand.toUpperCase())].join(' ')} [OPTIONS]`,
    '',
    'Options:',
    rows(
      Object.entries(options).map(([option, spec]) => [
        `--${option}${spec.type === 'boolean' ? '' : ` ${spec.value ?? spec.type.toUpperCase()}`}`,
        spec.help + (spec.required ? ' (required)' : spec.default !== undefined ? ` (default ${spec.default})` : ''),
      ]),
    ),
  ].join('\n')
