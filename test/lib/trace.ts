// Compares the course of a run with a recorded one: a test describes line by line what happened, and compares that with a
// text file next to it. Any change of behaviour shows as a difference of that file; after an intended change,
// OS_NODE_WRITE_TRACE=1 rewrites it, and the difference is reviewed before the commit.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './gateway'
import { prng } from './random'

export class Trace {
  readonly lines: string[] = []
  readonly #file: string

  /** `file`: relative to test/, for example `unit/log/flashlog-trace.txt` */
  constructor(file: string) {
    this.#file = join(root, 'test', file)
  }

  readonly say = (what: string, value?: unknown): void => {
    const line = value === undefined ? what : `${what} ${JSON.stringify(value)}`
    // newer versions of Node add the line to a JSON error
    this.lines.push(line.replaceAll(/ \(line \d+ column \d+\)/g, ''))
  }

  /** `count` calls: one line per `every` calls, with a digest of all results and errors so far and the state after them. */
  course(name: string, count: number, every: number, run: (k: number) => unknown, state?: () => unknown): void {
    let seen = 0
    for (let k = 0; k < count; k++) {
      seen = digest(seen, Buffer.from(outcome(() => run(k))))
      if (k % every === every - 1) this.say(`${name} ${k}`, state ? [seen, state()] : seen)
    }
  }

  /** Like course(), for async calls: each returns what was observed. */
  async steps(name: string, count: number, every: number, run: (k: number) => Promise<unknown>): Promise<void> {
    let seen = 0
    for (let k = 0; k < count; k++) {
      const got = JSON.stringify(await run(k))
      seen = digest(seen, Buffer.from(got))
      if (k % every === every - 1) this.say(`${name} ${k} ${seen}`, JSON.parse(got))
    }
  }

  /** Throws if the lines differ from the file, with the first difference and its neighbours. */
  compare(): void {
    if (process.env.OS_NODE_WRITE_TRACE) writeFileSync(this.#file, `${this.lines.join('\n')}\n`)
    const before = readFileSync(this.#file, 'utf8').trimEnd().split('\n')
    const at = this.lines.findIndex((line, k) => line !== before[k])
    const from = Math.max(0, (at < 0 ? this.lines.length : at) - 3)
    const around = (list: readonly string[]): readonly string[] => list.slice(from, from + 7)
    assert.deepEqual(around(this.lines), around(before), `from line ${from + 1} of ${this.#file}`)
  }
}

/** A hash that depends on every byte, length and order of `parts`; continues from `seed` (FNV-1a). */
export function digest(seed: number, ...parts: readonly (number | Uint8Array)[]): number {
  let h = seed
  for (const part of parts) {
    const bytes = typeof part === 'number' ? Buffer.from(String(part)) : part
    for (let k = 0; k < bytes.length; k++) h = Math.imul(h ^ bytes[k]!, 0x01000193)
    h = Math.imul(h ^ bytes.length, 0x01000193)
  }
  return h >>> 0
}

/** The result or error of a call, as text; errors of other libraries are only counted as such. */
export function outcome(run: () => unknown): string {
  try {
    const value = run()
    return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : (JSON.stringify(value) ?? 'undefined')
  } catch (error) {
    const { code, message, details } = error as { code?: string; message: string; details?: unknown }
    return JSON.stringify([code, code ? message : 'thrown', details])
  }
}

/** Random choices from a seed. */
export function dice(seed: number) {
  const next = prng(seed)
  const below = (n: number): number => Math.floor(next() * n)
  return {
    below,
    chance: (p: number): boolean => next() < p,
    pick: <T>(list: readonly T[]): T => list[below(list.length)]!,
    text: (letters: string, most: number): string =>
      Array.from({ length: below(most + 1) }, () => letters[below(letters.length)]).join(''),
  }
}
