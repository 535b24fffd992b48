// A progress bar: one line that is rewritten, only on a terminal.

import { systemClock } from './clock'

/** stderr of the program, or its substitute. */
export interface ProgressOutput {
  readonly isTTY?: boolean
  readonly columns?: number
  write(text: string): unknown
}

const EVERY_MS = 100

/** Does nothing without a terminal. */
export function progressBar(
  output: ProgressOutput | undefined,
  total: number,
  clock: () => number = () => systemClock.mono(),
  text: (n: number) => string = String,
) {
  const terminal = output?.isTTY ? output : undefined
  const start = clock()
  let last = Number.NEGATIVE_INFINITY

  const line = (done: number, ms: number): string => {
    const share = total > 0 ? Math.min(1, done / total) : 1
    const rate = ms > 0 ? Math.round((done / ms) * 1000) : 0
    const counts = `${text(done)}/${text(total)}  ${text(rate)}/s`
    const words = ` ${String(Math.floor(share * 100)).padStart(3)} %  ${counts}`
    const width = Math.max(0, Math.min(40, (terminal?.columns || 80) - words.length - 3))
    const filled = Math.round(share * width)
    return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}]${words}`
  }

  return {
    show(done: number, newTotal = total): void {
      total = newTotal
      const now = clock()
      if (!terminal || now - last < EVERY_MS) return
      last = now
      terminal.write(`\r${line(done, now - start)}\x1b[K`)
    },
    /** Erases the line. */
    end(): void {
      if (terminal && last > Number.NEGATIVE_INFINITY) terminal.write('\r\x1b[K')
      last = Number.NEGATIVE_INFINITY
    },
  }
}
