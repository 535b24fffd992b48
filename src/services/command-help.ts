// Help of a plugin's commands.

import type { CommandForm } from '../lib/command-options'
import { operandWords, optionRows, table } from '../lib/option-help'
import type { CliHandler } from './contract'

export const summaries = (commands: Record<string, CliHandler>): Record<string, unknown> => ({
  commands: Object.fromEntries(Object.entries(commands).map(([name, { summary }]) => [name, summary])),
})

export const listed = (name: string, called: string, commands: Record<string, CliHandler>): string =>
  [
    `Commands of ${name}:`,
    table(Object.entries(commands).map(([command, { summary }]) => [command, summary])),
    '',
    `os-node ${called} COMMAND --help: options of one of them`,
  ].join('\n')

export const helpOf = ({ name, options, operands }: CommandForm, { summary, example }: CliHandler): string =>
  [
    `os-node ${name}: ${summary}`,
    '',
    `Usage: os-node ${[name, ...operandWords(operands, options)].join(' ')} [OPTIONS]`,
    '',
    'Options:',
    table(optionRows(options)),
    '',
    'Example:',
    `  os-node ${name}${example === undefined ? '' : ` ${example}`}`,
  ].join('\n')
