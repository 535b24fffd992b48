// The terminal UI service (specification, "Terminal UI service"): sections as data, as text, and live on a terminal. It
// shows all registered sections; there is no list of sections here. A reader provides the sections, so the same service
// shows a library node, the files of a stopped gateway, or a running one behind its socket.

import {
  getDisplayRegistry,
  isCalled,
  type Plain,
  RegistryReader,
  type SectionInfo,
  type SectionReader,
  sectionNames,
} from '../display'
import { checkArgument, checkNames, namesOf } from '../lib/checked'
import { type Clock, systemClock } from '../lib/clock'
import { OsError } from '../lib/errors'
import { systemTimers, type Timers } from '../lib/timers'
import type { CliHandler, OptionSpec } from '../services'
import { TuiApp } from './app'
import { processPorts, Terminal, type TerminalPorts } from './terminal'
import type { Look } from './views'

export interface TuiOptions {
  /** source of the sections; left out: the registry of this process, read with the node */
  readonly reader?: SectionReader
  /** left out: that of the process; null: no terminal, so no live views */
  readonly terminal?: (() => TerminalPorts) | null
  readonly clock?: Clock
  readonly timers?: Timers
  /** ends the live views */
  readonly signal?: AbortSignal
  /** in the first line; left out: the node's device id */
  readonly title?: () => string
  /** defaults of calls: the first section, seconds between updates */
  readonly standard?: { readonly section: string | null; readonly interval: number }
}

export type TuiSnapshot = Record<string, Plain> & { timestamp: number }

const LEAST_INTERVAL_S = 0.1
const MOST_INTERVAL_S = 3600

const OPTIONS = namesOf<TuiOptions>()('reader terminal clock timers signal title standard')

export class TerminalUi {
  /** the last complete rendering */
  lastSnapshot: TuiSnapshot | null = null
  readonly #reader: SectionReader
  readonly #options: TuiOptions
  readonly #clock: Clock
  readonly #title: () => string

  /** `node`: a Node of this library, or null where the options name a reader. */
  constructor(node: unknown = null, options: TuiOptions = {}) {
    checkArgument('new TerminalUi', 'node object?', node)
    checkNames('new TerminalUi', options, OPTIONS)
    this.#options = options
    this.#reader = options.reader ?? new RegistryReader(getDisplayRegistry(), node)
    this.#clock = options.clock ?? systemClock
    this.#title = options.title ?? (() => `os-node  ${(node as { deviceId?: unknown } | null)?.deviceId ?? ''}`.trim())
  }

  /** Nothing to prepare: sections are read when they are shown. */
  autoLoad(): this {
    return this
  }

  /**
   * One section's data; `{error, code}` for one that does not exist or fails. Names: the bare id of a built-in,
   * `plugin:section`.
   */
  async renderSection(name: string): Promise<Plain> {
    return (await this.#reader.read([name]))[name] ?? null
  }

  /** Sections by the requested names; null: all. */
  async renderSections(sections: readonly string[] | null = null): Promise<Record<string, Plain>> {
    return this.#reader.read(sections)
  }

  /** Every section, and `timestamp` in UNIX seconds. */
  async buildSnapshot(): Promise<TuiSnapshot> {
    return this.#snapshot(null)
  }

  /** The same for some sections, as indented JSON. */
  async renderText(sections: readonly string[] | null = null): Promise<string> {
    return JSON.stringify(await this.#snapshot(sections), null, 2)
  }

  /** One rendering of the sections: the text of renderText. */
  async runOnce(sections: readonly string[] | null = null): Promise<string> {
    return this.renderText(sections)
  }

  /** Live, framed, one section at a time. Returns the exit code. Throws USAGE without a terminal or with a wrong interval. */
  async runBios(interval = this.#interval, section: string | null = null): Promise<number> {
    return this.#run('bios', interval, null, section)
  }

  /** Live, with the list of sections; keys m s a r j q and numbers. `sections`: only these. Like runBios. */
  async runInteractive(interval = this.#interval, sections: readonly string[] | null = null): Promise<number> {
    return this.#run('menu', interval, sections, null)
  }

  /** render, interactive and bios. */
  getCliCommands(): TuiHandlers {
    return handlers(this)
  }

  getAvailableSections(): Promise<SectionInfo[]> {
    return this.#reader.available()
  }

  /** default 2.0 */
  get #interval(): number {
    return this.#options.standard?.interval ?? 2.0
  }

  async #snapshot(sections: readonly string[] | null): Promise<TuiSnapshot> {
    const snapshot = { ...(await this.#reader.read(sections)), timestamp: Math.floor(this.#clock.wall() / 1000) }
    this.lastSnapshot = snapshot
    return snapshot
  }

  async #run(
    look: Look,
    interval: number,
    sections: readonly string[] | null,
    section: string | null,
  ): Promise<number> {
    if (!(interval >= LEAST_INTERVAL_S && interval <= MOST_INTERVAL_S))
      throw new OsError('USAGE', `interval must be ${LEAST_INTERVAL_S} to ${MOST_INTERVAL_S} seconds, not ${interval}`)
    const { terminal = processPorts, timers = systemTimers, signal } = this.#options
    if (terminal === null)
      throw new OsError('USAGE', 'there is no terminal here', { hint: 'run os-node tui in a terminal' })
    await this.#known([...(sections ?? []), ...(section === null ? [] : [section])])
    const app = new TuiApp({
      reader: this.#reader,
      terminal: new Terminal(terminal()),
      clock: this.#clock,
      timers,
      intervalMs: interval * 1000,
      look,
      sections,
      section: section ?? this.#options.standard?.section ?? null,
      title: this.#title,
      ...(signal && { signal }),
    })
    return app.run()
  }

  /** Reports an unknown section before the terminal is opened. */
  async #known(names: readonly string[]): Promise<void> {
    if (names.length === 0) return
    const listed = await this.#reader.available()
    for (const name of names)
      if (!listed.some(section => isCalled(section, name)))
        throw new OsError('NOT_FOUND', `no section ${JSON.stringify(name)}`, {
          hint: `there are: ${listed.map(section => section.name).join(', ')}`,
        })
  }
}

/** The commands of the plugin (`os-node plugin-cmd tui render`). */
export type TuiHandlers = Record<'render' | 'interactive' | 'bios', CliHandler>

const section: OptionSpec = { type: 'string', value: 'NAME,…', help: 'only these sections (else all)' }
const interval: OptionSpec = { type: 'number', value: 'SECONDS', min: 0.1, max: 3600, help: 'interval between updates' }

const handlers = (tui: TerminalUi): TuiHandlers => ({
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
      exitCode: await tui.runInteractive(options.interval as number | undefined, sectionNames(options.section)),
    }),
  },
  bios: {
    summary: 'show one section at a time, framed',
    options: { section: { ...section, value: 'NAME', help: 'initial section' }, interval },
    run: async options => ({
      exitCode: await tui.runBios(options.interval as number | undefined, sectionNames(options.section)?.[0] ?? null),
    }),
  },
})
