// Draws lines on a terminal and remembers them: only what changed is written, in one piece, so that nothing flickers and a slow
// line (ssh, 9600 baud) carries little. While the terminal has not taken the last piece, frames are left out; the newest one
// follows when it has.
import type { Encoded } from './line'

export interface Paper {
  write(text: string): boolean
  once(event: 'drain', listener: () => void): unknown
}

// a terminal that knows synchronized output shows a frame at once; the others ignore this
const FRAME_START = '\x1b[?2026h'
// the cursor waits in the first row: a terminal that shrinks then drops rows below it instead of scrolling the first ones away
const FRAME_END = '\x1b[H\x1b[?2026l'

export class Screen {
  readonly #paper: Paper
  #shown: string[] = []
  #waiting: readonly Encoded[] | undefined
  #full = false

  constructor(paper: Paper) {
    this.#paper = paper
  }

  /** Forgets what is on the terminal: the next frame is drawn whole (resized, cleared, another program wrote). */
  forget(): void {
    this.#shown = []
  }

  /** `lines`: encoded, one for each row of the terminal. */
  draw(lines: readonly Encoded[]): void {
    if (this.#full) {
      this.#waiting = lines
      return
    }
    const fresh = this.#shown.length !== lines.length
    let out = fresh ? '\x1b[2J' : ''
    for (const [row, { text, full }] of lines.entries())
      if (fresh ? text !== '' : text !== this.#shown[row])
        // erasing behind a full line would take its last letter
        out += `\x1b[${row + 1};1H${text}${fresh || full ? '' : '\x1b[K'}`
    this.#shown = lines.map(({ text }) => text)
    if (out === '') return
    this.#full = !this.#paper.write(`${FRAME_START}${out}${FRAME_END}`)
    if (this.#full) this.#paper.once('drain', () => this.#drained())
  }

  #drained(): void {
    this.#full = false
    const lines = this.#waiting
    this.#waiting = undefined
    if (lines) this.draw(lines)
  }
}
