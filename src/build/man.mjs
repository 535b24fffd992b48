// Writes dist/os-node.1, the manual page: every command with its options and examples, from the tables that the program itself parses with.
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** Escapes text for roff: backslashes, hyphens, and a point or quote at the beginning of a line. */
const plain = text =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^([.'])/gm, '\\&$1')

const optionsOf = rows => rows.map(([name, help]) => `.TP\n.B ${plain(name)}\n${plain(help)}`)

function commandOf(
  { name, summary, description, options = {}, operands, aliases = [], examples },
  { operandWords, optionRows },
) {
  const words = operandWords(operands, options)
  return [
    `.SS ${plain([name, ...words].join(' '))}`,
    plain(`${summary[0].toUpperCase()}${summary.slice(1)}.`),
    ...(aliases.length > 0 ? [`Also: ${plain(aliases.join(', '))}.`] : []),
    ...(description ? ['.PP', plain(description)] : []),
    ...optionsOf(optionRows(options)),
    '.PP',
    '.nf',
    ...examples.map(example => plain(`    ${example}`)),
    '.fi',
  ]
}

/** Writes the page into `dist`. `common`: options of esbuild for the program. */
export async function writeManual(root, dist, esbuild, common, { version, builtAt }) {
  const outfile = join(root, '.build/commands.cjs')
  const contents = `
    export { VERBS } from './src/commands'
    export { GLOBAL_OPTIONS } from './src/commands/verb'
    export { operandWords, optionRows } from './src/lib/option-help'`
  const stdin = { contents, resolveDir: root, loader: 'ts' }
  await esbuild.build({ ...common, stdin, outfile, packages: 'external' })
  const { VERBS, GLOBAL_OPTIONS, operandWords, optionRows } = createRequire(import.meta.url)(outfile)
  const date = new Date(builtAt).toISOString().slice(0, 10)
  const page = [
    `.TH OS\\-NODE 1 ${date} "os\\-node ${version}" "User Commands"`,
    '.SH NAME',
    'os\\-node \\- gateway for sensors and buses',
    '.SH SYNOPSIS',
    '.B os\\-node',
    '.I COMMAND',
    '[\\fIOPTIONS\\fR]',
    '.SH DESCRIPTION',
    'Reads sensors on pins and buses, brings every value to a UCUM unit, keeps it on flash, packs it into small packets and delivers',
    'them to an upstream server. A command finds the running gateway of its data directory and runs inside it; without one it works on',
    'the files.',
    '.SH OPTIONS OF EVERY COMMAND',
    ...optionsOf([...optionRows(GLOBAL_OPTIONS), ['--version', 'print the version']]),
    '.SH COMMANDS',
    ...VERBS.flatMap(verb => commandOf(verb, { operandWords, optionRows })),
    '.SH EXIT STATUS',
    '0 done, 1 failed, 2 wrong usage, 3 configuration, 4 storage, 5 network or device.',
    '.SH FILES',
    '.TP\n.I /etc/os\\-node/Config.json\nthe configuration of the system service',
    '.TP\n.I /var/lib/os\\-node\nits data: log, databases, keys',
    '',
  ]
  writeFileSync(join(dist, 'os-node.1'), page.join('\n'))
}
