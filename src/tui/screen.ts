// Draws lines on a terminal and remembers them: writes only what changed, in one piece, so that nothing flickers and a
// slow connection (ssh, 9600 baud) transfers little. While the terminal has not accepted the last piece, frames are
// skipped; the newest one follows after it.
import type { Encoded } from './line'

export interface Paper {
  write(text: string): boolean
  once(event: 'drain', listener: () => void): unknown
}

// a terminal with synchronized output shows a frame in one step; others ignore this
const FRAME_START = '\x1b[?2026h'
// the cursor waits in the first row: a terminal that shrinks then drops rows below it instead of scrolling the first
// ones away
const FRAME_END = '\x1b[H\x1b[?2026l'

export class Screen {
  readonly #paper: Paper
  #shown: string[] = []
  #waiting: readonly Encoded[] | undefined
  #full = false

  constructor(paper: Paper) {
    this.#paper = paper
  }

  /** The terminal's content is unknown: the next frame is drawn completely (resized, cleared, overwritten by another program). */
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
        // erasing after a full line would delete its last letter
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
