// The state of the terminal UI and how keys change it. Pure: it uses no clock, no terminal and no section; `wanted`
// lists what must be read, `took` stores what was read.
import { type DisplayFormat, isCalled, type Plain, type SectionInfo } from '../display'

/** 'section': one; 'all': one below the other; 'providers': their metadata; 'search': sections by name. */
type View = 'section' | 'all' | 'providers' | 'search'

export interface Held {
  readonly data: Plain
  /** clock.mono() when it was read */
  readonly at: number
}

/** The action that a key requests from the owner of the state. */
type Wish = 'nothing' | 'draw' | 'refresh' | 'quit'

/** time limit for the second digit of a section number */
export const DIGIT_MS = 800

export class TuiState {
  sections: readonly SectionInfo[] = []
  view: View = 'section'
  /** name of the section shown */
  current: string
  json = false
  scroll = 0
  query = ''
  /** index of the selected search result */
  picked = 0
  /** typed digits of a section number */
  digits = ''
  message = ''
  readonly #held = new Map<string, Held>()
  #before: View = 'section'
  /** rows of the last page and its total lines, for scrolling */
  page = { rows: 1, lines: 1 }

  constructor(current = '') {
    this.current = current
  }

  get format(): DisplayFormat {
    return this.json ? 'json' : 'text'
  }

  /** The section shown, or the first one if there is none of that name. */
  get section(): SectionInfo | undefined {
    return this.sections.find(section => isCalled(section, this.current)) ?? this.sections[0]
  }

  get matches(): SectionInfo[] {
    const words = this.query.toLowerCase()
    return this.sections.filter(
      ({ name, display_name }) => name.toLowerCase().includes(words) || display_name.toLowerCase().includes(words),
    )
  }

  held(name: string): Held | undefined {
    return this.#held.get(`${this.format} ${name}`)
  }

  took(read: Readonly<Record<string, Plain>>, format: DisplayFormat, at: number): void {
    for (const [name, data] of Object.entries(read)) this.#held.set(`${format} ${name}`, { data, at })
  }

  tookSections(sections: readonly SectionInfo[]): void {
    this.sections = sections
    if (this.section && this.current === '') this.current = this.section.name
    const names = new Set(sections.map(({ name }) => name))
    for (const key of this.#held.keys()) if (!names.has(key.slice(key.indexOf(' ') + 1))) this.#held.delete(key)
  }

  /** Visible sections that are due: never read, or older than their or the terminal UI's interval. */
  wanted(now: number, intervalMs: number, all = false): string[] {
    const shown = this.view === 'all' ? this.sections : this.view === 'section' && this.section ? [this.section] : []
    return shown
      .filter(({ name, refresh_interval_s }) => {
        const held = this.held(name)
        // half an interval of tolerance, so that a section with the terminal UI's own interval is not read only every second
        // time
        return all || !held || now - held.at >= Math.max(intervalMs, refresh_interval_s * 1000) - intervalMs / 2
      })
      .map(({ name }) => name)
  }

  key(name: string): Wish {
    this.message = ''
    if (name === 'ctrl-c' || name === 'ctrl-d') return 'quit'
    if (this.view === 'search') return this.#searchKey(name)
    if (/^\d$/.test(name)) return this.#digit(name)
    this.digits = ''
    switch (name) {
      case 'q':
        return 'quit'
      case 'm':
        return this.#show(this.view === 'providers' ? this.#before : 'providers')
      case 'a':
        return this.#show(this.view === 'all' ? 'section' : 'all')
      case 's':
      case '/':
        this.query = ''
        this.picked = 0
        return this.#show('search')
      case 'j':
        this.json = !this.json
        this.scroll = 0
        return 'refresh'
      case 'r':
        return 'refresh'
      case 'escape':
        return this.#show('section')
      case 'right':
      case 'tab':
        return this.#step(1)
      case 'left':
      case 'backtab':
        return this.#step(-1)
      default:
        return this.#scrollKey(name)
    }
  }

  /** Uses the typed digits as the number: no further digit arrived. */
  endDigits(): Wish {
    const number = Number(this.digits)
    this.digits = ''
    return number === 0 ? 'draw' : this.#choose(number)
  }

  #digit(digit: string): Wish {
    this.digits += digit
    const number = Number(this.digits)
    // a further digit could still give a valid number
    if (number > 0 && number * 10 <= this.sections.length) return 'draw'
    return this.endDigits()
  }

  #choose(number: number): Wish {
    const section = this.sections[number - 1]
    if (section) return this.#open(section)
    this.message = `no section ${number}`
    return 'draw'
  }

  #open({ name }: SectionInfo): Wish {
    this.current = name
    return this.#show('section')
  }

  #show(view: View): Wish {
    if (view === 'providers' || view === 'search') this.#before = this.view === 'search' ? this.#before : this.view
    this.view = view
    this.scroll = 0
    return 'refresh'
  }

  #step(by: number): Wish {
    const { sections, section } = this
    if (!section) return 'nothing'
    const next = sections[(sections.indexOf(section) + by + sections.length) % sections.length]
    return next ? this.#open(next) : 'nothing'
  }

  #scrollKey(name: string): Wish {
    const page = Math.max(1, this.page.rows - 1)
    const by: Record<string, number> = {
      up: -1,
      k: -1,
      down: 1,
      enter: 1,
      pageup: -page,
      pagedown: page,
      ' ': page,
      home: -Infinity,
      end: Infinity,
    }
    const step = by[name]
    if (step === undefined) return 'nothing'
    this.scroll = Math.min(Math.max(0, this.page.lines - this.page.rows), Math.max(0, this.scroll + step))
    return 'draw'
  }

  #searchKey(name: string): Wish {
    const { matches } = this
    switch (name) {
      case 'escape':
        return this.#show(this.#before)
      case 'enter': {
        const found = matches[Math.min(this.picked, matches.length - 1)]
        if (found) return this.#open(found)
        this.message = 'no section of that name'
        return 'draw'
      }
      case 'up':
        this.picked = Math.max(0, this.picked - 1)
        return 'draw'
      case 'down':
      case 'tab':
        this.picked = Math.max(0, Math.min(matches.length - 1, this.picked + 1))
        return 'draw'
      case 'backspace':
        this.query = [...this.query].slice(0, -1).join('')
        break
      default:
        if ([...name].length !== 1) return 'nothing'
        this.query = (this.query + name).slice(0, 64)
    }
    this.picked = 0
    return 'draw'
  }
}
