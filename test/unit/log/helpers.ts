import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Timers } from '../../../src/lib/timers'
import type { FlashLogOptions, LogRecord } from '../../../src/log'
import { FlashLog } from '../../../src/log'
import type { Fact, LinkMetadata } from '../../../src/pipeline/fact'
import { ManualClock } from '../../lib/manual'
import { MemFiles } from './memfiles'

export const DIR = '/log'
export const LOCAL: LinkMetadata = { medium: 'local' }

export const factOf = (k: number, text = ''): Fact => ({
  id: `dev-${k % 3}`,
  state: 'ONLINE',
  tRaw: 1_710_000_000_000 + k,
  aid: 7,
  sensors: [{ id: `temp${text}`, status: 'OK', unit: 'K', value: k + 0.5 }],
})

/** A small random number generator, the same for the same seed (mulberry32). */
export const random =
  (seed: number): (() => number) =>
  () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }

/** Timers that run when the clock is moved. */
export class ManualTimers implements Timers {
  readonly clock: ManualClock
  #planned: { due: number; run: () => void }[] = []
  constructor(clock: ManualClock) {
    this.clock = clock
  }
  after(ms: number, run: () => void): () => void {
    const timer = { due: this.clock.mono() + ms, run }
    this.#planned.push(timer)
    return () => this.#forget(timer)
  }
  #forget(timer: object): void {
    this.#planned = this.#planned.filter(other => other !== timer)
  }
  /** Moves the clock, runs due timers, and lets promises settle. */
  async advance(ms: number): Promise<void> {
    const end = this.clock.mono() + ms
    for (;;) {
      const next = this.#planned.filter(t => t.due <= end).sort((a, b) => a.due - b.due)[0]
      if (!next) break
      this.#forget(next)
      this.clock.advance(Math.max(0, next.due - this.clock.mono()))
      next.run()
      await settle()
    }
    this.clock.advance(end - this.clock.mono())
    await settle()
  }
}

export const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Logs that the code of earlier days wrote. */
export const corpus = join(process.env.OS_NODE_TEST_ROOT ?? process.cwd(), 'test/corpus/log')

/** A folder of the corpus as files in RAM. */
export function logOfCorpus(date: string): MemFiles {
  const files = new MemFiles()
  for (const name of readdirSync(join(corpus, date))) {
    const data = readFileSync(join(corpus, date, name))
    files.files.set(`${DIR}/${name}`, { data, durable: data })
  }
  return files
}

export interface Rig {
  log: FlashLog
  files: MemFiles
  clock: ManualClock
  timers: ManualTimers
}

/** A log on files in RAM with a clock that does not move. */
export async function openLog(options: Partial<FlashLogOptions> & { files?: MemFiles } = {}): Promise<Rig> {
  const files = options.files ?? new MemFiles()
  const clock = (options.clock as ManualClock | undefined) ?? new ManualClock()
  const timers = new ManualTimers(clock)
  const log = await FlashLog.open({ dir: DIR, files, clock, timers, ...options })
  return { log, files, clock, timers }
}

export const seqsOf = (records: Iterable<LogRecord>): number[] => Array.from(records, r => r.seq)

/** t_raw of all facts, in order */
export const factsOf = (log: FlashLog, committedOnly = true): number[] =>
  Array.from(log.read(0, { committedOnly, kinds: ['fact'] }), r => r.fact!.tRaw - 1_710_000_000_000)
