// config-get, config-set, config-show. Secrets are masked everywhere (X19). A key that does not exist is a result with
// `error`, exit 1; an invalid value is CONFIG_INVALID, exit 3, and nothing is changed.
import { type Change, type SchemaRow, TYPE_NAMES, type WriteLimits } from '../../config'
import { OsError } from '../../lib/errors'
import type { Logger } from '../../lib/logger'
import { isSecretName } from '../../lib/secrets'
import type { CommandContext } from '../context'
import type { Paint, Verb } from '../verb'

const KEY = { type: 'string', value: 'KEY', required: true, help: 'dotted key' } as const

export const configGet: Verb = {
  name: 'config-get',
  summary: 'print one value of the configuration',
  examples: ['os-node config-get gateway.sources', 'os-node config-get --key engine_settings.precision --json'],
  options: { key: KEY },
  operands: ['key'],
  where: 'either',
  async run({ config }, options) {
    const key = String(options.key)
    if (config.has(key)) return { value: { key, value: config.masked(key) } }
    const meant = config.suggest(key)
    return { value: { error: 'key not found', key, ...(meant && { did_you_mean: meant }) }, exitCode: 1 }
  },
  text: ({ value }) => valueText(value),
}

/** By the name of the key, or by a word inside a JSON value. */
const holdsSecret = (key: string, value: string): boolean =>
  [...key.split('.'), ...[...value.matchAll(/"([^"]{1,100})"/g)].map(([, name]) => name!)].some(isSecretName)

/** The result of a write; from a running gateway with the keys that take effect at its next start. */
function changed({ restart, ...value }: Change, via: CommandContext['via'], logger: Logger): Record<string, unknown> {
  const waits = restart && via === 'gateway'
  if (waits) logger.warn(`${value.key} takes effect at the next start of the gateway`)
  return { ...value, ...(waits && { needs_restart: true }) }
}

export const configUnset: Verb = {
  name: 'config-unset',
  summary: 'remove one value from the configuration; its default applies',
  description: 'Also removes an element of a list, or a key that os-node does not know.',
  examples: ['os-node config-unset engine_settings.precision', 'os-node config-unset --key gateway.sources[2]'],
  options: { key: KEY },
  operands: ['key'],
  where: 'either',
  changes: true,
  async run({ config, logger, via, writable }, options) {
    const prefixes = writable?.()
    const write = (limits: WriteLimits) => config.unsetting(String(options.key), limits)
    return { value: changed(await config.approved(write, prefixes && { prefixes, strict: true }), via, logger) }
  },
  text: changeText,
}

export const configSet: Verb<Record<string, unknown>, { type?: string }> = {
  name: 'config-set',
  summary: 'change one value of the configuration',
  description: 'Comments and formatting of the file stay. Default type: that of the key.',
  examples: [
    'os-node config-set engine_settings.precision 6',
    'os-node config-set --key engine_settings.precision --value 6 --type int',
    'os-node config-set --key RESOURCES.transport_status.tcp --value true',
    'os-node config-set --key gateway.uplinks.0.password --value-stdin',
  ],
  options: {
    key: KEY,
    value: { type: 'string', value: 'VALUE', help: 'the new value' },
    'value-stdin': { type: 'boolean', help: 'prompt for the value, or read it from stdin' },
    type: { type: 'string', value: 'TYPE', help: `type of the value: ${TYPE_NAMES.join(', ')}` },
  },
  operands: ['key', 'value'],
  where: 'either',
  changes: true,
  async prepare({ 'value-stdin': fromStdin, ...options }, _read, secret, warn) {
    const { key, value } = options
    if (fromStdin && value !== undefined) throw new OsError('USAGE', 'either --value or --value-stdin')
    if (fromStdin) return { ...options, value: await secret(String(key)) }
    if (typeof value === 'string' && holdsSecret(String(key), value))
      warn('every user of this machine sees the arguments of a command; --value-stdin hides a secret from them')
    return options
  },
  async run({ config, logger, via, writable }, options) {
    // the client has replaced the option by its value; other callers have no stdin
    if (options['value-stdin']) throw new OsError('USAGE', '--value-stdin works on a command line only')
    if (options.value === undefined)
      throw new OsError('USAGE', 'os-node config-set needs --value VALUE or --value-stdin')
    const prefixes = writable?.()
    const before = config.advice()
    const write = (limits: WriteLimits) => config.setting(String(options.key), options.value, options.type, limits)
    const change = await config.approved(write, prefixes && { prefixes, strict: true })
    for (const text of config.advice()) if (!before.includes(text)) logger.warn(text)
    return { value: changed(change, via, logger) }
  },
  text: changeText,
}

function changeText({ key, old, new: now, needs_restart, warning }: Record<string, unknown>, paint: Paint): string {
  return [
    `${key}: ${cell(old)} → ${cell(now)}`,
    ...(needs_restart ? [paint.warn('it takes effect at the next start of the gateway')] : []),
    ...(warning === undefined ? [] : [paint.warn(String(warning))]),
  ].join('\n')
}

const cell = (value: unknown): string => (value === undefined ? '' : JSON.stringify(value))

/** Everything below a key as `key = value` lines; an empty object or list is a value. */
function lines(value: unknown, path = ''): string[] {
  const inside = typeof value === 'object' && value !== null ? Object.entries(value) : []
  if (inside.length === 0) return [path === '' ? cell(value) : `${path} = ${cell(value)}`]
  return inside.flatMap(([name, item]) => lines(item, path === '' ? name : `${path}.${name}`))
}

/** One value: text unchanged, a section of the configuration as lines. */
const valueText = (value: unknown): string => (typeof value === 'string' ? value : lines(value).join('\n'))

export const configShow: Verb<{ keys?: readonly SchemaRow[]; [key: string]: unknown }, { section?: string }> = {
  name: 'config-show',
  summary: 'print the configuration, or every key with its meaning',
  examples: ['os-node config-show', 'os-node config-show engine_settings', 'os-node config-show --keys'],
  operands: ['section'],
  options: {
    section: { type: 'string', value: 'KEY', help: 'only this part' },
    keys: { type: 'boolean', help: 'list every key: default, what is allowed, meaning' },
  },
  where: 'either',
  async run({ config }, { section, keys }) {
    if (keys) {
      const rows = config.rows().filter(({ key }) => !section || key === section || key.startsWith(`${section}.`))
      return { value: { keys: rows } }
    }
    if (section === undefined) return { value: Object(config.masked()) }
    if (config.has(section)) return { value: { [section]: config.masked(section) } }
    return { value: { error: 'key not found', key: section }, exitCode: 1 }
  },
  text(value, paint) {
    if (!Array.isArray(value.keys)) return lines(value).join('\n')
    return value.keys
      .map((row: SchemaRow) => {
        const marks = [row.restart ? 'needs a restart' : '', row.secret ? 'secret' : ''].filter(Boolean).join(', ')
        const head = `${paint.bold(row.key)} = ${cell(row.default)}`
        return `${head}\n    ${row.help && `${row.help}: `}${row.allowed}${marks ? ` (${marks})` : ''}`
      })
      .join('\n')
  },
}
