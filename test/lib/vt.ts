// A terminal's screen, as far as the terminal UI uses one: its content, whether the alternate screen is on, the cursor, styles
// by cell. An unknown sequence is an error: a program may only send what every terminal understands.
import { textWidth } from '../../src/display'

interface Cell {
  char: string
  style: string
}
const BLANK: Cell = { char: ' ', style: '' }
const SEQUENCE = /^\x1b\[([?]?)([\d;]*)([A-Za-z])/

export class Vt {
  columns: number
  rows: number
  other = false
  cursor = true
  wraps = true
  frames = 0
  /** in the middle of a frame */
  drawing = false
  /** number of times the complete screen was cleared */
  cleared = 0
  bytes = 0
  #main: Cell[][]
  #cells: Cell[][]
  #row = 0
  #column = 0
  #style = ''
  #rest = ''

  constructor(columns: number, rows: number) {
    this.columns = columns
    this.rows = rows
    this.#main = this.#blank()
    this.#cells = this.#main
  }

  resize(columns: number, rows: number): void {
    this.columns = columns
    this.rows = rows
    const fit = (old: Cell[][]): Cell[][] => this.#blank().map((row, r) => row.map((cell, c) => old[r]?.[c] ?? cell))
    const main = fit(this.#main)
    this.#cells = this.other ? fit(this.#cells) : main
    this.#main = main
  }

  /** The rows as text, without blanks at their ends. */
  lines(): string[] {
    return this.#cells.map(row =>
      row
        .map(cell => cell.char)
        .join('')
        .trimEnd(),
    )
  }

  text(): string {
    return this.lines().join('\n')
  }

  /** Style of the first cell of a text on the screen: '' is plain. */
  styleOf(text: string): string | undefined {
    for (const [r, line] of this.lines().entries()) {
      const at = line.indexOf(text)
      if (at >= 0) return this.#cells[r]![at]!.style
    }
    return undefined
  }

  write(text: string): void {
    this.bytes += Buffer.byteLength(text)
    this.#rest += text
    while (this.#rest !== '') {
      if (this.#rest.startsWith('\x1b')) {
        const match = SEQUENCE.exec(this.#rest)
        if (!match) {
          if (/^\x1b(\[[?\d;]*)?$/.test(this.#rest)) return
          throw new Error(`a sequence no terminal was promised: ${JSON.stringify(this.#rest.slice(0, 20))}`)
        }
        this.#rest = this.#rest.slice(match[0].length)
        this.#sequence(match[1] === '?', match[2]!, match[3]!)
        continue
      }
      const char = String.fromCodePoint(this.#rest.codePointAt(0)!)
      this.#rest = this.#rest.slice(char.length)
      this.#put(char)
    }
  }

  #put(char: string): void {
    if (char === '\r') this.#column = 0
    else if (char === '\n') this.#newline()
    else if (char < ' ') throw new Error(`a control character on the screen: ${JSON.stringify(char)}`)
    else {
      const width = textWidth(char)
      if (this.#column + width > this.columns) {
        if (!this.wraps) this.#column = this.columns - width
        else {
          this.#column = 0
          this.#newline()
        }
      }
      if (width === 0) return
      this.#cells[this.#row]![this.#column] = { char, style: this.#style }
      if (width === 2) this.#cells[this.#row]![this.#column + 1] = { char: '', style: this.#style }
      this.#column += width
    }
  }

  #newline(): void {
    if (this.#row < this.rows - 1) {
      this.#row++
      return
    }
    this.#cells.shift()
    this.#cells.push(this.#blankRow())
  }

  #sequence(isPrivate: boolean, given: string, final: string): void {
    const numbers = given === '' ? [] : given.split(';').map(Number)
    if (isPrivate) {
      this.#mode(numbers[0]!, final === 'h')
      return
    }
    const whole = given === '2'
    if (final === 'm') this.#style = given === '0' || given === '' ? '' : given
    else if (final === 'H') {
      this.#row = Math.min(this.rows, numbers[0] ?? 1) - 1
      this.#column = Math.min(this.columns, numbers[1] ?? 1) - 1
    } else if (final === 'K' && given === '')
      this.#cells[this.#row]!.fill(BLANK, Math.min(this.#column, this.columns - 1))
    else if (final === 'J' && whole) {
      this.cleared++
      for (const row of this.#cells) row.fill(BLANK)
    } else throw new Error(`a sequence no terminal was promised: ${given}${final}`)
  }

  #mode(mode: number, on: boolean): void {
    if (mode === 1049) {
      this.other = on
      this.#cells = on ? this.#blank() : this.#main
      this.#row = 0
      this.#column = 0
    } else if (mode === 25) this.cursor = on
    else if (mode === 7) this.wraps = on
    else if (mode === 2026) {
      this.frames += on ? 1 : 0
      this.drawing = on
    } else throw new Error(`a mode no terminal was promised: ${mode}`)
  }

  #blankRow(): Cell[] {
    return Array.from({ length: this.columns }, () => BLANK)
  }

  #blank(): Cell[][] {
    return Array.from({ length: this.rows }, () => this.#blankRow())
  }
}
