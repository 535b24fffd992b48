// Plugins on the command line: plugin-list, plugin-load, plugin-cmd, and a verb for each plugin that has one. Both
// spellings are equal: `web-user --cmd start -- --port 8765` and `web-user start --port 8765`. The plugin itself parses
// the words after its command, in the process where it runs: in the gateway if there is one.
import { type Plain, textOf } from '../../display'
import { OsError } from '../../lib/errors'
import { type CommandIo, normalizePluginName, type PluginItem } from '../../services'
import type { CommandContext } from '../context'
import { GLOBAL_OPTIONS, type OptionSpec, type OptionValues, type Verb, type VerbResult } from '../verb'
import { columns } from './status'

const PLUGIN: OptionSpec = { type: 'string', value: 'PLUGIN', required: true, help: 'name, as plugin-list shows it' }
const CMD: OptionSpec = { type: 'string', value: 'COMMAND', help: 'command of the plugin; --help lists them' }
const ARGS: OptionSpec = { type: 'list', value: 'WORDS', help: 'options of the command, after -- or directly' }

const INSTALLER = 'dependency_manager'

/** commands of built-in plugins that only read; all others take the data directory's lock if no gateway runs */
const LOOKS: Readonly<Record<string, readonly string[]>> = {
  web_user: ['status', 'dashboard', 'list'],
  port_forwarder: ['status', 'list', 'stats', 'test'],
  env_guard: ['status', 'list', 'resource-show'],
  [INSTALLER]: ['check', 'doctor'],
  tui: ['render', 'interactive', 'bios', 'sections'],
}

const wordsOf = ({ args }: OptionValues): readonly string[] => (Array.isArray(args) ? args : [])

/** True if the plugin only prints its help: a word after -- is no option. */
const asksHelp = (args: readonly string[]): boolean => {
  const at = args.indexOf('--help')
  return at >= 0 && !args.slice(0, at).includes('--')
}

/** True for a call that changes nothing: it is allowed with read rights (see roles.ts). */
const looks = (plugin: unknown, options: OptionValues): boolean =>
  options.cmd === undefined ||
  asksHelp(wordsOf(options)) ||
  (LOOKS[normalizePluginName(String(plugin))]?.includes(String(options.cmd)) ?? false)

/** A command that keeps running until its caller ends it. */
const stays = (options: OptionValues): boolean => wordsOf(options).includes('--block')

const WITH_VALUE = new Set(
  Object.entries(GLOBAL_OPTIONS)
    .filter(([, { type }]) => type !== 'boolean')
    .map(([name]) => name),
)

/** Splits `[PLUGIN] COMMAND words…`: global options are extracted wherever they are. */
function reader(operands: readonly string[]): (argv: readonly string[]) => Record<string, unknown> {
  return argv => {
    const values: Record<string, unknown> = {}
    const args: string[] = []
    const words = [...argv]
    for (let word = words.shift(); word !== undefined; word = words.shift()) {
      if (word === '--') {
        args.push(...words.splice(0))
        break
      }
      const [, name = '', inline] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? []
      const own = operands.includes(name) && values[name] === undefined
      if (own || WITH_VALUE.has(name)) {
        const value = inline ?? words.shift()
        if (value === undefined) throw new OsError('USAGE', `--${name} needs a value`)
        values[name] = value
      } else if (word === '--json') values.json = true
      else if ((word === '--help' || word === '-h') && operands.every(name => values[name] === undefined))
        values.help = true
      else {
        const next = word.startsWith('-') ? undefined : operands.find(operand => values[operand] === undefined)
        if (next !== undefined && args.length === 0) values[next] = word
        else args.push(word)
      }
    }
    if (args.includes('--json')) values.json = true
    const remaining = args.filter(word => word !== '--json')
    return remaining.length > 0 ? { ...values, args: remaining } : values
  }
}

const FROM_STDIN = '--password-stdin'

/** Reads the password on the client's side: on the command line every user of the machine could see it with `ps`. */
async function withPassword(
  plugin: unknown,
  options: OptionValues,
  secret: (what: string) => Promise<string>,
): Promise<OptionValues> {
  const args = wordsOf(options)
  if (!args.includes(FROM_STDIN) || normalizePluginName(String(plugin)) !== 'web_user' || asksHelp(args)) return options
  if (args.some(word => /^--password(=|$)/.test(word))) throw new OsError('USAGE', `either --password or ${FROM_STDIN}`)
  return { ...options, args: [...args.filter(word => word !== FROM_STDIN), `--password=${await secret('password')}`] }
}

async function runCommand(
  context: CommandContext,
  plugin: string,
  options: OptionValues,
  called?: string,
): Promise<VerbResult> {
  const plugins = await context.plugins()
  const argv = [String(options.cmd ?? '--help'), ...wordsOf(options)]
  const {
    value,
    rows,
    text,
    exitCode = 0,
  } = await plugins.command(plugin, argv, { ...ioOf(context), ...(called && { called }) })
  return { value: value ?? (text === undefined ? undefined : { text }), rows, text, exitCode }
}

/** Where a command of a plugin prints, and when it stops. */
export const ioOf = ({ signal, print }: CommandContext): CommandIo => ({
  signal,
  print: line => print({ text: line }, line),
})

