// The terminal UI on the command line. `tui render` and `tui sections` run where the data is; `tui interactive` and
// `tui bios` run on the client's side and query a running gateway at each update (decision 0011).

import { type Plain, parseFormat, rowsText, type SectionInfo, sectionNames, textOf, treeText } from '../../display'
import { OsError } from '../../lib/errors'
import { isObject } from '../../lib/objects'
import type { CommandContext, TerminalUiLike } from '../context'
import type { OptionSpec, Verb } from '../verb'

const SECTIONS: OptionSpec = {
  type: 'string',
  value: 'NAME,…',
  help: 'only these sections, as os-node tui sections lists them',
}
const INTERVAL = {
  type: 'number',
  value: 'SECONDS',
  min: 0.1,
  max: 3600,
  help: 'interval between updates (else RESOURCES.service_plugins.tui.default_interval)',
} as const

type Live = Verb<Record<string, unknown>, { interval?: number }>

/** Formats a section's data for a terminal. */
function drawn(format: unknown, data: Plain): string {
  if (typeof data === 'string') return data
  if (format === 'tree') return treeText(data)
  if (format !== 'table') return textOf(data)
  const rows = Array.isArray(data) && data.every(isObject)
  if (rows && data.length !== 1) return rowsText(data as Record<string, Plain>[]).join('\n')
  return JSON.stringify(data, null, 2)
}

export const tuiRender: Verb<Record<string, Plain>> = {
  name: 'tui render',
  summary: 'print the sections of the terminal UI once',
  examples: ['os-node tui render', 'os-node tui render --section identity,db', 'os-node tui render --format tree'],
  options: {
    section: SECTIONS,
    format: { type: 'string', value: 'FORMAT', help: 'text (default), json, html, table or tree' },
  },
  operands: ['section'],
  where: 'either',
  prepare: async options => (options.json || options.format !== undefined ? options : { ...options, format: 'text' }),
  async run(context, options) {
    const format = parseFormat(options.format)
    const sections = await (await context.display()).read(sectionNames(options.section), format)
    const failed = Object.values(sections).some(data => isMissing(data))
    return {
      value: { ...sections, timestamp: Math.floor(Date.now() / 1000), ...(options.format !== undefined && { format }) },
      exitCode: failed ? 1 : 0,
    }
  },
  text({ format, timestamp, ...sections }, paint) {
    if (format === undefined || format === 'json') return JSON.stringify({ ...sections, timestamp }, null, 2)
    return Object.entries(sections)
      .map(([name, data]) => `${paint.bold(name)}\n${drawn(format, data)}`)
      .join('\n\n')
  },
}

const isMissing = (data: Plain): boolean => isObject(data) && data.code === 'NOT_FOUND' && 'error' in data

export const tuiSections: Verb<{ sections: readonly SectionInfo[] }, { category?: string; 'min-priority'?: number }> = {
  name: 'tui sections',
  summary: 'list built-in and plugin sections',
  examples: ['os-node tui sections', 'os-node tui sections --category plugin', 'os-node tui sections --json'],
  options: {
    category: { type: 'string', value: 'NAME', help: 'only sections of this category' },
    'min-priority': { type: 'integer', value: 'N', min: 0, max: 100, help: 'only sections of at least this priority' },
  },
  where: 'either',
  async run(context, { category, 'min-priority': minPriority }) {
    return { value: { sections: await (await context.display()).available({ category, minPriority }) } }
  },
  text({ sections }) {
    if (sections.length === 0) return 'no section'
    return rowsText(
      sections.map(({ name, display_name, category, priority, refresh_interval_s, preferred_format }) => ({
        section: name,
        title: display_name,
        category,
        priority,
        every: `${refresh_interval_s} s`,
        prefers: preferred_format,
      })),
    ).join('\n')
  },
}

async function terminalUi(context: CommandContext): Promise<TerminalUiLike> {
  if (context.terminalUi) return context.terminalUi()
  throw new OsError('USAGE', 'there is no terminal here', { hint: 'run os-node tui in a terminal' })
}

const KEYS =
  'Keys: m providers, s search, a number for that section, a all, r refresh, j json, q quit; arrows and page keys scroll and switch. ' +
  'Shows a running gateway, or the files while none runs.'

export const tuiInteractive: Live = {
  name: 'tui interactive',
  aliases: ['tui', 'os-tui'],
  summary: 'show all sections live',
  description: KEYS,
  examples: ['os-node tui', 'os-node tui interactive --interval 1', 'os-node tui --section identity,transport'],
  options: { section: SECTIONS, interval: INTERVAL },
  where: 'local',
  run: async (context, { section, interval }) => ({
    exitCode: await (await terminalUi(context)).runInteractive(interval, sectionNames(section)),
  }),
}

export const tuiBios: Live = {
  name: 'tui bios',
  summary: 'show one section at a time, live',
  description: KEYS,
  examples: ['os-node tui bios', 'os-node tui bios --section transport --interval 5'],
  options: { section: { type: 'string', value: 'NAME', help: 'initial section' }, interval: INTERVAL },
  where: 'local',
  run: async (context, { section, interval }) => ({
    exitCode: await (await terminalUi(context)).runBios(interval, sectionNames(section)?.[0] ?? null),
  }),
}
