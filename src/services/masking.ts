// What the service manager tells: help of a plugin's commands, and settings without their secrets.

import type { CommandForm } from '../lib/command-options'
import { optionRows, table } from '../lib/option-help'
import { isEmptySecret, isSecretName, MASK, maskText } from '../lib/secrets'
import type { CliHandler } from './contract'

/** A copy for eyes, where no schema says what is secret. */
export function masked(value: unknown, name = ''): unknown {
  if (isSecretName(name)) return isEmptySecret(value) ? value : MASK
  if (typeof value === 'string') return maskText(value)
  if (Array.isArray(value)) return value.map(item => masked(item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, masked(item, key)]))
}

export const summaries = (commands: Record<string, CliHandler>): Record<string, unknown> => ({
  commands: Object.fromEntries(Object.entries(commands).map(([name, { summary }]) => [name, summary])),
})

export const listed = (name: string, commands: Record<string, CliHandler>): string =>
  [
    `Commands of ${name}:`,
    table(Object.entries(commands).map(([command, { summary }]) => [command, summary])),
    '',
    `os-node plugin-cmd ${name} COMMAND --help: options of one of them`,
  ].join('\n')

export const helpOf = ({ name, options, operands = [] }: CommandForm, { summary, example }: CliHandler): string =>
  [
    `os-node ${name}: ${summary}`,
    '',
    `Usage: os-node ${[name, ...operands.map(operand => operand.toUpperCase())].join(' ')} [OPTIONS]`,
    '',
    'Options:',
    table(optionRows(options)),
    '',
    'Example:',
    `  os-node ${name}${example === undefined ? '' : ` ${example}`}`,
  ].join('\n')