export const pluginList: Verb<{ plugins: unknown; items: readonly PluginItem[] }> = {
  name: 'plugin-list',
  summary: 'list plugins and their state',
  examples: ['os-node plugin-list', 'os-node plugin-list --json'],
  where: 'either',
  async run(context) {
    const plugins = await context.plugins()
    return { value: { plugins: plugins.manager.snapshot(), items: plugins.list() } }
  },
  text({ items }, paint) {
    const rows = items.map(({ name, enabled, running, loaded, auto_start, failures, error, summary }) => [
      name,
      enabled ? (running ? 'running' : loaded ? 'loaded' : '') : 'off',
      auto_start ? 'with the gateway' : 'by hand',
      failures > 0 ? String(failures) : '',
      error ?? summary,
    ])
    return columns([['plugin', 'state', 'starts', 'failures', ''], ...rows], paint)
  },
}

export const pluginLoad: Verb = {
  name: 'plugin-load',
  summary: 'load a plugin; in a running gateway also start it',
  description: 'Without a gateway the plugin is only loaded as a test.',
  examples: ['os-node plugin-load port_forwarder', 'os-node plugin-load --name env-guard --json'],
  options: { name: PLUGIN },
  operands: ['name'],
  where: 'either',
  changes: true,
  async run(context, { name }) {
    const plugins = await context.plugins()
    const item = context.gateway ? await plugins.start(String(name)) : await plugins.load(String(name))
    return { value: { ok: true, ...item } }
  },
  text: value => `${value.name} is ${value.running ? 'running' : 'loaded'}`,
}

/** Shared by the verbs that run a plugin's command; `operands`: the words before the command's own; `called`: the verb. */
const delegated = (operands: readonly string[], pluginOf: (options: OptionValues) => string, called?: string) =>
  ({
    operands,
    where: 'either',
    changes: options => !looks(pluginOf(options), options),
    installs: options => normalizePluginName(pluginOf(options)) === INSTALLER,
    starts: options => normalizePluginName(pluginOf(options)) === 'web_user' && options.cmd === 'start',
    endless: stays,
    read: reader(operands),
    prepare: (options, _read, secret) => withPassword(pluginOf(options), options, secret),
    run: (context, options) => runCommand(context, pluginOf(options), options, called),
    text: (value: Record<string, Plain>) => textOf(value),
    rowText: (row: Plain) => textOf(row),
  }) satisfies Partial<Verb>

export const pluginCmd: Verb = {
  name: 'plugin-cmd',
  summary: 'run a command of a plugin',
  examples: [
    'os-node plugin-cmd env_guard status',
    'os-node plugin-cmd --plugin port_forwarder --cmd list',
    'os-node plugin-cmd web_user --cmd add -- --username bob --role operator --password-stdin',
  ],
  options: { plugin: PLUGIN, cmd: CMD, args: ARGS },
  ...delegated(['plugin', 'cmd'], ({ plugin }) => String(plugin)),
}

const verbOf = (
  plugin: string,
  { commands, ...verb }: Pick<Verb, 'name' | 'aliases' | 'summary' | 'examples'> & { commands: string },
): Verb => ({
  ...verb,
  description: `Commands: ${commands}. COMMAND --help shows the options of one.`,
  options: { cmd: CMD, args: ARGS },
  ...delegated(['cmd'], () => plugin, verb.name),
})

export const webUser = verbOf('web_user', {
  name: 'web-user',
  aliases: ['web_user', 'os-web'],
  summary: 'manage the HTTP service and its users',
  commands: 'start, stop, status, dashboard, list, add, update, delete',
  examples: [
    'os-node web-user --cmd start -- --host 127.0.0.1 --port 8765 --block',
    'os-node web-user status --json',
    'os-node web-user add bob --role operator --password-stdin',
    'os-node web-user update bob --password-stdin < password.txt',
  ],
})

export const portForwarder = verbOf('port_forwarder', {
  name: 'port-forwarder',
  aliases: ['port_forwarder'],
  summary: 'forward matching packets to other media',
  commands: 'status, list, add-rule, remove-rule, enable-rule, disable-rule, test, stats, reset-stats, start, stop',
  examples: [
    'os-node port-forwarder add-rule --name north --medium UDP --device 7 --to tcp://10.0.0.2:8888',
    'os-node port-forwarder list',
    'os-node port-forwarder --cmd remove-rule -- --name north',
  ],
})

export const envGuard = verbOf('env_guard', {
  name: 'env-guard',
  aliases: ['env_guard'],
  summary: 'list missing devices, rights and packages, with remedies',
  commands: 'status, list, check, set, clear, resource-show, resource-init, start, stop',
  examples: ['os-node env-guard status', 'os-node env-guard --cmd set -- --id 3f2a --status ignored'],
})

export const deps = verbOf(INSTALLER, {
  name: 'deps',
  aliases: ['dependency-manager'],
  summary: 'check, repair and install the parts of os-node',
  commands: 'check, doctor, sync, repair, install',
  examples: [
    'os-node deps check',
    'os-node deps install quic-linux-x64',
    'os-node deps --cmd install -- --name quic-linux-x64',
  ],
})
