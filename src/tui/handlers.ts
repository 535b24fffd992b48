// The commands of the terminal UI as a plugin: render, interactive, bios (`os-node plugin-cmd tui render`).
import { sectionNames } from '../display'
import type { CliHandler, OptionSpec } from '../services'
import type { TerminalUi } from './service'

export type TuiHandlers = Record<'render' | 'interactive' | 'bios', CliHandler>

const section: OptionSpec = { type: 'string', value: 'NAME,…', help: 'only these sections (else all)' }
const interval: OptionSpec = { type: 'number', value: 'SECONDS', min: 0.1, max: 3600, help: 'pause between updates' }
const seconds = (given: unknown): number | undefined => (typeof given === 'number' ? given : undefined)

export const handlers = (tui: TerminalUi): TuiHandlers => ({
  render: {
    summary: 'print the sections once as JSON',
    options: { section },
    operands: ['section'],
    example: 'identity,db',
    reads: true,
    run: async ({ section: names }) => {
      const text = await tui.runOnce(sectionNames(names))
      return { value: { ...tui.lastSnapshot }, text }
    },
  },
  interactive: {
    summary: 'show the sections live on this terminal',
    options: { section, interval },
    run: async options => ({
      exitCode: await tui.runInteractive(seconds(options.interval), sectionNames(options.section)),
    }),
  },
  bios: {
    summary: 'show one section at a time, framed',
    options: { section: { ...section, value: 'NAME', help: 'initial section' }, interval },
    run: async options => ({
      exitCode: await tui.runBios(seconds(options.interval), sectionNames(options.section)?.[0] ?? null),
    }),
  },
})
