// stdout and stderr of the CLI. Colours only on a terminal; a reader that exits early (| head) ends the output without
// an error; rows are written at the reader's pace.

import { type Paint, PLAIN } from '../commands'

/** The part of a stream that is used here. */
export interface Out {
  readonly isTTY?: boolean
  write(text: string): boolean
  on(event: 'error', listener: () => void): unknown
  once(event: 'drain' | 'error' | 'close', listener: () => void): unknown
  off(event: 'drain' | 'error' | 'close', listener: () => void): unknown
}

const ink =
  (code: number) =>
  (text: string): string =>
    `\x1b[${code}m${text}\x1b[0m`

export function paintFor(out: Out, env: Record<string, string | undefined>): Paint {
  const coloured = out.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
  return coloured ? { bold: ink(1), dim: ink(2), good: ink(32), bad: ink(31), warn: ink(33) } : PLAIN
}

/** Thrown into a stream of rows when its reader has exited. */
export class ReaderLeft extends Error {}

const watched = new WeakSet<Out>()
const broken = new WeakSet<Out>()

/** Records that the reader of a stream has exited, instead of ending the process with EPIPE. */
export function watchReader(out: Out): void {
  if (watched.has(out)) return
  watched.add(out)
  out.on('error', () => broken.add(out))
}

/** Writes one line and waits while the reader is slow. Throws ReaderLeft when it has exited. */
export async function writeLine(out: Out, text: string): Promise<void> {
  if (broken.has(out)) throw new ReaderLeft()
  if (out.write(`${text}\n`)) return
  await new Promise<void>((resolve, reject) => {
    const stop = (end: () => void) => (): void => {
      out.off('drain', drained)
      out.off('error', left)
      out.off('close', left)
      end()
    }
    const drained = stop(resolve)
    const left = stop(() => reject(new ReaderLeft()))
    out.once('drain', drained)
    out.once('error', left)
    out.once('close', left)
  })
}

/** An error for people: what happened, then what to do. */
export const errorText = (message: string, hint: string, paint: Paint): string =>
  `${paint.bad(`os-node: ${message}`)}\n${hint ? paint.dim(`  ${hint}\n`) : ''}`
