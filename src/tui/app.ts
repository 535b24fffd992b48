// The running terminal UI: reads the visible sections at their intervals and on request, handles keys, draws. One read
// at a time; while the gateway is unreachable the old data stays visible with the reason below it, and queries
// continue.
import { isCalled, type SectionReader } from '../display'
import type { Clock } from '../lib/clock'
import { asOsError } from '../lib/errors'
import type { Timers } from '../lib/timers'
import { encode } from './line'
import { Screen } from './screen'
import { DIGIT_MS, TuiState } from './state'
import type { Terminal } from './terminal'
import { type Look, linesOf } from './views'

interface AppOptions {
  readonly reader: SectionReader
  readonly terminal: Terminal
  readonly clock: Clock
  readonly timers: Timers
  readonly intervalMs: number
  readonly look: Look
  /** only these sections; null: all */
  readonly sections: readonly string[] | null
  /** the first one shown */
  readonly section?: string | null
  readonly title: () => string
  readonly signal?: AbortSignal
}

/** longest interval for reading the list of sections again, since plugins can change it */
const LIST_MS = 10_000

export class TuiApp {
  readonly #options: AppOptions
  readonly #screen: Screen
  readonly state: TuiState
  #listedAt = -Infinity
  #readAt = 0
  #problem = ''
  #reading = false
  #next: 'due' | 'all' | undefined
  #cancelTick: () => void = () => undefined
  #cancelDigits: () => void = () => undefined
  #done: ((code: number) => void) | undefined

  constructor(options: AppOptions) {
    this.#options = options
    this.#screen = new Screen(options.terminal.paper)
    this.state = new TuiState(options.section ?? '')
  }

  /**
   * Runs until the user quits, the terminal closes or the signal aborts; returns the exit code. Throws USAGE without a
   * terminal.
   */
  async run(): Promise<number> {
    const { terminal, signal } = this.#options
    if (signal?.aborted) return 0
    const ended = new Promise<number>(resolve => {
      this.#done = resolve
    })
    const stop = (): void => this.#done?.(0)
    signal?.addEventListener('abort', stop)
    try {
      terminal.open({
        key: key => this.#key(key),
        redraw: () => {
          this.#screen.forget()
          this.#draw()
        },
        end: code => this.#done?.(code),
      })
      void this.#refresh(true)
      return await ended
    } finally {
      this.#done = undefined
      this.#cancelTick()
      this.#cancelDigits()
      signal?.removeEventListener('abort', stop)
      terminal.close()
    }
  }

  #key(key: string): void {
    const wish = this.state.key(key)
    this.#cancelDigits()
    if (this.state.digits !== '')
      this.#cancelDigits = this.#options.timers.after(DIGIT_MS, () => this.#grant(this.state.endDigits()))
    this.#grant(wish, key === 'r')
  }

  #grant(wish: ReturnType<TuiState['key']>, all = false): void {
    if (wish === 'quit') this.#done?.(0)
    if (wish === 'draw' || wish === 'refresh') this.#draw()
    if (wish === 'refresh') void this.#refresh(all)
  }

  /** Reads the sections that are due (`all`: everything visible), then waits for the next update. */
  async #refresh(all: boolean): Promise<void> {
    // another section may be visible by now: read once more after this read
    this.#next = all ? 'all' : (this.#next ?? 'due')
    if (this.#reading) return
    this.#reading = true
    this.#cancelTick()
    try {
      while (this.#next) {
        const whole = this.#next === 'all'
        this.#next = undefined
        await this.#read(whole)
      }
      this.#problem = ''
    } catch (error) {
      this.#next = undefined
      this.#problem = `no answer: ${asOsError(error).message}; trying again`
    }
    this.#reading = false
    if (!this.#done) return
    this.#draw()
    this.#cancelTick = this.#options.timers.after(this.#options.intervalMs, () => void this.#refresh(false))
  }

  async #read(all: boolean): Promise<void> {
    const { reader, clock, intervalMs, sections: only } = this.#options
    const { state } = this
    if (all || clock.mono() - this.#listedAt >= LIST_MS) {
      const listed = await reader.available()
      state.tookSections(only === null ? listed : listed.filter(section => only.some(name => isCalled(section, name))))
      this.#listedAt = clock.mono()
    }
    const names = state.wanted(clock.mono(), intervalMs, all)
    const { format } = state
    if (names.length > 0) {
      const data = await reader.read(names, format)
      // a section without an answer must not be requested in a loop without pauses
      for (const name of names) data[name] ??= { error: 'no answer', code: 'INTERNAL' }
      state.took(data, format, clock.mono())
    }
    this.#readAt = clock.wall()
    this.#draw()
  }

  #draw(): void {
    if (!this.#done) return
    const { terminal, title, intervalMs, look, reader } = this.#options
    const { columns, rows } = terminal.size
    const at = this.#readAt === 0 ? '' : new Date(this.#readAt).toTimeString().slice(0, 8)
    const via = reader.via ? `via ${reader.via}` : ''
    const note = [via, `every ${intervalMs / 1000} s`, at].filter(Boolean).join('  ')
    const lines = linesOf(this.state, { columns, rows, title: title(), note, problem: this.#problem }, look)
    this.#screen.draw(lines.map(line => encode(line, columns, terminal.ink)))
  }
}
